"""A group as a view, from what the sources have found of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from equipoise.views.episodes import episodes
from equipoise.views.flapping import causes, flapping
from equipoise.views.health import Evidence, Told, health, last_hour
from equipoise.views.lag import Behind, clears_in
from equipoise.views.model import (
    GroupView,
    LagView,
    MemberView,
    Ms,
    PartitionLag,
    Problem,
    RebalanceView,
    Source,
)
from equipoise.views.rebalances import rebalance_views
from equipoise.views.summary import Summary
from equipoise.views.timeline import Entry, Row, TopicPartition, memberships, tell

_TIMES = ("began", "ended", "last")
# What tables of the history have in every row; None where a source does not tell.
_REBALANCE = (
    "began", "duration_ms", "detect_ms", "join_ms", "assign_ms", "sync_ms", "said", "limit_ms", "waited_for",
    "waited_ms", "cut",
)  # fmt: skip
_MEMBERSHIP = (
    "group_instance_id", "client_id", "client_host", "session_timeout_ms", "rebalance_timeout_ms", "began", "ended",
    "why_left", "said",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings(Told):
    """What sources have found of one group. Errors stand where a value could not be had."""

    group_id: str
    protocol: str | None = None
    generation: int | None = None
    coordinator_id: int | None = None
    members: tuple[MemberView, ...] = ()
    committed: Mapping[TopicPartition, tuple[int, str] | Problem] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int | Problem] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int | Problem] = field(default_factory=dict)
    behind: Mapping[TopicPartition, Behind] = field(default_factory=dict)
    journal: Sequence[Entry] = ()
    records: Sequence[Entry] = ()
    source: Source
    seen_since: Ms | None = None


def group_view(found: Findings) -> GroupView:
    """The whole view."""
    rebalances = rebalance_views(found.group_id, found.journal, found.records)
    partitions = _partitions(found)
    members = _members(found, partitions)
    lag = _lag(partitions, found.lag_series)
    told = {row.name: getattr(found, row.name) for row in fields(Told)}
    evidence = Evidence(**told, members=members, partitions=partitions, lag=lag, rebalances=rebalances)
    return GroupView(
        group_id=found.group_id,
        type=found.type,
        state=found.state,
        protocol=found.protocol,
        generation=_generation(found, rebalances),
        coordinator_id=found.coordinator_id,
        members=members,
        partitions=partitions,
        lag=lag,
        rebalances=rebalances,
        rebalances_last_hour=None if found.seen_since is None else len(last_hour(rebalances, found.as_of)),
        episodes=episodes(rebalances),
        health=health(evidence),
        source=found.source,
        as_of=found.as_of,
        seen_since=found.seen_since,
        problems=found.problems,
    )


def aged(view: GroupView, ends: Mapping[TopicPartition, int | Problem], now: Ms) -> GroupView | None:
    """A view of a group whose members and commits are still the same, at a later time. None: it is to be made anew,
    because records have come, some wait, or a rebalance is more than an hour ago by now."""
    recent = view.rebalances_last_hour
    if view.lag.lag or (recent is not None and len(last_hour(view.rebalances, now)) != recent):
        return None
    if any(ends.get((one.topic, one.partition)) != one.log_end for one in view.partitions):
        return None
    return replace(view, as_of=now)


def _generation(found: Findings, rebalances: Sequence[RebalanceView]) -> int | None:
    """DescribeGroups tells none: the last rebalance does."""
    if found.generation is not None:
        return found.generation
    return next((one.generation for one in reversed(rebalances) if one.generation is not None), None)


# -- partitions


def _partitions(found: Findings) -> tuple[PartitionLag, ...]:
    """What members have, and what was committed. A group without members, or whose members say nothing, is taken to
    want all that it has committed."""
    owner_of = {place: one.member_id for one in found.members for place in one.partitions}
    wanted = {topic for one in found.members for topic in one.topics} | {topic for topic, _ in owner_of}
    places = sorted(owner_of.keys() | found.committed.keys())
    return tuple(
        _partition(found, place, owner_of.get(place), is_subscribed=not wanted or place[0] in wanted)
        for place in places
    )


def _partition(found: Findings, place: TopicPartition, owner: str | None, *, is_subscribed: bool) -> PartitionLag:
    committed, end, start = found.committed.get(place), found.ends.get(place), found.starts.get(place)
    problem = committed if isinstance(committed, Problem) else end if isinstance(end, Problem) else None
    at, metadata = committed if committed is not None and not isinstance(committed, Problem) else (None, None)
    last = end if isinstance(end, int) else None
    behind = found.behind.get(place)
    lag = None if at is None or last is None else max(0, last - at)
    return PartitionLag(
        topic=place[0],
        partition=place[1],
        committed=at,
        metadata=metadata,
        log_start=start if isinstance(start, int) else None,
        log_end=last,
        lag=lag,
        behind_ms=0 if lag == 0 else None if behind is None else behind.ms,
        member_id=owner,
        is_subscribed=is_subscribed,
        problem=problem,
    )


def _lag(partitions: Iterable[PartitionLag], series: tuple[int, ...]) -> LagView:
    counted = [one for one in partitions if one.is_subscribed]
    known = [one.lag for one in counted if one.lag is not None]
    ages = [one.behind_ms for one in counted if one.behind_ms is not None]
    has_ages = bool(ages) and all(one.behind_ms is not None or one.lag in (None, 0) for one in counted)
    return LagView(
        lag=sum(known) if known else None,
        unknown=len(counted) - len(known),
        behind_ms=max(ages) if has_ages else (0 if known and not sum(known) else None),
        clears_in_ms=clears_in(series) if known and sum(known) else None,
    )


def _members(found: Findings, partitions: Iterable[PartitionLag]) -> tuple[MemberView, ...]:
    lags: dict[str | None, int] = {}
    for one in partitions:
        if one.lag is not None:
            lags[one.member_id] = lags.get(one.member_id, 0) + one.lag
    told = {row["member_id"]: row for row in memberships(found.journal, found.records)}
    return tuple(_member(one, lags.get(one.member_id), told.get(one.member_id, {})) for one in found.members)


def _member(member: MemberView, lag: int | None, told: Row) -> MemberView:
    """`told`: what the history says of the membership."""
    began, session, rebalance = (told.get(name) for name in ("began", "session_timeout_ms", "rebalance_timeout_ms"))
    return replace(
        member,
        lag=lag,
        joined_at=member.joined_at if began is None else Ms(began),
        session_timeout_ms=member.session_timeout_ms if session is None else session,
        rebalance_timeout_ms=member.rebalance_timeout_ms if rebalance is None else rebalance,
    )


# -- what advice looks at


def summary_of(group_id: str, journal: Sequence[Entry], records: Sequence[Entry]) -> Summary:
    """The figures of a group as `equipoise history` has them, so that both give the same advice."""
    told = tell(group_id, journal, records)
    return Summary(
        group_id,
        [_dated(dict.fromkeys(_REBALANCE) | row) for row in told.rebalances],
        [_dated(dict.fromkeys(_MEMBERSHIP) | row) for row in told.memberships],
        [_dated({"ended": None} | row) for row in told.ownership],
        flapping([{"ended": None} | row for row in told.ownership]),
        [_dated(row) for row in causes(told.rebalances)],
        [],
    )


def _dated(row: Mapping[str, Any]) -> Row:
    times = {name: datetime.fromtimestamp(row[name] / 1000, UTC) for name in _TIMES if row.get(name) is not None}
    return {**row, **times}
