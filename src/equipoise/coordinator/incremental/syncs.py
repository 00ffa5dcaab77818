"""SyncGroup in an incremental group: what the member has, at once or when it is free. Rules C4.4 to C4.7."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.replies import sync_error
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.guests.guest_data import encoded_assignment, version_of
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.membership.timers import keep_guest_alive
from equipoise.coordinator.consumer.records.build import current_record
from equipoise.coordinator.consumer.states import MemberState
from equipoise.coordinator.incremental.calls import PATIENCE_MS, call, refuse_heartbeat, release_heartbeat
from equipoise.coordinator.incremental.data import ParkedSync, Turn
from equipoise.coordinator.incremental.eligibility import offered_by, selected_protocol
from equipoise.coordinator.incremental.walk import join_with, take_free, wanted
from equipoise.coordinator.metadata import NO_PARTITIONS
from equipoise.coordinator.step import Caller, Step
from equipoise.coordinator.timers import TimerKind
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.changes import Changes
    from equipoise.coordinator.shard import Shard


def check_sync(group: ConsumerGroup, member: ConsumerGroupMember, request: SyncGroupRequest) -> None:
    """The protocol must be the one that it was told (KIP-559). Raises KafkaError. Rule C4.4."""
    told = protocol_of(group, member)
    for said, true in ((request.protocol_type, PROTOCOL_TYPE), (request.protocol_name, told)):
        if said is not None and said != true:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def protocol_of(group: ConsumerGroup, member: ConsumerGroupMember) -> str:
    """The protocol of a member: as it was told with its JoinGroup, or the one that all have chosen."""
    stance = None if group.incremental is None else group.incremental.stances.get(member.member_id)
    told = "" if stance is None else stance.protocol
    return told or selected_protocol(offered_by(group)) or ""


def metadata_of(group: ConsumerGroup, member: ConsumerGroupMember) -> bytes:
    """Its subscription for that protocol."""
    assert member.classic is not None
    protocol = protocol_of(group, member)
    return next((metadata for name, metadata in member.classic.protocols if name == protocol), b"")


def sync_group(turn: Turn, member: ConsumerGroupMember, request: SyncGroupRequest, caller: Caller) -> None:
    """Never REBALANCE_IN_PROGRESS because of others. What the member submits is ignored. Rules C4.4 to C4.7."""
    shard, member_id = turn.shard, member.member_id
    refuse_sync(turn, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    release_heartbeat(turn, member_id)
    shard.timers.cancel(turn.timer(TimerKind.SYNC, member_id))
    keep_guest_alive(shard, turn.group, member, turn.now)
    parked = ParkedSync(caller, request.protocol_type, request.protocol_name)
    changes = shard.changes(turn.group.group_id)
    if _advance(turn, changes, member):
        _park(turn, member, parked)
        changes.write(turn.step, None)
    else:
        _answer(turn, changes, member_id, parked)


def _advance(turn: Turn, changes: Changes, member: ConsumerGroupMember) -> bool:
    """The member gets what is free by now. Whether its SyncGroup is to wait for more: it has come with nothing, and
    something that it is to get is not free, or not even known. Rules C4.5 and C4.6."""
    group = turn.group
    stance, target = turn.stance_of(member.member_id), wanted(group, member, turn.shard.image)
    has_nothing = not stance.claimed and stance.synced_at is None
    if has_nothing:  # nothing was given to it since, and what it was to have may be another's by now
        moved = join_with(member, member.member_epoch, target, NO_PARTITIONS, owners=group.owners)
    else:
        moved = take_free(member, target, group.owners)
    if moved is not member:
        changes.put(current_record(group.group_id, moved))
    return has_nothing and (turn.is_pending or moved.state is MemberState.UNRELEASED_PARTITIONS)


def _park(turn: Turn, member: ConsumerGroupMember, parked: ParkedSync) -> None:
    """Never for long: clients count the wait for SyncGroup as trouble, or as silence. Rule C4.6."""
    assert member.classic is not None
    turn.incremental.syncs[member.member_id] = parked
    limit = min(PATIENCE_MS, member.classic.session_timeout_ms // 3)
    turn.shard.timers.arm(turn.timer(TimerKind.PARKED, member.member_id), turn.now + limit)


def _answer(turn: Turn, changes: Changes, member_id: str, parked: ParkedSync) -> None:
    """All that the member has at this moment: its own until it says otherwise, also if the target has just moved on.

    Rules C4.12 and A15.13.
    """
    group = turn.group
    member = group.members[member_id]
    turn.stance_of(member_id).synced_at = turn.now
    response = SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=parked.protocol_type,
        protocol_name=parked.protocol_name,
        assignment=encoded_assignment(member.assigned, turn.shard.image, version_of(metadata_of(group, member))),
    )
    changes.answer(turn.step, parked.caller, response)


# -- parked ones


def wake(shard: Shard, changes: Changes, step: Step) -> None:
    """There is a new target, or partitions have become free: whoever waits goes on, and whoever must rejoin is called.

    Who goes on may give something up for others, and so comes here again: they are looked at in the next round of the
    first call. A call inside the other for each of them would be too deep for Python. Rules C4.6, C4.10 and C5.6.
    """
    group = shard.consumer_groups.get(changes.group_id)
    if group is None or group.incremental is None:
        return
    if not changes.has_new_target and next(changes.freed(), None) is None:
        return
    group.incremental.has_freed = True
    if group.incremental.is_waking:
        return
    turn = Turn(shard, group, step)
    group.incremental.is_waking = True
    try:
        _wake_all(turn)
    finally:
        group.incremental.is_waking = False
    call(turn)


def _wake_all(turn: Turn) -> None:
    """In rounds, until nothing more becomes free: after the first one members mostly take, and seldom give."""
    kept = turn.incremental
    while kept.has_freed:
        kept.has_freed = False
        for member_id in list(kept.syncs):
            if member_id in kept.syncs:
                _go_on(turn, member_id)


def _go_on(turn: Turn, member_id: str, *, is_late: bool = False) -> None:
    """A parked SyncGroup takes what is free, and is answered if that is all, or if it is late."""
    changes = turn.shard.changes(turn.group.group_id)
    if _advance(turn, changes, turn.group.members[member_id]) and not is_late:
        changes.write(turn.step, None)
        return
    parked = _forget_sync(turn, member_id)
    if parked is not None:
        keep_guest_alive(turn.shard, turn.group, turn.group.members[member_id], turn.now)
        _answer(turn, changes, member_id, parked)


def on_parked_timer(turn: Turn, member_id: str) -> None:
    """The member gets what is free; for the rest it is called. Rules C4.6 and C5.3."""
    if member_id in turn.incremental.syncs:
        _go_on(turn, member_id, is_late=True)
        call(turn)


def refuse_sync(turn: Turn, member_id: str, error: ErrorCode) -> None:
    """The member speaks again, or is no longer one. Rule C4.7."""
    parked = _forget_sync(turn, member_id)
    if parked is not None:
        turn.step.reply(parked.caller, sync_error(error))


def _forget_sync(turn: Turn, member_id: str) -> ParkedSync | None:
    parked = turn.incremental.syncs.pop(member_id, None)
    if parked is not None:
        turn.shard.timers.cancel(turn.timer(TimerKind.PARKED, member_id))
    return parked


def refuse_all(turn: Turn, member_id: str, error: ErrorCode) -> None:
    """All that a member waits for is answered so, and what is known of its last join is forgotten."""
    if turn.group.incremental is not None:
        refuse_sync(turn, member_id, error)
        refuse_heartbeat(turn, member_id, error)
        turn.incremental.stances.pop(member_id, None)
