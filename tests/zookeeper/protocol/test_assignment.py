"""The assignment of that time: vectors of both strategies, and what mixed strategies do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from equipoise.member.partitions import TopicPartition
from equipoise.zookeeper.protocol.assignment import (
    Decision,
    Members,
    Partitions,
    Strategy,
    UnequalSubscriptionsError,
    in_hash_order,
    java_hash,
    share_of,
)

RANGE, ROUND, OLD_ROUND = Strategy("range"), Strategy("roundrobin"), Strategy("roundrobin", "[t,p]")


def topics(**counts: int) -> Partitions:
    return {topic: range(count) for topic, count in counts.items()}


def by_thread(decision: Decision) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for (topic, number), thread in sorted(decision.items()):
        found.setdefault(thread, []).append(f"{topic}/{number}")
    return found


# -- vectors


def test_range_gives_the_first_threads_one_more() -> None:
    decision = RANGE.assign({"C1": {"t": 2}, "C2": {"t": 2}}, topics(t=5))
    assert by_thread(decision) == {"C1-0": ["t/0", "t/1"], "C1-1": ["t/2"], "C2-0": ["t/3"], "C2-1": ["t/4"]}


def test_threads_are_in_the_order_of_text() -> None:
    found = by_thread(RANGE.assign({"c0": {"t0": 11}}, topics(t0=12)))
    assert found["c0-0"] == ["t0/0", "t0/1"]
    assert (found["c0-1"], found["c0-10"], found["c0-2"], found["c0-9"]) == (["t0/2"], ["t0/3"], ["t0/4"], ["t0/11"])


def test_more_threads_than_partitions_leave_some_without() -> None:
    assert by_thread(RANGE.assign({"a": {"t": 2}, "b": {"t": 1}}, topics(t=2))) == {"a-0": ["t/0"], "a-1": ["t/1"]}


def test_the_hash_order_of_both_text_forms() -> None:
    partitions = [TopicPartition("t0", number) for number in range(12)]
    assert [one.partition for one in in_hash_order(partitions, "[t,p]")] == [10, 11, *range(10)]
    assert [one.partition for one in in_hash_order(partitions, "t-p")] == list(range(12))


def test_roundrobin_of_0_8_2_refuses_members_that_do_not_read_the_same() -> None:
    """Counts may differ between members, not between topics of one member."""
    strict = Strategy("roundrobin", "[t,p]", wants_equals=True)
    unequal = {"c0": {"t0": 1}, "c1": {"t0": 1, "t1": 1}, "c2": {"t1": 2}}
    with pytest.raises(UnequalSubscriptionsError, match="of t0 and t1, c0-0, c2-0, c2-1 read only one"):
        strict.assign(unequal, topics(t0=3, t1=3))
    with pytest.raises(UnequalSubscriptionsError, match="c0-1 read only one"):
        strict.assign({"c0": {"t0": 1, "t1": 2}}, topics(t0=3, t1=3))
    equal = {"c0": {"t0": 1, "t1": 1}, "c1": {"t0": 2, "t1": 2}}
    assert strict.assign(equal, topics(t0=3, t1=3)) == OLD_ROUND.assign(equal, topics(t0=3, t1=3))
    assert OLD_ROUND.assign(unequal, topics(t0=3, t1=3))


@pytest.mark.parametrize("strategy", [RANGE, ROUND])
def test_a_member_without_streams_gets_nothing_and_stands_in_nobodys_way(strategy: Strategy) -> None:
    """Nobody registers like that, but nothing keeps others from writing it."""
    decision = strategy.assign({"c0": {"t0": 0}, "c1": {"t1": 1}}, topics(t0=2, t1=1))
    assert by_thread(decision) == {"c1-0": ["t1/0"]}


def test_the_hash_is_javas() -> None:
    assert java_hash("[Aa,0]") == java_hash("[BB,0]") == -1626752098
    assert java_hash("") == 0


UNEQUAL: Members = {"c0": {"t0": 1}, "c1": {"t0": 1, "t1": 1}, "c2": {"t1": 2}}


def test_unequal_subscriptions() -> None:
    counts = topics(t0=3, t1=3)
    assert by_thread(RANGE.assign(UNEQUAL, counts)) == {
        "c0-0": ["t0/0", "t0/1"],
        "c1-0": ["t0/2", "t1/0"],
        "c2-0": ["t1/1"],
        "c2-1": ["t1/2"],
    }
    for strategy in (ROUND, OLD_ROUND):
        assert by_thread(strategy.assign(UNEQUAL, counts)) == {
            "c0-0": ["t0/0", "t0/2"],
            "c1-0": ["t0/1", "t1/0"],
            "c2-0": ["t1/1"],
            "c2-1": ["t1/2"],
        }


def test_the_text_form_alone_makes_another_assignment() -> None:
    members, counts = {"c0": {"foo": 1, "bar": 1}, "c1": {"foo": 1, "bar": 1}}, topics(foo=1, bar=1)
    assert by_thread(RANGE.assign(members, counts)) == {"c0-0": ["bar/0", "foo/0"]}
    assert by_thread(OLD_ROUND.assign(members, counts)) == {"c0-0": ["foo/0"], "c1-0": ["bar/0"]}
    assert by_thread(ROUND.assign(members, counts)) == {"c0-0": ["bar/0"], "c1-0": ["foo/0"]}


def test_what_agrees() -> None:
    assert Strategy("range", "[t,p]").agrees_with(RANGE)
    assert not OLD_ROUND.agrees_with(ROUND)
    assert not RANGE.agrees_with(ROUND)
    assert not RANGE.agrees_with(None)


# -- mixed strategies

LETTERS = {"r": RANGE, "R": OLD_ROUND}


def claims(mix: str, counts: Partitions, streams: int = 1) -> Counter[TopicPartition]:
    """How many members claim each partition if each decides by its own strategy, with the same view of the group."""
    members = {f"c{number}": dict.fromkeys(counts, streams) for number in range(len(mix))}
    claimed = Counter(TopicPartition(topic, number) for topic, numbers in counts.items() for number in numbers)
    claimed.subtract(claimed.copy())
    for letter, member in zip(mix, members, strict=True):
        claimed.update(share_of(member, LETTERS[letter].assign(members, counts)).keys())
    return claimed


def outcome(claimed: Counter[TopicPartition]) -> str:
    is_orphan, is_double = 0 in claimed.values(), max(claimed.values()) > 1
    return {(0, 0): "clean", (0, 1): "double", (1, 1): "double and orphan", (1, 0): "silent orphan"}[
        is_orphan, is_double
    ]


def topologies() -> Iterator[Partitions]:
    for number in (1, 2, 3):
        for sizes in product(range(1, 5), repeat=number):
            yield {f"t{topic}": range(size) for topic, size in enumerate(sizes)}


def mixes(members: int) -> Iterator[str]:
    return ("".join(letters) for letters in product("rR", repeat=members) if len(set(letters)) == 2)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (2, {"clean": 12, "double": 8, "double and orphan": 140, "silent orphan": 8}),
        (3, {"clean": 78, "double": 47, "double and orphan": 332, "silent orphan": 47}),
    ],
)
def test_the_tally_of_all_mixed_groups(members: int, expected: dict[str, int]) -> None:
    tally = Counter(outcome(claims(mix, counts)) for counts in topologies() for mix in mixes(members))
    assert tally == expected


def test_of_two_members_silent_and_double_are_mirror_images() -> None:
    found: dict[str, set[tuple[str, tuple[int, ...]]]] = {}
    for counts in topologies():
        for mix in mixes(2):
            sizes = tuple(len(numbers) for numbers in counts.values())
            found.setdefault(outcome(claims(mix, counts)), set()).add((mix, sizes))
    listed = {(1, 1), (1, 1, 1), (1, 3), (1, 1, 2), (2, 1, 1), (1, 3, 1), (1, 3, 2), (2, 1, 3)}
    assert found["silent orphan"] == {("Rr", sizes) for sizes in listed}
    assert found["double"] == {("rR", sizes) for sizes in listed}


def test_with_one_topic_an_orphan_is_never_silent() -> None:
    for members, streams, size in product((2, 3, 4), (1, 2, 3), range(1, 21)):
        for mix in mixes(members):
            claimed = claims(mix, topics(t0=size), streams)
            assert claimed.total() == size
            assert outcome(claimed) in ("clean", "double and orphan")


def test_two_members_claim_as_many_as_the_odd_topics_say() -> None:
    for counts in topologies():
        total, odd = sum(map(len, counts.values())), sum(len(numbers) % 2 for numbers in counts.values())
        difference = (odd - total % 2) // 2
        assert claims("rR", counts).total() == total + difference
        assert claims("Rr", counts).total() == total - difference


def test_the_worst_case_leaves_all_but_one_share_unread() -> None:
    for members, number in ((2, 10), (10, 100)):
        counts = {f"t{topic}": range(1) for topic in range(number)}
        claimed = claims("R" + "r" * (members - 1), counts)
        assert outcome(claimed) == "silent orphan"
        assert list(claimed.values()).count(0) == number - -(-number // members)


def test_two_text_forms_in_one_group_never_leave_a_silent_orphan() -> None:
    strategies = [OLD_ROUND, ROUND]
    conflicts = 0
    for sizes in product(range(5), repeat=3):
        counts = {name: range(size) for name, size in zip(("foo", "bar", "baz"), sizes, strict=True) if size}
        if sizes != tuple(sorted(sizes, key=lambda size: size == 0)) or not counts:
            continue  # one, two or three topics, in this order
        members = {f"c{number}": dict.fromkeys(counts, 1) for number in range(2)}
        shares = [
            share_of(member, one.assign(members, counts)) for member, one in zip(members, strategies, strict=True)
        ]
        assert len(shares[0]) + len(shares[1]) == sum(map(len, counts.values()))
        conflicts += bool(shares[0].keys() & shares[1].keys())
    assert conflicts == 60
