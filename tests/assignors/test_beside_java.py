"""The same groups given to Kafka's own assignors and to ours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from equipoise.assignors import Cluster, Members, assignor_named
from equipoise.wire.consumer_protocol import Partitions
from proving.fetched import Unavailable
from tests.assignors.cases import (
    Group,
    check_valid,
    owners,
    partitions_of,
    random_cases,
    random_groups,
)
from tests.assignors.java import JavaAssignors

pytestmark = pytest.mark.kafka


Cases = list[tuple[Cluster, Members]]
Assign = Callable[[str, Cases], list[dict[str, Partitions]]]
_ENOUGH_ROUNDS = 5


@pytest.fixture(scope="module")
def java_assign() -> Iterator[Assign]:
    """Skipped where Kafka's jars cannot be had; a failure there if EQUIPOISE_REQUIRE_KAFKA=1."""
    try:
        java = JavaAssignors()
    except Unavailable as missing:
        if os.environ.get("EQUIPOISE_REQUIRE_KAFKA") == "1":
            pytest.fail(f"Apache Kafka: {missing}")
        pytest.skip(f"Apache Kafka: {missing}")
    yield java.assign
    java.close()


def our_assign(name: str, cases: Cases) -> list[dict[str, Partitions]]:
    return [partitions_of(assignor_named(name).assign(cluster, members)) for cluster, members in cases]


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_identical(name: str, java_assign: Assign) -> None:
    cases = random_cases(500, seed=1)
    for case, ours, expected in zip(cases, our_assign(name, cases), java_assign(name, cases), strict=True):
        assert ours == expected, case
        check_valid(*case, ours)


@pytest.mark.parametrize("racks", [False, True])
def test_sticky_is_as_balanced_with_no_more_moves(racks: bool, java_assign: Assign) -> None:
    """And with racks, as near."""
    groups = random_groups(500, 2, racks)
    cases = [(group.cluster, group.sticky()) for group in groups]
    better = 0
    for group, ours, theirs in zip(groups, our_assign("sticky", cases), java_assign("sticky", cases), strict=True):
        check_valid(group.cluster, group.sticky(), theirs)
        assert group.score(ours) <= group.score(theirs), group
        better += group.score(ours) < group.score(theirs)
    assert better < len(groups) / 4


def test_sticky_from_scratch_is_identical_where_subscriptions_are_equal(java_assign: Assign) -> None:
    groups = [group._replace(owned={}) for group in random_groups(500, seed=3)]
    groups = [group for group in groups if len(set(map(frozenset, group.topics.values()))) == 1]
    cases = [(group.cluster, group.sticky()) for group in groups]
    assert len(cases) > 100
    assert our_assign("sticky", cases) == java_assign("sticky", cases)


def test_cooperative_sticky_is_as_balanced_with_no_more_moves(java_assign: Assign) -> None:
    """Over all rounds, until everything is given out again: of ours there are never more than two."""
    groups = random_groups(500, seed=4)
    _, second = _rounds(our_assign, groups, 2)
    *_, last = _rounds(java_assign, groups, _ENOUGH_ROUNDS)
    for group, ours, theirs in zip(groups, second, last, strict=True):
        check_valid(group.cluster, group.cooperative(), ours)
        check_valid(group.cluster, group.cooperative(), theirs)
        assert group.score(ours) <= group.score(theirs), group


def _rounds(assign: Assign, groups: list[Group], count: int) -> Iterator[list[dict[str, Partitions]]]:
    for number in range(count):
        given = assign("cooperative-sticky", [(group.cluster, group.cooperative(1 + number)) for group in groups])
        groups = [group._replace(owned=owners(assigned)) for group, assigned in zip(groups, given, strict=True)]
        yield given
