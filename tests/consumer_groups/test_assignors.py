"""The assignors of `consumer` groups: contracts, beside the array core and beside brute force. Rule A12.3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.assignors import (
    Assignments,
    Assignor,
    Cluster,
    Members,
    Topic,
    register_assignor,
    registered_assignors,
)
from equipoise.assignors.sticky_core import uniform
from equipoise.assignors.sticky_core.numbering import NOBODY, Numbering
from equipoise.coordinator.consumer.assignment.target import RANGE, UNIFORM, TargetMember, Targets, compute_target
from equipoise.coordinator.metadata import MetadataImage, Partitions, TopicImage, TopicPartition
from equipoise.wire.consumer_protocol import Assignment
from equipoise.wire.errors import UsageError
from tests.assignors.brute_force import optimum
from tests.assignors.cases import Group
from tests.effort import examples


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def image(**counts: int) -> MetadataImage:
    return MetadataImage().with_changes(TopicImage(topic_id(name), name, count) for name, count in counts.items())


def some(name: str, *numbers: int) -> Partitions:
    return frozenset((topic_id(name), number) for number in numbers)


def member(*names: str, target: Partitions = frozenset(), instance: str | None = None) -> TargetMember:
    return TargetMember(frozenset(map(topic_id, names)), target, instance)


def is_homogeneous(members: Mapping[str, TargetMember]) -> bool:
    return len({one.topics for one in members.values()}) == 1


def assign(members: Mapping[str, TargetMember], topics: MetadataImage, assignor: str = UNIFORM) -> Targets:
    found = compute_target(assignor, members, topics, is_homogeneous=is_homogeneous(members))
    check_valid(members, topics, found)
    return found


def check_valid(members: Mapping[str, TargetMember], topics: MetadataImage, found: Targets) -> None:
    """Everything with a subscriber is assigned, to a subscriber, once; every member has its entry."""
    assert found.keys() == members.keys()
    given = Counter(partition for target in found.values() for partition in target)
    assert set(given.values()) <= {1}
    assert given.keys() == set(wanted(members, topics))
    for member_id, target in found.items():
        assert {one for one, _ in target} <= members[member_id].topics


def wanted(members: Mapping[str, TargetMember], topics: MetadataImage) -> Iterator[TopicPartition]:
    for one in frozenset[bytes]().union(*(member.topics for member in members.values())):
        known = topics.by_id(one)
        if known is not None:
            yield from ((one, number) for number in range(known.partitions))


def moves(members: Mapping[str, TargetMember], found: Targets) -> int:
    return sum(len(target - members[member_id].target) for member_id, target in found.items())


# -- uniform, one subscription


@st.composite
def equal_groups(draw: st.DrawFn, most_members: int = 12) -> tuple[dict[str, TargetMember], MetadataImage]:
    """Members of one subscription, with any targets before: also of topics that are gone, or that are not theirs."""
    counts = {name: draw(st.integers(0, 12)) for name in ("a", "b", "c", "other")}
    topics = image(**counts)
    owners = [f"m{number}" for number in range(draw(st.integers(1, most_members)))]
    places = [(topic_id(name), number) for name in (*counts, "gone") for number in range(14)]
    before: dict[str, set[TopicPartition]] = {owner: set() for owner in owners}
    for place in places:
        owner = draw(st.sampled_from([*owners, None]))
        if owner is not None:
            before[owner].add(place)
    return {owner: member("a", "b", "c", target=frozenset(held)) for owner, held in before.items()}, topics


def fewest_moves(members: Mapping[str, TargetMember], topics: MetadataImage) -> int:
    """What has no owner must move, and so must what is above every member's share."""
    places = set(wanted(members, topics))
    least, larger = divmod(len(places), len(members))
    held = sorted((len(one.target & places) for one in members.values()), reverse=True)
    quotas = [least + (number < larger) for number in range(len(held))]
    return len(places) - sum(min(have, quota) for have, quota in zip(held, quotas, strict=True))


@settings(max_examples=examples(300), deadline=None)
@given(equal_groups())
def test_uniform_is_balanced_with_the_fewest_moves(group: tuple[dict[str, TargetMember], MetadataImage]) -> None:
    """Rule A12.8."""
    members, topics = group
    found = assign(members, topics)
    loads = [len(target) for target in found.values()]
    assert max(loads) - min(loads) <= 1
    assert moves(members, found) == fewest_moves(members, topics)


@settings(max_examples=examples(200), deadline=None)
@given(equal_groups())
def test_a_balanced_target_is_returned_unchanged(group: tuple[dict[str, TargetMember], MetadataImage]) -> None:
    """Rule A12.8: KAFKA-18688. The sets are the same objects: nothing is compared, and nothing written."""
    members, topics = group
    found = assign(members, topics)
    settled = {member_id: one._replace(target=found[member_id]) for member_id, one in members.items()}
    again = assign(settled, topics)
    assert all(again[member_id] is found[member_id] for member_id in found)


@settings(max_examples=examples(100), deadline=None)
@given(equal_groups())
def test_uniform_moves_as_many_as_the_array_core(group: tuple[dict[str, TargetMember], MetadataImage]) -> None:
    members, topics = group
    numbering = Numbering([one.partitions for name, one in sorted(topics.topics.items()) if name != "other"])
    places = [(topic_id(name), n) for name in "abc" for n in range(topics.topics[name].partitions)]
    owner = np.full(numbering.partitions, NOBODY)
    for number, member_id in enumerate(members):
        for place, partition in enumerate(places):
            if partition in members[member_id].target:
                owner[place] = number
    if places:
        after = uniform.balance(owner, len(members), numbering)
        assert moves(members, assign(members, topics)) == np.count_nonzero(after != owner)


@pytest.mark.parametrize("seed", range(5))
def test_uniform_in_large_groups(seed: int) -> None:
    chance = Random(seed)
    topics = image(**{f"t{number}": chance.randint(1, 120) for number in range(10)})
    names = list(topics.topics)
    members = {f"m{number}": member(*names) for number in range(chance.randint(2, 50))}
    for turn in range(20):
        if turn % 2 and len(members) > 1:
            members.pop(chance.choice(sorted(members)))
        else:
            members[f"n{turn}"] = member(*names)
        found = assign(members, topics)
        loads = [len(target) for target in found.values()]
        assert max(loads) - min(loads) <= 1
        assert moves(members, found) == fewest_moves(members, topics)
        members = {member_id: one._replace(target=found[member_id]) for member_id, one in members.items()}


def test_uniform_gives_runs_in_the_order_of_members() -> None:
    """As Kafka does: the first member gets the first partitions, and gives up its last."""
    topics = image(t=6)
    assert assign({"m1": member("t"), "m2": member("t")}, topics) == {
        "m1": some("t", 0, 1, 2),
        "m2": some("t", 3, 4, 5),
    }
    alone = assign({"m1": member("t")}, topics)
    joined = {"m1": member("t", target=alone["m1"]), "m2": member("t")}
    assert assign(joined, topics) == {"m1": some("t", 0, 1, 2), "m2": some("t", 3, 4, 5)}


def test_overlapping_targets_are_mended() -> None:
    """A compacted log may have shown one partition in two targets for a moment. Rule A9.3."""
    members = {"m1": member("t", target=some("t", 0, 1)), "m2": member("t", target=some("t", 1, 2))}
    assert assign(members, image(t=4)) == {"m1": some("t", 0, 1), "m2": some("t", 2, 3)}


def test_members_without_topics_get_nothing() -> None:
    topics = image(t=2)
    assert compute_target(UNIFORM, {}, topics, is_homogeneous=True) == {}
    assert assign({"m1": member()}, topics) == {"m1": frozenset()}
    assert assign({"m1": member("gone", target=some("gone", 0))}, topics) == {"m1": frozenset()}
    assert assign({"m1": member(), "m2": member("t")}, topics) == {"m1": frozenset(), "m2": some("t", 0, 1)}


# -- uniform, different subscriptions


@st.composite
def mixed_groups(draw: st.DrawFn) -> tuple[dict[str, TargetMember], MetadataImage]:
    topics = image(**{name: draw(st.integers(1, 4)) for name in "abc"})
    owners = [f"m{number}" for number in range(draw(st.integers(2, 4)))]
    subscribed = {owner: draw(st.sets(st.sampled_from("abc"))) for owner in owners}
    before: dict[str, set[TopicPartition]] = {owner: set() for owner in owners}
    for name in "abc":
        for number in range(4):
            owner = draw(st.sampled_from([*owners, None]))
            if owner is not None:
                before[owner].add((topic_id(name), number))
    return {one: member(*sorted(subscribed[one]), target=frozenset(before[one])) for one in owners}, topics


@settings(max_examples=examples(200), deadline=None)
@given(mixed_groups())
def test_different_subscriptions_have_the_best_balance(group: tuple[dict[str, TargetMember], MetadataImage]) -> None:
    """Rule A12.9: no distribution has a smaller sum of squares, and none as small has fewer moves."""
    members, topics = group
    found = compute_target(UNIFORM, members, topics, is_homogeneous=False)
    check_valid(members, topics, found)
    squares = sum(len(target) ** 2 for target in found.values())
    owned = {(one.rstrip(b"\0").decode(), n): owner for owner, held in members.items() for one, n in held.target}
    case = Group(
        {name: Topic(one.partitions) for name, one in topics.topics.items()},
        {owner: [name for name in "abc" if topic_id(name) in one.topics] for owner, one in members.items()},
        owned,
    )
    assert (squares, 0, moves(members, found)) == optimum(case)


@settings(max_examples=examples(200), deadline=None)
@given(mixed_groups())
def test_no_single_move_improves_it_and_nothing_moves_again(
    group: tuple[dict[str, TargetMember], MetadataImage],
) -> None:
    """Rule A12.9, as Kafka promises it for each topic."""
    members, topics = group
    found = compute_target(UNIFORM, members, topics, is_homogeneous=False)
    for giver, target in found.items():
        for one in {topic for topic, _ in target}:
            takers = [taker for taker, other in members.items() if one in other.topics]
            assert all(len(target) - len(found[taker]) <= 1 for taker in takers), (giver, one)
    settled = {member_id: one._replace(target=found[member_id]) for member_id, one in members.items()}
    assert compute_target(UNIFORM, settled, topics, is_homogeneous=False) == found


# -- range


def test_range_is_cut_by_instance_id_then_by_member_id() -> None:
    """Rule A12.10."""
    members = {
        "a": member("t", "u"),
        "z": member("t", "u", instance="i2"),
        "y": member("t", "u", instance="i1"),
        "b": member("u", target=some("u", 0)),
    }
    found = assign(members, image(t=4, u=5), RANGE)
    assert found == {
        "y": some("t", 0, 1) | some("u", 0, 1),
        "z": some("t", 2) | some("u", 2),
        "a": some("t", 3) | some("u", 3),
        "b": some("u", 4),
    }


def test_racks_do_not_change_the_built_in_assignors() -> None:
    """Rule A12.11."""
    racks = (frozenset({"r2"}), frozenset({"r1"}))
    topics = MetadataImage().with_changes([TopicImage(topic_id("t"), "t", 2, racks)])
    members = {"m1": member("t")._replace(rack_id="r1"), "m2": member("t")._replace(rack_id="r2")}
    for assignor in (UNIFORM, RANGE):
        assert assign(members, topics, assignor) == {"m1": some("t", 0), "m2": some("t", 1)}


# -- custom


class LastTakesAll(Assignor):
    """Everything to the last member, and what it has seen."""

    name = "last-takes-all"
    seen: tuple[Cluster, Members] | None = None

    def assign(self, cluster: Cluster, members: Members) -> Assignments:
        self.seen = cluster, members
        everything = {name: list(range(topic.partitions)) for name, topic in cluster.items()}
        return {max(members): Assignment(assigned_partitions=everything)}


class Gives(Assignor):
    """What it is told to give."""

    name = "gives"

    def __init__(self, given: Mapping[str, Mapping[str, list[int]]]) -> None:
        self._given = given

    def assign(self, cluster: Cluster, members: Members) -> Assignments:
        return {one: Assignment(assigned_partitions=dict(given)) for one, given in self._given.items()}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.assignors._REGISTERED", {})


def test_a_registered_assignor_sees_names_targets_and_racks() -> None:
    """Rule A12.12."""
    assignor = LastTakesAll()
    register_assignor(assignor)
    assert registered_assignors() == ("uniform", "range", "last-takes-all")
    topics = MetadataImage().with_changes([TopicImage(topic_id("t"), "t", 2, (frozenset({"r1"}),) * 2)])
    members = {
        "m1": member("t", target=some("t", 0), instance="i")._replace(rack_id="r1"),
        "m2": member("t", target=some("t", 1)),
    }
    assert assign(members, topics, "last-takes-all") == {"m1": frozenset(), "m2": some("t", 0, 1)}
    assert assignor.seen is not None
    cluster, seen = assignor.seen
    assert cluster == {"t": Topic(2, (frozenset({"r1"}),) * 2)}
    assert seen["m1"].group_instance_id == "i"
    assert seen["m1"].subscription.topics == ["t"]
    assert seen["m1"].subscription.owned_partitions == {"t": [0]}
    assert seen["m1"].subscription.rack_id == "r1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nobody": {"t": [0]}}, "has assigned to 'nobody', which is no member"),
        ({"m1": {"t": [0]}, "m2": {"t": [0]}}, "has assigned a partition to two members"),
        ({"m1": {"t": [2]}}, "has assigned a partition of 't' that is not there"),
        ({"m1": {"u": [0]}}, "has assigned a partition of 'u' that is not there"),
    ],
)
def test_what_a_custom_assignor_must_not_do(given: dict[str, dict[str, list[int]]], said: str) -> None:
    register_assignor(Gives(given))
    members = {"m1": member("t"), "m2": member("t")}
    with pytest.raises(UsageError, match=said):
        compute_target("gives", members, image(t=2), is_homogeneous=True)


def test_names_that_cannot_be_registered() -> None:
    for name in ("uniform", "range", "", "a,b", "a b"):
        assignor = Gives({})
        assignor.name = name
        with pytest.raises(UsageError, match="cannot be registered"):
            register_assignor(assignor)
    with pytest.raises(UsageError, match="there is no assignor 'unknown': register_assignor"):
        compute_target("unknown", {"m1": member("t")}, image(t=1), is_homogeneous=True)
