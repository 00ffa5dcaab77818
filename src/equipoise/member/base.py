"""What a member does alike in both group protocols: polls, callbacks, commits, failures, and transitions by a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import ClassVar, Generic, TypeVar

from equipoise.member.commits import Commit, Commits, OffsetAndMetadata
from equipoise.member.config import MemberConfig
from equipoise.member.coordination import BrokerNode, Coordination
from equipoise.member.errors import CommitFailedError, CommitFailure
from equipoise.member.partitions import NOTHING, Owned, TopicPartition
from equipoise.member.polls import Polls
from equipoise.member.step import NEVER, Callback, CallbackKind, Step
from equipoise.member.subscription import TopicSubscription
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.errors import IllegalTransition, KafkaError
from equipoise.wire.schema import Message

LEAVE_TIMEOUT_MS = 5_000  # the answer to a leave is not worth a long wait
StateT = TypeVar("StateT", bound=Enum)


class BaseMember(ABC, Generic[StateT]):
    """`jitter` gives numbers between 0.8 and 1.2 for pauses between attempts: the one thing not decided here."""

    transitions: ClassVar[Collection[tuple[Enum, Enum]]]
    state: StateT
    subscription: TopicSubscription
    commits: Commits
    member_id: str

    def __init__(self, config: MemberConfig, jitter: Callable[[], float]) -> None:
        self.config = config
        self.assignment: Owned = NOTHING
        self.callbacks: deque[Callback] = deque()
        self.failure: KafkaError | None = None  # for the application, at its next poll
        self.is_in_callback = False
        self.coordination = Coordination(config, jitter)
        self.polls = Polls(config)
        self._leaving: Message | None = None
        self._out_because = CommitFailure.NOT_JOINED

    # -- what the group protocol decides

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether it is out for good."""

    @abstractmethod
    def _go_on(self, now: int, step: Step | None = None) -> Step:
        """Whatever can be done now is done."""

    @abstractmethod
    def _found(self, request: FindCoordinatorRequest, response: FindCoordinatorResponse, now: int) -> None:
        """The coordinator, or why there is none."""

    @abstractmethod
    def _heard(self, request: Message, response: Message, now: int) -> None:
        """An answer that only this group protocol has."""

    @abstractmethod
    def _next_heartbeat(self) -> int:
        """When a heartbeat is due; NEVER: none is."""

    # -- what it is

    @property
    def coordinator(self) -> BrokerNode | None:
        """The broker that coordinates the group; None: it is being looked for, or not needed."""
        return self.coordination.node

    def transition(self, target: StateT) -> None:
        """Along the table of states.py."""
        if target is self.state:
            return
        if (self.state, target) not in self.transitions:
            raise IllegalTransition(f"member {self.member_id or '(new)'}", self.state, target)
        self.state = target

    # -- what the network does

    def answered(self, request: Message, response: Message, now: int) -> Step:
        """The answer to a request of a Step. An answer to a request that was given up meanwhile changes nothing."""
        match request, response:
            case FindCoordinatorRequest(), FindCoordinatorResponse():
                self._found(request, response, now)
            case OffsetCommitRequest(), OffsetCommitResponse():
                self.commits.answered(request, response, now)
            case _:
                self._heard(request, response, now)
        return self._go_on(now)

    # -- what the application does

    def poll_begins(self, now: int) -> Step:
        """The application is there, until `poll_ends`: its callbacks can run, and its time does not."""
        self._is_back()
        return self._go_on(now)

    def _is_back(self) -> None:
        if self.subscription.is_active:
            self.polls.begin()

    def poll_ends(self, now: int, *, records: int = 0) -> None:
        """`records`: how many it takes with it. Also before each callback, which takes its own time (KIP-62)."""
        if self.subscription.is_active and not self.is_finished:
            self.polls.end(now, records=records)

    def begin_callback(self) -> Callback | None:
        """What the application's thread is to run next, inside a poll; None if there is nothing."""
        self.is_in_callback = bool(self.callbacks)
        return self.callbacks[0] if self.callbacks else None

    def callback_done(self, now: int, *, has_failed: bool = False) -> Step:
        """It has run, with or without an exception, and the application is back in its poll. Partitions are given up
        when on_revoked has run, not before: it may commit (ConsumerCoordinator.onJoinPrepare)."""
        self.is_in_callback = False
        self._is_back()
        kind, partitions = self.callbacks.popleft()
        if kind is not CallbackKind.ASSIGNED:
            self.assignment -= partitions
            self.commits.revoke(partitions)
        return self._go_on(now)

    def gain(self, partitions: Owned) -> None:
        """They are the member's, and are read when on_assigned has run."""
        self.assignment |= partitions
        self.commits.begin_anew(partitions)
        self.callbacks.append(Callback(CallbackKind.ASSIGNED, partitions))

    def drop_callbacks(self) -> None:
        """All but the one that runs. What the application was not told of, it never had."""
        while len(self.callbacks) > self.is_in_callback:
            kind, partitions = self.callbacks.pop()
            if kind is CallbackKind.ASSIGNED:
                self.assignment -= partitions

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], now: int) -> tuple[Commit, Step]:
        """The outcome stands in the Commit; it has until default.api.timeout.ms (KIP-266)."""
        commit = Commit(dict(offsets), now + self.config.default_api_timeout_ms)
        self.commits.add(commit, now)
        return commit, self._go_on(now)

    def commit_failure(self, now: int) -> KafkaError:
        """Why this member, which is out of the group, cannot commit."""
        if self.failure is not None and self.is_finished:
            return self.failure
        overrun = self.polls.overrun_at(now) if self._out_because is CommitFailure.POLL_OVERRUN else None
        return CommitFailedError(self._out_because, self.config, overrun=overrun)

    def take_failure(self) -> KafkaError | None:
        """To be raised by poll(). A member that is out for good fails in every poll (KIP-345); after anything else it
        tries again."""
        failure = self.failure
        if not self.is_finished:
            self.failure = None
        return failure

    # -- time

    def next_deadline(self) -> int | None:
        """When to call `tick`; None: nothing waits for time."""
        earliest = min(
            self._next_heartbeat(),
            self.polls.next_deadline(),
            self.commits.next_deadline(can_send=self.coordinator is not None),
            self.coordination.next_deadline(),
        )
        return None if earliest == NEVER else earliest

    def pause_ms(self, failures: int) -> int:
        """The pause after so many failures in a row."""
        return self.coordination.pause_ms(failures)
