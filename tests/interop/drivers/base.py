"""What a test may ask of any client. One driver per client, so that a test is written once for all of them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tests.interop.records import Record

PATIENCE_S = 120.0  # no step here takes a tenth of it; a client that has not done by then never will


class MissingClient(Exception):
    """The client is not installed on this machine; the message says what is missing."""


class Driver(ABC):
    """A Kafka client. Steps that it cannot do are named in `lacks`, with the reason."""

    name: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @abstractmethod
    def create_topic(self, topic: str, partitions: int) -> None: ...

    @abstractmethod
    def count_partitions(self, topic: str) -> int | None:
        """As the client's metadata tells; None if there is no such topic. Never creates it."""

    @abstractmethod
    def produce(self, topic: str, records: Sequence[Record], codec: str, *, idempotent: bool = False) -> None:
        """Writes each record to its partition, in order, and returns when all are acknowledged (acks=all)."""

    @abstractmethod
    def consume(self, topic: str, starts: Mapping[int, int]) -> list[Record]:
        """By assignment: each partition from the offset given up to its end, sorted by partition and offset."""

    def consume_all(self, topic: str, partitions: int) -> list[Record]:
        return self.consume(topic, dict.fromkeys(range(partitions), 0))

    @abstractmethod
    def offsets_for_time(self, topic: str, partitions: int, timestamp: int) -> dict[int, int | None]:
        """For each partition the first offset not older than `timestamp`, or None."""

    @abstractmethod
    def add_partitions(self, topic: str, total: int) -> None: ...

    @abstractmethod
    def delete_topic(self, topic: str) -> None: ...

    def writable(self, record: Record) -> Record:
        """The nearest record that this client is able to write."""
        return record

    def readable(self, record: Record) -> Record:
        """The record as far as this client is able to show it."""
        return record

    def close(self) -> None:  # noqa: B027
        """Lets go of connections and processes, where a client keeps any."""


class Deadline:
    """Ends a loop that waits for a client: `check` raises once patience is over."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._end = time.monotonic() + PATIENCE_S

    def check(self) -> None:
        if time.monotonic() > self._end:
            raise AssertionError(f"{self._what}: not done within {PATIENCE_S:.0f} s")
