"""Members of a `consumer` group are removed: they leave, expire, are fenced, or an administrator takes them out.

All of it happens here, for one member or for several at once. Rule A11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from equipoise.coordinator.consumer.assignment.epochs import bump
from equipoise.coordinator.consumer.guests import migration
from equipoise.coordinator.consumer.holds import refuse
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.membership.timers import cancel_all
from equipoise.coordinator.consumer.records.build import member_tombstones, regex_tombstone, target_epoch_record
from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Step
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.coordinator.changes import Changes
    from equipoise.coordinator.shard import Shard

_TRIGGERS = {
    Departure.LEFT: Trigger.MEMBER_LEFT,
    Departure.REMOVED: Trigger.MEMBER_REMOVED,
    Departure.SESSION_EXPIRED: Trigger.SESSION_EXPIRED,
    Departure.CONNECTION_LOST: Trigger.CONNECTION_LOST,
    Departure.REVOCATION_EXPIRED: Trigger.REVOCATION_EXPIRED,
    Departure.JOIN_EXPIRED: Trigger.SESSION_EXPIRED,
    Departure.SYNC_EXPIRED: Trigger.SYNC_EXPIRED,
}
_WITHOUT_A_WORD = (Departure.SESSION_EXPIRED, Departure.CONNECTION_LOST)


class Leaver(NamedTuple):
    """A member that goes, and why. `limit_ms` is the timeout that is over, where one is."""

    member: ConsumerGroupMember
    departure: Departure
    limit_ms: int = 0
    said: str | None = None


def remove_members(shard: Shard, changes: Changes, leavers: Sequence[Leaver], step: Step) -> None:
    """Takes members out, with one bump for all. The targets of the others stay until the next one is computed.

    If only classic members are left, the group is a classic one again instead (rule A16.9).
    Rules A11, A6.5, A14.8 and A20.3. Kafka: GroupMetadataManager.consumerGroupFenceMembers.
    """
    if not leavers:
        return
    group = changes.group
    cause, *further = [_cause(changes, leaver, step) for leaver in leavers]
    for leaver in leavers:
        _note(changes, leaver, step)
    gone = [leaver.member.member_id for leaver in leavers]
    for member_id in gone:
        refuse(shard, group, member_id, step, error=ErrorCode.UNKNOWN_MEMBER_ID)
    if migration.is_downgrade_due(shard, group, gone):
        migration.downgrade(shard, changes, gone, step, cause=cause)
        return
    for member_id in gone:
        changes.put(*member_tombstones(group.group_id, member_id))
        cancel_all(shard, group, member_id)
    regexes = {leaver.member.subscribed_topic_regex for leaver in leavers} - {"", *group.regexes}
    for regex in sorted(regexes):
        changes.put(regex_tombstone(group.group_id, regex))
    bump(shard, changes, cause, step)
    changes.causes += further
    if not group.members:
        changes.put(target_epoch_record(group.group_id, group.group_epoch, 0))
        group.keep_incremental(None)


def _cause(changes: Changes, leaver: Leaver, step: Step) -> Cause:
    silent = step.now - changes.group.presence_of(leaver.member.member_id).last_seen if leaver.limit_ms else 0
    trigger = _TRIGGERS[leaver.departure]
    return Cause(trigger, leaver.member.who, leaver.said, silent_ms=silent, limit_ms=leaver.limit_ms)


def _note(changes: Changes, leaver: Leaver, step: Step) -> None:
    group, member = changes.group, leaver.member
    last_seen = group.presence_of(member.member_id).last_seen
    if leaver.departure in _WITHOUT_A_WORD and last_seen:
        changes.silent_since[member.member_id] = last_seen
    left = MemberLeft(
        group.group_id,
        step.now,
        member.who,
        leaver.departure,
        leaver.said,
        silent_ms=step.now - last_seen,
        limit_ms=leaver.limit_ms,
    )
    step.note(left)
