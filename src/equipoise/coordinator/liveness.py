"""How long each member of a group still has: to its session's end and, in a rebalance, until it must have come.

An addition: Kafka tells no client. All of it is read from timers that run anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import ClassicGroupMember, Group
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.liveness import (
    AWAITS_JOIN,
    AWAITS_NOTHING,
    AWAITS_REVOCATION,
    AWAITS_SYNC,
    UNKNOWN,
    GroupLiveness,
    MemberLiveness,
)

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_WAITS_OF_A_MEMBER = (
    (TimerKind.JOIN, AWAITS_JOIN),
    (TimerKind.SYNC, AWAITS_SYNC),
    (TimerKind.REBALANCE, AWAITS_REVOCATION),
)


def liveness(shard: Shard, group_id: str, now: int) -> GroupLiveness | None:
    """The deadlines of a group's members; None: there is no such group."""
    group = shard.find(group_id)
    if group is None:
        return None
    if isinstance(group, ConsumerGroup):
        members = [_consumer_member(shard, group, one, now) for one in group.members.values()]
        return GroupLiveness(group_id=group_id, members=members)
    since = group.state_since
    return GroupLiveness(
        group_id=group_id,
        state_ms_ago=UNKNOWN if since is None else max(0, shard.wall_time(now) - since),
        members=[_classic_member(shard, group, one, now) for one in group.members.values()],
    )


def _classic_member(shard: Shard, group: Group, member: ClassicGroupMember, now: int) -> MemberLiveness:
    """A member whose JoinGroup or SyncGroup is parked cannot speak: its session does not run. Rule 2.11."""
    awaiting, key = _awaited(group, member.member_id)
    is_parked = group.parked.awaits_phase(member.member_id)
    return MemberLiveness(
        member_id=member.member_id,
        last_seen_ms_ago=now - member.last_seen if member.last_seen else UNKNOWN,
        session_ms_left=UNKNOWN if is_parked else _left(shard, member.timer, now),
        awaiting=awaiting,
        awaited_ms_left=UNKNOWN if key is None else _left(shard, key, now),
    )


def _awaited(group: Group, member_id: str) -> tuple[int, TimerKey | None]:
    if group.state is State.PREPARING_REBALANCE and member_id not in group.parked.joins:
        return AWAITS_JOIN, group.timer(TimerKind.JOIN)
    if group.state is State.COMPLETING_REBALANCE and member_id in group.pending_sync:
        return AWAITS_SYNC, group.timer(TimerKind.SYNC)
    return AWAITS_NOTHING, None


def _consumer_member(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember, now: int) -> MemberLiveness:
    """Each member has timers of its own. Rule A11."""
    presence = group.presence.get(member.member_id)
    last_seen = 0 if presence is None else presence.last_seen
    waits = ((awaiting, group.timer(kind, member.member_id)) for kind, awaiting in _WAITS_OF_A_MEMBER)
    awaiting, key = next(
        ((awaiting, key) for awaiting, key in waits if shard.timers.deadline(key) is not None), (AWAITS_NOTHING, None)
    )
    return MemberLiveness(
        member_id=member.member_id,
        last_seen_ms_ago=now - last_seen if last_seen else UNKNOWN,
        session_ms_left=_left(shard, group.timer(TimerKind.SESSION, member.member_id), now),
        awaiting=awaiting,
        awaited_ms_left=UNKNOWN if key is None else _left(shard, key, now),
    )


def _left(shard: Shard, key: TimerKey, now: int) -> int:
    deadline = shard.timers.deadline(key)
    return UNKNOWN if deadline is None else max(0, deadline - now)
