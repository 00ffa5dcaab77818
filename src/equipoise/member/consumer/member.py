"""One member of a `consumer` group (KIP-848): the consumer's side of the protocol, without sockets, threads or clocks.

It has the same face and the same Step as the member of a classic group: `member/face.py` says how a runner uses either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from equipoise.assignors import Cluster
from equipoise.member.base import LEAVE_TIMEOUT_MS, BaseMember
from equipoise.member.commits import CONSUMER_COMMIT, Commits
from equipoise.member.config import MemberConfig
from equipoise.member.consumer.answers import CONSUMER_HEARTBEAT, MOST_RETRIES
from equipoise.member.consumer.assignment import received
from equipoise.member.consumer.heartbeats import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, Heartbeats
from equipoise.member.consumer.reconcile import Reconciliation
from equipoise.member.consumer.states import BEATING, IN_GROUP, OUT, TRANSITIONS, MemberState
from equipoise.member.errors import CommitFailedError, CommitFailure, FencedInstanceIdError, error_of
from equipoise.member.partitions import NOTHING, Owned
from equipoise.member.step import NEVER, Callback, CallbackKind, Step
from equipoise.member.subscription import TopicPattern, TopicSubscription
from equipoise.member.verdicts import Verdict
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.consumer_protocol import NO_GENERATION
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.schema import Message

JOIN_EPOCH = 0
_FENCED = {
    ErrorCode.UNKNOWN_MEMBER_ID: CommitFailure.REMOVED,
    ErrorCode.FENCED_MEMBER_EPOCH: CommitFailure.FENCED_EPOCH,
}


class ConsumerMember(BaseMember[MemberState]):
    """`member_id` is one for the life of the consumer, unlike any other (rule B2.1, KIP-1082)."""

    transitions = TRANSITIONS

    def __init__(self, config: MemberConfig, member_id: str, jitter: Callable[[], float] = lambda: 1.0) -> None:
        super().__init__(config, jitter)
        self.member_id = member_id
        self.member_epoch = JOIN_EPOCH
        self.state = MemberState.UNSUBSCRIBED
        self.subscription = TopicSubscription()
        self.commits = Commits(self, CONSUMER_COMMIT)
        self.reconciliation = Reconciliation(self)
        self.heartbeats = Heartbeats(self)
        self._leave_epoch: int | None = LEAVE_EPOCH  # None: it goes without a word
        self._retries = 0  # of what is fatal if it lasts

    # -- what it is

    @property
    def generation_id(self) -> int:
        """The member epoch, for commits; -1 outside the group."""
        return self.member_epoch if self.member_epoch > JOIN_EPOCH else NO_GENERATION

    @property
    def offset_fetch_identity(self) -> tuple[str | None, int]:
        """Rule B11.4. Who asks for committed offsets: outside the group nobody in particular."""
        return (self.member_id, self.member_epoch) if self.is_stable else (None, NO_GENERATION)

    @property
    def heartbeat_interval_ms(self) -> int:
        """As the coordinator has set it."""
        return self.heartbeats.interval_ms

    @property
    def is_joining(self) -> bool:
        """Whether the next heartbeat asks to be let in."""
        return self.member_epoch == JOIN_EPOCH

    @property
    def is_stable(self) -> bool:
        """For commits: whether it is in the group, with an epoch."""
        return self.generation_id != NO_GENERATION

    @property
    def is_settled(self) -> bool:
        """Whether it holds its target, and the coordinator has been told."""
        return self.state is MemberState.STABLE and not self.callbacks

    @property
    def knows_share(self) -> bool:
        """The same: it is after nothing else."""
        return self.is_settled

    @property
    def is_rebalancing(self) -> bool:
        """There is no such phase: nobody waits for the whole group."""
        return False

    @property
    def is_cooperative(self) -> bool:
        """It keeps what does not move."""
        return True

    @property
    def is_standalone(self) -> bool:
        """Rule B11.5. No member at all: assign() and commits, without a subscription."""
        return not self.subscription.is_active and self.state is MemberState.UNSUBSCRIBED

    @property
    def is_finished(self) -> bool:
        """Out for good (rule B8.1)."""
        return self.state is MemberState.FATAL

    @property
    def readable(self) -> Owned:
        """Of the assignment, what the application may be given records of: not what is being revoked, nor what it has
        not been told of yet, nor anything when it is out of the group (SubscriptionState.isFetchable)."""
        if self.state in OUT:
            return NOTHING
        return self.assignment.difference(*(callback.partitions for callback in self.callbacks))

    # -- what the application does

    def subscribe(self, topics: Iterable[str], pattern: TopicPattern | None, now: int) -> Step:
        """The next poll joins. A member sends its new subscription at once."""
        self.subscription.to(topics, pattern)
        return self._go_on(now)

    def _is_back(self) -> None:
        if not self.is_finished:
            super()._is_back()

    def begin_callback(self) -> Callback | None:
        """A reconciliation that the application hears of runs to its end (rule B5.4)."""
        if self.callbacks and self.reconciliation.under_way is not None:
            self.reconciliation.has_begun = True
        return super().begin_callback()

    def callback_done(self, now: int, *, has_failed: bool = False) -> Step:
        """Rule B6.10: a reconciliation whose callback has failed is not acknowledged, and the next poll tries again.
        Out of the group, or on the way out, there is nothing to try again."""
        if has_failed and self.reconciliation.has_begun:
            self.is_in_callback = False
            self._is_back()
            self.reconciliation.has_begun = False
            return self._go_on(now)
        return super().callback_done(now, has_failed=has_failed)

    def enforce_rebalance(self, reason: str, now: int) -> Step:
        """Rule B2.2. The coordinator decides when to assign (AsyncKafkaConsumer.enforceRebalance)."""
        raise UsageError(
            "enforce_rebalance() has no meaning with group.protocol=consumer: the coordinator assigns when there is a "
            "reason to"
        )

    def unsubscribe(self, now: int, *, leave: bool | None = None) -> Step:
        """Rules B10.1 to B10.3. Gives up all it has and leaves; done when `has_left`
        (AbstractMembershipManager.leaveGroup)."""
        self._leave_epoch = _leave_epoch(self.config, leave=leave)
        self.subscription.clear()
        self.polls.stop()
        if not self.is_finished:
            self.failure = None  # of a membership that is no longer wanted
        self.drop_callbacks()
        self.reconciliation.interrupt()
        if self.state in IN_GROUP:
            self.transition(MemberState.PREPARE_LEAVING)
        return self._go_on(now)

    def close(self, now: int, *, leave: bool | None = None) -> Step:
        """As `unsubscribe`."""
        return self.unsubscribe(now, leave=leave)

    @property
    def has_left(self) -> bool:
        """Nothing is left to be told, sent or heard."""
        is_out = self.state in (MemberState.UNSUBSCRIBED, MemberState.FATAL)
        return is_out and self._leaving is None and not self.callbacks and not self.assignment

    # -- what the network does

    def learn(self, metadata: Cluster, covered: frozenset[str] | None, now: int) -> Step:
        """Metadata of the topics `covered` (None: of all) and of `subscription.wanted_ids`."""
        self.subscription.learn(metadata, covered)
        return self._go_on(now)

    def _heard(self, request: Message, response: Message, now: int) -> None:
        match request, response:
            case ConsumerGroupHeartbeatRequest(), ConsumerGroupHeartbeatResponse():
                self._beaten(request, response, now)

    def failed(self, request: Message, now: int) -> Step:
        """No answer: the connection has broken, or the time is up. Rule B3.7."""
        if request is self._leaving:
            self._leaving = None
        elif self.coordination.failed(request, now):
            pass
        elif request is self.heartbeats.in_flight or self.commits.failed(request, now):
            self.lose_coordinator(now)
        return self._go_on(now)

    def _found(self, request: FindCoordinatorRequest, response: FindCoordinatorResponse, now: int) -> None:
        refusal = self.coordination.found(request, response, now)
        if refusal is not None:
            self.commits.abandon(refusal)
            if self.subscription.is_active:
                self.failure = refusal

    # -- time

    def _next_heartbeat(self) -> int:
        return self.heartbeats.next_deadline() if self._may_beat else NEVER

    def tick(self, now: int) -> Step:
        """What time brings about: late polls, heartbeats, retries."""
        step = Step()
        if self.polls.is_late(now):
            self._be_late(step, now)
        self.commits.tick(now)
        return self._go_on(now, step)

    def _be_late(self, step: Step, now: int) -> None:
        """Rule B9.2. The leave comes first, the callback at the next poll(): others get the partitions while the
        application may still work on them (AbstractMembershipManager.transitionToSendingLeaveGroup)."""
        self.polls.overrun()
        if self.state not in IN_GROUP:
            return
        self._out_because = CommitFailure.POLL_OVERRUN
        self.transition(MemberState.PREPARE_LEAVING)
        self._leave_epoch = _leave_epoch(self.config, leave=None)
        self._leave(step, MemberState.STALE, now)

    # -- going on

    def _go_on(self, now: int, step: Step | None = None) -> Step:
        """Whatever can be done now is done."""
        step = step or Step()
        self.coordination.pass_time(now)
        self._tell_of_loss()
        self._rejoin_or_depart(now)
        if self.state is MemberState.PREPARE_LEAVING:
            self._depart(step, now)
        self.reconciliation.go_on()
        if self.coordinator is None:
            if self.state in BEATING or self.commits.are_waiting:
                self.coordination.find(step)
        else:
            self.commits.send(now, step)
            self._beat(now, step)
        return step

    def _rejoin_or_depart(self, now: int) -> None:
        """Rules B7.1 and B12.4. Into the group, when the application polls and has heard of its losses; a pattern is
        matched first. Without a subscription the member goes its way."""
        if self.callbacks or self.assignment or self.state in BEATING or self.is_finished:
            return
        if not self.subscription.is_active:
            self.transition(MemberState.UNSUBSCRIBED)
        elif not self.polls.is_waited_for and (self.subscription.pattern is None or self.subscription.is_known):
            self._reset()
            self.transition(MemberState.JOINING)
            self.heartbeats.begin(now)

    def _reset(self) -> None:
        """Nothing of an earlier membership is sent with a join: the coordinator would refuse it."""
        self.member_epoch = JOIN_EPOCH
        self.reconciliation.reset()
        self.heartbeats.stop()

    @property
    def _may_beat(self) -> bool:
        """Rules B3.1 and B3.3. Not without a coordinator, in a pause, or outside the group. A member on its way out
        does not ask to be let in."""
        is_out = self.state is MemberState.PREPARE_LEAVING and self.is_joining
        return self.state in BEATING and not is_out and self.coordinator is not None and not self.coordination.retry_at

    def _beat(self, now: int, step: Step) -> None:
        """Rule B3.5. The departure of an acknowledgement ends its state
        (AbstractMembershipManager.onHeartbeatRequestGenerated)."""
        if not self._may_beat or not self.heartbeats.is_due(now):
            return
        request = self.heartbeats.build(now)
        if self.state is MemberState.ACKNOWLEDGING and self.heartbeats.has_acknowledged:
            done = self.reconciliation.is_complete
            self.transition(MemberState.STABLE if done else MemberState.RECONCILING)
            self.reconciliation.go_on()
        step.send(request, self.config.request_timeout_ms)

    # -- answers to heartbeats

    def _beaten(
        self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse, now: int
    ) -> None:
        """Rules B5.1 to B5.3. The answer to a leave, and any other that is not waited for, changes nothing; nor does
        an epoch of a leave (AbstractMembershipManager.onHeartbeatSuccess)."""
        if request is self._leaving:
            self._leaving = None
        if self.heartbeats.was_overtaken(request) and response.error_code == ErrorCode.NONE:
            self._adopt(response, is_last=False)
        if request is not self.heartbeats.in_flight:
            return
        self.heartbeats.in_flight = None
        error = error_of(response.error_code)
        if error is ErrorCode.FENCED_MEMBER_EPOCH and 0 < request.member_epoch < self.member_epoch:
            self.heartbeats.forget()  # rule B3.10: the answer to the one it has overtaken brought a newer epoch
            self.heartbeats.expedite()
            return
        if error is not ErrorCode.NONE:
            self._judge(error, response.error_message, now)
            return
        self.coordination.recover()
        self._retries = 0
        self.heartbeats.heard(response.heartbeat_interval_ms, now)
        self._adopt(response)
        if request.topic_partitions is not None and self.state is MemberState.STABLE:
            self.heartbeats.expedite()  # rule B3.9: one that says nothing can be held until there is news

    def _adopt(self, response: ConsumerGroupHeartbeatResponse, *, is_last: bool = True) -> None:
        """Rule B5.2. Commits go with the new epoch from now on. A negative one is that of a leave. An answer that is
        not the last one may be older than the refusal of a commit, which came by another connection."""
        if response.member_epoch < 0:
            return
        stays, self.member_epoch = self.member_epoch == response.member_epoch, response.member_epoch
        if stays and is_last:
            self.commits.epoch_stays()
        if response.assignment is not None and self.state in IN_GROUP:
            self.reconciliation.take_target(received(response.assignment.topic_partitions))

    def _judge(self, error: ErrorCode, said: str | None, now: int) -> None:
        """Rule B3.8. After every error the next heartbeat says all."""
        self.heartbeats.forget()
        match CONSUMER_HEARTBEAT.verdict(error):
            case Verdict.COORDINATOR_GONE:
                self.lose_coordinator(now)
            case Verdict.RETRY:
                self._again(now)
            case Verdict.FENCE:
                self._be_fenced(_FENCED[error], now)
            case Verdict.TELL:
                self.failure = CONSUMER_HEARTBEAT.failure(error, self.config, said)
                self._again(now)
            case Verdict.RETRY_A_WHILE if self._retries < MOST_RETRIES:
                self._retries += 1
                self._again(now)
            case _ if self.state is MemberState.PREPARE_LEAVING:
                self._be_fenced(CommitFailure.REMOVED, now)
            case _:
                self._be_refused(error, said)

    def _again(self, now: int) -> None:
        self.coordination.back_off(now)
        self.heartbeats.expedite()

    def _be_fenced(self, why: CommitFailure, now: int) -> None:
        """Rules B7.1 to B7.4. Others may own its partitions; on the way out there is nobody to say goodbye to
        (AbstractMembershipManager.transitionToFenced)."""
        is_leaving = self.state is MemberState.PREPARE_LEAVING
        self._out_because = why
        self._get_out(CommitFailedError(why, self.config))
        if is_leaving:
            self._leave_epoch = None
        else:
            self.transition(MemberState.FENCED)

    def _be_refused(self, error: ErrorCode, said: str | None) -> None:
        """Rule B8.1 (AbstractMembershipManager.transitionToFatal)."""
        failure: KafkaError = CONSUMER_HEARTBEAT.failure(error, self.config, said)
        if error is ErrorCode.FENCED_INSTANCE_ID:
            failure = FencedInstanceIdError(self.config.group_instance_id)
        self._get_out(failure)
        self.failure = failure
        self.polls.stop()
        self.transition(MemberState.FATAL)

    def _get_out(self, failure: KafkaError) -> None:
        self._reset()
        self.drop_callbacks()
        self.commits.abandon(failure)

    def _tell_of_loss(self) -> None:
        """Rule B7.1. on_lost, not on_revoked: offsets cannot be committed any more."""
        if self.state in OUT and self.assignment and not self.callbacks:
            self.callbacks.append(Callback(CallbackKind.LOST, self.assignment))

    # -- what commits show

    def lose_coordinator(self, now: int) -> None:
        """It is elsewhere, or does not answer: the next heartbeat says all, to whoever coordinates then."""
        self.heartbeats.give_up()
        self.heartbeats.expedite()
        self.coordination.lose(now)

    def expedite_heartbeat(self) -> None:
        """Its answer says what the coordinator knows."""
        self.heartbeats.ask_for_epoch()

    def epoch_refused(self, now: int) -> Step:
        """Rule B11.4. OffsetFetch was refused for its epoch: the coordinator has another, and may hold the answer."""
        self.expedite_heartbeat()
        return self._go_on(now)

    def want_join(self, reason: str) -> None:
        """REBALANCE_IN_PROGRESS is not an answer to commits of this protocol."""

    def put_out(self, because: CommitFailure, now: int) -> None:
        """ILLEGAL_GENERATION is not an answer to commits of this protocol."""

    def fence(self, now: int) -> None:
        """A commit is not refused for its group.instance.id in this protocol."""

    # -- leaving

    def _depart(self, step: Step, now: int) -> None:
        """Rules B10.1 and B10.5. First the application gives back what it has, then what it has committed goes
        through, then the member leaves (AbstractMembershipManager.leaveGroup)."""
        if self.callbacks:
            return
        if self.assignment:
            self.callbacks.append(
                Callback(CallbackKind.REVOKED if self.is_stable else CallbackKind.LOST, self.assignment)
            )
        elif not (self.is_stable and self.commits.are_waiting):
            self._out_because = CommitFailure.NOT_JOINED
            self._leave(step, MemberState.UNSUBSCRIBED, now)

    def _leave(self, step: Step, target: MemberState, now: int) -> None:
        """The request is sent once, if there is somebody to send it to. Its answer is waited for, and ignored."""
        failure = CommitFailedError(CommitFailure.LEFT, self.config)
        self.transition(MemberState.LEAVING)
        if self.coordinator is not None and self._leave_epoch is not None:
            self._leaving = self.heartbeats.build_leave(self._leave_epoch)
            step.send(self._leaving, min(self.config.request_timeout_ms, LEAVE_TIMEOUT_MS))
        self._get_out(failure if target is MemberState.UNSUBSCRIBED else self.commit_failure(now))
        self.transition(target)


def _leave_epoch(config: MemberConfig, *, leave: bool | None) -> int | None:
    """Rule B10.3. A static member keeps its place unless it is told to leave; a dynamic one that is told to stay goes
    without a word (KIP-1092, ConsumerMembershipManager.leaveGroupEpoch)."""
    if config.is_static:
        return LEAVE_EPOCH if leave else STATIC_LEAVE_EPOCH
    return None if leave is False else LEAVE_EPOCH
