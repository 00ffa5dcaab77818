"""Accounts for every order: which orders were shipped, by whom, how often, and whether that keeps the promise.

The promise: each order once, whoever is killed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from equipoise.client import Consumer, TopicPartition
from equipoise.console.demo.orders import SHIPPED, SHIPPED_PARTITIONS


class QueryOutput(NamedTuple):
    """The output of one member."""

    name: str
    orders: list[int]


def read_shipped(bootstrap_servers: str, names: Iterable[str]) -> list[QueryOutput]:
    """What each query has written, for a reader with read_committed: a record's key is the name of the query."""
    found: dict[str, list[int]] = defaultdict(list)
    with _shipped(bootstrap_servers, "read_committed") as reader:
        ends = reader.end_offsets()
        while any(reader.position(one) < end for one, end in ends.items()):
            for record in reader.poll(1.0):
                found[(record.key or b"").decode()].append(json.loads(record.value or b"")["order"])
    return [QueryOutput(name, found[name]) for name in names]


def has_open_transactions(bootstrap_servers: str) -> bool:
    """Whether a query has still to commit what it has written."""
    with (
        _shipped(bootstrap_servers, "read_committed") as committed,
        _shipped(bootstrap_servers, "read_uncommitted") as written,
    ):
        return committed.end_offsets() != written.end_offsets()


def _shipped(bootstrap_servers: str, isolation_level: str) -> Consumer:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "isolation.level": isolation_level,
            "auto.offset.reset": "earliest",
        }
    )
    reader.assign([TopicPartition(SHIPPED, number) for number in range(SHIPPED_PARTITIONS)])
    return reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The outcome of the demo: orders by number, and how many each output has."""

    written: int
    counts: dict[str, int]
    missing: list[int] = field(default_factory=list)
    twice: list[int] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether the promise was kept."""
        return not self.missing and not self.twice

    def lines(self) -> list[str]:
        """The outcome in sentences, for the terminal."""
        shares = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
        told = [f"{self.written:,} orders written; found in the outputs: {shares}."]
        if self.missing:
            told.append(f"{len(self.missing):,} orders are MISSING, the first is {self.missing[0]}.")
        if self.twice:
            told.append(f"{len(self.twice):,} orders are there TWICE, the first is {self.twice[0]}.")
        if self.is_right:
            told.append("0 orders are missing, 0 orders are there twice.")
        return told


def account(written: int, outputs: list[QueryOutput]) -> Account:
    """Compares the outputs with the orders that were written, numbered from 0."""
    seen = Counter(order for output in outputs for order in output.orders)
    return Account(
        written=written,
        counts={output.name: len(output.orders) for output in outputs},
        missing=sorted(set(range(written)) - seen.keys()),
        twice=sorted(order for order, count in seen.items() if count > 1),
    )
