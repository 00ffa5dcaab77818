"""JoinGroup: the checks in Kafka's order, then by sender: a new member, a static member that is back, a known
member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import ClassicGroupMember, Group, MemberTimeouts, protocols_of
from equipoise.coordinator.classic.replies import join_error, joined
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.outcomes import GroupCreated, Incarnation, StaticMemberReplaced
from equipoise.coordinator.parked import ANSWERED, FENCED, not_written
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Caller, Step
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_MEMBER_ID_REQUIRED_FROM = 4
_SKIP_ASSIGNMENT_FROM = 9


class Joining:
    """One JoinGroup on its way."""

    def __init__(self, shard: Shard, request: JoinGroupRequest, caller: Caller, step: Step) -> None:
        self.shard = shard
        self.rebalancer = shard.rebalancer
        self.request = request
        self.caller = caller
        self.step = step
        self.protocols = protocols_of(request)
        rebalance_timeout = request.rebalance_timeout_ms if caller.version >= 1 else request.session_timeout_ms
        self.timeouts = MemberTimeouts(request.session_timeout_ms, rebalance_timeout)

    def run(self) -> None:
        """In Kafka's order: existence, size, protocols, then the member.

        Rules 2.2.7 and 2.2.11. Kafka: GroupMetadataManager.classicGroupJoinToClassicGroup.
        """
        request, group = self.request, self.shard.groups.get(self.request.group_id)
        if group is None and request.member_id:
            return self.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        if group is None:
            group = self.create_group()
        if not self.has_room(group):
            return self.turn_away(group)
        named = request.member_id
        if not group.supports(request.protocol_type, self.protocols):
            return self.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, named)
        if not named:
            return self.newcomer(group)
        return self.known(group, named)

    def refuse(self, error: ErrorCode, member_id: str) -> None:
        """Answers with an error; nothing has changed."""
        self.step.reply(self.caller, join_error(self.caller, error, member_id))

    def create_group(self) -> Group:
        """The record is written in the background.

        Rules 2.2.8 and 6.3. Kafka: GroupMetadataManager.getOrMaybeCreateClassicGroup.
        """
        group = self.shard.create_group(self.request.group_id, self.step.now)
        self.step.write([group.record()], GroupCreated(group.group_id, self.caller))
        return group

    # -- group.max.size

    def has_room(self, group: Group) -> bool:
        """`group.max.size` bounds a group (KIP-389).

        Rules 2.2.9 and 2.3. Kafka: GroupMetadataManager.acceptJoiningMember.
        """
        limit, member_id = self.shard.config.group_max_size, self.request.member_id
        if group.state is State.EMPTY:
            return True
        if group.state is State.PREPARING_REBALANCE:
            return member_id in group.parked.joins or len(group.parked.joins) < limit
        return member_id in group.members or len(group.members) < limit

    def turn_away(self, group: Group) -> None:
        """That is also how members too many leave after the limit was lowered. A reserved id is given up.

        Rule 2.3. Kafka: GroupMetadataManager.classicGroupJoinToClassicGroup.
        """
        member = group.members.get(self.request.member_id)
        if member is None:
            group.remove(self.request.member_id)
        else:
            limit = self.shard.config.group_max_size
            self.rebalancer.remove_member(group, member, Departure.GROUP_FULL, self.step, group_max_size=limit)
        self.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")

    # -- a join without a member id

    def newcomer(self, group: Group) -> None:
        """A client without a member id is new, or a static member that is back. Rule 2.2.13.

        Kafka: GroupMetadataManager.classicGroupJoinNewMember.
        """
        instance_id = self.request.group_instance_id
        if instance_id is not None:
            self.static(group, instance_id)
        elif self.caller.version >= _MEMBER_ID_REQUIRED_FROM:
            self.reserve_id(group)
        else:
            self.add(group, self.shard.new_member_id(self.caller.client_id))

    def reserve_id(self, group: Group) -> None:
        """A client that repeats its first join must not become a member twice (KIP-394).

        Rule 2.2.12. Kafka: GroupMetadataManager.classicGroupJoinNewDynamicMember.
        """
        member_id = self.shard.new_member_id(self.caller.client_id)
        group.pending_members.add(member_id)
        deadline = self.step.now + self.request.session_timeout_ms
        self.shard.timers.arm(TimerKey(TimerKind.SESSION, group.group_id, member_id), deadline)
        self.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def add(self, group: Group, member_id: str) -> None:
        """A newcomer begins a rebalance, or takes part in the one under way.

        Rule 2.7. Kafka: GroupMetadataManager.addMemberThenRebalanceOrCompleteJoin.
        """
        who = self.caller.who(member_id, self.request.group_instance_id)
        member = ClassicGroupMember.of(group.group_id, who, self.timeouts, self.protocols)
        group.add(member, self.request.protocol_type)
        self.rebalancer.add_member(group, member, self.caller, self.step)
        self.take_part(group, Trigger.MEMBER_JOINED, member)

    def take_part(self, group: Group, trigger: Trigger, member: ClassicGroupMember) -> None:
        """The join is parked: a rebalance begins, or the one under way may be complete now.

        Kafka: GroupMetadataManager.maybePrepareRebalanceOrCompleteJoin.
        """
        metadata = member.protocols[0][1] if member.protocols else None
        group.journal.arrived(member.who, metadata, self.step.now)
        if group.state is State.PREPARING_REBALANCE:
            self.rebalancer.maybe_complete_join(group, self.step)
        else:
            self.rebalancer.prepare(group, Cause(trigger, member.who, self.request.reason), self.step)

    # -- static members

    def static(self, group: Group, instance_id: str) -> None:
        """A static member needs no reserved id: its group.instance.id tells it apart (KIP-345).

        Kafka: GroupMetadataManager.classicGroupJoinNewStaticMember.
        """
        member_id = self.shard.new_member_id(instance_id)
        old_id = group.static_members.get(instance_id)
        if old_id is None:
            self.add(group, member_id)
        else:
            self.replace(group, group.members[old_id], member_id)

    def replace(self, group: Group, member: ClassicGroupMember, member_id: str) -> None:
        """A static member is back under a new id; its old incarnation is fenced (KIP-345).

        Rule 2.10. Kafka: GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin.
        """
        before = Incarnation(member.member_id, group.leader or "", member.protocols, member.timeouts)
        last_seen = member.last_seen
        self.fence(group, member)
        self.rebalancer.rename(group, member, member_id, self.step)
        group.update(member, self.protocols, self.timeouts)
        self.rebalancer.park_join(group, member, self.caller, self.step)
        if group.state is State.STABLE and group.select_protocol() == group.protocol_name:
            return self.resume(group, member, before)
        group.journal.stopped(member_id, last_seen)
        return self.take_part(group, Trigger.STATIC_MEMBER_REPLACED, member)

    def fence(self, group: Group, member: ClassicGroupMember) -> None:
        """Only one incarnation of a static member may be in the group (KIP-345). Rule 2.10.

        Kafka: ClassicGroup.replaceStaticMember.
        """
        self.rebalancer.release(group, member, FENCED, self.step)
        now = self.step.now
        silent = now - member.last_seen
        self.step.note(
            MemberLeft(group.group_id, now, member.who, Departure.REPLACED, self.request.reason, silent_ms=silent)
        )

    def resume(self, group: Group, member: ClassicGroupMember, before: Incarnation) -> None:
        """No rebalance: the member goes on where it was, once its new id is durable (KIP-345).

        Parked until then: the next incarnation fences it, and a rebalance that comes first takes it along. What the
        group is subscribed to stays what it was in the last join phase, also if the member has other topics now.
        Rules 2.10 and 6.3. Kafka: GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin.
        """
        outcome = StaticMemberReplaced(group.group_id, member.member_id, before, self.caller)
        self.step.write([group.record()], outcome)

    # -- a join with a member id

    def known(self, group: Group, member_id: str) -> None:
        """A client with a member id is a member, or has reserved the id. Rule 2.2.14.

        Kafka: GroupMetadataManager.classicGroupJoinExistingMember.
        """
        if member_id in group.pending_members:
            if self.request.group_instance_id is not None:
                return self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "")
            return self.add(group, member_id)
        try:
            member = group.check_member(member_id, self.request.group_instance_id)
        except KafkaError as error:
            who = self.caller.who(member_id, self.request.group_instance_id)
            self.step.note_fenced(error.code, group.group_id, who, "JoinGroup")
            return self.refuse(error.code, member_id)
        return self.rejoin(group, member)

    def rejoin(self, group: Group, member: ClassicGroupMember) -> None:
        """A rejoin with the same protocols, byte for byte, is answered from memory; only the leader's never is.

        Rules 2.2.17 and 2.6. Kafka: GroupMetadataManager.classicGroupJoinExistingMember.
        """
        member.lost_at = member.former = None
        is_changed = self.protocols != member.protocols
        is_follower_in_stable = group.state is State.STABLE and member.member_id != group.leader
        if not is_changed and (group.state is State.COMPLETING_REBALANCE or is_follower_in_stable):
            self.rebalancer.release_heartbeat(group, member, ANSWERED, self.step)
            return self.step.reply(self.caller, joined(group, member, self.caller))
        group.update(member, self.protocols, self.timeouts)
        self.rebalancer.park_join(group, member, self.caller, self.step)
        return self.take_part(group, Trigger.SUBSCRIPTION_CHANGED if is_changed else Trigger.LEADER_REJOINED, member)


# -- when the records are durable, or could not be written


def group_created(shard: Shard, outcome: GroupCreated, error: ErrorCode, step: Step) -> None:
    """If the group's first record cannot be written, the join that made it is answered with the error.

    Kafka: GroupMetadataManager.classicGroupJoinToClassicGroup, its append future.
    """
    group = shard.groups.get(outcome.group_id)
    if group is None or error is ErrorCode.NONE:
        return
    for member_id in [one for one, caller in group.parked.joins.items() if caller == outcome.caller]:
        shard.rebalancer.release_join(group, group.members[member_id], not_written(error), step)


def static_member_replaced(shard: Shard, outcome: StaticMemberReplaced, error: ErrorCode, step: Step) -> None:
    """The member goes on under its new id, or it is what it was before. The next incarnation may have been quicker.

    Rule 2.10. Kafka: GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin, its append future.
    """
    group, caller, before = shard.groups.get(outcome.group_id), outcome.caller, outcome.before
    if group is None or group.state is not State.STABLE or group.parked.joins.get(outcome.member_id) != caller:
        return
    member = group.members[outcome.member_id]
    if error is ErrorCode.NONE:
        del group.parked.joins[member.member_id]
        step.reply(caller, _resumed(group, member, before.leader, caller))
    else:
        shard.rebalancer.release(group, member, not_written(error), step)
        group.update(member, before.protocols, before.timeouts)
        shard.rebalancer.rename(group, member, before.member_id, step)
    if shard.timers.deadline(member.timer) is None:  # it came up during the wait and was passed over
        shard.rebalancer.arm_session(member, step.now)


def replacement_late(shard: Shard, outcome: StaticMemberReplaced, error: ErrorCode, step: Step) -> None:
    """The join was refused when its time ran out, and the member is what it was before; the log has its new id all the
    same, until the next record says how it is. A rebalance, or the next incarnation, brings one of its own. Rule 0.3.
    """
    group = shard.groups.get(outcome.group_id)
    if group is None or error is not ErrorCode.NONE:
        return
    if group.state is State.STABLE and outcome.before.member_id in group.members:
        step.write([group.record()])


def _resumed(group: Group, member: ClassicGroupMember, old_leader: str, caller: Caller) -> JoinGroupResponse:
    """A leader that is back must not assign again (KIP-814). Before v9 only the name of a leader that is gone said so.

    Kafka: GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin.
    """
    response = joined(group, member, caller)
    if caller.version >= _SKIP_ASSIGNMENT_FROM:
        response.skip_assignment = member.member_id == group.leader
    else:
        response.leader, response.members = old_leader, []
    return response
