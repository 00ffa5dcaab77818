"""What became of the records of a trial, for one reader of them."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

Spot = tuple[int, int]  # partition and offset
_NOWHERE = -1  # in the place of a partition


Named = TypeVar("Named", int, Spot)


class Read(NamedTuple):
    at: float  # on the machine's monotonic clock
    partition: int
    offset: int


class Account(NamedTuple):
    reader: str
    acknowledged: int
    read: int
    lost: int
    repeated: int
    stalled_s: float  # the longest time in which nothing new came from some partition

    @property
    def is_exact(self) -> bool:
        return self.lost == self.repeated == 0


def settle(reader: str, acknowledged: Collection[Named], read: Counter[Named], stalled_s: float) -> Account:
    """By the names of the records, their numbers or places, each of which was written once."""
    lost = sum(name not in read for name in acknowledged)
    repeated = sum(times - 1 for times in read.values())
    return Account(reader, len(acknowledged), len(read), lost, repeated, stalled_s)


def places(acknowledged: Collection[int], log: Mapping[Spot, int]) -> set[Spot]:
    """Where the acknowledged records are in the log: each place is to be read once. A lost one keeps its number.

    librdkafka's idempotent producer may store a batch twice when a leader dies: then a record has two places."""
    found = {place for place, number in log.items() if number in acknowledged}
    return found | {(_NOWHERE, number) for number in set(acknowledged).difference(log.values())}


def longest_stall(reads: Iterable[Read]) -> float:
    """Between two records of one partition, whichever it is. A fault stalls some partitions, not all."""
    times: dict[int, list[float]] = defaultdict(list)
    for one in reads:
        times[one.partition].append(one.at)
    gaps = [later - earlier for found in times.values() for earlier, later in itertools.pairwise(sorted(found))]
    return max(gaps, default=0.0)


def table(accounts: Iterable[Account]) -> str:
    titles = ("reader", "acknowledged", "read", "lost", "repeated", "longest stall of a partition")
    rows = [_line(titles), _line(["---"] * len(titles))]
    return "\n".join([*rows, *(_line(_cells(account)) for account in accounts)])


def _cells(account: Account) -> list[str]:
    reader, *counts, stalled_s = account
    return [reader, *(f"{count:,}" for count in counts), f"{stalled_s:.1f} s"]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
