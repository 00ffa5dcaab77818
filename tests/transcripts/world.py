"""One shard of groups in virtual time. Whatever comes out of it becomes a line: events, records, answers, in order.

Time begins at 0 and moves by `advance`, which stops at every deadline. Writes are durable at once, unless they
are told to wait. A crash keeps the durable records, as bytes, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from equipoise.broker.config import BrokerConfig
from equipoise.console import words
from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.events import StateChanged
from equipoise.coordinator.shard import Shard, Status
from equipoise.coordinator.step import Caller, Step, Write
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.errors import ErrorCode, UsageError
from equipoise.wire.offsets_records import Record, decode_record, encode_key, encode_value
from equipoise.wire.schema import Message
from tests.transcripts import replies
from tests.transcripts.clients import Client

Submit = Callable[[Any, Caller], Step]


class Call:
    """One request of a client, answered once. Of a quiet one only an answer that differs from the last is shown."""

    def __init__(self, client: Client, request: Message, version: int, *, quiet: bool) -> None:
        self.client = client
        self.request = request
        self.version = version
        self.quiet = quiet
        self.answer: Message | None = None
        self.is_parked = False

    @property
    def api(self) -> str:
        return type(self.request).__name__.removesuffix("Request")

    @property
    def error_code(self) -> int | None:
        return None if self.answer is None else getattr(self.answer, "error_code", ErrorCode.NONE)


class World:
    def __init__(self) -> None:
        self.now = 0
        self.config = GroupConfig()
        self.clients: dict[str, Client] = {}
        self.topics: dict[str, tuple[int, bytes]] = {}  # partitions and id
        self.lines: list[str] = []
        self.created_topics = 0
        self.delays_writes = False
        self.waiting: list[Write] = []
        self.durable: list[tuple[bytes, bytes | None]] = []
        self.open: list[Call] = []
        self._ids: Counter[str] = Counter()
        self._prefix = ""
        self._is_travelling = False
        self._last_quiet: dict[str, str] = {}
        self._shard: Shard | None = None

    # -- settings and life

    def configure(self, name: str, text: str) -> None:
        attribute = name.replace(".", "_")
        if attribute not in {row.name for row in fields(GroupConfig)}:
            raise UsageError(f"{name} is no setting of the coordinator")
        self.config = replace(self.config, **{attribute: getattr(BrokerConfig.parse({name: text}), attribute)})
        if self._shard is not None:
            self.say(f"{name}={text} from the next start on")

    @property
    def shard(self) -> Shard:
        if self._shard is None:
            self.load()
            self.loaded()
        assert self._shard is not None
        return self._shard

    def load(self) -> None:
        """A new shard, with all that was durable read back; not yet active."""
        self._shard = Shard(self.config, self._new_id)
        for key, value in self.durable:
            record = decode_record(key, value)
            assert isinstance(record, Record)
            self._shard.apply(record, self.now)
        for group in self._shard.groups.values():
            members = ", ".join(group.members) or "no members"
            self.say(f"{group.group_id}: read back as {group.state.value}, generation {group.generation_id}, {members}")

    def loaded(self) -> None:
        assert self._shard is not None
        self.run(self._shard.activate(self.now))

    def crash(self) -> None:
        for call in self.open:
            self.say(f"{call.client.name}: {call.api} is lost with the connection")
        self.open, self.waiting, self.delays_writes = [], [], False
        self.load()
        self.loaded()

    def unload(self) -> None:
        self.run(self.shard.close(self.now))

    def group(self, group_id: str) -> Group:
        if group_id not in self.shard.groups:
            raise UsageError(f"there is no group {group_id}")
        return self.shard.groups[group_id]

    def client(self, name: str) -> Client:
        if name not in self.clients:
            self.clients[name] = Client(name, topics=sorted(self.topics))
        return self.clients[name]

    def _new_id(self) -> str:
        self._ids[self._prefix] += 1
        return str(self._ids[self._prefix])

    # -- what is seen

    def say(self, line: str) -> None:
        self.lines.append(f"{clock(self.now)} {line}" if self._is_travelling else line)

    @contextmanager
    def travelling(self, on: bool = True) -> Iterator[None]:
        """Lines said meanwhile carry the time."""
        before, self._is_travelling = self._is_travelling, on
        yield
        self._is_travelling = before

    def forget_quiet(self) -> None:
        self._last_quiet.clear()

    # -- requests

    def send(self, client: Client, request: Message, version: int, submit: Submit, *, quiet: bool = False) -> Call:
        """Over the wire in the version given, so that a field which that version lacks is not there."""
        request = type(request).decode(request.encode(version), version)
        call = Call(client, request, version, quiet=quiet)
        self.open.append(call)
        self._prefix = client.instance or client.name
        self.run(submit(request, Caller(call, version, client.name, "/127.0.0.1")))
        self.tick(self.now)
        if call.answer is None and not quiet:
            call.is_parked = True
            self.say(f"{client.name}: parked ({self._why_parked(call)})")
        return call

    def _why_parked(self, call: Call) -> str:
        group = self.shard.groups.get(call.client.group)
        if group is None or call.api not in ("JoinGroup", "SyncGroup", "Heartbeat"):
            return "until the write is durable"
        if call.api == "Heartbeat":
            return f"held, {self._left(TimerKind.HOLD, group.group_id, call.client.member_id)} at most"
        if call.api == "SyncGroup":
            return "until the write is durable" if self.waiting else f"waiting for the assignment of {group.leader}"
        if group.state is State.STABLE:
            return "until the write is durable"
        if group.in_initial_phase:
            return f"initial delay, {self._left(TimerKind.JOIN, group.group_id)} left"
        absent = [member_id for member_id in group.members if member_id not in group.parked.joins]
        missing = absent + sorted(group.pending_members)
        if not missing:
            return f"debounce, {self._left(TimerKind.DEBOUNCE, group.group_id)} left"
        return f"waiting for {', '.join(missing)}, {self._left(TimerKind.JOIN, group.group_id)} at most"

    def _left(self, kind: TimerKind, group_id: str, member_id: str = "") -> str:
        key = TimerKey(kind, group_id, member_id)
        deadline = self.shard.timers.deadline(key)
        assert deadline is not None, f"no timer {key}"
        return words.duration(deadline - self.now)

    # -- steps

    def run(self, step: Step) -> None:
        for event in step.events:
            self.say(f"{event.group_id}: {words.event(event)}")
            if isinstance(event, StateChanged) and event.target in (State.STABLE, State.EMPTY):
                while self.group(event.group_id).journal.settle() is not None:
                    pass
        for caller, response in step.replies:
            self._answer(caller.token, response)
        for write in step.writes:
            self._write(write)

    def _answer(self, call: Call, response: Message) -> None:
        assert call in self.open, f"{call.api} of {call.client.name} is answered twice"
        self.open.remove(call)
        call.answer = type(response).decode(response.encode(call.version), call.version)
        call.client.take(call.answer)
        text = replies.reply(call.answer, call.request)
        if call.quiet and self._last_quiet.get(call.client.name) == text:
            return
        self._last_quiet[call.client.name] = text
        which = f"{call.api} answered " if call.is_parked and call.error_code else ""
        self.say(f"{call.client.name}: {which}{text}")

    def _write(self, write: Write) -> None:
        if self.delays_writes:
            self._say_records("writing", write)
            self.waiting.append(write)
        else:
            self._settle(write, ErrorCode.NONE)

    def settle_writes(self, error: ErrorCode) -> None:
        """What waits becomes durable, or fails; from now on nothing waits."""
        waiting, self.waiting, self.delays_writes = self.waiting, [], False
        for write in waiting:
            self._settle(write, error)

    def _settle(self, write: Write, error: ErrorCode) -> None:
        self._say_records("wrote" if error is ErrorCode.NONE else "failed to write", write)
        if error is ErrorCode.NONE:
            self.durable += [
                (encode_key(key), None if value is None else encode_value(value)) for key, value in write.records
            ]
        self.run(self.shard.written(write, error, self.now))

    def _say_records(self, verb: str, write: Write) -> None:
        groups: dict[str, list[str]] = {}
        for row in write.records:
            group_id, text = replies.record(row)
            groups.setdefault(group_id, []).append(text)
        for group_id, texts in groups.items():
            self.say(f"{group_id}: {verb} {', '.join(texts)}")

    # -- time

    def tick(self, until: int) -> None:
        """Every deadline up to and with `until`, each at its own time."""
        while self.shard.status is Status.ACTIVE:
            deadline = self.shard.next_deadline()
            if deadline is None or deadline > until:
                break
            self.now = max(self.now, deadline)
            self.run(self.shard.tick(self.now))

    def advance(self, ms: int) -> None:
        target = self.now + ms
        with self.travelling():
            self.tick(target)
        self.now = target


def clock(ms: int) -> str:
    """0:06.000; with hours and days where there are any."""
    minutes, rest = divmod(ms, 60_000)
    seconds = f"{rest // 1_000:02}.{rest % 1_000:03}"
    if minutes < 60:
        return f"{minutes}:{seconds}"
    days, minutes = divmod(minutes, 24 * 60)
    hours = f"{minutes // 60}:{minutes % 60:02}:{seconds}"
    return f"{days}d {hours}" if days else hours
