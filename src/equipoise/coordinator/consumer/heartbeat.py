"""ConsumerGroupHeartbeat: the one request of a member. It joins, stays, changes its subscription, says what it has
given up, learns what it gets, and leaves. Rules A2, A3 and A5."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.consumer.assignment.epochs import (
    advance_member,
    check_room,
    note_coming,
    preferred_assignor,
    refresh,
    update_target,
)
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.guests.migration import check_upgrade_of_incremental, take_over, upgrade
from equipoise.coordinator.consumer.holds import Held, forget, hold, may_hold
from equipoise.coordinator.consumer.member import LEFT_EPOCH, STATIC_LEFT_EPOCH, ConsumerGroupMember
from equipoise.coordinator.consumer.member_request import MemberRequest
from equipoise.coordinator.consumer.membership.lost_connections import look_again
from equipoise.coordinator.consumer.membership.removal import Leaver, remove_members
from equipoise.coordinator.consumer.membership.static import check_released, leave_for_a_while, replace_member
from equipoise.coordinator.consumer.membership.timers import keep_alive
from equipoise.coordinator.consumer.records.build import member_record
from equipoise.coordinator.consumer.regexes import RegexChange, maybe_resolve, update_regex
from equipoise.coordinator.consumer.replies import heartbeat_answer, heartbeat_error
from equipoise.coordinator.consumer.states import MemberState
from equipoise.coordinator.consumer.validation import check_request
from equipoise.coordinator.events import MemberJoined
from equipoise.coordinator.incremental.data import Turn
from equipoise.coordinator.incremental.syncs import refuse_all
from equipoise.coordinator.metadata import Partitions
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Caller, Step
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.offsets_records import CoordinatorRecord, GroupMetadataKey

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_STABLE = MemberState.STABLE  # every heartbeat asks for it


def consumer_group_heartbeat(
    shard: Shard, request: ConsumerGroupHeartbeatRequest, caller: Caller, step: Step, *, hold_ms: int = 0
) -> None:
    """One heartbeat, answered when what it rests on is durable. If it is refused, nothing has happened.

    One that has nothing to tell may wait for `hold_ms`, an addition. Rules A3, A5.11 and A23.6.
    Kafka: GroupCoordinatorService.consumerGroupHeartbeat.
    """
    beat = _Heartbeat(shard, request, caller, step)
    try:
        check_request(request, caller.version, shard.config)
        if shard.unavailable is not ErrorCode.NONE:
            raise KafkaError(shard.unavailable)
        is_leaving = request.member_epoch < 0
        response = beat.leave() if is_leaving else beat.run()
    except KafkaError as error:
        beat.roll_back()
        step.note_fenced(error.code, request.group_id, caller.who(request.member_id, request.instance_id), "Heartbeat")
        step.reply(caller, heartbeat_error(error.code, error.message))
        return
    if hold_ms > 0 and not is_leaving and beat.is_quiet(response):
        member_id, until = request.member_id, step.now + hold_ms
        hold(shard, beat.changes, member_id, Held(caller, owned_partitions(request)), until=until)
        beat.changes.write(step, None)
    else:
        beat.changes.answer(step, caller, response)


def quiet_interval(
    shard: Shard, request: ConsumerGroupHeartbeatRequest, client: tuple[str, str], now: int
) -> int | None:
    """The short way for a heartbeat that changes nothing: of a settled member of a settled group, without news.

    Its sign of life is noted; the answer is its own epoch and this interval. None: it must go the whole way. Rule A5.
    """
    group = shard.consumer_groups.get(request.group_id)
    if group is None or group.must_refresh or group.regexes or group.group_epoch != group.target_epoch:
        return None
    member = group.members.get(request.member_id)
    if (
        member is None
        or not request.member_epoch == member.member_epoch == group.target_epoch
        or member.state is not _STABLE
        or member.classic is not None
        or (member.client_id, member.client_host) != client
        or not _says_nothing(request, member)
        or request.group_id in shard.unwritten_groups
        or request.member_id in group.held
    ):
        return None
    keep_alive(shard, group, request.member_id, now)
    return shard.settings_of(request.group_id).heartbeat_interval_ms


def _says_nothing(request: ConsumerGroupHeartbeatRequest, member: ConsumerGroupMember) -> bool:
    return (
        request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rebalance_timeout_ms == -1
        and (request.rack_id is None or request.rack_id == member.rack_id)
        and (request.instance_id is None or request.instance_id == member.instance_id)
    )


class _Heartbeat(MemberRequest[ConsumerGroupHeartbeatRequest]):
    """One ConsumerGroupHeartbeat on its way."""

    cause: Cause | None = None  # of a bump
    upgraded: Group | None = None  # the classic group that was here

    def run(self) -> ConsumerGroupHeartbeatResponse:
        """Member, group epoch, target, member epoch, in this order. Rule A5.

        Kafka: GroupMetadataManager.consumerGroupHeartbeat.
        """
        group = self.find_group()
        member_id = self.request.member_id or self.shard.new_id()
        check_room(self.shard, group, member_id, self.request.instance_id)
        self.end_hold(group, member_id)
        before = self.find_member(group, member_id)
        subscription_changed = self.update_member(group, before)
        if self.cause is not None or group.must_refresh:
            refresh(self.shard, self.changes, self.cause, self.step)
        self.assign()
        after = advance_member(
            self.shard,
            self.changes,
            member_id,
            self.step,
            owned=owned_partitions(self.request),
            subscription_changed=subscription_changed,
            begins_anew=self.request.member_epoch == 0,
            is_full=self.is_full,
        )
        if self.upgraded is not None:
            take_over(self.shard, self.upgraded, group, self.step)
        keep_alive(self.shard, group, member_id, self.step.now)
        maybe_resolve(self.shard, group, self.caller, self.step)
        return self.answer(before, after)

    def end_hold(self, group: ConsumerGroup, member_id: str) -> None:
        """The member speaks again: what it said before is answered, as it would have been then."""
        refuse_all(Turn(self.shard, group, self.step), member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        held, member = forget(self.shard, group, member_id), group.members.get(member_id)
        if held is not None and member is not None:
            self.step.reply(held.caller, heartbeat_answer(self.shard, group, member, tells=False))

    # -- the group

    def find_group(self) -> ConsumerGroup:
        """A first heartbeat makes the group; an Empty classic group gives way, and its offsets stay.

        Rules A3.11 and A3.12. Kafka: GroupMetadataManager.getOrMaybeCreateConsumerGroup.
        """
        group = self.shard.find(self.request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_shown_classic:
            return group
        name = self.request.group_id
        if self.request.member_epoch != 0:
            what = f"Consumer group {name} not found." if group is None else f"Group {name} is not a consumer group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, what)
        if isinstance(group, ConsumerGroup):
            return check_upgrade_of_incremental(self.shard, group)
        if group is not None and not group.is_empty:
            self.upgraded = self.shard.groups[name]
            return upgrade(self.shard, self.changes, self.upgraded)
        made = ConsumerGroup(name)
        self.changes.install(made)
        if group is not None:
            self.changes.note([CoordinatorRecord(GroupMetadataKey(group=name), None)])
        return made

    # -- the member

    def find_member(self, group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
        """The member that speaks: known, new, or the successor of a static one. Rules A3.14 to A3.18.

        Kafka: GroupMetadataManager.getOrMaybeSubscribeDynamicConsumerGroupMember and
        getOrMaybeSubscribeStaticConsumerGroupMember.
        """
        instance_id, epoch = self.request.instance_id, self.request.member_epoch
        if epoch != 0:
            member = group.check_member(member_id, instance_id)
            self.check_epoch(member)
            return member
        holder = group.static_members.get(instance_id) if instance_id is not None else None
        if holder is None:
            return group.members.get(member_id) or self.new_member(member_id)
        member = group.members[holder]
        check_released(group, member, member_id, strict=self.shard.config.strict)
        if holder == member_id and not member.is_away and member.classic is None:
            return member
        self.trigger = Trigger.STATIC_MEMBER_REPLACED
        return replace_member(self.shard, self.changes, member, self.step, member_id=member_id)

    def new_member(self, member_id: str) -> ConsumerGroupMember:
        """Nobody has this id. Rule A4."""
        self.step.note(
            MemberJoined(self.request.group_id, self.step.now, self.caller.who(member_id, self.request.instance_id))
        )
        self.trigger = Trigger.MEMBER_JOINED
        look_again(self.shard, self.changes.group, self.step)
        note_coming(self.changes.group, self.step.now)
        return ConsumerGroupMember(member_id)

    def check_epoch(self, member: ConsumerGroupMember) -> None:
        """The epoch before is accepted if the answer that brought the last one may have been lost. Raises KafkaError.

        Rule A3.18. Kafka: GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid.
        """
        said, known = self.request.member_epoch, member.member_epoch
        if said == known:
            return
        owned = owned_partitions(self.request)
        if (
            said == member.previous_member_epoch
            and said < known
            and owned is not None
            and owned <= member.assigned.keys()
        ):
            return
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {'greater' if said > known else 'smaller'} member epoch ({said}) than "
            f"the one known by the group coordinator ({known}). The member must abandon all its partitions and rejoin.",
        )

    def update_member(self, group: ConsumerGroup, before: ConsumerGroupMember) -> bool:
        """The fields of the request that are not null take effect. Whether its subscription is another one.

        Rules A5.2 to A5.6. Kafka: GroupMetadataManager.hasMemberSubscriptionChanged.
        """
        preferred = preferred_assignor(self.shard, group)
        after = self.updated(before)
        if after.metadata_differs(before) or before.member_id not in group.members:
            self.changes.put(member_record(group.group_id, after))
        names_changed = after.subscribed_topic_names != before.subscribed_topic_names
        regex = update_regex(self.shard, self.changes, before, self.step)
        if names_changed or regex is RegexChange.RESOLVED:
            self.bump(Trigger.SUBSCRIPTION_CHANGED)
        elif preferred_assignor(self.shard, group) != preferred:
            self.bump(Trigger.ASSIGNOR_CHANGED)
        return names_changed or regex is not RegexChange.NONE

    def bump(self, trigger: Trigger) -> None:
        """The epoch of the group is to grow: because of this, unless the member is a new one."""
        who = self.caller.who(self.request.member_id, self.request.instance_id)
        self.cause = Cause(self.trigger or trigger, who)

    def updated(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """Null means unchanged; the client is that of this connection. Rules A2 and A4.1."""
        request, names = self.request, self.request.subscribed_topic_names
        timeout, regex = request.rebalance_timeout_ms, request.subscribed_topic_regex
        return member._replace(
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            client_id=self.caller.client_id,
            client_host=self.caller.client_host,
            subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
            subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
            server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
            classic=None,
        )

    # -- the target

    def assign(self) -> None:
        """An assignor that raises leaves all as it was. Rule A3.21."""
        try:
            update_target(self.shard, self.changes, self.step)
        except KafkaError:
            raise
        except Exception as error:
            message = f"The assignor could not compute the assignment: {error!r}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message) from error

    # -- the answer

    def answer(self, before: ConsumerGroupMember, after: ConsumerGroupMember) -> ConsumerGroupHeartbeatResponse:
        """The whole assignment if it has changed, or if the member may not know it. Rules A2.1 to A2.3."""
        tells = self.request.member_epoch == 0 or self.is_full or after.assigned != before.assigned
        return heartbeat_answer(self.shard, self.changes.group, after, tells=tells)

    @property
    def is_full(self) -> bool:
        """Whether the request says everything, as after a lost answer. Rule A2.2."""
        request = self.request
        has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return request.rebalance_timeout_ms != -1 and has_subscription and request.topic_partitions is not None

    def is_quiet(self, response: ConsumerGroupHeartbeatResponse) -> bool:
        """Whether the heartbeat may wait for news: it has none now. A new epoch is news: the member's commits, and its
        question for committed offsets, need it."""
        if response.assignment is not None or response.member_epoch != self.request.member_epoch:
            return False
        return may_hold(self.shard, self.changes, self.changes.group.members[self.request.member_id])

    # -- leaving

    def leave(self) -> ConsumerGroupHeartbeatResponse:
        """For good, or a static member for a while. The epoch is not compared. Rules A3.22, A2.4 and A10.6.

        Kafka: GroupMetadataManager.consumerGroupLeave.
        """
        group, request = self.find_group(), self.request
        self.end_hold(group, request.member_id)
        member = group.check_member(request.member_id, request.instance_id)
        if request.member_epoch == STATIC_LEFT_EPOCH:
            leave_for_a_while(self.changes, member)
        else:
            group.presence_of(member.member_id).last_seen = self.step.now
            remove_members(self.shard, self.changes, [Leaver(member, Departure.LEFT)], self.step)
        epoch = STATIC_LEFT_EPOCH if request.member_epoch == STATIC_LEFT_EPOCH else LEFT_EPOCH
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE, member_id=request.member_id, member_epoch=epoch, heartbeat_interval_ms=0
        )


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    """What the member says it has; None: it does not say. Rule A2."""
    rows = request.topic_partitions
    return None if rows is None else frozenset((row.topic_id, number) for row in rows for number in row.partitions)
