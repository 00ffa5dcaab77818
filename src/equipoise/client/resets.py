"""Positions that have to be looked up: where nothing is committed, out of range, or sought by time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from equipoise.client.config import LATEST, ConsumerConfig
from equipoise.client.leader_epochs import LogPosition
from equipoise.client.offsets import OffsetLookup, Outcomes
from equipoise.client.positions import BY_POLICY, Failure, NoOffsetForPartitionError, Positions
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import KafkaError

Wanted = dict[TopicPartition, tuple[int, int]]  # timestamp, and the epoch for which it is looked up


class Resets:
    """One task, as long as there is something to look up. `on_failure`: the application has something to hear."""

    def __init__(
        self, positions: Positions, lookup: OffsetLookup, config: ConsumerConfig, on_failure: Callable[[], None]
    ) -> None:
        self._positions = positions
        self._lookup = lookup
        self._config = config
        self._on_failure = on_failure
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        if self._task is None and self._positions.resets():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        try:
            while wanted := self._wanted():
                outcomes = await self._lookup.ask({key: timestamp for key, (timestamp, _) in wanted.items()})
                self._apply(wanted, outcomes)
                failures = 0 if outcomes else failures + 1
                if len(outcomes) < len(wanted):
                    await self._lookup.pause(max(failures, 1))
        finally:
            self._task = None

    def _wanted(self) -> Wanted:
        """What to ask ListOffsets. Where auto.offset.reset=none, the application is told instead."""
        policy = self._config.reset_timestamp(int(time.time() * 1000))
        wanted: Wanted = {}
        for partition, (timestamp, epoch) in self._positions.resets().items():
            when = policy if timestamp == BY_POLICY else timestamp
            if when is None:
                self._fail(partition, epoch, Failure(NoOffsetForPartitionError([partition]), passes=False))
            else:
                wanted[partition] = when, epoch
        return wanted

    def _apply(self, wanted: Wanted, outcomes: Outcomes) -> None:
        for partition, outcome in outcomes.items():
            _, epoch = wanted[partition]
            if isinstance(outcome, KafkaError):
                self._fail(partition, epoch, Failure(outcome, passes=True))
            elif outcome.offset < 0:  # no record is as young as that
                self._positions.reset_later(partition, epoch, LATEST)
            else:
                # The epoch is that of the record there, or of the leader at the end: it ends behind the offset in
                # any log that is whole, so the position can be checked by it as if it were that of the record before.
                self._positions.reset_to(partition, epoch, LogPosition(outcome.offset, outcome.leader_epoch))

    def _fail(self, partition: TopicPartition, epoch: int, failure: Failure) -> None:
        self._positions.fail(partition, epoch, failure)
        self._on_failure()
