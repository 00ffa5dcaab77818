"""Classic requests to a `consumer` group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Rule A15.

A classic member inside a `consumer` group is a guest. The coordinator assigns for it, as for all others; the guest
hears of a new target by its heartbeat, rejoins, and is answered at once: it has no leader, and nobody waits for it.
An eager guest gives up everything when it rejoins. A cooperative one says what it has; if it is to give something up
it gets the smaller assignment at its old generation, gives the rest up, and rejoins by itself.

`Shard` sends requests here when the group of that name is a `consumer` group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.changes import Changes
from equipoise.coordinator.classic.leave import identities, leave_response, leave_row
from equipoise.coordinator.classic.replies import join_error, sync_error
from equipoise.coordinator.consumer.assignment.epochs import advance_member, check_room, refresh, update_target
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.guests import migration
from equipoise.coordinator.consumer.guests.guest_data import Claim, assignment_bytes, read_subscription
from equipoise.coordinator.consumer.member import ClassicMetadata, ConsumerGroupMember
from equipoise.coordinator.consumer.member_request import MemberRequest
from equipoise.coordinator.consumer.membership.lost_connections import look_again
from equipoise.coordinator.consumer.membership.removal import Leaver, remove_members
from equipoise.coordinator.consumer.membership.static import replace_member
from equipoise.coordinator.consumer.membership.timers import arm_join_timer, arm_sync_timer, keep_guest_alive
from equipoise.coordinator.consumer.records.build import member_record
from equipoise.coordinator.consumer.regexes import RegexChange, maybe_resolve, update_regex
from equipoise.coordinator.consumer.states import MemberState
from equipoise.coordinator.events import MemberJoined
from equipoise.coordinator.incremental import calls, syncs
from equipoise.coordinator.incremental.data import Turn
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Caller, Step
from equipoise.coordinator.timers import TimerKind
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_MEMBER_ID_REQUIRED_FROM = 4
_REBALANCE_TIMEOUT_FROM = 1


# -- JoinGroup


def join_group(shard: Shard, request: JoinGroupRequest, caller: Caller, step: Step) -> None:
    """Answered when its records are durable, never parked. If it is refused, nothing has happened.

    Rules A15.1 to A15.12. Kafka: GroupMetadataManager.classicGroupJoinToConsumerGroup.
    """
    if shard.consumer_groups[request.group_id].is_empty:
        migration.join_empty(shard, request, caller, step)
        return
    joining = GuestJoining(shard, request, caller, step)
    try:
        response = joining.run()
    except KafkaError as error:
        joining.roll_back()
        who = caller.who(request.member_id, request.group_instance_id)
        step.note_fenced(error.code, request.group_id, who, "JoinGroup")
        step.reply(caller, join_error(caller, error.code, ""))
        return
    joining.changes.answer(step, caller, response)


class GuestJoining(MemberRequest[JoinGroupRequest]):
    """One JoinGroup of a guest on its way. An incremental group does some of it otherwise (`incremental/joins.py`)."""

    def run(self) -> JoinGroupResponse:
        """Policy, room, protocols, then the member. Raises KafkaError. Rules A15.2 to A15.5, A15.12 and A15.19."""
        request, group = self.request, self.changes.group
        if migration.policy_of(self.shard.config).is_disabled:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.member_id or self.shard.new_id()
        check_room(self.shard, group, member_id, request.group_instance_id)
        self.check_protocols(group)
        if self.needs_id:
            return join_error(self.caller, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        self.check_return(group)
        epoch = group.group_epoch
        before = self.find_member(group, member_id)
        claim = self.read_claim()
        is_last = request.group_instance_id is not None and migration.all_are_guests(group, {before.member_id})
        changed = self.update_member(group, before, claim)
        if is_last and migration.may_downgrade(self.shard, len(group.members)):
            return self.downgrade(group, before, claim, changed=changed, epoch=epoch)
        update_target(self.shard, self.changes, self.step)
        maybe_resolve(self.shard, group, self.caller, self.step)
        return self.answer(self.reconcile(before.member_id, claim, changed=changed))

    @property
    def needs_id(self) -> bool:
        """A client that repeats its first join must not become a member twice (KIP-394). The id is not remembered.

        Rule A15.5.
        """
        request = self.request
        is_new = not request.member_id and request.group_instance_id is None
        return is_new and self.caller.version >= _MEMBER_ID_REQUIRED_FROM

    def check_protocols(self, group: ConsumerGroup) -> None:
        """Guests must have a protocol in common, for the day on which they are a classic group again.

        Rule A15.4. Kafka: ConsumerGroup.supportsClassicProtocols.
        """
        names = [one.name for one in self.request.protocols]
        if self.request.protocol_type == PROTOCOL_TYPE and any(
            group.classic_protocols[name] == group.classic_members for name in names
        ):
            return
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def check_return(self, group: ConsumerGroup) -> None:
        """Who claims partitions and is not known was removed. It is told so, and gives them up before it comes again.

        Kafka takes it as a new member: until its SyncGroup it works beside their next owner, and its commits count.
        Raises KafkaError. Rule A15.19.
        """
        request = self.request
        is_named = request.member_id and request.group_instance_id is None and not self.shard.config.strict
        if is_named and request.member_id not in group.members and self.read_claim().owned:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def read_claim(self) -> Claim:
        """By its first protocol. Raises KafkaError. Rule A15.8."""
        metadata = self.request.protocols[0].metadata
        return read_subscription(bytes(metadata), self.shard.image, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    # -- the member

    def find_member(self, group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
        """Any id is taken from a dynamic member. A static one without an id takes the place of whoever holds it.

        Rules A15.6, A15.7 and A10.4. Kafka: GroupMetadataManager.getOrMaybeSubscribeStaticConsumerGroupMember.
        """
        instance_id = self.request.group_instance_id
        if instance_id is not None and self.request.member_id:
            return group.check_member(member_id, instance_id)
        holder = group.static_members.get(instance_id) if instance_id is not None else None
        if holder is not None:
            self.trigger = Trigger.STATIC_MEMBER_REPLACED
            return replace_member(self.shard, self.changes, group.members[holder], self.step, member_id=member_id)
        known = group.members.get(member_id)
        if known is not None:
            return known
        self.trigger = Trigger.MEMBER_JOINED
        look_again(self.shard, group, self.step)
        self.step.note(MemberJoined(group.group_id, self.step.now, self.caller.who(member_id, instance_id)))
        return ConsumerGroupMember(member_id)

    def update_member(self, group: ConsumerGroup, before: ConsumerGroupMember, claim: Claim) -> bool:
        """What it says takes effect. Whether its subscription is another one.

        Rules A15.9, A15.10 and A14.9. Kafka: GroupMetadataManager.classicGroupJoinToConsumerGroup.
        """
        after = self.updated(before, claim)
        if after.metadata_differs(before) or before.member_id not in group.members:
            self.changes.put(member_record(group.group_id, after))
        names_changed = after.subscribed_topic_names != before.subscribed_topic_names
        regex = update_regex(self.shard, self.changes, before, self.step)
        changed = names_changed or regex is not RegexChange.NONE
        cause = self.cause_of(after) if changed else self.other_cause(after)
        if cause is not None or group.must_refresh:
            refresh(self.shard, self.changes, cause, self.step)
        return changed

    def cause_of(self, member: ConsumerGroupMember) -> Cause:
        """Of a bump: the member is new, or the successor of another, or subscribes to other topics."""
        return Cause(self.trigger or Trigger.SUBSCRIPTION_CHANGED, member.who, self.request.reason)

    def other_cause(self, member: ConsumerGroupMember) -> Cause | None:
        """Of a bump although the subscription is the same."""
        return None

    def updated(self, member: ConsumerGroupMember, claim: Claim) -> ConsumerGroupMember:
        """Rule A15.9."""
        request = self.request
        protocols = tuple((one.name, bytes(one.metadata)) for one in request.protocols)
        return member._replace(
            instance_id=request.group_instance_id if request.group_instance_id is not None else member.instance_id,
            rack_id=claim.rack_id if claim.rack_id is not None else member.rack_id,
            client_id=self.caller.client_id,
            client_host=self.caller.client_host,
            subscribed_topic_names=claim.topics,
            subscribed_topic_regex="",
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            classic=ClassicMetadata(request.session_timeout_ms, protocols),
        )

    @property
    def rebalance_timeout_ms(self) -> int:
        """The oldest JoinGroup has one timeout for both."""
        request = self.request
        return (
            request.rebalance_timeout_ms
            if self.caller.version >= _REBALANCE_TIMEOUT_FROM
            else request.session_timeout_ms
        )

    def reconcile(self, member_id: str, claim: Claim, *, changed: bool) -> ConsumerGroupMember:
        """One step towards the target. What a guest does not claim it has given up. Rule A15.10."""
        return advance_member(
            self.shard, self.changes, member_id, self.step, owned=claim.owned, subscription_changed=changed
        )

    # -- the answer

    def answer(self, member: ConsumerGroupMember) -> JoinGroupResponse:
        """Nobody leads: the coordinator has assigned. Rule A15.11."""
        group, now = self.changes.group, self.step.now
        self.shard.timers.cancel(group.timer(TimerKind.JOIN, member.member_id))
        keep_guest_alive(self.shard, group, member, now)
        arm_sync_timer(self.shard, group, member, now)
        return self.response(member.member_id, member.member_epoch)

    @property
    def protocol_name(self) -> str:
        """The first that it has."""
        return self.request.protocols[0].name

    def response(self, member_id: str, generation_id: int) -> JoinGroupResponse:
        """Without a leader, and without members to assign to."""
        return JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=generation_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            leader="",
            member_id=member_id,
        )

    def downgrade(
        self, group: ConsumerGroup, before: ConsumerGroupMember, claim: Claim, *, changed: bool, epoch: int
    ) -> JoinGroupResponse:
        """The last member of the new protocol has a successor of the old one. It needs no rebalance if its target is
        current. Rules A15.12 and A16.10."""
        is_stale = group.target_epoch < group.group_epoch
        member = group.members[before.member_id]
        if not is_stale:
            member = self.reconcile(before.member_id, claim, changed=changed)
        cause = Cause(Trigger.STATIC_MEMBER_REPLACED, member.who, self.request.reason)
        why = cause if is_stale else None
        migration.downgrade(self.shard, self.changes, set(), self.step, cause=why, epoch=epoch)
        return self.response(member.member_id, member.member_epoch)


# -- SyncGroup


def sync_group(shard: Shard, request: SyncGroupRequest, caller: Caller, step: Step) -> None:
    """Answered at once with what the guest has now; what it submits is ignored.

    Rule A15.13. Kafka: GroupMetadataManager.classicGroupSyncToConsumerGroup.
    """
    changes = Changes(shard, request.group_id)
    is_incremental = changes.group.incremental is not None
    try:
        member = _check_guest(changes.group, request)
        if is_incremental:
            syncs.check_sync(changes.group, member, request)
        else:
            _check_sync(shard, member, request, step)
    except KafkaError as error:
        step.note_fenced(
            error.code, request.group_id, caller.who(request.member_id, request.group_instance_id), "SyncGroup"
        )
        step.reply(caller, sync_error(error.code))
        return
    if is_incremental:
        syncs.sync_group(Turn(shard, changes.group, step), member, request, caller)
        return
    shard.timers.cancel(changes.group.timer(TimerKind.SYNC, member.member_id))
    keep_guest_alive(shard, changes.group, member, step.now)
    response = SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(member, member.assigned, shard.image),
    )
    changes.answer(step, caller, response)


def _check_sync(shard: Shard, member: ConsumerGroupMember, request: SyncGroupRequest, step: Step) -> None:
    """The protocol must be the one it was told (KIP-559), and its target not overtaken. Raises KafkaError."""
    assert member.classic is not None
    group = shard.consumer_groups[request.group_id]
    first = member.classic.protocols[0][0] if member.classic.protocols else ""
    for said, true in ((request.protocol_type, PROTOCOL_TYPE), (request.protocol_name, first)):
        if said is not None and said != true:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.target_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        arm_join_timer(shard, group, member, step.now)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def _check_guest(group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest) -> ConsumerGroupMember:
    """Only a guest may speak, at its own epoch. Raises KafkaError. Rules A15.13 and A15.14."""
    member = group.check_member(request.member_id, request.group_instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if request.generation_id != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member


# -- Heartbeat


def heartbeat(shard: Shard, request: HeartbeatRequest, caller: Caller, step: Step, *, hold_ms: int = 0) -> None:
    """A guest is told to rejoin when that brings it further, and goes when it does not do so in time.

    Rule A15.14. Kafka: GroupMetadataManager.classicGroupHeartbeatToConsumerGroup.
    """
    changes = Changes(shard, request.group_id)
    group = changes.group
    try:
        member = _check_guest(group, request)
    except KafkaError as error:
        who = caller.who(request.member_id, request.group_instance_id)
        step.note_fenced(error.code, request.group_id, who, "Heartbeat")
        step.reply(caller, HeartbeatResponse(error_code=error.code))
        return
    keep_guest_alive(shard, group, member, step.now)
    if group.incremental is not None:
        calls.heartbeat(Turn(shard, group, step), member, caller, hold_ms=hold_ms)
        return
    error_code = ErrorCode.NONE
    if _must_rejoin(group, member):
        arm_join_timer(shard, group, member, step.now)
        group.story.call(member.member_id, step.now)
        error_code = ErrorCode.REBALANCE_IN_PROGRESS
    changes.answer(step, caller, HeartbeatResponse(error_code=error_code))


def _must_rejoin(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """There is a newer target, or something to give up, or all that it waits for is free.

    Compared with the target, not with the group epoch: a group without a target would make guests rejoin in a loop
    (KAFKA-20272). Rule A15.14. Kafka: ConsumerGroup.waitingOnUnreleasedPartition.
    """
    if member.member_epoch < group.target_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    wanted = group.target_of(member.member_id)
    return member.state is MemberState.UNRELEASED_PARTITIONS and not any(
        one in group.owners for one in wanted if one not in member.assigned
    )


# -- LeaveGroup


def leave_group(shard: Shard, request: LeaveGroupRequest, caller: Caller, step: Step) -> None:
    """Any member may be taken out so, also one of the new protocol; all in one step.

    Rule A15.17. Kafka: GroupMetadataManager.classicGroupLeaveToConsumerGroup.
    """
    group = shard.consumer_groups[request.group_id]
    changes, leavers, rows = Changes(shard, group.group_id), dict[str, Leaver](), []
    for one in identities(request, caller):
        if group.incremental is not None and one.member_id in group.incremental.pending_members:
            group.incremental.pending_members.discard(one.member_id)
            shard.timers.cancel(group.timer(TimerKind.SESSION, one.member_id))
            rows.append(leave_row(one, ErrorCode.NONE))
            continue
        try:
            leaver = _leaver(group, one)
            leavers.setdefault(leaver.member.member_id, leaver)
            rows.append(leave_row(one, ErrorCode.NONE))
        except KafkaError as error:
            rows.append(leave_row(one, error.code))
    remove_members(shard, changes, list(leavers.values()), step)
    changes.answer(step, caller, leave_response(caller, rows))


def _leaver(group: ConsumerGroup, one: MemberIdentity) -> Leaver:
    """A group.instance.id without a member id is an administrator's (KIP-345)."""
    by_admin = not one.member_id and one.group_instance_id is not None
    member_id = group.static_members.get(one.group_instance_id or "", "") if by_admin else one.member_id
    member = group.check_member(member_id, one.group_instance_id)
    return Leaver(member, Departure.REMOVED if by_admin else Departure.LEFT, said=one.reason)
