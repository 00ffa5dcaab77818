"""A consumer under virtual time: the pure member, an application that polls, and a connection.

The application polls all the time unless told otherwise, and does what a listener says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from equipoise.assignors import Cluster
from equipoise.member import (
    AnyMember,
    Callback,
    Commit,
    OffsetAndMetadata,
    Step,
    SubscriptionPattern,
    TopicPartition,
)
from equipoise.member.partitions import Owned
from equipoise.member.subscription import TopicPattern
from equipoise.simulate.clock import Time
from equipoise.simulate.network import Connection
from equipoise.simulate.observer import Observer
from equipoise.wire.errors import KafkaError
from equipoise.wire.schema import Message

_FOR_EVER = 2**62


class Consumer:
    """`member` is the state machine under test; everything else belongs to the application around it."""

    def __init__(
        self,
        name: str,
        member: AnyMember,
        *,
        clock: Time,
        connection: Connection,
        observers: Iterable[Observer] = (),
    ) -> None:
        self.name = name
        self.member = member
        self.connection = connection
        self.polls = True
        self.records = 0  # that each poll returns
        self.callback_ms = 0  # how long the listener takes
        self.listener: Callable[[Callback], None] = lambda callback: None
        self.callbacks: list[tuple[str, Owned]] = []  # all that have run
        self.failures: list[KafkaError] = []  # all that poll() has raised
        self.commits: list[Commit] = []
        self.is_in_callback = False
        self._clock = clock
        self._observers = observers
        self._frozen_until = 0
        self._missed: list[Callable[[AnyMember], Step]] = []
        self._tick_at: int | None = None
        self.inputs = 0  # of the member, so far
        connection.on_reply, connection.on_failure = self._on_reply, self._on_failure
        connection.on_silence = self._on_silence

    # -- what it is

    @property
    def partitions(self) -> set[int]:
        """The numbers of its partitions, for groups of one topic."""
        return {one.partition for one in self.member.assignment}

    @property
    def is_living(self) -> bool:
        """Subscribed, and not fenced."""
        return self.member.subscription.is_active and not self.member.is_finished

    @property
    def is_settled(self) -> bool:
        """It has its share, with nothing left to be told, and is after no other."""
        return self.member.is_settled

    @property
    def is_frozen(self) -> bool:
        """Whether its process is stopped."""
        return self._clock.now < self._frozen_until

    # -- the application

    def subscribe(self, *topics: str, pattern: str | None = None, regex: str | None = None) -> Consumer:
        """By names, by a pattern, or by a pattern for the broker to match."""
        compiled: TopicPattern | None = None if pattern is None else re.compile(pattern)
        compiled = compiled if regex is None else SubscriptionPattern(regex)
        self.do(lambda member: member.subscribe(topics, compiled, self._clock.now))
        return self

    def learn(self, metadata: Cluster) -> None:
        """Metadata of all topics."""
        self.do(lambda member: member.learn(metadata, None, self._clock.now))

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Commit:
        """The outcome stands in the Commit."""
        wanted = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        commit, step = self.member.commit(wanted, self._clock.now)
        self.commits.append(commit)
        self.do(lambda member: step)
        return commit

    def unsubscribe(self) -> None:
        """Gives back all partitions and leaves."""
        self.do(lambda member: member.unsubscribe(self._clock.now))

    def enforce_rebalance(self, reason: str) -> None:
        """The application wants a rebalance."""
        self.do(lambda member: member.enforce_rebalance(reason, self._clock.now))

    def close(self, *, leave: bool | None = None) -> None:
        """Gives back all partitions and leaves; `leave` as for `AnyMember.close`."""
        self.do(lambda member: member.close(self._clock.now, leave=leave))

    def poll(self) -> None:
        """Once, and then all the time."""
        self.polls = True
        self.do(lambda member: Step())

    # -- its process

    def kill(self) -> None:
        """The process is gone, without a word."""
        self._frozen_until = _FOR_EVER
        self.connection.close()

    def freeze(self, ms: int) -> None:
        """The process stops for some time, as by SIGSTOP or a long pause of its machine."""
        self._frozen_until = max(self._clock.now + ms, self._frozen_until)
        self._clock.at(self._frozen_until, self._thaw)

    def _thaw(self) -> None:
        missed, self._missed = self._missed, []
        for act in missed:
            self.do(act)

    # -- running the member

    def do(self, act: Callable[[AnyMember], Step]) -> None:
        """One input for the member. The application polls after it, unless it is busy."""
        if self.is_frozen:
            self._missed.append(act)
            return
        self.inputs += 1
        self._send(act(self.member))
        if self.polls and not self.is_in_callback:
            self._poll()
        self._arm()

    def _poll(self) -> None:
        self._send(self.member.poll_begins(self._clock.now))
        while (callback := self.member.begin_callback()) is not None:
            self._run_listener(callback)
            if self.is_in_callback:
                return
        if (failure := self.member.take_failure()) is not None:
            self.failures.append(failure)
            for observer in self._observers:
                observer.raised(self.name, failure)
            self.polls = not self.member.is_finished
        self.member.poll_ends(self._clock.now, records=self.records)

    def _run_listener(self, callback: Callback) -> None:
        for observer in self._observers:
            observer.called_back(self.name, callback)
        self.callbacks.append((callback.kind.value, callback.partitions))
        self.member.poll_ends(self._clock.now)
        self.is_in_callback = True
        self.listener(callback)
        if self.callback_ms:
            self._clock.after(self.callback_ms, lambda: self.do(self._leave_callback))
        else:
            self._send(self._leave_callback(self.member))

    def _leave_callback(self, member: AnyMember) -> Step:
        self.is_in_callback = False
        return member.callback_done(self._clock.now)

    def _arm(self) -> None:
        deadline = self.member.next_deadline()
        if deadline is not None and (self._tick_at is None or deadline < self._tick_at):
            self._tick_at = deadline
            self._clock.at(deadline, self._tick)

    def _tick(self) -> None:
        if self._tick_at is not None and self._tick_at <= self._clock.now:
            self._tick_at = None
            self.do(self._on_time)

    def _on_time(self, member: AnyMember) -> Step:
        """After a tick nothing is left to be done now, or there would be another at once, and so on for ever."""
        now = self._clock.now
        step, deadline = member.tick(now), member.next_deadline()
        assert deadline is None or deadline > now, f"{self.name}: {deadline=} is over at {now}"
        return step

    # -- its connection

    def _send(self, step: Step) -> None:
        for send in step.sends:
            for observer in self._observers:
                observer.sent(self.name, send.request)
            coordinator = self.member.coordinator
            self.connection.send(send.request, 0 if coordinator is None else coordinator.node_id, send.timeout_ms)

    def _on_reply(self, request: Message, response: Message) -> None:
        for observer in self._observers:
            observer.received(self.name, request, response)
        self.do(lambda member: member.answered(request, response, self._clock.now))

    def _on_silence(self, request: Message) -> None:
        for observer in self._observers:
            observer.unanswered(self.name, request)

    def _on_failure(self, request: Message) -> None:
        for observer in self._observers:
            observer.failed(self.name, request)
        self.do(lambda member: member.failed(request, self._clock.now))
