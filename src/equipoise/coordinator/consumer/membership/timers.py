"""The timers of members of `consumer` groups: session and rebalance. Rule A11.

A member's session runs from heartbeat to heartbeat. Its rebalance timer runs while it has partitions to give up, and
counts only for the epoch at which it was armed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.states import MemberState
from equipoise.coordinator.timers import TimerKey, TimerKind

if TYPE_CHECKING:
    from equipoise.coordinator.classic.group import Group
    from equipoise.coordinator.consumer.group import ConsumerGroup
    from equipoise.coordinator.shard import Shard

_OF_A_MEMBER = (
    TimerKind.SESSION,
    TimerKind.REBALANCE,
    TimerKind.JOIN,
    TimerKind.SYNC,
    TimerKind.HOLD,
    TimerKind.LOST,
    TimerKind.PARKED,
)


def keep_alive(shard: Shard, group: ConsumerGroup, member_id: str, now: int) -> None:
    """A sign of life: a full session from now on. Rule A5.10."""
    presence = group.presence_of(member_id)
    presence.last_seen = now
    presence.lost_at = None
    shard.timers.arm(presence.timer, now + shard.settings_of(group.group_id).session_timeout_ms)


def keep_guest_alive(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember, now: int) -> None:
    """A sign of life of a classic member, whose session is its own. Rules A11 and A15.14."""
    assert member.classic is not None
    presence = group.presence_of(member.member_id)
    if presence.last_seen:
        presence.longest_silence_ms = max(presence.longest_silence_ms, now - presence.last_seen)
    presence.last_seen = now
    presence.lost_at = None
    shard.timers.arm(presence.timer, now + member.classic.session_timeout_ms)


def arm_join_timer(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember, now: int) -> None:
    """A guest was told to rejoin: the first time counts.

    Rule A11. Kafka: GroupMetadataManager.scheduleConsumerGroupJoinTimeoutIfAbsent.
    """
    key = group.timer(TimerKind.JOIN, member.member_id)
    if shard.timers.deadline(key) is None:
        shard.timers.arm(key, now + max(member.rebalance_timeout_ms, 0))


def arm_sync_timer(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember, now: int) -> None:
    """A guest has joined, and must ask for its assignment.

    Rule A11. Kafka: GroupMetadataManager.scheduleConsumerGroupSyncTimeout.
    """
    shard.timers.arm(group.timer(TimerKind.SYNC, member.member_id), now + max(member.rebalance_timeout_ms, 0))


def update_rebalance_timer(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember, now: int) -> None:
    """Runs while a member of the new protocol has partitions to give up. Its timeout is the one it has now.

    Rule A11. Kafka: GroupMetadataManager.scheduleConsumerGroupRebalanceTimeout.
    """
    key = group.timer(TimerKind.REBALANCE, member.member_id)
    if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
        group.presence_of(member.member_id).rebalance_epoch = member.member_epoch
        shard.timers.arm(key, now + max(member.rebalance_timeout_ms, 0))
    else:
        shard.timers.cancel(key)


def cancel_all(shard: Shard, group: ConsumerGroup, member_id: str) -> None:
    """Of a member that is gone."""
    for kind in _OF_A_MEMBER:
        shard.timers.cancel(group.timer(kind, member_id))
    group.presence.pop(member_id, None)


def forget_calls(shard: Shard, group: ConsumerGroup) -> None:
    """A guest may have been told to rejoin for a change that is undone, in an answer that has failed with it. If it
    still must, the answer to its next heartbeat says so, and its time begins then. Rule A21.4."""
    for member in group.members.values():
        if member.classic is not None:
            shard.timers.cancel(group.timer(TimerKind.JOIN, member.member_id))


def cancel_guests(shard: Shard, group: Group) -> None:
    """The group was a `consumer` group for a while, and its members were guests. As one it may be again, and would take
    their timers for its own. Rule A16.15."""
    for member_id in group.members:
        for kind in (TimerKind.JOIN, TimerKind.SYNC):
            shard.timers.cancel(TimerKey(kind, group.group_id, member_id))


def arm_missing(shard: Shard, group: ConsumerGroup, now: int) -> None:
    """After a load, and after an undo: what the members need and does not run begins anew. Rules A11.3 and A21.4.

    Kafka: GroupMetadataManager.onLoaded.
    """
    for member in group.members.values():
        if shard.timers.deadline(group.timer(TimerKind.SESSION, member.member_id)) is None:
            keep_alive(shard, group, member.member_id, now)
        if shard.timers.deadline(group.timer(TimerKind.REBALANCE, member.member_id)) is None:
            update_rebalance_timer(shard, group, member, now)
