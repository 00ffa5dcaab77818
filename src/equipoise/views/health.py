"""The health of a group: the first rule that speaks, with its figures. A rule whose figures are unknown is silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from equipoise.coordinator.reasons import Who
from equipoise.views.lag import never_shrank
from equipoise.views.model import (
    GroupType,
    Health,
    HealthKind,
    LagView,
    MemberView,
    Ms,
    PartitionLag,
    Problem,
    RebalanceView,
)
from equipoise.views.rebalances import culprit, reason

HOUR_MS = 3_600_000
RESTLESS_PER_HOUR = 6  # rebalances
RESTLESS_DARK_SHARE = 0.01  # of partition time
STUCK_MS = 30_000
STALLED_MS = 60_000
STALLED_INTERVALS = 5
UNEVEN_MEMBERS, UNEVEN_LAG = 3, 1_000  # below these, one member's half says nothing
_REBALANCING = {"PreparingRebalance", "CompletingRebalance"}
_RESTING = {"Stable", "Empty"}
_BACK = "member_joined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What sources tell of a group's state and of its commits."""

    type: GroupType
    state: str | None
    as_of: Ms
    state_since: Ms | None = None
    last_commit: Ms | None = None
    usual_commit_ms: int | None = None
    lag_series: tuple[int, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(Told):
    """What the rules look at: what was told, and what follows from it."""

    members: tuple[MemberView, ...]
    partitions: tuple[PartitionLag, ...]
    lag: LagView
    rebalances: tuple[RebalanceView, ...]


def health(seen: Evidence) -> Health:
    """What the first rule says that has something to say; else the group is fine."""
    for rule in _RULES:
        found = rule(seen)
        if found is not None:
            return found
    return Health(kind=HealthKind.FINE)


def last_hour(rebalances: Iterable[RebalanceView], now: Ms) -> list[RebalanceView]:
    """Rebalances that ended in the hour before `now`."""
    return [one for one in rebalances if one.at > now - HOUR_MS]


def _not_described(seen: Evidence) -> Health | None:
    if seen.state is not None:
        return None
    return Health(kind=HealthKind.UNKNOWN, problem=next(iter(seen.problems), None))


def _stuck(seen: Evidence) -> Health | None:
    """In a rebalance for longer than any member may take, or than 30 s if the members' timeouts are not known."""
    if seen.state not in _REBALANCING or seen.state_since is None:
        return None
    limit = max((one.rebalance_timeout_ms or 0 for one in seen.members), default=0) or STUCK_MS
    since = seen.as_of - seen.state_since
    return Health(kind=HealthKind.STUCK, for_ms=since) if since > limit else None


def _nobody_reads(seen: Evidence) -> Health | None:
    if seen.members or seen.state != "Empty" or not seen.lag.lag:
        return None
    return Health(kind=HealthKind.NOBODY_READS, lag=seen.lag.lag)


def _stalled(seen: Evidence) -> Health | None:
    """Members have partitions and records wait, but commits have ceased: for five usual intervals, and a minute at
    least (Burrow's STALL and STOP, with lag counted against the end of now)."""
    if not seen.lag.lag or seen.last_commit is None or seen.usual_commit_ms is None:
        return None
    owned = any(one.member_id is not None and one.lag for one in seen.partitions)
    silent = seen.as_of - seen.last_commit
    is_long = silent >= max(STALLED_MS, STALLED_INTERVALS * seen.usual_commit_ms)
    return Health(kind=HealthKind.STALLED, lag=seen.lag.lag, for_ms=silent) if owned and is_long else None


def _behind(seen: Evidence) -> Health | None:
    """Commits come, and lag grows nevertheless."""
    if not seen.lag.lag or not never_shrank(seen.lag_series):
        return None
    return Health(kind=HealthKind.BEHIND, lag=seen.lag.lag, for_ms=seen.lag.behind_ms)


def _restless(seen: Evidence) -> Health | None:
    recent = last_hour(seen.rebalances, seen.as_of)
    share = _dark_share(recent, seen)
    if len(recent) <= RESTLESS_PER_HOUR and (share is None or share <= RESTLESS_DARK_SHARE):
        return None
    name, times, trigger = _most_frequent(recent)
    return Health(
        kind=HealthKind.RESTLESS,
        count=len(recent),
        culprit=name,
        culprit_count=times,
        trigger=trigger,
        dark_share=share,
    )


def _dark_share(recent: Iterable[RebalanceView], seen: Evidence) -> float | None:
    """Of the partition time of an hour; None where no rebalance says how long partitions stood still."""
    dark = [one.dark_ms for view in recent if view.dark is not None for one in view.dark]
    if not dark or not seen.partitions:
        return None
    return sum(dark) / (len(seen.partitions) * HOUR_MS)


def _most_frequent(recent: Iterable[RebalanceView]) -> tuple[Who | None, int | None, str | None]:
    """The client that caused most of them, if it caused more than half; what it did most, and how often. Who was out
    comes back: as long as the one is as frequent as the other, being out is what it did."""
    known = [(who, reason(view)) for view in recent if (who := culprit(view)) is not None]
    by_client = Counter(identity(who) for who, _ in known)
    if not by_client:
        return None, None, None
    client, times = by_client.most_common(1)[0]
    mine = [(who, why) for who, why in known if identity(who) == client]
    if times * 2 <= len(known) or times < 2:
        return None, None, None
    trigger, count = max(Counter(why for _, why in mine).items(), key=lambda one: (one[1], one[0] != _BACK))
    return mine[-1][0], count, trigger


def identity(who: Who) -> str:
    """A client across its restarts: its instance id, else its client id and host."""
    if who.group_instance_id:
        return who.group_instance_id
    return f"{who.client_id}@{who.client_host.lstrip('/')}" if who.client_id else who.member_id


def _uneven(seen: Evidence) -> Health | None:
    shares = [len(one.partitions) for one in seen.members]
    if seen.state in _RESTING and shares and min(shares) == 0 and max(shares) > 1:
        idle = next(one.who for one in seen.members if not one.partitions)
        return Health(kind=HealthKind.UNEVEN, culprit=idle, count=shares.count(0))
    lag = seen.lag.lag or 0
    if len(seen.members) < UNEVEN_MEMBERS or lag < UNEVEN_LAG:
        return None
    most = max(seen.members, key=lambda one: one.lag or 0)
    return Health(kind=HealthKind.UNEVEN, culprit=most.who, lag=most.lag) if (most.lag or 0) * 2 > lag else None


def _lag_unknown(seen: Evidence) -> Health | None:
    problem = next((one.problem for one in seen.partitions if one.problem is not None and one.is_subscribed), None)
    return None if problem is None else Health(kind=HealthKind.UNKNOWN, problem=problem)


_RULES: tuple[Callable[[Evidence], Health | None], ...] = (
    _not_described,
    _stuck,
    _nobody_reads,
    _stalled,
    _behind,
    _restless,
    _uneven,
    _lag_unknown,
)
