"""JoinGroup and SyncGroup: the way of a member from one generation to the next, and the callbacks of the application.

In Kafka: AbstractCoordinator.joinGroupIfNeeded, with ConsumerCoordinator.onJoinPrepare,
ConsumerCoordinator.onLeaderElected and ConsumerCoordinator.onJoinComplete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.assignors import Assignments, Assignor, CooperativeStickyAssignor, GroupMember, Members
from equipoise.member.classic import answers
from equipoise.member.classic.states import MemberState
from equipoise.member.errors import error_of
from equipoise.member.partitions import NOTHING, Owned, TopicPartition, by_topic, flatten, listed
from equipoise.member.step import Callback, CallbackKind, Step
from equipoise.wire.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from equipoise.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from equipoise.wire.errors import ErrorCode, ProtocolError, UsageError
from equipoise.wire.schema import Message

if TYPE_CHECKING:
    from equipoise.member.classic.member import Member

_GRACE_MS = 5_000  # JoinGroup is answered within the rebalance timeout; this is for the way


class JoinProgress:
    """What a member wants of the next generation, and how far it has come."""

    def __init__(self) -> None:
        self.is_wanted = False
        self.reason = ""
        self.in_flight: Message | None = None
        self.protocol_name = ""
        self.to_assign: JoinGroupResponse | None = None  # a leader's answer, until it has assigned
        self.leave_reason = ""
        self.stays = False  # leaves without telling the coordinator

    def want(self, reason: str) -> None:
        """The first reason stands: it is the cause, and what comes after is often its effect."""
        self.reason = self.reason if self.is_wanted else reason
        self.is_wanted = True

    def cancel(self) -> None:
        """The member leaves: it wants no generation any more."""
        self.is_wanted = False
        self.interrupt()

    def interrupt(self) -> None:
        """An answer that is still to come is for a member that is no more."""
        self.in_flight = self.to_assign = None

    def failed(self, request: Message) -> bool:
        """JoinGroup or SyncGroup has no answer: the member joins again. Whether the request was one of them."""
        if request is not self.in_flight:
            return False
        self.interrupt()
        self.want("the answer to an earlier attempt to join did not come")
        return True


def go_on(member: Member, step: Step) -> None:
    """The next request of the way to a generation, if it is time for one (AbstractCoordinator.joinGroupIfNeeded).

    A pattern needs metadata before the join, since the topics that it matches are part of the request
    (ConsumerCoordinator.poll). Offsets of revoked partitions go first: their next owners begin there.
    """
    joining, subscription = member.joining, member.subscription
    if joining.in_flight is not None or not member.may_join:
        return
    if joining.is_wanted:
        if subscription.pattern is None or subscription.is_known:
            prepare(member)
            if not member.callbacks and not member.commits.are_owed:
                _send_join(member, step)
    elif member.state is MemberState.COMPLETING_REBALANCE and subscription.can_assign:
        _send_sync(member, step)


# -- JoinGroup


def prepare(member: Member) -> None:
    """Before it joins, an eager member gives up all; a cooperative one what it does not subscribe to any more
    (KIP-429, ConsumerCoordinator.onJoinPrepare). When that is done, there is nothing left to tell."""
    given_up = member.assignment
    if member.is_cooperative:
        given_up = _without(given_up, member.subscription.topics)
    if given_up:
        member.callbacks.append(Callback(CallbackKind.REVOKED, given_up))


def _without(owned: Owned, topics: frozenset[str]) -> Owned:
    return frozenset(one for one in owned if one.topic not in topics)


def _send_join(member: Member, step: Step) -> None:
    """The rebalance timeout is max.poll.interval.ms, since members rejoin in poll() (KIP-62), and the request may be
    parked so long (AbstractCoordinator.sendJoinGroupRequest)."""
    config, joining = member.config, member.joining
    request = JoinGroupRequest(
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=member.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[_protocol(member, assignor) for assignor in config.assignors],
        reason=joining.reason or None,
    )
    joining.interrupt()
    joining.in_flight, joining.is_wanted = request, False
    member.heartbeats.disable()
    member.transition(MemberState.PREPARING_REBALANCE)
    step.send(request, max(config.request_timeout_ms, config.max_poll_interval_ms + _GRACE_MS))


def _protocol(member: Member, assignor: Assignor) -> JoinGroupRequestProtocol:
    """With what the member owns (KIP-429), since when (KIP-792) and where it is (KIP-881), for the leader's assignor
    (ConsumerCoordinator.metadata)."""
    topics = sorted(member.subscription.topics)
    subscription = Subscription(
        topics=topics,
        user_data=assignor.user_data(topics),
        owned_partitions=by_topic(member.assignment),
        generation_id=member.generation_id,
        rack_id=member.config.client_rack,
    )
    return JoinGroupRequestProtocol(name=assignor.name, metadata=encode_subscription(subscription))


def joined(member: Member, request: JoinGroupRequest, response: JoinGroupResponse, now: int) -> None:
    """AbstractCoordinator.JoinGroupResponseHandler. The group of another protocol type is none of ours (KIP-559); a
    member id is adopted and sent at once, so that a join that is lost leaves no member behind (KIP-394)."""
    joining = member.joining
    if request is not joining.in_flight:
        return
    joining.in_flight = None
    error = error_of(response.error_code)
    if error is ErrorCode.NONE and response.protocol_type not in (None, PROTOCOL_TYPE):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if error is ErrorCode.NONE:
        _enter(member, response, now)
        return
    joining.want(joining.reason)
    if error is ErrorCode.MEMBER_ID_REQUIRED:
        member.member_id = response.member_id
    else:
        member.judge(answers.JOIN_GROUP, error, now)


def _enter(member: Member, response: JoinGroupResponse, now: int) -> None:
    """Heartbeats begin with the answer. The leader has to know all topics of the group
    (ConsumerCoordinator.onLeaderElected); it may be told to skip the assignment (KIP-814)."""
    joining = member.joining
    member.member_id, member.generation_id = response.member_id, response.generation_id
    joining.protocol_name = response.protocol_name or ""
    member.transition(MemberState.COMPLETING_REBALANCE)
    member.commits.rejoined()
    member.heartbeats.enable(now)
    member.coordination.recover()
    if response.leader != response.member_id:
        member.subscription.forget()
        return
    topics = {topic for one in response.members for topic in _subscription(one).topics}
    member.subscription.lead(frozenset(topics))
    if not response.skip_assignment:
        joining.to_assign = response


def _subscription(one: JoinGroupResponseMember) -> Subscription:
    """Nothing can be assigned to a member whose topics are not known. As in Java poll() raises it
    (ConsumerCoordinator.onLeaderElected)."""
    try:
        return decode_subscription(one.metadata)
    except ProtocolError as error:
        raise ProtocolError(
            f"the subscription of member {one.member_id!r}: {error}; this member leads the group, and will try again "
            "with each poll(): stop that one, or mend what it sends"
        ) from error


# -- SyncGroup


def _send_sync(member: Member, step: Step) -> None:
    """The leader's has all shares, a follower's none (AbstractCoordinator.onLeaderElected,
    AbstractCoordinator.onJoinFollower). A failing
    assignor is anybody's code: poll() raises, and the next one tries again."""
    joining, assignments = member.joining, []
    if joining.to_assign is not None:
        try:
            assignments = _assign(member, joining.to_assign)
        except Exception as error:  # noqa: BLE001 - it can be anybody's assignor
            member.stumble(f"the assignor {joining.protocol_name!r} failed", error)
            joining.want("the leader could not assign")
            return
        joining.to_assign = None
    member.subscription.remember()
    request = SyncGroupRequest(
        group_id=member.config.group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=joining.protocol_name,
        assignments=assignments,
    )
    joining.in_flight = request
    step.send(request, member.config.request_timeout_ms)


def _assign(member: Member, response: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
    """ConsumerCoordinator.onLeaderElected; our own cooperative assignor needs no check."""
    assignor = _assignor(member)
    group = {one.member_id: GroupMember(_subscription(one), one.group_instance_id) for one in response.members}
    shares = assignor.assign(member.subscription.group_metadata(), group)
    if member.is_cooperative and type(assignor) is not CooperativeStickyAssignor:
        _check_handovers(group, shares)
    return [
        SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(share))
        for member_id, share in shares.items()
    ]


def _check_handovers(group: Members, shares: Assignments) -> None:
    """What a member still owns is read by it while the others begin: two would process it at once (KIP-429,
    ConsumerCoordinator.validateCooperativeAssignment)."""
    taken: set[TopicPartition] = set()
    given: set[TopicPartition] = set()
    for member_id, one in group.items():
        owned = flatten(one.subscription.owned_partitions)
        share = flatten(shares[member_id].assigned_partitions) if member_id in shares else NOTHING
        taken |= owned - share
        given |= share - owned
    if taken & given:
        raise UsageError(
            f"it is COOPERATIVE, and gives {listed(taken & given)} to another member in the same rebalance in which "
            "they are taken from their owner: leave out what another one still owns, it is free in the next"
        )


def _assignor(member: Member) -> Assignor:
    """The one that the group has voted for (ConsumerCoordinator.lookupAssignor)."""
    for assignor in member.config.assignors:
        if assignor.name == member.joining.protocol_name:
            return assignor
    raise ProtocolError(
        f"the coordinator chose the assignor {member.joining.protocol_name!r}, which this member has not offered"
    )


def synced(member: Member, request: SyncGroupRequest, response: SyncGroupResponse, now: int) -> None:
    """AbstractCoordinator.SyncGroupResponseHandler: after every error the member joins again."""
    joining = member.joining
    if request is not joining.in_flight:
        return
    joining.in_flight = None
    error = error_of(response.error_code)
    if error is ErrorCode.NONE and not _is_ours(member, response):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if error is ErrorCode.NONE:
        _complete(member, decode_assignment(response.assignment), now)
        return
    joining.want("the assignment could not be had")
    member.judge(answers.SYNC_GROUP, error, now)


def _is_ours(member: Member, response: SyncGroupResponse) -> bool:
    """A share of another protocol cannot be read (KIP-559)."""
    name = response.protocol_name
    return response.protocol_type in (None, PROTOCOL_TYPE) and name in (None, member.joining.protocol_name)


def _complete(member: Member, assignment: Assignment, now: int) -> None:
    """What is taken is revoked first, what is new is told last. A member that revokes joins again, so that others get
    its partitions (KIP-429, ConsumerCoordinator.onJoinComplete)."""
    assigned = flatten(assignment.assigned_partitions)
    member.transition(MemberState.STABLE)
    member.heartbeats.retry(now)  # at once: a broker that holds it can tell of the next rebalance when it begins
    if not member.subscription.accepts(one.topic for one in assigned):
        member.joining.want("the assignment has topics that are not subscribed to")
        return
    if not member.joining.is_wanted:
        member.subscription.adopt(one.topic for one in assigned)
    if member.subscription.has_changed:
        member.joining.want("the topics or partitions of the group have changed")
    try:
        _assignor(member).on_assignment(assignment, member.generation_id)
    except Exception as error:  # noqa: BLE001 - as in _send_sync
        member.stumble(f"on_assignment of the assignor {member.joining.protocol_name!r} failed", error)
    revoked, added = member.assignment - assigned, assigned - member.assignment
    if revoked:
        member.callbacks.append(Callback(CallbackKind.REVOKED, revoked))
        member.joining.want("partitions were revoked, and their next owners wait for them")
    member.gain(added)
