"""What a test does to a group from outside: members are taken out or expired, and a rebalance begins.

Nothing here is in Kafka. Each takes the way that the same thing takes by itself, so that clients and the journal see
no difference: a kicked member is removed as by an administrator, an expired one as after its session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.changes import Changes
from equipoise.coordinator.classic.heartbeat import on_session_timer
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.assignment.epochs import bump
from equipoise.coordinator.consumer.membership.expiry import expire, on_timer
from equipoise.coordinator.consumer.membership.removal import Leaver
from equipoise.coordinator.incremental.turning import turn_classic
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Step
from equipoise.coordinator.timers import TimerKey, TimerKind

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def kick(shard: Shard, group_id: str, member_id: str, step: Step) -> None:
    """A member is removed, static or not. It learns that with its next request."""
    if (group := shard.groups.get(group_id)) is not None:
        member = group.members[member_id]
        shard.rebalancer.remove_member(group, member, Departure.REMOVED, step)
        shard.rebalancer.after_removal(group, Cause(Trigger.MEMBER_REMOVED, member.who), step)
    else:
        kept = shard.consumer_groups[group_id]
        expire(shard, kept, Leaver(kept.members[member_id], Departure.REMOVED), step)


def expire_now(shard: Shard, group_id: str, member_id: str, step: Step) -> None:
    """The session of a member is over. One that waits for an answer of the join phase is not silent, and stays."""
    timer = TimerKey(TimerKind.SESSION, group_id, member_id)
    if (group := shard.groups.get(group_id)) is not None:
        on_session_timer(shard, group, member_id, step)
    else:
        on_timer(shard, shard.consumer_groups[group_id], timer, step)


def rebalance(shard: Shard, group_id: str, step: Step) -> None:
    """All members rejoin; where the coordinator assigns, the group epoch grows. A group that is kept incremental calls
    nobody without need, so it is a classic group for this one."""
    cause = Cause(Trigger.REBALANCE_FORCED)
    if (kept := shard.consumer_groups.get(group_id)) is not None and kept.incremental is not None:
        turn_classic(shard, kept, step, cause)
    elif kept is not None:
        changes = Changes(shard, group_id)
        bump(shard, changes, cause, step)
        changes.write(step, None)
    elif (group := shard.groups.get(group_id)) is not None and group.is_in(State.STABLE, State.COMPLETING_REBALANCE):
        shard.rebalancer.prepare(group, cause, step)
