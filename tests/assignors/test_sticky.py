"""The sticky core of `sticky` and `cooperative-sticky`: against brute force, and rule by rule."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from equipoise.assignors import Cluster, CooperativeStickyAssignor, GroupMember, Members, StickyAssignor, Topic
from equipoise.assignors.sticky_core import mixed
from equipoise.wire.consumer_protocol import (
    Assignment,
    Partitions,
    StickyUserData,
    Subscription,
    decode_sticky_user_data,
    encode_sticky_user_data,
)
from tests.assignors.brute_force import optimum
from tests.assignors.cases import Group, check_valid, cluster, groups, owners, owning, partitions_of, random_groups
from tests.effort import examples


def sticky(topics: Cluster, members: Members) -> dict[str, Partitions]:
    return partitions_of(StickyAssignor().assign(topics, members))


def cooperative(topics: Cluster, members: Members) -> dict[str, Partitions]:
    return partitions_of(CooperativeStickyAssignor().assign(topics, members))


def alike(names: str, *topics: str) -> dict[str, list[str]]:
    """Members of one letter each, with equal subscriptions."""
    return {name: list(topics) for name in names}


def keys(topic: str, count: int) -> list[tuple[str, int]]:
    return [(topic, number) for number in range(count)]


def loads(assigned: dict[str, Partitions]) -> dict[str, int]:
    return {name: sum(map(len, partitions.values())) for name, partitions in assigned.items()}


class TestOptimum:
    @given(groups(alike=True))
    @settings(max_examples=examples(150), deadline=None)
    def test_equal_subscriptions(self, group: Group) -> None:
        self.check(group)

    @given(groups())
    @settings(max_examples=examples(300), deadline=None)
    def test_mixed_subscriptions(self, group: Group) -> None:
        self.check(group)

    @given(groups(alike=True, racks=True))
    @settings(max_examples=examples(150), deadline=None)
    def test_racks(self, group: Group) -> None:
        self.check(group)

    @given(groups(racks=True))
    @settings(max_examples=examples(200), deadline=None)
    def test_racks_and_mixed_subscriptions(self, group: Group) -> None:
        self.check(group)

    def check(self, group: Group) -> None:
        members = group.sticky()
        assigned = sticky(group.cluster, members)
        check_valid(group.cluster, members, assigned)
        assert group.score(assigned) == optimum(group)

    @given(groups())
    @settings(max_examples=examples(100), deadline=None)
    def test_nothing_moves_the_second_time(self, group: Group) -> None:
        first = owners(sticky(group.cluster, group.sticky()))
        assert owners(sticky(group.cluster, group._replace(owned=first).sticky())) == first


class TestEqualSubscriptions:
    def test_from_scratch_in_turns(self) -> None:
        assigned = sticky(cluster(t=3, u=2), Group({}, alike("ab", "t", "u")).sticky())
        assert assigned == {"a": {"t": [0, 2], "u": [1]}, "b": {"t": [1], "u": [0]}}

    def test_who_leaves_is_replaced_and_the_rest_stays(self) -> None:
        group = Group(cluster(t=6), alike("ac", "t"), dict(zip(keys("t", 6), "aabbcc", strict=True)))
        assert sticky(group.cluster, group.sticky()) == {"a": {"t": [0, 1, 2]}, "c": {"t": [3, 4, 5]}}

    def test_the_first_partitions_are_kept_by_number_then_topic(self) -> None:
        owned = dict.fromkeys([*keys("t", 2), *keys("u", 2)], "a")
        group = Group(cluster(t=2, u=2), alike("ab", "t", "u"), owned)
        assert sticky(group.cluster, group.sticky()) == {"a": {"t": [0], "u": [0]}, "b": {"t": [1], "u": [1]}}

    def test_those_below_the_least_are_served_before_others_have_more(self) -> None:
        """a is at the least and waits; b and c take turns until they are there, then a is first to have one more."""
        group = Group(cluster(t=7), alike("abc", "t"), dict.fromkeys(keys("t", 2), "a"))
        assert sticky(group.cluster, group.sticky()) == {"a": {"t": [0, 1, 6]}, "b": {"t": [2, 4]}, "c": {"t": [3, 5]}}

    def test_more_members_than_partitions(self) -> None:
        group = Group(cluster(t=1), alike("abc", "t"), {("t", 0): "c"})
        assert sticky(group.cluster, group.sticky()) == {"a": {}, "b": {}, "c": {"t": [0]}}

    @pytest.mark.parametrize("topics", [[], ["unknown"]])
    def test_nothing_to_assign(self, topics: list[str]) -> None:
        assert sticky(cluster(t=1), Group({}, {"a": topics}).sticky()) == {"a": {}}

    def test_no_members(self) -> None:
        assert sticky(cluster(t=1), {}) == {}


class TestMixedSubscriptions:
    def test_balance_goes_along_chains(self) -> None:
        """3, 2 and 1: no single move helps, but one from a to b together with one from b to c makes it 2, 2 and 2."""
        owned = dict(zip(keys("ab", 4), "aaab", strict=True)) | dict(zip(keys("bc", 2), "bc", strict=True))
        group = Group(cluster(ab=4, bc=2), {"a": ["ab"], "b": ["ab", "bc"], "c": ["bc"]}, owned)
        assigned = sticky(group.cluster, group.sticky())
        assert loads(assigned) == {"a": 2, "b": 2, "c": 2}
        assert group.score(assigned)[-1] == 2

    def test_what_only_one_can_have_loads_it_alone(self) -> None:
        group = Group(cluster(own=9, both=4), {"a": ["own", "both"], "b": ["both"]})
        assert loads(sticky(group.cluster, group.sticky())) == {"a": 9, "b": 4}

    def test_what_is_no_longer_subscribed_to_is_given_away(self) -> None:
        group = Group(cluster(t=2, u=2), {"a": ["u"], "b": ["t", "u"]}, dict.fromkeys(keys("t", 2), "a"))
        assert sticky(group.cluster, group.sticky()) == {"a": {"u": [0, 1]}, "b": {"t": [0, 1]}}

    def test_large_classes(self) -> None:
        """All loads are equal, nothing moves in vain."""
        topics = {f"m{number:03}": [["a", "b"], ["b", "c"], ["c"]][number % 3] for number in range(300)}
        group = Group(cluster(a=3000, b=3000, c=3000), topics)
        first = sticky(group.cluster, group.sticky())
        check_valid(group.cluster, group.sticky(), first)
        assert set(loads(first).values()) == {30}
        without = Group(group.cluster, {name: topics[name] for name in topics if name != "m000"}, owners(first))
        second = sticky(without.cluster, without.sticky())
        assert without.score(second)[-1] == 30

    def test_in_very_large_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """There, members are never looked at one by one: balance is the same, and two rounds are enough."""
        cases = random_groups(60, seed=7)
        best = [sticky(group.cluster, group.sticky()) for group in cases]
        monkeypatch.setattr(mixed, "_SMALL", 0)
        for group, expected in zip(cases, best, strict=True):
            assert group.score(sticky(group.cluster, group.sticky()))[0] == group.score(expected)[0]
            first = owners(cooperative(group.cluster, group.cooperative()))
            second = cooperative(group.cluster, group._replace(owned=first).cooperative())
            check_valid(group.cluster, group.cooperative(), second)


class TestRacks:
    def test_near_comes_before_moves(self) -> None:
        topics = {"t": Topic(2, ({"x"}, {"y"}))}
        owned = {("t", 0): "a", ("t", 1): "b"}
        group = Group(topics, alike("ab", "t"), owned, {"a": "y", "b": "x"})
        assert sticky(topics, group.sticky()) == {"a": {"t": [1]}, "b": {"t": [0]}}

    def test_balance_comes_before_near(self) -> None:
        topics = {"t": Topic(4, ({"x"}, {"x"}, {"x"}, {"y"}))}
        group = Group(topics, alike("ab", "t"), racks={"a": "x", "b": "y"})
        assert loads(sticky(topics, group.sticky())) == {"a": 2, "b": 2}

    def test_topics_without_known_racks_are_far_from_all(self) -> None:
        topics = {"t": Topic(1, ({"x"},)), "u": Topic(1)}
        group = Group(topics, alike("ab", "t", "u"), {("t", 0): "b", ("u", 0): "a"}, {"a": "x", "b": "y"})
        assert sticky(topics, group.sticky()) == {"a": {"t": [0]}, "b": {"u": [0]}}

    def test_members_are_looked_at_one_by_one(self) -> None:
        """Two moves are enough if m2 gives the right one of its three away, which its class as a whole cannot tell."""
        racks = {1: frozenset("123"), 2: frozenset("13"), 3: frozenset("23")}
        topics = {
            "t": Topic(5, (racks[1], racks[2], racks[1], racks[3], racks[2])),
            "u": Topic(1, (racks[2],)),
            "v": Topic(2, (racks[1], racks[2])),
        }
        of = {"t": ["m2", "m1", "m0", "m2", "m2"], "u": ["m3"], "v": ["m0", "m4"]}
        owned = {(topic, number): name for topic, names in of.items() for number, name in enumerate(names)}
        members = {f"m{number}": ["t", "u", "v"] for number in range(5)}
        group = Group(topics, members, owned, {"m1": "2", "m2": "3", "m4": "3"})
        assert group.score(sticky(topics, group.sticky())) == optimum(group) == (14, 0, 2)


class TestClaims:
    def test_the_newer_generation_counts(self) -> None:
        members = {"a": owning(["t"], {"t": [0]}, 4), "b": owning(["t"], {"t": [0]}, 5)}
        assert cooperative(cluster(t=1), members) == {"a": {}, "b": {"t": [0]}}

    def test_nobody_keeps_what_two_claim_in_one_generation(self) -> None:
        members = {"a": owning(["t"], {"t": [0, 1]}, 5), "b": owning(["t"], {"t": [1, 2]}, 5)}
        assert cooperative(cluster(t=3), members) == {"a": {"t": [0]}, "b": {"t": [2]}}

    def test_a_claim_that_is_made_twice_counts_once(self) -> None:
        assert cooperative(cluster(t=1), {"a": owning(["t"], {"t": [0, 0]}, 5)}) == {"a": {"t": [0]}}

    def test_topics_and_partitions_that_are_gone_are_not_claimed(self) -> None:
        members = {"a": owning(["t"], {"t": [0, 7, -1], "gone": [0]}, 5)}
        assert cooperative(cluster(t=1), members) == {"a": {"t": [0]}}

    def test_old_claims_count_where_nobody_objects(self) -> None:
        members = {"a": owning(["t"], {"t": [1]}, 1), "b": owning(["t"], {}, 5)}
        assert cooperative(cluster(t=2), members) == {"a": {"t": [1]}, "b": {"t": [0]}}


class TestCooperative:
    @given(groups())
    @settings(max_examples=examples(100), deadline=None)
    def test_what_changes_hands_is_given_out_in_the_second_round(self, group: Group) -> None:
        final = owners(sticky(group.cluster, group.sticky()))
        first = owners(cooperative(group.cluster, group.cooperative()))
        assert first == {key: name for key, name in final.items() if group.owned.get(key) in (None, name)}
        second = cooperative(group.cluster, group._replace(owned=first).cooperative())
        check_valid(group.cluster, group.cooperative(), second)
        assert group.score(second)[0] == group.score(sticky(group.cluster, group.sticky()))[0]
        kept = {key for key, name in first.items() if group.owned.get(key) == name}
        assert kept <= {key for key, name in owners(second).items() if group.owned.get(key) == name}

    def test_the_generation_of_the_user_data_counts_where_the_subscription_has_none(self) -> None:
        old = Subscription(topics=["t"], owned_partitions={"t": [0]}, user_data=bytes.fromhex("00000006"))
        members = {"a": GroupMember(old), "b": owning(["t"], {"t": [0]}, 5)}
        assert cooperative(cluster(t=1), members) == {"a": {"t": [0]}, "b": {}}

    def test_user_data_is_the_generation(self) -> None:
        assignor = CooperativeStickyAssignor()
        assert assignor.user_data(["t"]) == bytes.fromhex("ffffffff")
        assignor.on_assignment(Assignment(assigned_partitions={}), 7)
        assert assignor.user_data(["t"]) == bytes.fromhex("00000007")

    def test_user_data_of_others_is_ignored(self) -> None:
        odd = Subscription(topics=["t"], owned_partitions={"t": [0]}, user_data=b"odd")
        assert cooperative(cluster(t=1), {"a": GroupMember(odd)}) == {"a": {"t": [0]}}


class TestUserDataOfSticky:
    def test_nothing_before_the_first_assignment(self) -> None:
        assert StickyAssignor().user_data(["t"]) is None

    def test_what_was_assigned_and_when(self) -> None:
        assignor = StickyAssignor()
        assignor.on_assignment(Assignment(assigned_partitions={"t": [0, 1]}), 7)
        data = assignor.user_data(["t"])
        assert data is not None
        assert decode_sticky_user_data(data) == StickyUserData(owned_partitions={"t": [0, 1]}, generation_id=7)

    def test_version_0_and_bytes_of_others(self) -> None:
        version_0 = encode_sticky_user_data(StickyUserData(owned_partitions={"t": [1]}))[:-4]
        members = {
            "a": GroupMember(Subscription(topics=["t"], user_data=version_0)),
            "b": GroupMember(Subscription(topics=["t"], user_data=b"odd")),
        }
        assert sticky(cluster(t=2), members) == {"a": {"t": [1]}, "b": {"t": [0]}}

    def test_owned_partitions_do_not_count(self) -> None:
        """Eager members own nothing when they join; what a Subscription says nevertheless is not for this assignor."""
        members = {"a": owning(["t"], {}), "b": owning(["t"], {"t": [0]}, 3)}
        assert sticky(cluster(t=2), members) == {"a": {"t": [0]}, "b": {"t": [1]}}
