"""Who is called to rejoin, and when; and the heartbeats by which members hear of it. Rule C5.

A member is called if it is to lose something, or if all that it is to gain is free. Nobody else ever is, whatever the
epochs say: that is what makes the rebalance incremental.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.membership.timers import arm_join_timer, keep_guest_alive
from equipoise.coordinator.incremental.data import Stance, Turn
from equipoise.coordinator.incremental.walk import wanted
from equipoise.coordinator.metadata import Partitions
from equipoise.coordinator.step import Caller
from equipoise.coordinator.timers import TimerKind
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

PATIENCE_MS = 3_000  # for the rest of what a member is to gain, and for a client that rejoins by itself


def must_rejoin(turn: Turn, member: ConsumerGroupMember) -> bool:
    """Whether a member is called. Rules C5.1 to C5.5 and C5.9."""
    if turn.group.is_settled(member):
        return False
    stance = turn.incremental.stances.get(member.member_id)
    if member.revoking:
        return _is_overdue(stance, turn.now)
    target = wanted(turn.group, member, turn.shard.image)
    loses = member.assigned.keys() - target
    if loses:
        return not turn.is_pending or _is_waited_for(turn, frozenset(loses))
    gains = target.difference(member.assigned)
    return bool(gains) and _can_gain(turn, stance, gains)


def _is_overdue(stance: Stance | None, now: int) -> bool:
    """A cooperative client that has heard what to give up rejoins by itself; it is reminded after a while. Rule C5.2.

    Of a member that has not joined since the shard was loaded nothing is known.
    """
    if stance is None:
        return True
    return stance.synced_at is not None and now - stance.synced_at >= PATIENCE_MS


def _is_waited_for(turn: Turn, partitions: Partitions) -> bool:
    """Whether somebody's SyncGroup is parked for one of these. Rule C5.9."""
    waiting = (turn.group.members[one] for one in turn.incremental.syncs)
    return any(not partitions.isdisjoint(wanted(turn.group, one, turn.shard.image)) for one in waiting)


def _can_gain(turn: Turn, stance: Stance | None, gains: Partitions) -> bool:
    """When all that it is to gain is free, or some of it for a while. A member whose SyncGroup is parked, or still to
    come, gets it so. Rules C5.3 and C4.7."""
    if turn.is_pending or (stance is not None and stance.synced_at is None):
        return False
    if turn.group.owners.keys().isdisjoint(gains):
        return True
    since = None if stance is None else stance.some_free_since
    return since is not None and turn.now - since >= PATIENCE_MS


# -- after every change


def call(turn: Turn) -> None:
    """Whoever must rejoin and has a heartbeat that is held hears of it at this moment. Rule C5.6."""
    group, due = turn.group, list[int]()
    for member in list(group.members.values()):
        if member.classic is None or group.is_settled(member):
            continue
        since = _note_free(turn, member)
        if since is not None and since + PATIENCE_MS > turn.now:
            due.append(since + PATIENCE_MS)
        if member.member_id in turn.incremental.heartbeats and must_rejoin(turn, member):
            release_heartbeat(turn, member.member_id)
    if due:
        turn.shard.timers.arm(turn.timer(TimerKind.CALL), min(due))


def _note_free(turn: Turn, member: ConsumerGroupMember) -> int | None:
    """Since when some of what a member is to gain, but not all, is free. Rule C5.3."""
    stance, owners = turn.stance_of(member.member_id), turn.group.owners
    gains = wanted(turn.group, member, turn.shard.image).difference(member.assigned)
    free = sum(one not in owners for one in gains)
    if not 0 < free < len(gains):
        stance.some_free_since = None
    elif stance.some_free_since is None:
        stance.some_free_since = turn.now
    return stance.some_free_since


def _tell(turn: Turn, member: ConsumerGroupMember, caller: Caller) -> None:
    """The member has its rebalance timeout to rejoin, from when it was first told. Rule C5.8."""
    turn.stance_of(member.member_id).told = True
    turn.group.story.call(member.member_id, turn.now)
    arm_join_timer(turn.shard, turn.group, member, turn.now)
    _answer(turn, caller, ErrorCode.REBALANCE_IN_PROGRESS)


def _answer(turn: Turn, caller: Caller, error: ErrorCode) -> None:
    turn.shard.changes(turn.group.group_id).answer(turn.step, caller, HeartbeatResponse(error_code=error))


# -- heartbeats


def heartbeat(turn: Turn, member: ConsumerGroupMember, caller: Caller, *, hold_ms: int) -> None:
    """All is well unless the member must rejoin. It may be held then, as in a classic group. Rules C4.8 and 7.3."""
    assert member.classic is not None
    member_id = member.member_id
    release_heartbeat(turn, member_id)
    if must_rejoin(turn, member):
        _tell(turn, member, caller)
        return
    _need_not_rejoin(turn, member_id)
    if hold_ms > 0 and member_id not in turn.incremental.syncs:
        turn.incremental.heartbeats[member_id] = caller
        limit = min(hold_ms, member.classic.session_timeout_ms // 3)
        turn.shard.timers.arm(turn.timer(TimerKind.HOLD, member_id), turn.now + limit)
    else:
        _answer(turn, caller, ErrorCode.NONE)


def _need_not_rejoin(turn: Turn, member_id: str) -> None:
    """If it was told to, the target has changed since; it may have missed that answer, and is not waited for."""
    stance = turn.incremental.stances.get(member_id)
    if stance is not None and stance.told:
        stance.told = False
        turn.shard.timers.cancel(turn.timer(TimerKind.JOIN, member_id))


def is_well(shard: Shard, group: ConsumerGroup, request: HeartbeatRequest, now: int) -> bool:
    """The short way for a heartbeat that is not to be held, as `Shard.is_well` for a classic group."""
    incremental, member = group.incremental, group.members.get(request.member_id)
    if incremental is None or member is None or member.classic is None:
        return False
    stance = incremental.stances.get(request.member_id)
    if (
        request.generation_id != member.member_epoch
        or request.group_instance_id != member.instance_id
        or not group.is_settled(member)
        or request.member_id in incremental.heartbeats
        or (stance is not None and stance.told)
        or group.group_id in shard.unwritten_groups
    ):
        return False
    keep_guest_alive(shard, group, member, now)
    return True


def release_heartbeat(turn: Turn, member_id: str) -> None:
    """The client has something else to say or to hear, or the time of the hold is over: the heartbeat is answered."""
    caller = _forget_heartbeat(turn, member_id)
    if caller is None:
        return
    member = turn.group.members[member_id]
    if must_rejoin(turn, member):
        _tell(turn, member, caller)
    else:
        _answer(turn, caller, ErrorCode.NONE)


def refuse_heartbeat(turn: Turn, member_id: str, error: ErrorCode) -> None:
    """The member is no longer one, or the group is no longer here."""
    caller = _forget_heartbeat(turn, member_id)
    if caller is not None:
        turn.step.reply(caller, HeartbeatResponse(error_code=error))


def _forget_heartbeat(turn: Turn, member_id: str) -> Caller | None:
    caller = turn.incremental.heartbeats.pop(member_id, None)
    if caller is not None:
        turn.shard.timers.cancel(turn.timer(TimerKind.HOLD, member_id))
    return caller
