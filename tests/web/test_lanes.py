"""Lanes from rebalances: who had a partition when, and where nobody had it."""

from __future__ import annotations

from equipoise.console.web.lanes import EMPTY, NO_OWNER, UNKNOWN, dark_ms, lanes
from equipoise.views.model import Ms
from tests.web.views import T0, group, member, partition, rebalance


def lane(view_lanes: dict[tuple[str, int], list[tuple[int, str]]], number: int) -> list[tuple[int, str]]:
    return [(at - T0, owner) for at, owner in view_lanes["orders", number]]


def test_a_partition_that_never_moved_has_had_its_owner_all_the_time() -> None:
    view = group(rebalance(2, 500, {1: ("a", "b")}, kept=1), members=(member("a", [0]), member("b", [1])))
    assert lane(lanes(view), 0) == [(0, "a")]
    assert lane(lanes(view), 1) == [(0, "a"), (500, "b")]


def test_darkness_cuts_the_lane_back_to_where_it_began() -> None:
    view = group(
        rebalance(1, 100, {0: (None, "a")}),
        rebalance(2, 1_000, {0: ("a", "b")}, dark={0: 300}),
        members=(member("b", [0]),),
    )
    assert lane(lanes(view), 0) == [(100, "a"), (700, NO_OWNER), (1_000, "b")]


def test_an_eager_member_that_keeps_its_partition_stops_with_it_too() -> None:
    view = group(
        rebalance(1, 100, {0: (None, "a")}),
        rebalance(2, 1_000, {}, kept=1, dark={0: 50}),
        members=(member("a", [0]),),
    )
    assert lane(lanes(view), 0) == [(100, "a"), (950, NO_OWNER), (1_000, "a")]


def test_what_a_cooperative_round_takes_away_has_no_owner_until_the_next() -> None:
    view = group(
        rebalance(1, 100, {0: (None, "a")}),
        rebalance(2, 500, {}, revoked=(("orders", 0),)),
        rebalance(3, 520, {0: (None, "b")}, dark={0: 25}),
        members=(member("b", [0]),),
    )
    assert lane(lanes(view), 0) == [(100, "a"), (495, NO_OWNER), (520, "b")]


def test_a_group_without_members_is_empty_and_not_dark() -> None:
    view = group(
        rebalance(1, 100, {0: (None, "a")}),
        rebalance(2, 500, {}, members=0, revoked=(("orders", 0),)),
        rebalance(3, 9_000, {0: (None, "b")}, dark={0: 8_500}),
        members=(member("b", [0]),),
    )
    assert lane(lanes(view), 0) == [(100, "a"), (500, EMPTY), (8_990, NO_OWNER), (9_000, "b")]


def test_an_overtaken_rebalance_moves_nothing() -> None:
    view = group(
        rebalance(1, 100, {0: (None, "a")}),
        rebalance(2, 300, {}, overtaken=True, members=0),
        members=(member("a", [0]),),
    )
    assert lane(lanes(view), 0) == [(100, "a")]


def test_an_owner_that_nothing_names_is_unknown() -> None:
    view = group(rebalance(2, 500, {}, revoked=(("orders", 0),)))
    assert lane(lanes(view), 0) == [(0, UNKNOWN), (500, NO_OWNER)]


def test_committed_partitions_of_an_empty_group_have_lanes() -> None:
    view = group(partitions=(partition(0), partition(1, is_subscribed=False)), as_of=Ms(T0 + 50))
    assert lanes(view) == {("orders", 0): [(T0, EMPTY)]}


def test_dark_time_is_summed_over_partitions() -> None:
    rows = [[(0, "a"), (10, NO_OWNER), (15, "a")], [(0, NO_OWNER)], [(0, EMPTY)]]
    assert dark_ms(rows, 20) == 5 + 20
