"""Where a script plays: one coordinator and the clients that the script speaks for. Whatever comes out becomes a line.

Time begins at 0 and moves by `advance` alone. Lines carry the time where it passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.journal import Rebalance
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.step import Write
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.simulate import Call, Clock, Coordinator, Invariants, Transcript, messages
from equipoise.simulate.scripts.clients import ScriptClient
from equipoise.simulate.scripts.settings import changed
from equipoise.simulate.scripts.words import Words
from equipoise.wire.errors import ErrorCode, UsageError


class Script(Transcript):
    """Says answers and writes too. Of quiet calls only an answer that differs from the last is shown."""

    def __init__(self, clock: Clock, words: Words) -> None:
        super().__init__(clock, words.event)
        self.is_travelling = False
        self.is_quiet = False
        self.parked: list[Call] = []
        self.last_quiet: dict[str, str] = {}

    def say(self, line: str) -> None:
        if self.is_travelling:
            super().say(line)
        else:
            self.lines.append(line)

    def answered(self, call: Call) -> None:
        text = messages.reply(call.reply, call.request)
        if self.is_quiet and self.last_quiet.get(call.client_id) == text:
            return
        self.last_quiet[call.client_id] = text
        which = f"{call.api} answered " if call in self.parked and getattr(call.reply, "error_code", False) else ""
        self.parked = [one for one in self.parked if one is not call]
        self.say(f"{call.client_id}: {which}{text}")

    def write_held(self, write: Write) -> None:
        self._say_records("writing", write)

    def write_ended(self, write: Write, error: ErrorCode) -> None:
        self._say_records("wrote" if error is ErrorCode.NONE else "failed to write", write)

    def _say_records(self, verb: str, write: Write) -> None:
        for group_id, text in messages.records(write.records).items():
            self.say(f"{group_id}: {verb} {text}")


class Stage:
    """One coordinator, its clients by name, and its topics."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.clock = Clock()
        self.transcript = Script(self.clock, words)
        self.coordinator = Coordinator(self.clock, observers=[self.transcript, Invariants()])
        self.clients: dict[str, ScriptClient] = {}
        self.topics: dict[str, tuple[int, bytes]] = {}  # partitions and id
        self.created_topics = 0
        self._is_started = False

    # -- settings and life

    def configure(self, name: str, text: str) -> None:
        """A setting of the coordinator, under Kafka's name."""
        self.coordinator.config = changed(self.coordinator.config, name, text)
        if self._is_started:
            self.say(f"{name}={text} from the next start on")

    def start(self) -> None:
        """With the first command that needs a coordinator, since settings come before."""
        if not self._is_started:
            self._is_started = True
            self.coordinator.restart()

    @property
    def shard(self) -> Shard:
        """The coordinator's shard; with it begins its life."""
        self.start()
        return self.coordinator.shard

    def load(self) -> None:
        """A new shard, with all that was durable read back; not yet active."""
        self.coordinator.load()
        for group in self.coordinator.shard.groups.values():
            members = ", ".join(group.members) or "no members"
            self.say(f"{group.group_id}: read back as {group.state.value}, generation {group.generation_id}, {members}")

    def crash(self) -> None:
        """The broker is killed and is back with what was durable."""
        for call in self.transcript.parked:
            self.say(f"{call.client_id}: {call.api} is lost with the connection")
        self.transcript.parked, self.coordinator.holds_writes = [], False
        self.load()
        self.coordinator.activate()

    def end_writes(self, error: ErrorCode) -> None:
        """What waits becomes durable, or fails; from now on nothing waits."""
        self.coordinator.holds_writes = False
        if error is ErrorCode.NONE:
            self.coordinator.durable()
        else:
            self.coordinator.fail_writes(error)

    def group(self, group_id: str) -> Group:
        """UsageError if there is none."""
        if group_id not in self.shard.groups:
            raise UsageError(f"there is no group {group_id}")
        return self.shard.groups[group_id]

    def journal(self, group_id: str) -> list[Rebalance]:
        """All rebalances of a group that are over."""
        return self.coordinator.journal(self.group(group_id).group_id)

    def client(self, name: str) -> ScriptClient:
        """The client of that name; a new one subscribes to all topics."""
        if name not in self.clients:
            self.clients[name] = self.stranger(name, topics=sorted(self.topics))
        return self.clients[name]

    def stranger(self, name: str, group_id: str = "g", topics: list[str] | None = None) -> ScriptClient:
        """Known for one request only."""
        self.start()
        return ScriptClient(self.coordinator, name, group_id=group_id, topics=topics or [], on_sent=self._sent)

    # -- what is seen

    def say(self, line: str) -> None:
        """Adds a line."""
        self.transcript.say(line)

    @contextmanager
    def travelling(self, on: bool = True) -> Iterator[None]:
        """Lines said meanwhile carry the time."""
        before, self.transcript.is_travelling = self.transcript.is_travelling, on
        yield
        self.transcript.is_travelling = before

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Answers said meanwhile are shown if they are news."""
        self.transcript.is_quiet = True
        yield
        self.transcript.is_quiet = False

    def _sent(self, call: Call) -> None:
        """What is due at once happens at once; a call that is still open then is parked."""
        self.clock.advance(0)
        if call.is_parked:
            self.transcript.parked.append(call)
            self.say(f"{call.client_id}: parked ({self._why_parked(call)})")

    def is_waiting(self, client: ScriptClient) -> bool:
        """Whether a call of the client is parked."""
        return any(call.client_id == client.client_id for call in self.transcript.parked)

    def _why_parked(self, call: Call) -> str:
        group = self.shard.groups.get(getattr(call.request, "group_id", ""))
        if group is None or call.api not in ("JoinGroup", "SyncGroup", "Heartbeat"):
            return "until the write is durable"
        if call.api == "Heartbeat":
            return f"held, {self._left(TimerKind.HOLD, group.group_id, call.request.member_id)} at most"  # type: ignore[attr-defined]
        if call.api == "SyncGroup":
            is_written = bool(self.coordinator.under_way)
            return "until the write is durable" if is_written else f"waiting for the assignment of {group.leader}"
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
        return self.words.duration(deadline - self.clock.now)

    # -- time

    @property
    def now(self) -> int:
        """Milliseconds since the beginning."""
        return self.clock.now

    def advance(self, ms: int) -> None:
        """Time goes on, and everything that is due happens."""
        with self.travelling():
            self.clock.advance(ms)
