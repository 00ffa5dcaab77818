"""One member of a classic group: the consumer's side of the protocol, without sockets, threads or clocks.

`member/face.py` says how a runner uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from equipoise.assignors import Cluster, RebalanceProtocol, common_protocol
from equipoise.member.base import LEAVE_TIMEOUT_MS, BaseMember
from equipoise.member.classic import answers, join
from equipoise.member.classic.heartbeats import Heartbeats
from equipoise.member.classic.states import TRANSITIONS, MemberState
from equipoise.member.commits import Commits
from equipoise.member.config import MemberConfig
from equipoise.member.errors import CommitFailedError, CommitFailure, FencedInstanceIdError, error_of
from equipoise.member.partitions import NOTHING, Owned
from equipoise.member.step import Callback, CallbackKind, Step
from equipoise.member.subscription import SubscriptionPattern, TopicPattern, TopicSubscription
from equipoise.member.verdicts import ErrorTable, Verdict
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from equipoise.wire.consumer_protocol import NO_GENERATION
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError, UsageError
from equipoise.wire.schema import Message

_OUT = {
    CommitFailure.POLL_OVERRUN: "poll() was not called in time",
    CommitFailure.EXPELLED: "the coordinator did not know the member any more",
    CommitFailure.OLD_GENERATION: "the group had gone on without the member",
}
_LONGEST_REASON = 255


class Member(BaseMember[MemberState]):
    """`jitter` gives numbers between 0.8 and 1.2 for pauses between attempts: the one thing not decided here."""

    transitions = TRANSITIONS

    def __init__(self, config: MemberConfig, jitter: Callable[[], float] = lambda: 1.0) -> None:
        super().__init__(config, jitter)
        self.state = MemberState.UNJOINED
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.subscription = TopicSubscription(watches_racks=config.client_rack is not None)
        self.heartbeats = Heartbeats(config)
        self.commits = Commits(self)
        self.joining = join.JoinProgress()

    # -- what it is

    @property
    def is_part_of_generation(self) -> bool:
        """In these states heartbeats are due (AbstractCoordinator.MemberState)."""
        return self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    @property
    def is_rebalancing(self) -> bool:
        """On its way from one generation to the next (AbstractCoordinator.rebalanceInProgress)."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def is_stable(self) -> bool:
        """It has its assignment."""
        return self.state is MemberState.STABLE

    @property
    def is_settled(self) -> bool:
        """It has its assignment, has told of it, and wants no other."""
        return self.is_stable and not self.callbacks and not self.joining.is_wanted

    @property
    def knows_share(self) -> bool:
        """It has its assignment, and has told of it."""
        return self.is_stable and not self.callbacks

    @property
    def offset_fetch_identity(self) -> tuple[str | None, int]:
        """Committed offsets of a classic group are anybody's to ask for."""
        return None, NO_GENERATION

    @property
    def heartbeat_interval_ms(self) -> int:
        """As heartbeat.interval.ms says."""
        return self.config.heartbeat_interval_ms

    @property
    def is_standalone(self) -> bool:
        """No member at all: assign() and commits, without a subscription."""
        return not self.subscription.is_active and self.state is MemberState.UNJOINED

    @property
    def is_cooperative(self) -> bool:
        """One assignor that is eager makes the member eager, so that a group changes over in two rolling restarts
        (KIP-429, ConsumerCoordinator)."""
        return common_protocol(self.config.assignors) is RebalanceProtocol.COOPERATIVE

    @property
    def is_finished(self) -> bool:
        """Another process has its group.instance.id, and this member is out for good (KIP-345)."""
        return isinstance(self.failure, FencedInstanceIdError)

    @property
    def may_join(self) -> bool:
        """Not unless the application polls, and has heard of what went wrong the last time: joins are made by poll()
        (ConsumerCoordinator.poll, AbstractCoordinator.ensureActiveGroup)."""
        return self.subscription.is_active and not self.polls.is_waited_for and self.failure is None

    @property
    def readable(self) -> Owned:
        """Of the assignment, what the application may be given records of: not what is about to be taken away, nor
        what it has not been told of yet, nor anything when it is out of its generation (SubscriptionState.isFetchable).
        """
        if self.generation_id == NO_GENERATION:
            return NOTHING
        return self.assignment.difference(*(callback.partitions for callback in self.callbacks))

    # -- what the application does

    def subscribe(self, topics: Iterable[str], pattern: TopicPattern | None, now: int) -> Step:
        """The next poll joins. The topics of the last join once more are no reason to join again
        (ConsumerCoordinator.rejoinNeededOrPending)."""
        if isinstance(pattern, SubscriptionPattern):
            raise UsageError(
                f"{pattern} is for the broker to match, which needs group.protocol=consumer: set it, or give a "
                "re.Pattern, which the consumer matches"
            )
        before, was_active = self.subscription.topics, self.subscription.is_active
        self.subscription.to(topics, pattern)
        if self.subscription.topics != before or not was_active:
            self.joining.want("the subscription has changed" if was_active else "")
        return self._go_on(now)

    def enforce_rebalance(self, reason: str, now: int) -> Step:
        """The application wants a rebalance (KIP-568, ClassicKafkaConsumer.enforceRebalance). A long reason is cut
        (JoinGroupRequest.maybeTruncateReason)."""
        if self.subscription.is_active:
            self.joining.want(reason[:_LONGEST_REASON])
        return self._go_on(now)

    def unsubscribe(self, now: int, *, leave: bool | None = None, reason: str = "the consumer unsubscribed") -> Step:
        """Gives up all it has and leaves (ConsumerCoordinator.onLeavePrepare). Done when `has_left`.

        `leave`: whether to tell the coordinator (KIP-1092); by default a static member does not, for it may be back
        soon (KIP-345, AbstractCoordinator.maybeLeaveGroup).
        """
        self.joining.stays = self.config.is_static if leave is None else not leave
        self.joining.leave_reason = reason
        self.subscription.clear()
        self.polls.stop()
        self.joining.cancel()
        self.take_failure()  # of joining, which is no longer wanted
        self.drop_callbacks()
        return self._go_on(now)

    def close(self, now: int, *, leave: bool | None = None) -> Step:
        """As `unsubscribe`, with another reason (KIP-800)."""
        return self.unsubscribe(now, leave=leave, reason="the consumer is being closed")

    @property
    def has_left(self) -> bool:
        """Nothing is left to be told, sent or heard."""
        return self.state is MemberState.UNJOINED and self._leaving is None and not self.callbacks

    # -- what the network does

    def learn(self, metadata: Cluster, covered: frozenset[str] | None, now: int) -> Step:
        """Metadata of the topics `covered` (None: of all), as `subscription.wanted` asks for it. Other topics of a
        pattern and, for the leader, other partitions are reasons to join (ConsumerCoordinator.rejoinNeededOrPending).
        """
        before = self.subscription.topics
        self.subscription.learn(metadata, covered)
        if self.subscription.topics != before:
            self.joining.want("topics that match the pattern have come or gone")
        elif self.subscription.has_changed and self.is_stable:
            self.joining.want("the topics or partitions of the group have changed")
        return self._go_on(now)

    def _heard(self, request: Message, response: Message, now: int) -> None:
        try:
            self._take(request, response, now)
        except ProtocolError as error:  # in what members send each other, which the coordinator does not look into
            self.stumble("what came from the group cannot be read", error)
            self.joining.want("what came from the group could not be read")

    def _take(self, request: Message, response: Message, now: int) -> None:
        match request, response:
            case JoinGroupRequest(), JoinGroupResponse():
                join.joined(self, request, response, now)
            case SyncGroupRequest(), SyncGroupResponse():
                join.synced(self, request, response, now)
            case HeartbeatRequest(), HeartbeatResponse():
                self._beaten(request, response, now)
            case LeaveGroupRequest(), _ if request is self._leaving:
                self._leaving = None

    def failed(self, request: Message, now: int) -> Step:
        """No answer: the connection has broken, or the time is up."""
        if request is self._leaving:
            self._leaving = None
        elif (
            not self.coordination.failed(request, now)
            and self._is_under_way(request, now)
            and self.coordinator is not None
        ):
            self.lose_coordinator(now)
        return self._go_on(now)

    def _is_under_way(self, request: Message, now: int) -> bool:
        """What was given up meanwhile says nothing of the coordinator that the member has now."""
        return self.commits.failed(request, now) or self.joining.failed(request) or request is self.heartbeats.in_flight

    # -- time

    def _next_heartbeat(self) -> int:
        return self.heartbeats.next_deadline(can_send=self.coordinator is not None)

    def tick(self, now: int) -> Step:
        """What time brings about: late polls, lost coordinators, heartbeats, retries
        (AbstractCoordinator.HeartbeatThread.run)."""
        step = Step()
        if self.polls.is_late(now):
            self._be_late(now, step)
        if self.heartbeats.session_has_ended(now):
            self.heartbeats.heard(now)  # once a session: perhaps another coordinator answers
            self.lose_coordinator(now)
        self.commits.tick(now)
        return self._go_on(now, step)

    def _be_late(self, now: int, step: Step) -> None:
        """Its partitions go to members that have time for them; a static member keeps its place until its session ends
        (KIP-62, KIP-345, AbstractCoordinator.handlePollTimeoutExpiry). The application hears of it at its next poll."""
        self.polls.overrun()
        if not self.config.is_static:
            self._leave(step, f"poll() was not called for {self.config.max_poll_interval_ms} ms (max.poll.interval.ms)")
        self.put_out(CommitFailure.POLL_OVERRUN, now)

    # -- the coordinator

    @property
    def _wants_coordinator(self) -> bool:
        wants_join = self.joining.is_wanted and self.may_join
        return wants_join or self.is_part_of_generation or self.commits.are_waiting

    def lose_coordinator(self, now: int) -> None:
        """It is elsewhere, or does not answer."""
        self.heartbeats.in_flight = None
        self.coordination.lose(now)
        self.heartbeats.retry(self.coordination.retry_at)

    def _found(self, request: FindCoordinatorRequest, response: FindCoordinatorResponse, now: int) -> None:
        """A coordinator that was found may have heard nothing of the member for a while."""
        refusal = self.coordination.found(request, response, now)
        if refusal is not None:
            self.commits.abandon(refusal)
            if self.subscription.is_active:
                self._raise(refusal)
        elif self.coordinator is not None and self.is_part_of_generation:
            self.heartbeats.heard(now)

    # -- going on

    def _go_on(self, now: int, step: Step | None = None) -> Step:
        """Whatever can be done now is done."""
        step = step or Step()
        self.coordination.pass_time(now)
        self._tell_of_loss()
        if self.is_finished:
            return step
        if self.coordinator is not None:
            self._beat(now, step)
            self.commits.send(now, step)
        if not self.callbacks and not self.subscription.is_active:
            self._depart(now, step)
        if self.coordinator is None:
            self._find(step)
        elif not self.callbacks and not self.coordination.retry_at:
            join.go_on(self, step)
        return step

    def _find(self, step: Step) -> None:
        """Only if something waits for it."""
        if self._wants_coordinator:
            self.coordination.find(step)

    def _beat(self, now: int, step: Step) -> None:
        """AbstractCoordinator.sendHeartbeatRequest."""
        if not self.heartbeats.is_due(now) or not self.is_part_of_generation:
            return
        request = HeartbeatRequest(
            group_id=self.config.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
        )
        self.heartbeats.sent(request, now)
        step.send(request, min(self.config.request_timeout_ms, self.config.session_timeout_ms))

    def _beaten(self, request: HeartbeatRequest, response: HeartbeatResponse, now: int) -> None:
        """REBALANCE_IN_PROGRESS keeps the session alive, and is news in Stable alone
        (AbstractCoordinator.HeartbeatResponseHandler)."""
        if request is not self.heartbeats.in_flight:
            return  # of an earlier generation, or coordinator
        self.heartbeats.in_flight = None
        error = error_of(response.error_code)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.heartbeats.heard(now)
        if error is ErrorCode.NONE or (error is ErrorCode.REBALANCE_IN_PROGRESS and self.is_rebalancing):
            return
        self.judge(answers.HEARTBEAT, error, now)

    # -- outcomes

    def judge(self, table: ErrorTable, error: ErrorCode, now: int) -> None:
        """Does what the table says about an error; what it does not know goes to the application."""
        match table.verdict(error):
            case Verdict.RETRY:
                self.coordination.back_off(now)
                self.heartbeats.retry(self.coordination.retry_at)
            case Verdict.COORDINATOR_GONE:
                self.lose_coordinator(now)
            case Verdict.REJOIN:
                self.joining.want("the group is rebalancing")
            case Verdict.RESET_GENERATION:
                self.put_out(CommitFailure.OLD_GENERATION, now)
            case Verdict.RESET_MEMBER:
                self.put_out(CommitFailure.EXPELLED, now)
            case Verdict.FENCED:
                self.fence(now)
            case _:
                self.coordination.back_off(now)
                self._raise(table.failure(error, self.config))

    def want_join(self, reason: str) -> None:
        """As soon as poll() lets it, the member joins again."""
        self.joining.want(reason)

    def expedite_heartbeat(self) -> None:
        """Nothing of a classic group waits for one."""

    def epoch_refused(self, now: int) -> Step:
        """A classic member has no epoch."""
        return Step()

    def put_out(self, because: CommitFailure, now: int) -> None:
        """Out of its generation. What it owned it may not own any more: `_tell_of_loss`. The member id survives an old
        generation and nothing else (AbstractCoordinator.resetStateAndGeneration)."""
        self._out_because = because
        self._forget(now, keep_member_id=because is CommitFailure.OLD_GENERATION)
        if self.subscription.is_active:
            self.joining.want(_OUT[because])

    def fence(self, now: int) -> None:
        """Another process has its group.instance.id: to go on would put that one out in turn (KIP-345)."""
        self.failure = FencedInstanceIdError(self.config.group_instance_id)
        self.polls.stop()
        self._forget(now)

    def stumble(self, what: str, error: Exception) -> None:
        """Over something that neither side's state machine is to blame for: poll() raises it."""
        failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what}: {str(error) or type(error).__name__}")
        failure.__cause__ = error
        self._raise(failure)

    def _raise(self, failure: KafkaError) -> None:
        """At the next poll. Nothing outdoes being fenced."""
        if not self.is_finished:
            self.failure = failure

    def _forget(self, now: int, *, keep_member_id: bool = False) -> None:
        self.generation_id = NO_GENERATION
        if not keep_member_id:
            self.member_id = ""
        self.heartbeats.disable()
        self.joining.interrupt()
        self.drop_callbacks()
        self.transition(MemberState.UNJOINED)
        self.commits.abandon(self.commit_failure(now))

    def _tell_of_loss(self) -> None:
        """Others may own the partitions already: on_lost, not on_revoked (KIP-429, ConsumerCoordinator.onJoinPrepare).
        Whether or not there is a coordinator to join at, the application had better stop."""
        if self.generation_id == NO_GENERATION and self.assignment and not self.callbacks:
            self.callbacks.append(Callback(CallbackKind.LOST, self.assignment))

    # -- leaving

    def _depart(self, now: int, step: Step) -> None:
        """First the application gives back what it has, then what it has committed goes through, then the member
        leaves; also if all it has is the id that it was told to join with (ConsumerCoordinator.onLeavePrepare,
        AbstractCoordinator.maybeLeaveGroup)."""
        is_settled = self.is_stable
        if self.assignment:
            self.callbacks.append(Callback(CallbackKind.REVOKED if is_settled else CallbackKind.LOST, self.assignment))
        elif not (is_settled and self.commits.are_waiting) and (
            self.member_id or self.state is not MemberState.UNJOINED
        ):
            self._say_goodbye(now, step)

    def _say_goodbye(self, now: int, step: Step) -> None:
        if not self.joining.stays:
            self._leave(step, self.joining.leave_reason)
        self.commits.abandon(CommitFailedError(CommitFailure.LEFT, self.config))
        self._out_because = CommitFailure.NOT_JOINED
        self._forget(now)

    def _leave(self, step: Step, reason: str) -> None:
        """Says the member id alone, as Kafka's own consumer does, also if the member is a static one
        (AbstractCoordinator.maybeLeaveGroup); with the reason (KIP-800)."""
        if not self.member_id or self.coordinator is None:
            return
        who = MemberIdentity(member_id=self.member_id, reason=reason)
        self._leaving = LeaveGroupRequest(group_id=self.config.group_id, member_id=self.member_id, members=[who])
        step.send(self._leaving, min(self.config.request_timeout_ms, LEAVE_TIMEOUT_MS))
