"""Figures of transactions for Prometheus: how many are open and since when, how they ended, and what readers of
committed records wait for. Rule T.99."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from equipoise.coordinator.transactions.states import AT_REST

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition

MOST_PARTITIONS = 1_000  # with a series of their own


class Sample(NamedTuple):
    """One value. `labels` is what stands between braces, or nothing."""

    labels: str
    value: float


class Family(NamedTuple):
    """A metric with its samples."""

    name: str
    kind: str
    text: str
    samples: list[Sample]


def families(server: Server) -> Iterator[Family]:
    """All of them. A broker without transactions has zeros."""
    coordinator = server.transaction_coordinator
    starts = [
        entry.fields.start_ms
        for core in coordinator.opened
        for entry in core.entries.values()
        if entry.state not in AT_REST
    ]
    oldest_s = max(0, server.clock.wall_time() - min(starts)) / 1000 if starts else 0
    ended = [Sample(f'reason="{one.name.lower()}"', count) for one, count in coordinator.ended.items()]
    yield Family("transactions_open", "gauge", "Transactions that are open.", [Sample("", len(starts))])
    yield Family("transaction_oldest_seconds", "gauge", "Age of the oldest open one.", [Sample("", oldest_s)])
    yield Family("transactions_begun_total", "counter", "Transactions.", [Sample("", coordinator.begun)])
    yield Family("transactions_ended_total", "counter", "Transactions by end.", ended)
    yield Family("producers_fenced_total", "counter", "Requests of past producers.", [Sample("", coordinator.fenced)])
    yield from _unstable(server)


def _unstable(server: Server) -> Iterator[Family]:
    """How far the last stable offset is behind the high watermark."""
    found = [one for topic in server.topics for one in topic.partitions if _behind(one) > 0]
    found.sort(key=_behind, reverse=True)
    rows = [Sample(_labels(one), _behind(one)) for one in found[:MOST_PARTITIONS]]
    text = "Records that readers of committed ones wait for."
    yield Family("unstable_partitions", "gauge", "Partitions with an open transaction.", [Sample("", len(found))])
    yield Family("unstable_records", "gauge", text, rows)


def _behind(partition: Partition) -> int:
    log = partition.log
    return log.high_watermark - log.last_stable_offset if log.producers.open_transactions else 0


def _labels(partition: Partition) -> str:
    """A topic's name has no letter that would have to be escaped."""
    return f'topic="{partition.topic.name}",partition="{partition.index}"'
