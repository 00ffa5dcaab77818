"""JoinGroup to an incremental group: answered when its records are durable, never parked. Rules C4.1 to C4.3.

A group of any kind is found here: one that is eligible turns incremental before the member is looked at, and one that
is no longer eligible with it turns classic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import protocols_of
from equipoise.coordinator.classic.join import Joining
from equipoise.coordinator.classic.replies import join_error
from equipoise.coordinator.consumer.assignment.epochs import update_target
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.guests import requests as guests
from equipoise.coordinator.consumer.guests.guest_data import Claim, read_subscription
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.records.build import current_record
from equipoise.coordinator.incremental.calls import release_heartbeat
from equipoise.coordinator.incremental.data import Stance, Turn
from equipoise.coordinator.incremental.eligibility import eligible_protocol, has_type, offered_by, selected_protocol
from equipoise.coordinator.incremental.syncs import refuse_all, refuse_sync
from equipoise.coordinator.incremental.turning import maybe_turn, mode_of, turn_classic
from equipoise.coordinator.incremental.walk import join_with, wanted
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.coordinator.step import Caller, Step
from equipoise.coordinator.timers import TimerKind
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_MEMBER_ID_REQUIRED_FROM = 4


def join_group(shard: Shard, request: JoinGroupRequest, caller: Caller, step: Step) -> None:
    """To a group of any kind, by the rules of its kind."""
    maybe_turn(shard, request.group_id, step, request)
    group = shard.consumer_groups.get(request.group_id)
    if group is None:
        Joining(shard, request, caller, step).run()
    elif group.incremental is None:
        guests.join_group(shard, request, caller, step)
    else:
        _join(Turn(shard, group, step), request, caller)


def _join(turn: Turn, request: JoinGroupRequest, caller: Caller) -> None:
    """In Kafka's order: size, protocols, then the member. Rules C4.1, C2.6 and C3.2."""
    shard, group, step = turn
    try:
        _check_room(turn, request)
        others = offered_by(group, request.member_id)
        if not has_type(request.protocol_type, [one.name for one in request.protocols], others):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = _find_id(turn, request, caller)
    except KafkaError as error:
        who = caller.who(request.member_id, request.group_instance_id)
        step.note_fenced(error.code, request.group_id, who, "JoinGroup")
        is_full = error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
        step.reply(caller, join_error(caller, error.code, "" if is_full else request.member_id))
        return
    if member_id is None:
        _reserve_id(turn, request, caller)
        return
    holder = group.static_members.get(request.group_instance_id or "")
    others = offered_by(group, member_id if holder is None else holder)
    known = selected_protocol(offered_by(group))
    protocol = eligible_protocol(mode_of(shard, group.group_id), [*others, protocols_of(request)], known)
    if protocol is None:
        _leave_to_leader(turn, request, caller)
    else:
        _Joining(turn, request, caller, (member_id, protocol)).join()


def _check_room(turn: Turn, request: JoinGroupRequest) -> None:
    """`group.max.size` bounds a group (KIP-389); who has a place keeps it. Raises KafkaError. Rules 2.3 and C2.6."""
    group = turn.group
    has_place = request.member_id in group.members or request.group_instance_id in group.static_members
    if len(group.members) >= turn.shard.config.group_max_size and not has_place:
        turn.incremental.pending_members.discard(request.member_id)
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)


def _find_id(turn: Turn, request: JoinGroupRequest, caller: Caller) -> str | None:
    """The id of the member: its own, one that was given out to it, or a new one. None: it is to be given one.

    Raises KafkaError. Rules C3.2 and 2.2.14.
    """
    named, instance_id, shard = request.member_id, request.group_instance_id, turn.shard
    if named in turn.incremental.pending_members:
        if instance_id is not None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return named
    if named:
        return turn.group.check_member(named, instance_id).member_id
    if instance_id is not None:
        return shard.new_member_id(instance_id)
    return None if caller.version >= _MEMBER_ID_REQUIRED_FROM else shard.new_member_id(caller.client_id)


def _reserve_id(turn: Turn, request: JoinGroupRequest, caller: Caller) -> None:
    """A client that repeats its first join must not become a member twice (KIP-394). Rules C3.2 and 2.2.12."""
    member_id = turn.shard.new_member_id(caller.client_id)
    turn.incremental.pending_members.add(member_id)
    turn.shard.timers.arm(turn.timer(TimerKind.SESSION, member_id), turn.now + request.session_timeout_ms)
    turn.step.reply(caller, join_error(caller, ErrorCode.MEMBER_ID_REQUIRED, member_id))


def _leave_to_leader(turn: Turn, request: JoinGroupRequest, caller: Caller) -> None:
    """The group is not eligible with this member, or not allowed to be: it has a leader from here on, which assigns
    for all. With a member of the consumer protocol in it, its classic members are guests. Rules C2.7 and C1.3."""
    shard, group, step = turn
    if group.is_shown_classic:
        turn_classic(shard, group, step)
        Joining(shard, request, caller, step).run()
        return
    for one in list(group.members):
        refuse_all(turn, one, ErrorCode.REBALANCE_IN_PROGRESS)
    group.keep_incremental(None)
    guests.join_group(shard, request, caller, step)


class _Joining(guests.GuestJoining):
    """One JoinGroup to an incremental group on its way."""

    def __init__(self, turn: Turn, request: JoinGroupRequest, caller: Caller, chosen: tuple[str, str]) -> None:
        super().__init__(turn.shard, request, caller, turn.step)
        self.turn = turn
        self.member_id, self.protocol = chosen
        self._protocol_before = selected_protocol(offered_by(turn.group))

    def join(self) -> None:
        """If it cannot be read it is refused, and nothing has happened."""
        try:
            response = self.run()
        except KafkaError as error:
            self.roll_back()
            self.step.reply(self.caller, join_error(self.caller, error.code, self.request.member_id))
            return
        self.changes.answer(self.step, self.caller, response)

    def run(self) -> JoinGroupResponse:
        """Member, group epoch, target, member epoch, in this order. Rules C4.1 to C4.3."""
        group = self.turn.group
        claim = self.read_claim()
        refuse_sync(self.turn, self.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        release_heartbeat(self.turn, self.member_id)
        self.turn.incremental.pending_members.discard(self.member_id)
        before = self.find_member(group, self.member_id)
        self.update_member(group, before, claim)
        update_target(self.shard, self.changes, self.step)
        return self.answer(self.walk(group, group.members[self.member_id], claim))

    def read_claim(self) -> Claim:
        """By the protocol that all have chosen. Raises KafkaError. Rule C4.1."""
        metadata = next(one.metadata for one in self.request.protocols if one.name == self.protocol)
        return read_subscription(bytes(metadata), self.shard.image, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def other_cause(self, member: ConsumerGroupMember) -> Cause | None:
        """The members have chosen another protocol, and so another assignor."""
        if self.protocol == self._protocol_before:
            return None
        return Cause(Trigger.ASSIGNOR_CHANGED, member.who, self.request.reason)

    def walk(self, group: ConsumerGroup, member: ConsumerGroupMember, claim: Claim) -> ConsumerGroupMember:
        """One step towards the target. Its generation is the group epoch, unless it has something to give up first.

        Rules C4.1 and C4.2.
        """
        claimed = claim.owned & (member.assigned.keys() | member.revoking.keys())
        target = wanted(group, member, self.shard.image)
        moved = join_with(member, group.group_epoch, target, claimed, owners=group.owners)
        if moved is not member:
            self.changes.put(current_record(group.group_id, moved))
        self.turn.incremental.stances[member.member_id] = Stance(claimed=claimed, protocol=self.protocol)
        return group.members[member.member_id]

    @property
    def protocol_name(self) -> str:
        """The one that all have chosen: it is in every member's list. Rule C4.3."""
        return self.protocol
