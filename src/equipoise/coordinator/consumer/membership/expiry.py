"""Timers of `consumer` groups fire: sessions end, and members that did not give up partitions in time go. Rule A11."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.changes import Changes
from equipoise.coordinator.consumer.assignment.epochs import on_target_timer
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.holds import release, wake_on
from equipoise.coordinator.consumer.membership.lost_connections import is_gone
from equipoise.coordinator.consumer.membership.removal import Leaver, remove_members
from equipoise.coordinator.incremental.calls import call
from equipoise.coordinator.incremental.data import Turn
from equipoise.coordinator.incremental.syncs import on_parked_timer
from equipoise.coordinator.reasons import Departure
from equipoise.coordinator.step import Step
from equipoise.coordinator.timers import TimerKey, TimerKind

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def on_timer(shard: Shard, group: ConsumerGroup, key: TimerKey, step: Step) -> None:
    """A timer of the group, or of one of its members."""
    match key.kind:
        case TimerKind.SESSION:
            _on_session(shard, group, key.member_id, step)
        case TimerKind.REBALANCE:
            _on_rebalance(shard, group, key.member_id, step)
        case TimerKind.LOST:
            _on_lost(shard, group, key.member_id, step)
        case TimerKind.TARGET:
            _on_target(shard, group, step)
        case TimerKind.HOLD:
            release(shard, group, key.member_id, step)
        case TimerKind.WAKE:
            wake_on(shard, group, step)
        case TimerKind.JOIN:
            _on_guest(shard, group, key.member_id, step, departure=Departure.JOIN_EXPIRED)
        case TimerKind.SYNC:
            _on_guest(shard, group, key.member_id, step, departure=Departure.SYNC_EXPIRED)
        case TimerKind.PARKED if group.incremental is not None:
            on_parked_timer(Turn(shard, group, step), key.member_id)
        case TimerKind.CALL if group.incremental is not None:
            call(Turn(shard, group, step))


def _on_session(shard: Shard, group: ConsumerGroup, member_id: str, step: Step) -> None:
    """A member was silent for its session; also a static one that is away (rule A10.7).

    Rule A11. Kafka: GroupMetadataManager.scheduleConsumerGroupSessionTimeout.
    """
    member = group.members.get(member_id)
    if member is None:
        group.presence.pop(member_id, None)  # of a static member that has a successor
        if group.incremental is not None:
            group.incremental.pending_members.discard(member_id)
    else:
        limit = shard.settings_of(group.group_id).session_timeout_ms
        if member.classic is not None:
            limit = member.classic.session_timeout_ms
        expire(shard, group, Leaver(member, Departure.SESSION_EXPIRED, limit), step)


def _on_rebalance(shard: Shard, group: ConsumerGroup, member_id: str, step: Step) -> None:
    """A member has not given up its partitions; it counts only for the epoch at which the timer was armed.

    Rule A11. Kafka: GroupMetadataManager.scheduleConsumerGroupRebalanceTimeout.
    """
    member = group.members.get(member_id)
    if member is not None and group.presence_of(member_id).rebalance_epoch == member.member_epoch:
        expire(shard, group, Leaver(member, Departure.REVOCATION_EXPIRED, member.rebalance_timeout_ms), step)


def _on_lost(shard: Shard, group: ConsumerGroup, member_id: str, step: Step) -> None:
    """The member has lost its connection and has not come back: an addition. Rule 7.9."""
    if is_gone(group, member_id):
        limit = shard.config.group_lost_connection_grace_ms
        expire(shard, group, Leaver(group.members[member_id], Departure.CONNECTION_LOST, limit), step)


def _on_guest(shard: Shard, group: ConsumerGroup, member_id: str, step: Step, *, departure: Departure) -> None:
    """A guest has not rejoined, or not asked for its assignment. It may speak the new protocol by now.

    Rule A11. Kafka: GroupMetadataManager.scheduleConsumerGroupJoinTimeoutIfAbsent and scheduleConsumerGroupSyncTimeout.
    """
    member = group.members.get(member_id)
    if member is not None and member.classic is not None:
        expire(shard, group, Leaver(member, departure, member.rebalance_timeout_ms), step)


def _on_target(shard: Shard, group: ConsumerGroup, step: Step) -> None:
    """If the assignor fails, the next heartbeat tries again, and its sender hears of it."""
    changes = Changes(shard, group.group_id)
    try:
        on_target_timer(shard, changes, step)
    except Exception:  # noqa: BLE001  an assignor may be anybody's code
        changes.roll_back()
    changes.write(step, None)


def expire(shard: Shard, group: ConsumerGroup, leaver: Leaver, step: Step) -> None:
    """One member goes because its time is over. It learns that with its next request (rule A11.1)."""
    changes = Changes(shard, group.group_id)
    remove_members(shard, changes, [leaver], step)
    changes.write(step, None)
