"""Writes the events of groups to the internal topic `__rebalances`, as JSON, when no reply waits."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from itertools import chain, islice
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from equipoise.broker.groups.held_heartbeats import intervals_of
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.events import Event, MemberJoined, MembersSynced, StateChanged, TargetReached
from equipoise.coordinator.journal import Journal, Rebalance
from equipoise.coordinator.shard import Shard
from equipoise.wire.errors import KafkaError
from equipoise.wire.records.batch import read_header
from equipoise.wire.records.build import Record, build_batch

if TYPE_CHECKING:
    from equipoise.broker.server import Server

log = logging.getLogger(__name__)

JOURNAL_TOPIC = "__rebalances"
_PORTION = 100  # rows in one batch
_MAX_BACKLOG = 10_000  # events; beyond it the oldest are dropped, rather than memory taken
_LONGEST = 1_000  # characters of a client's id, or of its reason
_AT_ONCE = 500  # elements of a list that become text together


class GroupJournal:
    """Events wait here, in order and up to a limit, until the loop has time to write them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._events: deque[tuple[Journal | None, Event]] = deque()
        self._dropped = 0  # events, since the last row
        self._unwritten = 0  # events, since the topic refused them
        self._rows: list[Record] = []
        self._working: Iterator[None] | None = None

    def take(self, shard: Shard, events: Iterable[Event]) -> None:
        """Only remembers them; the work is done in later turns of the loop."""
        for event in events:
            group = shard.find(event.group_id)
            self._events.append((group.journal if group is not None else None, event))
        while len(self._events) > _MAX_BACKLOG:
            self._events.popleft()
            self._dropped += 1
        if self._working is None:
            self._working = self._work()
            self._server.turns.add(self._work_on)

    def _work_on(self) -> None:
        """For a while, then others have their turn: an assignment of thousands takes long to compare."""
        self._work_until(self._server.turns.piece_ends())
        if self._working is not None:
            self._server.turns.add(self._work_on)

    def finish(self) -> None:
        """Writes what is left."""
        while self._working is not None:
            self._work_until(inf)

    def _work_until(self, ends: float) -> None:
        for _ in self._working or ():
            if len(self._rows) >= _PORTION or monotonic() >= ends:
                break
        else:
            self._working = None
        if self._rows:
            rows, self._rows = self._rows, []
            self._append(rows, self._server.clock.wall_time())

    def _work(self) -> Iterator[None]:
        while self._events:
            journal, event = self._events.popleft()
            row = event_row(event, self._ahead)
            if isinstance(event, MemberJoined):
                row |= self._origin(event)
            if isinstance(event, MembersSynced):
                yield from self._add(event.group_id, row)
            else:
                self._keep(event.group_id, _json(self._with_dropped(row)))
                yield
            if isinstance(event, StateChanged | TargetReached) and journal is not None:
                yield from self._settle(journal)

    def _origin(self, event: MemberJoined) -> dict[str, str]:
        """As whom and by which listener a member has come; empty, if it is gone again already. Kafka does not tell."""
        shard = self._server.group_coordinator.shard_of(event.group_id)
        member = shard.core.find_noted(event.group_id, event.who.member_id)
        if member is None:
            return {"principal": "", "listener": ""}
        notes = intervals_of(member)
        return {"principal": _plain(notes.principal), "listener": notes.listener}

    def _settle(self, journal: Journal) -> Iterator[None]:
        """With the event that ends a rebalance comes the row of the whole rebalance, and of those it overtook."""
        while journal.has_unsettled:
            for entry in journal.settling():
                if entry is None:
                    yield
                else:
                    yield from self._add(entry.group_id, _row_of(entry, self._ahead))

    @property
    def _ahead(self) -> int:
        return self._server.clock.wall_time() - self._server.clock.now()

    def _add(self, group_id: str, row: dict[str, Any]) -> Iterator[None]:
        """A row whose lists may be long."""
        pieces = []
        for piece in json_pieces(self._with_dropped(row)):
            pieces.append(piece)
            yield
        self._keep(group_id, "".join(pieces))
        yield

    def _with_dropped(self, row: dict[str, Any]) -> dict[str, Any]:
        if self._dropped:
            row["dropped"], self._dropped = self._dropped, 0
        return row

    def _keep(self, group_id: str, row: str) -> None:
        self._rows.append(Record(len(self._rows), self._server.clock.wall_time(), group_id.encode(), row.encode(), ()))

    def _append(self, rows: list[Record], now: int) -> None:
        try:
            topic = self._server.topics.get(JOURNAL_TOPIC) or self._server.topics.create_internal(JOURNAL_TOPIC, 1, {})
            batch = memoryview(build_batch(rows))
            self._server.append(topic.partitions[0], batch, [(0, read_header(batch))], now)
        except KafkaError as error:
            if not self._unwritten:
                log.error("events of groups cannot be written to %s and are lost: %s", JOURNAL_TOPIC, error)
            self._unwritten += len(rows)
        else:
            if self._unwritten:
                log.warning("%s is written to again; %d events of groups were lost", JOURNAL_TOPIC, self._unwritten)
            self._unwritten = 0


def event_row(event: Event, ahead: int) -> dict[str, Any]:
    """Groups count in a time that never jumps, so that phases have their true length; the wall clock is `ahead`."""
    return {"type": _words(type(event).__name__), **_plain(event), "group_id": event.group_id, "at": event.at + ahead}


def json_pieces(row: dict[str, Any]) -> Iterator[str]:
    """A row as JSON. Its lists may have thousands of elements, and may be iterators: they come in pieces, so that
    others are served in between."""
    short: dict[str, Any] = {}
    before = "{"
    for name, value in row.items():
        some = list(islice(value, _AT_ONCE + 1)) if isinstance(value, Iterator) else value
        if not isinstance(some, list) or len(some) <= _AT_ONCE:
            short[name] = some
            continue
        yield f"{before}{_fields(short)}{_json(name)}:["
        rest = chain(some, value) if isinstance(value, Iterator) else iter(value)
        yield _json(list(islice(rest, _AT_ONCE)))[1:-1]
        while following := list(islice(rest, _AT_ONCE)):
            yield "," + _json(following)[1:-1]
        short, before = {}, "],"
    yield f"{before}{_fields(short)}".removesuffix(",") + "}"


def _fields(row: dict[str, Any]) -> str:
    return _json(row)[1:-1] + "," if row else ""


_json = json.JSONEncoder(separators=(",", ":")).encode


def rebalance_row(entry: Rebalance, ahead: int = 0) -> dict[str, Any]:
    """One rebalance as a row of `__rebalances`."""
    return {name: list(one) if isinstance(one, Iterator) else one for name, one in _row_of(entry, ahead).items()}


def _row_of(entry: Rebalance, ahead: int) -> dict[str, Any]:
    """The row, with iterators for what may be long."""
    of_target = _target_fields(entry) if entry.is_target else {}
    phases = {"detect": entry.detect_ms, "join": entry.join_ms, "assign": entry.assign_ms, "sync": entry.sync_ms}
    return {
        "type": "rebalance",
        "group_id": entry.group_id,
        "at": None if entry.ended is None else entry.ended + ahead,
        "started": entry.started + ahead,
        "old_generation": entry.old_generation,
        "generation": entry.generation,
        "cause": _plain(entry.cause),
        "phases_ms": phases,
        "members": entry.members,
        "waited_for": _plain(entry.waited_for),
        "waited_ms": entry.waited_ms,
        "arrivals": [[_plain(member_id), after] for member_id, after in entry.arrivals.items()],
        "unsynced": [_plain(member_id) for member_id in entry.unsynced],
        "protocol": _plain(entry.protocol),
        "timeouts": [list(row) for row in entry.timeouts],
        "overtaken": entry.overtaken,
        "moved": ([*one, *entry.moved[one]] for one in _in_order(entry.moved)),
        "kept": entry.kept,
        "revoked": (list(partition) for partition in entry.revoked),
        "dark_ms": ([*one, entry.dark_ms[one]] for one in _in_order(entry.dark_ms)),
        "longest_dark_ms": entry.longest_dark_ms,
        "cut": entry.cut,
        **of_target,
    }


def _in_order(partitions: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Sorted. Numbers take a fraction of the time that pairs take."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    for topic in sorted(topics):
        for number in sorted(topics[topic]):
            yield topic, number


def _target_fields(entry: Rebalance) -> dict[str, Any]:
    return {
        "further_causes": [_plain(one) for one in entry.further_causes],
        "called": ([member_id, after_ms] for member_id, after_ms in entry.called.items()),
        "done": ([member_id, after_ms] for member_id, after_ms in entry.done.items()),
        "waits": (list(one) for one in entry.waits),
    }


def _plain(value: Any) -> Any:
    """Enums by their names, named tuples and dataclasses by their fields. A long name is cut, and says by how much.

    The classes that nearly all fields have are asked for first: a large group's rebalance has thousands of rows.
    """
    kind = value.__class__
    if kind is str:
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…+{len(value) - _LONGEST}"
    if kind is int or value is None:
        return value
    fields = {}
    for name in _field_names(kind):
        fields[name] = _plain(getattr(value, name))
    if fields:
        return fields
    if isinstance(value, Enum):
        return value.value if isinstance(value, State) else value.name.lower()
    return [_plain(one) for one in value] if kind is tuple else value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    """Of a dataclass or a named tuple; a plain value has none."""
    if dataclasses.is_dataclass(kind):
        return tuple(row.name for row in dataclasses.fields(kind))
    return getattr(kind, "_fields", ())


@cache
def _words(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")
