"""Members of `consumer` groups whose connection has ended: the rules and exceptions of `classic/lost_connections.py`.
The coordinator has told the members their heartbeat interval, so it is known. Rule 7.9."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import Loss
from equipoise.coordinator.classic.lost_connections import (
    RECONNECT_MS,
    are_shared,
    forget_old_losses,
    longest_interval,
)
from equipoise.coordinator.consumer.group import ConsumerGroup, Presence
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.step import Step
from equipoise.coordinator.timers import TimerKind

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def connection_lost(shard: Shard, group: ConsumerGroup, member_id: str, step: Step) -> None:
    """The last connection that carried a member's requests has ended, and not by our doing.

    Rules 7.9, 7.9.1 and 7.9.3.
    """
    member, grace, now = group.members.get(member_id), shard.config.group_lost_connection_grace_ms, step.now
    if member is None or member.instance_id is not None or not grace:
        return
    forget_old_losses(group.losses, now)
    group.losses.append(Loss(now, member_id))
    if are_shared(group.losses, len(group.members)):
        for _, one in group.losses:
            _spare(shard, group, one)
        return
    group.presence_of(member_id).lost_at = now
    key, is_held = group.timer(TimerKind.LOST, member_id), member_id in group.held
    shard.timers.arm(key, now + grace if is_held else max(now + grace, _overdue(shard, group, member)))


def client_came(shard: Shard, group: ConsumerGroup, member_id: str) -> None:
    """The client of a lost member is connected again, so it lives: its next heartbeat is waited for.

    A client whose heartbeat was held sees at once that it has failed, and connects again within moments. Some send the
    next heartbeat then, librdkafka only when it is due. Who does not connect within the grace is gone. Rule 7.9.3.
    """
    member, presence = group.members.get(member_id), group.presence.get(member_id)
    key, grace = group.timer(TimerKind.LOST, member_id), shard.config.group_lost_connection_grace_ms
    if member is None or presence is None or presence.lost_at is None or shard.timers.deadline(key) is None:
        return
    shard.timers.arm(key, max(presence.lost_at + grace, _overdue(shard, group, member)))


def _overdue(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember) -> int:
    """From when on the member's next heartbeat is missing, also if the client had to look for the coordinator."""
    presence = group.presence_of(member.member_id)
    return presence.last_seen + _interval(shard, group, member, presence) + RECONNECT_MS


def _interval(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember, presence: Presence) -> int:
    if member.classic is None:
        return shard.settings_of(group.group_id).heartbeat_interval_ms
    return longest_interval(presence.longest_silence_ms, member.classic.session_timeout_ms)


def _spare(shard: Shard, group: ConsumerGroup, member_id: str) -> None:
    presence = group.presence.get(member_id)
    if presence is not None and presence.lost_at is not None:
        presence.lost_at = None
        shard.timers.cancel(group.timer(TimerKind.LOST, member_id))


def spare_lost(shard: Shard, group: ConsumerGroup, since: int, now: int) -> None:
    """Many connections of the broker have ended since then. Rule 7.9.1."""
    for member_id, presence in group.presence.items() if group.losses else ():
        if presence.lost_at is not None and since <= presence.lost_at <= now:
            _spare(shard, group, member_id)


def is_gone(group: ConsumerGroup, member_id: str) -> bool:
    """Whether a member that was lost has not come back, and others are connected. Rules 7.9 and 7.9.2."""
    lost = {one for one, presence in group.presence.items() if presence.lost_at is not None}
    return member_id in lost and member_id in group.members and not lost.issuperset(group.members)


def look_again(shard: Shard, group: ConsumerGroup, step: Step) -> None:
    """Somebody new is there, who would gain by it. Rule 7.9.2."""
    for member_id, presence in group.presence.items() if group.losses else ():
        key = group.timer(TimerKind.LOST, member_id)
        if presence.lost_at is not None and shard.timers.deadline(key) is None:
            shard.timers.arm(key, step.now)
