"""Members whose connection has ended: a process that dies closes its sockets, and the group need not wait for the whole
session (`group.lost.connection.grace.ms`; an addition, Kafka waits).

The runner says which member has no connection left. A loss is a hint, not proof: a client may come back on another
connection. So nothing happens before the grace is over, and before the member's next heartbeat would have been due;
any request of the member ends the matter. Three kinds of members are left to their session: static ones, whose absence
is meant to be borne (KIP-345); those that were lost together with most of their group, since that is a network or a
proxy; and the last ones, as long as nobody is there to gain by it.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import ClassicGroupMember, Group, Loss
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Step

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

LOSS_WINDOW_MS = 1_000  # what is lost within so long is lost together
_USUAL_INTERVAL_MS = 3_000  # heartbeat.interval.ms of every client, unless it is set
RECONNECT_MS = 500  # for a client to find the coordinator again when its heartbeat is due


def connection_lost(shard: Shard, group_id: str, member_id: str, step: Step) -> None:
    """The last connection that carried a member's requests has ended, and not by our doing. Rule 7.9."""
    group, grace = shard.groups.get(group_id), shard.config.group_lost_connection_grace_ms
    member = group.members.get(member_id) if group is not None else None
    if group is None or member is None or member.is_static or not grace:
        return
    now = step.now
    forget_old_losses(group.losses, now)
    group.losses.append(Loss(now, member_id))
    if are_shared(group.losses, len(group.members)):
        for _, one in group.losses:
            _spare(shard, group.members.get(one))
        return
    member.lost_at = now
    shard.timers.arm(member.lost_timer, max(now + grace, _next_heartbeat(member) + RECONNECT_MS))


def forget_old_losses(losses: list[Loss], now: int) -> None:
    """Only losses within the window count."""
    del losses[: bisect_right(losses, now - LOSS_WINDOW_MS, key=attrgetter("at"))]


def are_shared(losses: list[Loss], members: int) -> bool:
    """More than half of the members, and more than one, within the window: no crash of one of them. Rule 7.9.1."""
    return len(losses) > 1 and len(losses) * 2 > members


def _spare(shard: Shard, member: ClassicGroupMember | None) -> None:
    """The member is left to its session."""
    if member is not None and member.lost_at is not None:
        member.lost_at = None
        shard.timers.cancel(member.lost_timer)


def _next_heartbeat(member: ClassicGroupMember) -> int:
    return member.last_seen + longest_interval(member.longest_silence_ms, member.session_timeout_ms)


def longest_interval(longest_silence_ms: int, session_timeout_ms: int) -> int:
    """When a heartbeat is due at the latest after the last sign of life, by the longest silence so far. Nothing is
    known of a member that has not been silent yet: then a third of its session, the most that clients are told to set.
    """
    third, known = session_timeout_ms // 3, longest_silence_ms
    return min(max(known, _USUAL_INTERVAL_MS), max(third, known)) if known else third


def spare_lost(shard: Shard, since: int, step: Step) -> None:
    """Many connections of the broker have ended since then, of whatever groups: nobody is expired for it.

    Rule 7.9.1.
    """
    for group in shard.groups.values():
        for member in group.members.values() if group.losses else ():
            if member.lost_at is not None and since <= member.lost_at <= step.now:
                _spare(shard, member)


def on_lost_timer(shard: Shard, group: Group, member_id: str, step: Step) -> None:
    """The member has not come back. It goes, unless nobody is left who is connected. Rules 7.9 and 7.9.2."""
    member = group.members.get(member_id)
    if member is None or member.lost_at is None:
        return
    if all(one.lost_at is not None for one in group.members.values()):
        return
    silent, limit = step.now - member.last_seen, shard.config.group_lost_connection_grace_ms
    shard.rebalancer.remove_member(group, member, Departure.CONNECTION_LOST, step, limit_ms=limit)
    if group.state is State.PREPARING_REBALANCE:
        shard.rebalancer.complete_after_expiry(group, step)
    else:
        cause = Cause(Trigger.CONNECTION_LOST, member.who, silent_ms=silent, limit_ms=limit)
        shard.rebalancer.after_removal(group, cause, step)


def look_again(shard: Shard, group: Group, step: Step) -> None:
    """Somebody new is there, who would wait for those that were lost as the last of the group. Rule 7.9.2."""
    for member in group.members.values() if group.losses else ():
        if member.lost_at is not None and shard.timers.deadline(member.lost_timer) is None:
            shard.timers.arm(member.lost_timer, step.now)
