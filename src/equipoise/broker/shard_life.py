"""What the coordinators of groups and of transactions have in common: shards on the partitions of an internal topic,
their logs, batch by batch, and one timer for the next deadline of each."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from equipoise.broker.clock import Clock, Timer
from equipoise.broker.cluster.placement import NOBODY
from equipoise.broker.topics.config import stored
from equipoise.coordinator.placement import partition_for
from equipoise.wire.records.batch import BatchHeader, iter_headers

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition

_LOAD_BYTES = 1 << 18  # some 10 ms of work between two turns for the other clients, while a shard is loaded


async def batches_of(partition: Partition) -> AsyncIterator[tuple[memoryview, int, BatchHeader]]:
    """Every batch of the log, with its place, letting others have their turn. What a broker before us has written is
    durable first."""
    source = partition.log
    settled, end = asyncio.Event(), source.log_end_offset
    if end:
        partition.when_settled(end - 1, settled.set)
        await settled.wait()
    offset = source.log_start_offset
    while offset < source.log_end_offset:
        views = source.read(offset, _LOAD_BYTES, source.log_end_offset)
        if not views:
            return
        for view in views:
            for pos, header in iter_headers(view):
                yield view, pos, header
                offset = header.last_offset + 1
        await asyncio.sleep(0)


class DeadlineTimer:
    """Calls `tick` when the next deadline passes. It is asked again after every step."""

    def __init__(self, clock: Clock, next_deadline: Callable[[], int | None], tick: Callable[[], None]) -> None:
        self._clock = clock
        self._next_deadline = next_deadline
        self._tick = tick
        self._timer: Timer | None = None
        self._at: int | None = None

    def arm(self) -> None:
        """A deadline that has moved away is noticed when it comes up; an earlier one counts at once."""
        deadline = self._next_deadline()
        if deadline is None or (self._at is not None and self._at <= deadline):
            return
        self.cancel()
        self._at = deadline
        self._timer = self._clock.call_later(max(deadline - self._clock.now(), 0), self._fire)

    def _fire(self) -> None:
        self._timer = self._at = None
        self._tick()

    def cancel(self) -> None:
        """Until it is armed again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._at = None


class ShardRunner(Protocol):
    """Runs one shard: a pure core on its partition."""

    core: Any
    partition: Partition

    @property
    def node_id(self) -> int:
        """The broker that leads the partition."""

    def activate(self) -> None:
        """All that the log says is known: the shard serves."""

    def retire(self) -> None:
        """Another broker leads the partition."""


Runner = TypeVar("Runner", bound=ShardRunner)
Core = TypeVar("Core")


class ShardedCoordinator(ABC, Generic[Runner, Core]):
    """All shards of a coordinator. Nothing is opened before the first id is asked for."""

    topic_name: str  # the internal topic

    def __init__(self, server: Server) -> None:
        self._server = server
        self._shards: list[Runner] = []

    @abstractmethod
    def _runner(self, partition: Partition) -> Runner: ...

    @abstractmethod
    def _load_again(self, shard: Runner) -> None: ...

    @abstractmethod
    def _layout(self) -> tuple[int, dict[str, str]]:
        """Partitions of the internal topic, and its configs beside compaction."""

    def _open_topic(self) -> list[Runner]:
        """The shards that have to be loaded, if the topic exists."""
        topic = self._server.topics.get(self.topic_name)
        if topic is not None and not self._shards:
            self._shards = [self._runner(one) for one in topic.partitions]
        self._server.cluster.coordinators[self.topic_name] = self._moved
        return [one for one in self._shards if one.node_id != NOBODY]

    def _moved(self, index: int) -> None:
        """Another broker coordinates the ids of this shard: it has what is in the log, and nothing else. Rule 5.3.
        Kafka: GroupCoordinatorService.onElection, GroupCoordinatorService.onResignation,
        TransactionCoordinator.onElection, TransactionCoordinator.onResignation."""
        if index < len(self._shards):
            old = self._shards[index]
            shard = self._shards[index] = self._runner(old.partition)
            old.retire()
            if shard.node_id == NOBODY:
                shard.retire()
            else:
                self._load_again(shard)

    @property
    def shards(self) -> list[Runner]:
        """All shards. The first caller creates the internal topic."""
        if not self._shards:
            self._create()
        return self._shards

    @property
    def opened(self) -> list[Core]:
        """What there is, without opening anything."""
        return [shard.core for shard in self._shards]

    def _create(self) -> None:
        count, configs = self._layout()
        topic = self._server.topics.create_internal(
            self.topic_name, count, stored({"cleanup.policy": "compact", **configs})
        )
        self._shards = [self._runner(one) for one in topic.partitions]
        for shard in self._shards:
            shard.activate()

    def shard_of(self, name: str) -> Runner:
        """The shard of a group or of a transactional id, by the hash of its name. Rule T.1.
        Kafka: GroupCoordinatorService.partitionFor, TransactionStateManager.partitionFor."""
        shards = self.shards
        return shards[partition_for(name, len(shards))]

    def node_of(self, name: str) -> int:
        """The broker that coordinates it; NOBODY: none does."""
        return self.shard_of(name).node_id
