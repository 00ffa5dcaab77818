"""Looks up positions: for partitions without a commit, out of range, or sought by time
(OffsetFetcher.resetPositionsIfNeeded)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from equipoise.client.consumer.config import LATEST, ConsumerConfig
from equipoise.client.fetch.subscription_state import (
    BY_POLICY,
    FetchFailure,
    NoOffsetForPartitionError,
    SubscriptionState,
)
from equipoise.client.metadata.leader_epochs import LogPosition
from equipoise.client.metadata.list_offsets import Outcomes
from equipoise.client.metadata.offset_lookup import OffsetLookup
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import KafkaError, UsageError

PendingResets = dict[TopicPartition, tuple[int, int]]  # timestamp, and the epoch for which it is looked up


class OffsetResets:
    """A task for each leader that is asked: one that does not answer delays nobody else's. `on_failure`: the
    application has something to hear."""

    def __init__(
        self,
        subscriptions: SubscriptionState,
        lookup: OffsetLookup,
        config: ConsumerConfig,
        on_failure: Callable[[], None],
    ) -> None:
        self._subscriptions = subscriptions
        self._lookup = lookup
        self._config = config
        self._on_failure = on_failure
        self._under_way: dict[TopicPartition, int] = {}  # for which epoch
        self._failures: dict[int | None, int] = {}  # in a row, by leader
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Whatever is to be looked up and is not being looked up."""
        wanted = {key: one for key, one in self._wanted().items() if self._under_way.get(key) != one[1]}
        for node_id, mine in self._lookup.by_leader(wanted).items() if wanted else ():
            asked = {key: wanted[key] for key in mine}
            self._under_way |= {key: epoch for key, (_, epoch) in asked.items()}
            task = asyncio.get_running_loop().create_task(self._look_up(node_id, asked))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Ends all that is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self, node_id: int | None, wanted: PendingResets) -> None:
        outcomes: Outcomes = {}
        try:
            if node_id is not None:
                outcomes = await self._ask(node_id, wanted)
            self._apply(wanted, outcomes)
            self._failures[node_id] = 0 if outcomes else self._failures.get(node_id, 0) + 1
            if len(outcomes) < len(wanted):
                await self._lookup.pause(max(self._failures[node_id], 1))
        finally:
            for key, (_, epoch) in wanted.items():
                if self._under_way.get(key) == epoch:
                    del self._under_way[key]
        self.begin()

    async def _ask(self, node_id: int, wanted: PendingResets) -> Outcomes:
        try:
            return await self._lookup.ask_leader(node_id, {key: timestamp for key, (timestamp, _) in wanted.items()})
        except UsageError as error:  # the broker cannot be asked: the application is to know
            for key, (_, epoch) in wanted.items():
                self._fail(key, epoch, FetchFailure(error, passes=True))
            return {}

    def _wanted(self) -> PendingResets:
        """What to ask ListOffsets. Where auto.offset.reset=none, the application is told instead."""
        policy = self._config.reset_timestamp(int(time.time() * 1000))
        wanted: PendingResets = {}
        for partition, (timestamp, epoch) in self._subscriptions.partitions_needing_reset().items():
            when = policy if timestamp == BY_POLICY else timestamp
            if when is None:
                self._fail(partition, epoch, FetchFailure(NoOffsetForPartitionError([partition]), passes=False))
            else:
                wanted[partition] = when, epoch
        return wanted

    def _apply(self, wanted: PendingResets, outcomes: Outcomes) -> None:
        for partition, outcome in outcomes.items():
            _, epoch = wanted[partition]
            if isinstance(outcome, KafkaError):
                self._fail(partition, epoch, FetchFailure(outcome, passes=True))
            elif outcome.offset < 0:  # no record is as young as that
                self._subscriptions.reset_later(partition, epoch, LATEST)
            else:
                # The epoch is that of the record there, or of the leader at the end: it ends behind the offset in
                # any log that is whole, so the position can be checked by it as if it were that of the record before.
                self._subscriptions.reset_to(partition, epoch, LogPosition(outcome.offset, outcome.leader_epoch))

    def _fail(self, partition: TopicPartition, epoch: int, failure: FetchFailure) -> None:
        self._subscriptions.fail(partition, epoch, failure)
        self._on_failure()
