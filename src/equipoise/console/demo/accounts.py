"""Accounts for every order: which orders are in the outputs, how often, and whether that keeps the promise.

The promise: no order is missing. Only a killed query may have written orders that others wrote too, all of them in its
last batch, which it could not commit.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse


class QueryOutput(NamedTuple):
    """The output of one member. `last_batch` counts only if the member was killed."""

    name: str
    orders: list[int]
    last_batch: frozenset[int] = frozenset()


def read_output(name: str, directory: Path, *, was_killed: bool = False) -> QueryOutput:
    """Reads what Spark's list of files names. A file of an unfinished batch is not in it."""
    batches = sorted((int(log.name), log) for log in (directory / "_spark_metadata").glob("[0-9]*"))
    orders = [_orders_of(log) for _, log in batches]
    last = frozenset(orders[-1]) if orders and was_killed else frozenset()
    return QueryOutput(name, [order for batch in orders for order in batch], last)


def _orders_of(log: Path) -> list[int]:
    import pyarrow.parquet as pq

    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()[1:]]
    found: list[int] = []
    for entry in entries:
        table = pq.read_table(unquote(urlparse(entry["path"]).path), columns=["order"], partitioning=None)
        found += table["order"].to_pylist()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The outcome of the demo: orders by number, and how many each output has."""

    written: int
    counts: dict[str, int]
    missing: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)  # of the batch under way at the kill
    unexplained: list[int] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether the promise was kept."""
        return not self.missing and not self.unexplained

    def lines(self) -> list[str]:
        """The outcome in sentences, for the terminal."""
        shares = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
        told = [f"{self.written:,} orders written; found in the outputs: {shares}."]
        if self.missing:
            told.append(f"{len(self.missing):,} orders are MISSING, the first is {self.missing[0]}.")
        if self.unexplained:
            told.append(f"{len(self.unexplained):,} orders are there twice WITHOUT A REASON, as {self.unexplained[0]}.")
        if self.is_right:
            told.append("None is missing. " + self._seen_again())
        return told

    def _seen_again(self) -> str:
        if not self.again:
            return "None is there twice."
        return (
            f"{len(self.again):,} are there twice, all of them in the batch that was under way when the query was "
            "killed; no other order is."
        )


def account(written: int, outputs: list[QueryOutput]) -> Account:
    """Compares the outputs with the orders that were written, numbered from 0."""
    seen = Counter(order for output in outputs for order in output.orders)
    twice = sorted(order for order, count in seen.items() if count > 1)
    last = frozenset[int]().union(*(output.last_batch for output in outputs))
    return Account(
        written=written,
        counts={output.name: len(output.orders) for output in outputs},
        missing=sorted(set(range(written)) - seen.keys()),
        again=[order for order in twice if order in last and seen[order] == 2],
        unexplained=[order for order in twice if order not in last or seen[order] > 2],
    )
