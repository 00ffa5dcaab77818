"""Held heartbeats of `consumer` groups: a heartbeat with nothing to tell waits until there is something. An addition.

A member that is to give partitions up learns it in a round trip, and so does one whose partitions have become free. A
member that has partitions to give up is never held: it has something to say, and most clients have one heartbeat in
flight. Rule A23.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from equipoise.coordinator.consumer.assignment.epochs import advance_member
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.replies import hasten, heartbeat_answer, heartbeat_error
from equipoise.coordinator.consumer.states import MemberState
from equipoise.coordinator.incremental.calls import release_heartbeat
from equipoise.coordinator.incremental.data import Turn
from equipoise.coordinator.incremental.syncs import refuse_all
from equipoise.coordinator.metadata import Partitions
from equipoise.coordinator.step import Caller, Step
from equipoise.coordinator.timers import TimerKind
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.offsets_records import ConsumerGroupCurrentMemberAssignmentKey

if TYPE_CHECKING:
    from equipoise.coordinator.changes import Changes
    from equipoise.coordinator.shard import Shard

AT_ONCE = 24  # held heartbeats that go on in one turn: each takes about a tenth of a millisecond
CROWD = 256  # members that are looked at in one turn
_MAY_WAIT = (MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS)


class Held(NamedTuple):
    """A heartbeat that waits, and what its member said that it has."""

    caller: Caller
    owned: Partitions | None


def may_hold(shard: Shard, changes: Changes, member: ConsumerGroupMember) -> bool:
    """Only a heartbeat that has changed nothing but the member's own progress."""
    is_quiet = all(isinstance(key, ConsumerGroupCurrentMemberAssignmentKey) for key, _ in changes.records)
    return is_quiet and member.state in _MAY_WAIT and not differs(shard, changes.group, member)


def hold(shard: Shard, changes: Changes, member_id: str, held: Held, *, until: int) -> None:
    """The heartbeat waits, at most until then."""
    group = changes.group
    group.held[member_id] = held
    shard.timers.arm(group.timer(TimerKind.HOLD, member_id), until)


def differs(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Whether the member's next heartbeat would bring it something, or take something away."""
    target = group.target_of(member.member_id)
    if member.state is MemberState.STABLE and target == member.assigned.keys():
        return False
    topics = shard.image.ids_of(group.topics_of(member))
    wanted = {one for one in target if one[0] in topics}
    if not member.assigned.keys() <= wanted:
        return True
    return any(one not in group.owners for one in wanted)


def wake(shard: Shard, changes: Changes, step: Step) -> None:
    """There is a new target, or partitions have become free: whoever is concerned hears of it now. Rule A23.8.

    Of many the first hear of it in this turn, the others in the next ones: whoever else has a heartbeat under way
    comes in between. Of a crowd even the look at each of them takes several turns.
    """
    group = shard.consumer_groups.get(changes.group_id)
    if group is None or not group.held:
        return
    concerned = dict.fromkeys(changes.targets_before())
    concerned.update(dict.fromkeys(group.target_owners.get(one, "") for one in changes.freed()))
    if len(concerned) > CROWD:
        group.to_wake.extend(reversed(concerned))
        shard.timers.arm(group.timer(TimerKind.WAKE), step.now)
        return
    told = 0
    for member_id in concerned:
        if not _is_concerned(shard, group, member_id):
            continue
        told += 1
        if told <= AT_ONCE:
            release(shard, group, member_id, step)
        else:
            shard.timers.arm(group.timer(TimerKind.HOLD, member_id), step.now)


def wake_on(shard: Shard, group: ConsumerGroup, step: Step) -> None:
    """Looks at the next of a crowd, and comes back for the others."""
    told = looked_at = 0
    while group.to_wake and told < AT_ONCE and looked_at < CROWD:
        member_id = group.to_wake.pop()
        looked_at += 1
        if _is_concerned(shard, group, member_id):
            told += 1
            release(shard, group, member_id, step)
    if group.to_wake:
        shard.timers.arm(group.timer(TimerKind.WAKE), step.now)


def _is_concerned(shard: Shard, group: ConsumerGroup, member_id: str) -> bool:
    member = group.members.get(member_id)
    return member is not None and member_id in group.held and differs(shard, group, member)


def release(shard: Shard, group: ConsumerGroup, member_id: str, step: Step, *, is_interrupted: bool = False) -> None:
    """The heartbeat goes on where it stopped: towards the target as it is now. `is_interrupted`: because the client
    sends something else. Rules A5.9, A5.11 and A23.9."""
    if group.incremental is not None:
        release_heartbeat(Turn(shard, group, step), member_id)
    held = forget(shard, group, member_id)
    if held is None:
        return
    before = group.members.get(member_id)
    if before is None:
        step.reply(held.caller, heartbeat_error(ErrorCode.UNKNOWN_MEMBER_ID))
        return
    changes = shard.changes(group.group_id)
    try:
        after = advance_member(shard, changes, member_id, step, owned=held.owned)
    except KafkaError as error:
        changes.roll_back()
        step.reply(held.caller, heartbeat_error(error.code, error.message))
        return
    tells = after.assigned != before.assigned
    response = heartbeat_answer(shard, group, after, tells=tells)
    if is_interrupted and not tells:
        hasten(shard, group, member_id, response, now=step.now)
    changes.answer(step, held.caller, response)


def refuse(shard: Shard, group: ConsumerGroup, member_id: str, step: Step, *, error: ErrorCode) -> None:
    """The member is no longer one, or the shard goes elsewhere. Rule A21.5. So with what a classic one waits for."""
    refuse_all(Turn(shard, group, step), member_id, error)
    held = forget(shard, group, member_id)
    if held is not None:
        step.reply(held.caller, heartbeat_error(error))


def forget(shard: Shard, group: ConsumerGroup, member_id: str) -> Held | None:
    """The heartbeat waits no longer."""
    held = group.held.pop(member_id, None)
    if held is not None:
        shard.timers.cancel(group.timer(TimerKind.HOLD, member_id))
    return held
