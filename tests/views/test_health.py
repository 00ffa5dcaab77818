"""Each rule of health with its figures, and what it says in words."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.console import words
from equipoise.coordinator.reasons import Trigger, Who
from equipoise.views.health import Evidence, health
from equipoise.views.model import (
    Dark,
    GroupType,
    Guess,
    GuessKind,
    HealthKind,
    LagView,
    MemberView,
    Ms,
    PartitionLag,
    Problem,
)
from equipoise.wire.errors import ErrorCode
from tests.views.made import MINUTE, caused, rebalance

NOW = Ms(100_000_000)
NO_LEADER = Problem("audit-3", ErrorCode.LEADER_NOT_AVAILABLE, "no broker leads it")
LATE = caused(Trigger.MEMBER_LEFT, "etl-17", said="consumer poll timeout has expired.")


def member(
    client: str, *partitions: int, lag: int | None = None, rebalance_timeout_ms: int | None = None
) -> MemberView:
    return MemberView(
        member_id=f"{client}-1",
        group_instance_id=None,
        client_id=client,
        client_host="10.0.0.1",
        partitions=tuple(("t", number) for number in partitions),
        topics=("t",),
        lag=lag,
        rebalance_timeout_ms=rebalance_timeout_ms,
    )


def partition(number: int, lag: int | None, owner: str | None = "a-1", problem: Problem | None = None) -> PartitionLag:
    return PartitionLag(
        topic="t", partition=number, committed=0, log_end=lag, lag=lag, member_id=owner, problem=problem
    )


def seen(**more: Any) -> Evidence:
    given = {
        "as_of": NOW,
        "type": GroupType.CLASSIC,
        "state": "Stable",
        "members": (member("a", 0),),
        "partitions": (partition(0, 0),),
        "lag": LagView(lag=0),
        "rebalances": (),
    }
    return Evidence(**(given | more))  # type: ignore[arg-type]


def told(evidence: Evidence) -> str:
    return words.health(health(evidence))


def test_nothing_to_say_is_fine() -> None:
    found = health(seen())
    assert found.kind is HealthKind.FINE
    assert not found.needs_attention


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_stuck_is_a_rebalance_longer_than_any_member_may_take(state: str) -> None:
    patient = member("a", 0, rebalance_timeout_ms=300_000)
    assert told(seen(state=state, state_since=NOW - 31_000)) == "stuck in a rebalance for 31.0 s"
    assert told(seen(state=state, state_since=NOW - 29_000)) == "fine"
    assert told(seen(state=state, members=(patient,), state_since=NOW - 299_000)) == "fine"
    assert told(seen(state=state, members=(patient,), state_since=NOW - 301_000)).startswith("stuck")
    assert told(seen(state=state)) == "fine"  # since when is not known


def test_nobody_reads_an_empty_group_with_lag() -> None:
    assert told(seen(state="Empty", members=(), lag=LagView(lag=41_207))) == "nobody reads, 41,207 records wait"
    assert told(seen(state="Empty", members=(), lag=LagView(lag=1))) == "nobody reads, 1 record waits"
    assert told(seen(state="Empty", members=(), lag=LagView(lag=0))) == "fine"


def test_stalled_is_no_commit_for_five_usual_intervals_and_a_minute() -> None:
    waiting = {"partitions": (partition(0, 7),), "lag": LagView(lag=7)}
    assert told(seen(**waiting, last_commit=NOW - 61_000, usual_commit_ms=5_000)) == (
        "stalled: no commit for 61.0 s, 7 records wait"
    )
    assert told(seen(**waiting, last_commit=NOW - 59_000, usual_commit_ms=5_000)) == "fine"
    assert told(seen(**waiting, last_commit=NOW - 99_000, usual_commit_ms=20_000)) == "fine"
    assert told(seen(**waiting, last_commit=NOW - 99_000)) == "fine"  # how often it commits is not known
    nobodys = {"partitions": (partition(0, 7, None),), "lag": LagView(lag=7)}
    assert told(seen(**nobodys, last_commit=NOW - 99_000, usual_commit_ms=5_000)) == "fine"


def test_behind_is_lag_that_did_not_shrink_over_ten_windows() -> None:
    assert told(seen(lag=LagView(lag=99), lag_series=tuple(range(89, 100)))) == "behind: the lag grows, 99 records wait"
    assert told(seen(lag=LagView(lag=99), lag_series=(99, 98, 99))) == "fine"


def test_restless_names_the_culprit_of_most() -> None:
    late = [rebalance(NOW - number * MINUTE, LATE) for number in range(1, 8)]
    assert told(seen(rebalances=tuple(late))) == "restless: etl-17 polled too late 7 times in the last hour"
    assert told(seen(rebalances=tuple(late[:6]))) == "fine"
    back = [rebalance(one.at + 9, caused(Trigger.MEMBER_JOINED, "etl-17")) for one in late]
    both = tuple(sorted([*late, *back], key=lambda one: one.at))
    assert told(seen(rebalances=both)) == "restless: etl-17 polled too late 7 times in the last hour"
    old = [rebalance(NOW - 61 * MINUTE, LATE) for _ in range(7)]
    assert told(seen(rebalances=tuple(old))) == "fine"


def test_restless_without_a_culprit_counts() -> None:
    mixed = [rebalance(NOW - 9, caused(Trigger.MEMBER_JOINED, f"w-{number}")) for number in range(9)]
    assert told(seen(rebalances=tuple(mixed))) == "restless: 9 rebalances in the last hour"
    unknown = [rebalance(NOW - 9, Guess(GuessKind.UNKNOWN)) for _ in range(9)]
    assert told(seen(rebalances=tuple(unknown))) == "restless: 9 rebalances in the last hour"


def test_restless_is_also_a_hundredth_of_the_time_without_owner() -> None:
    dark = rebalance(NOW - 9, caused(Trigger.MEMBER_JOINED, "a"), dark=(Dark("t", 0, 2 * MINUTE),))
    assert told(seen(rebalances=(dark,))) == "restless: partitions were without owner for 3.3% of the last hour"


def test_uneven_is_a_member_without_partitions_while_another_has_two() -> None:
    assert told(seen(members=(member("a", 0, 1), member("b")))) == "uneven: b has no partition"
    assert told(seen(members=(member("a", 0, 1), member("b"), member("c")))) == (
        "uneven: 2 members have no partition, b among them"
    )
    assert told(seen(members=(member("a", 0), member("b")))) == "fine"
    assert told(seen(state="PreparingRebalance", members=(member("a", 0, 1), member("b")))) == "fine"


def test_uneven_is_half_of_the_lag_with_one_of_several() -> None:
    members = (member("a", 0, lag=900), member("b", 1, lag=50), member("c", 2, lag=50))
    assert told(seen(members=members, lag=LagView(lag=1_000))) == "uneven: a has more than half of the lag, 900 records"
    assert told(seen(members=members[:2], lag=LagView(lag=1_000))) == "fine"


def test_what_cannot_be_had_is_unknown_with_its_reason() -> None:
    assert told(seen(partitions=(partition(0, None, problem=NO_LEADER),))) == "unknown: audit-3: no broker leads it"
    assert told(seen(state=None, problems=(NO_LEADER,))) == "unknown: audit-3: no broker leads it"
    assert told(seen(state=None)) == "unknown"


def test_a_client_without_a_name_is_called_by_its_member_id() -> None:
    assert words.short_name(Who("x-1")) == "x-1"
    assert words.short_name(Who("x-1", "x", "", "pod-7")) == "pod-7"
