"""A group as a view: lag, members and advice from what the sources have found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from equipoise.views.advice import advise
from equipoise.views.groups import Findings, aged, group_view, summary_of
from equipoise.views.lag import Behind
from equipoise.views.model import GroupType, HealthKind, Ms, Problem, Source
from equipoise.wire.errors import ErrorCode
from tests.views.test_health import member
from tests.views.test_timeline import generation
from tests.views.test_timeline import rebalance as row

NO_LEADER = Problem("t-1", ErrorCode.LEADER_NOT_AVAILABLE, "no broker leads it")


def findings(**more: Any) -> Findings:
    given: dict[str, Any] = {
        "group_id": "g",
        "type": GroupType.CLASSIC,
        "state": "Stable",
        "members": (member("a", 0, 1),),
        "committed": {("t", 0): (40, ""), ("t", 1): (7, "by hand")},
        "ends": {("t", 0): 100, ("t", 1): 7},
        "source": Source.JOURNAL,
        "as_of": Ms(10_000),
    }
    return Findings(**(given | more))


def test_lag_is_the_end_less_the_commit_and_never_below_nothing() -> None:
    view = group_view(findings(ends={("t", 0): 100, ("t", 1): 5}))
    assert [(one.committed, one.log_end, one.lag, one.member_id) for one in view.partitions] == [
        (40, 100, 60, "a-1"),
        (7, 5, 0, "a-1"),
    ]
    assert (view.lag.lag, view.lag.unknown, view.members[0].lag) == (60, 0, 60)


def test_a_partition_without_a_commit_or_an_end_is_unknown_and_hides_no_other() -> None:
    view = group_view(findings(committed={("t", 0): (40, "")}))
    assert [(one.partition, one.lag) for one in view.partitions] == [(0, 60), (1, None)]
    view = group_view(findings(ends={("t", 0): 100, ("t", 1): NO_LEADER}))
    assert (view.partitions[1].problem, view.lag.lag, view.lag.unknown) == (NO_LEADER, 60, 1)
    assert view.health.kind is HealthKind.UNKNOWN
    assert group_view(findings(committed={}, ends={})).lag.lag is None


def test_topics_that_nobody_asks_for_any_more_are_not_in_the_sum() -> None:
    left = findings(committed={("t", 0): (40, ""), ("old", 0): (0, "")}, ends={("t", 0): 100, ("old", 0): 1_000})
    view = group_view(left)
    assert [(one.topic, one.is_subscribed) for one in view.partitions] == [("old", False), ("t", True), ("t", True)]
    assert view.lag.lag == 60
    empty = group_view(findings(members=(), state="Empty", committed={("old", 0): (0, "")}, ends={("old", 0): 9}))
    assert (empty.lag.lag, empty.health.kind) == (9, HealthKind.NOBODY_READS)


def test_behind_is_that_of_the_slowest_partition_and_unknown_if_one_is() -> None:
    both = {("t", 0): Behind(2_000), ("t", 1): Behind(0)}
    assert group_view(findings(behind=both)).lag.behind_ms == 2_000
    assert group_view(findings(behind={("t", 1): Behind(0)})).lag.behind_ms is None
    assert group_view(findings(ends={("t", 0): 40, ("t", 1): 7})).lag.behind_ms == 0


def test_members_have_their_timeouts_from_records_and_the_generation_from_the_last_rebalance() -> None:
    records = [generation(4, 3_000, {"a-1": [0, 1]})]
    view = group_view(findings(records=records, source=Source.OFFSETS_TOPIC, seen_since=Ms(0)))
    (one,) = view.members
    assert (one.session_timeout_ms, one.rebalance_timeout_ms, one.joined_at) == (10_000, 60_000, 3_000)
    assert (view.generation, view.rebalances_last_hour) == (4, 1)
    assert group_view(findings()).rebalances_last_hour is None  # nothing was read back


def test_advice_is_that_of_the_history() -> None:
    said = "consumer poll timeout has expired."
    journal: list[dict[str, Any]] = []
    for turn in range(3):
        left = {"type": "member_left", "group_id": "g", "at": turn * 1_000, "who": None, "departure": "left"}
        left |= {"who": row(0, 0, 0, "member_left", f"w#{turn}", 1)["cause"]["who"], "said": said}
        journal += [left, row(turn + 1, turn * 1_000, turn * 1_000 + 9, "member_left", f"w#{turn}", 1, said=said)]
    (found,) = advise(summary_of("g", journal, []))
    assert found.setting == "max.poll.interval.ms, max.poll.records"
    assert found.text.startswith("3 times a member was out because its application did not poll in time (w; each began")


def test_a_view_grows_older_as_long_as_nothing_in_it_can_be_different() -> None:
    ends = {("t", 0): 40, ("t", 1): 7}
    records = [generation(4, 3_000, {"a-1": [0, 1]})]
    found = findings(ends=ends, records=records, source=Source.OFFSETS_TOPIC, seen_since=Ms(0))
    view = group_view(found)
    later = aged(view, ends, Ms(20_000))
    assert later is not None
    assert later == group_view(replace(found, as_of=Ms(20_000)))
    assert aged(view, ends | {("t", 0): 41}, Ms(20_000)) is None  # a record has come
    assert aged(view, ends, Ms(4_000_000)) is None  # its rebalance is more than an hour ago
    assert aged(group_view(findings()), {("t", 0): 100, ("t", 1): 7}, Ms(20_000)) is None  # records wait
