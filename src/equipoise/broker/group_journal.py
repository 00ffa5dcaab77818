"""Events of groups on their way to the internal topic `__rebalances`, as JSON, when nobody waits for a reply."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from equipoise.coordinator.events import Event, StateChanged
from equipoise.coordinator.journal import Journal, Rebalance
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.states import State
from equipoise.wire.errors import KafkaError
from equipoise.wire.records.batch import read_header
from equipoise.wire.records.build import Record, build_batch

if TYPE_CHECKING:
    from equipoise.broker.server import Server

log = logging.getLogger(__name__)

JOURNAL_TOPIC = "__rebalances"
_PORTION = 100  # events in one turn of the loop
_MAX_BACKLOG = 10_000  # events; beyond it the oldest are dropped, rather than memory taken


class GroupJournal:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._events: deque[tuple[Journal | None, Event]] = deque(maxlen=_MAX_BACKLOG)
        self._scheduled = False

    def take(self, shard: Shard, events: Iterable[Event]) -> None:
        """Only remembers them; the work is done in a later turn of the loop."""
        for event in events:
            group = shard.groups.get(event.group_id)
            self._events.append((group.journal if group is not None else None, event))
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        now = self._server.clock.wall_time()
        ahead = now - self._server.clock.now()
        rows: list[Record] = []
        for _ in range(min(_PORTION, len(self._events))):
            journal, event = self._events.popleft()
            for entry in _entries(journal, event, ahead):
                key = event.group_id.encode()
                rows.append(Record(len(rows), now, key, json.dumps(entry, separators=(",", ":")).encode(), ()))
        if rows:
            self._append(rows, now)
        self._scheduled = bool(self._events)
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._work)

    def _append(self, rows: list[Record], now: int) -> None:
        try:
            topic = self._server.topics.get(JOURNAL_TOPIC) or self._server.topics.create_internal(JOURNAL_TOPIC, 1, {})
            batch = memoryview(build_batch(rows))
            self._server.append(topic.partitions[0], batch, [(0, read_header(batch))], now)
        except KafkaError as error:
            log.error("%d events of groups could not be written to %s: %s", len(rows), JOURNAL_TOPIC, error)


def _entries(journal: Journal | None, event: Event, ahead: int) -> Iterable[dict[str, Any]]:
    """An event as a row; with the one that ends a rebalance comes the row of the whole rebalance.

    Groups count in a time that never jumps, so that phases have their true length; the wall clock is `ahead` of it.
    """
    yield {"type": _words(type(event).__name__), **_plain(event), "at": event.at + ahead}
    if isinstance(event, StateChanged) and journal is not None:
        while (entry := journal.settle()) is not None:
            yield rebalance_row(entry, ahead)


def rebalance_row(entry: Rebalance, ahead: int = 0) -> dict[str, Any]:
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
        "overtaken": entry.overtaken,
        "moved": [[topic, number, *owners] for (topic, number), owners in sorted(entry.moved.items())],
        "kept": entry.kept,
        "revoked": [list(partition) for partition in entry.revoked],
        "dark_ms": [[topic, number, dark] for (topic, number), dark in sorted(entry.dark_ms.items())],
    }


def _plain(value: Any) -> Any:
    """Enums by their names, named tuples and dataclasses by their fields."""
    if isinstance(value, Enum):
        return value.value if isinstance(value, State) else value.name.lower()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {row.name: _plain(getattr(value, row.name)) for row in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(one) for name, one in value._asdict().items()}
    return value


def _words(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")
