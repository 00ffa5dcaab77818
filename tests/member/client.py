"""A member with an application and a connection around it. The application polls all the time unless told otherwise;
the connection keeps its promises unless it is cut."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from equipoise.member import (
    Callback,
    Commit,
    FencedInstanceIdError,
    Member,
    MemberConfig,
    MemberState,
    OffsetAndMetadata,
    Step,
    TopicPartition,
)
from equipoise.member.partitions import Owned
from equipoise.wire.errors import KafkaError
from equipoise.wire.schema import Message
from tests.member import messages

if TYPE_CHECKING:
    from tests.member.town import Town

LATENCY_MS = 1


@dataclass(eq=False, slots=True)
class Exchange:
    """A request under way, and its answer."""

    client: Client
    request: Message
    node_id: int  # where it goes


class Client:
    def __init__(self, town: Town, name: str, config: MemberConfig) -> None:
        self.town = town
        self.name = name
        self.member = Member(config)
        self.polls = True
        self.connected = True
        self.records = 0  # that each poll returns
        self.callback_ms = 0  # how long the listener takes
        self.lose_next: str | None = None  # "request" or "reply": the connection breaks before, or after, it arrives
        self.listener: Callable[[Callback], None] = lambda callback: None
        self.told: list[tuple[str, Owned]] = []
        self.failures: list[KafkaError] = []
        self.commits: list[Commit] = []
        self._open: list[Exchange] = []
        self.is_in_callback = False
        self._frozen_until = 0
        self._missed: list[Callable[[Member], Step]] = []
        self._tick_at: int | None = None

    # -- what it is

    @property
    def owned(self) -> set[int]:
        return {one.partition for one in self.member.assignment}

    @property
    def is_living(self) -> bool:
        return self.member.subscription.is_active and not self.member.is_fenced

    @property
    def is_settled(self) -> bool:
        member = self.member
        return member.state is MemberState.STABLE and not member.callbacks and not member.joining.is_wanted

    @property
    def is_frozen(self) -> bool:
        return self.town.now < self._frozen_until

    # -- the application

    def subscribe(self, *topics: str, pattern: str | None = None) -> Client:
        compiled = None if pattern is None else re.compile(pattern)
        self.do(lambda member: member.subscribe(topics, compiled, self.town.now))
        return self

    def commit(self, **offsets: int) -> Commit:
        """Partitions of the topic t: commit(p0=5)."""
        return self.commit_offsets({TopicPartition("t", int(key[1:])): at for key, at in offsets.items()})

    def commit_offsets(self, offsets: dict[TopicPartition, int]) -> Commit:
        wanted = {where: OffsetAndMetadata(at) for where, at in offsets.items()}
        commit, step = self.member.commit(wanted, self.town.now)
        self.commits.append(commit)
        self.do(lambda member: step)
        return commit

    def close(self, *, leave: bool | None = None) -> None:
        self.do(lambda member: member.close(self.town.now, leave=leave))

    def die(self) -> None:
        """The process is gone, without a word; a new one of its name may come."""
        self._frozen_until = 2**62
        self._open.clear()
        self.connected = False
        self.town.clients.pop(self.name)

    def freeze(self, ms: int) -> None:
        """The process is stopped for some time, as by SIGSTOP or a long pause of its machine."""
        self._frozen_until = max(self.town.now + ms, self._frozen_until)
        self.town.at(self._frozen_until, self._thaw)

    def _thaw(self) -> None:
        missed, self._missed = self._missed, []
        for act in missed:
            self.do(act)

    def poll(self) -> None:
        """Once, and then all the time."""
        self.polls = True
        self.do(lambda member: Step())

    # -- running the machine

    def do(self, act: Callable[[Member], Step]) -> None:
        if self.is_frozen:
            self._missed.append(act)
            return
        self._send(act(self.member))
        if self.polls and not self.is_in_callback:
            self._poll()
        self._arm()

    def _poll(self) -> None:
        self._send(self.member.poll_begins(self.town.now))
        while (callback := self.member.begin_callback()) is not None:
            self._run_listener(callback)
            if self.is_in_callback:
                return
        if (failure := self.member.take_failure()) is not None:
            self.failures.append(failure)
            self._say(f": poll() raises {type(failure).__name__}: {failure}")
            self.polls = not isinstance(failure, FencedInstanceIdError)
        self.member.poll_ends(self.town.now, self.records)

    def _run_listener(self, callback: Callback) -> None:
        self._say(f": {callback.kind.value} {messages.places(callback.partitions)}")
        self.told.append((callback.kind.value, callback.partitions))
        self.member.poll_ends(self.town.now)
        self.is_in_callback = True
        self.listener(callback)
        if self.callback_ms:
            self.town.at(self.town.now + self.callback_ms, self._leave_callback)
        else:
            self.is_in_callback = False
            self._send(self.member.callback_done(self.town.now))

    def _leave_callback(self) -> None:
        def leave(member: Member) -> Step:
            self.is_in_callback = False
            return member.callback_done(self.town.now)

        self.do(leave)

    def _arm(self) -> None:
        deadline = self.member.next_deadline()
        if deadline is not None and (self._tick_at is None or deadline < self._tick_at):
            self._tick_at = deadline
            self.town.at(deadline, self._tick)

    def _tick(self) -> None:
        if self._tick_at is not None and self._tick_at <= self.town.now:
            self._tick_at = None
            self.do(self._on_time)

    def _on_time(self, member: Member) -> Step:
        """After a tick nothing is left to be done now, or there would be another at once, and so on for ever."""
        step, deadline = member.tick(self.town.now), member.next_deadline()
        assert deadline is None or deadline > self.town.now, f"{self.name}: {deadline=} is over at {self.town.now}"
        return step

    # -- its connection

    def cut(self) -> None:
        """Whatever waits for an answer hears that there will be none."""
        exchanges, self._open = self._open, []
        for exchange in exchanges:
            self._fail(exchange)

    def _fail(self, exchange: Exchange) -> None:
        self._say(f": {messages.name(exchange.request)} has failed")
        self.do(lambda member: member.failed(exchange.request, self.town.now))

    def _send(self, step: Step) -> None:
        for send in step.sends:
            self._say(messages.asked(send.request))
            coordinator = self.member.coordinator
            exchange = Exchange(self, send.request, 0 if coordinator is None else coordinator.node_id)
            self._open.append(exchange)
            self.town.at(self.town.now + LATENCY_MS, lambda exchange=exchange: self._arrive(exchange))  # type: ignore[misc]
            self.town.at(self.town.now + send.timeout_ms, lambda exchange=exchange: self._time_out(exchange))  # type: ignore[misc]

    def _arrive(self, exchange: Exchange) -> None:
        if exchange not in self._open:
            return
        if not self.connected or self.lose_next == "request":
            self.lose_next = None
            self.cut()
        else:
            self.town.arrive(exchange)

    def _time_out(self, exchange: Exchange) -> None:
        if exchange in self._open:
            self._open.remove(exchange)
            self._fail(exchange)

    def take(self, exchange: Exchange, response: Message) -> None:
        if exchange not in self._open:
            return
        if not self.connected or self.lose_next == "reply":
            self.lose_next = None
            self.cut()
            return
        self._open.remove(exchange)
        self._say(messages.answered(exchange.request, response))
        self.do(lambda member: member.answered(exchange.request, response, self.town.now))

    def _say(self, line: str) -> None:
        if line and not self.town.is_silent:
            self.town.say(f"{self.name}{line}")
