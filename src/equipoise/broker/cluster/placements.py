"""The placements of all partitions, durable before they are seen. A broker that is alone and has always been needs
none: it leads every partition in epoch 0, and nothing is saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from equipoise.broker.cluster.placement import Placement, spread

Rows = dict[str, list[list[Any]]]  # by topic id in hex: each partition's placement


class Replication(NamedTuple):
    """What is asked for with a topic: a replication factor, or the replicas of each partition. Neither: the default."""

    factor: int | None = None
    replicas: tuple[tuple[int, ...], ...] = ()

    def size(self, default: int) -> int:
        """The replication factor."""
        return len(self.replicas[0]) if self.replicas else self.factor or default


DEFAULT = Replication()


class Store(Protocol):
    """What placements need of a data directory."""

    def load_placements(self) -> Rows:
        """As they were last saved."""

    def save_placements(self, rows: Rows) -> None:
        """Replaces all of them, durably."""


class Placements:
    """By topic id and number of the partition."""

    def __init__(self, store: Store, nodes: Sequence[int], default_factor: int) -> None:
        self.nodes = list(nodes)
        self._default_factor = default_factor
        self._store = store
        self._placed = {
            bytes.fromhex(topic_id): [_parse(row) for row in rows] for topic_id, rows in store.load_placements().items()
        }
        self._next = sum(map(len, self._placed.values()))  # who leads first of the next topic
        self.alone = Placement((self.nodes[0],), self.nodes[0])

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever placed."""
        return not self._placed

    def of(self, topic_id: bytes, index: int) -> Placement:
        """Of a partition that was never placed: the first broker has led it all the time."""
        rows = self._placed.get(topic_id)
        return rows[index] if rows is not None and index < len(rows) else self.alone

    def is_placed(self, topic_id: bytes, index: int) -> bool:
        """Whether it was ever placed."""
        return index < len(self._placed.get(topic_id, ()))

    def add(self, wanted: Iterable[tuple[bytes, int, Replication]], live: Sequence[int]) -> None:
        """Places new topics, or new partitions of topics, up to so many. Saved before the topics are."""
        if len(self.nodes) == 1:
            return
        changed = dict(self._placed)
        for topic_id, count, replication in wanted:
            had = changed.get(topic_id, [])
            replicas = replication.replicas or self.spread(count - len(had), replication.factor)
            changed[topic_id] = had + [_first(one, live) for one in replicas]
        self._save(changed)

    def spread(self, count: int, factor: int | None) -> list[tuple[int, ...]]:
        """Replicas of so many partitions, with the brokers in turn."""
        found = spread(self.nodes, count, factor=factor or self._default_factor, first=self._next)
        self._next += count
        return found

    def put(self, changes: Mapping[tuple[bytes, int], Placement]) -> None:
        """Other placements of partitions that there are."""
        changed = dict(self._placed)
        for (topic_id, index), placement in changes.items():
            rows = changed[topic_id] = list(changed.get(topic_id, ()))
            rows += [self.alone] * (index + 1 - len(rows))
            rows[index] = placement
        self._save(changed)

    def retain(self, topic_ids: Iterable[bytes]) -> None:
        """At a start: others were deleted, or not yet made, when the process ended."""
        known = set(topic_ids)
        self._placed = {topic_id: rows for topic_id, rows in self._placed.items() if topic_id in known}

    def remove(self, topic_ids: Iterable[bytes]) -> None:
        """Topics that are gone."""
        gone = self._placed.keys() & set(topic_ids)
        if gone:
            self._save({topic_id: rows for topic_id, rows in self._placed.items() if topic_id not in gone})

    def _save(self, placed: dict[bytes, list[Placement]]) -> None:
        rows = {topic_id.hex(): [_plain(one) for one in placements] for topic_id, placements in placed.items()}
        self._store.save_placements(rows)
        self._placed = placed


def _first(replicas: tuple[int, ...], live: Sequence[int]) -> Placement:
    """Of a new partition."""
    return Placement(replicas, next((one for one in replicas if one in live), -1))


def _plain(placement: Placement) -> list[Any]:
    return [list(placement.replicas), placement.leader, placement.epoch, [list(one) for one in placement.starts]]


def _parse(row: Sequence[Any]) -> Placement:
    replicas, leader, epoch, starts = row
    known = tuple((int(first), int(offset)) for first, offset in starts)
    return Placement(tuple(map(int, replicas)), int(leader), int(epoch), known)
