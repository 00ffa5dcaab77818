"""A query as a member of a consumer group: what it owns, when it gives that up, and what it commits.

All of it runs on the loop of its reader. The rule of hand-over: the query gives up a revoked partition at once if no
running batch holds it, else when that batch is finished and committed. If Spark does not call for max.poll.interval.ms,
the member leaves; it rejoins at Spark's next call.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable

from equipoise.client.group.committed_offsets import CommittedOffsetFetcher, Found
from equipoise.client.group.membership import Membership, now_ms
from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.member import AnyMember, Callback, CallbackKind, Step, TopicPartition
from equipoise.member.partitions import NOTHING, Owned, listed
from equipoise.spark.options import ConsumerStrategy
from equipoise.spark.source.offset_reader import OffsetReader
from equipoise.spark.source.source_offset import PartitionRanges
from equipoise.wire.errors import KafkaError

log = logging.getLogger(__name__)

_LEAVE_SECONDS = 5.0


class QueryMember:
    """Made on the loop. `owned` is what batches may be planned of; `busy` what the batch under way holds."""

    def __init__(self, reader: OffsetReader) -> None:
        config = reader.config
        self.name = config.group_id or ""
        self.owned: Owned = NOTHING
        self.fresh: Owned = NOTHING  # of these: those whose position is still to be found
        self.busy: PartitionRanges = {}
        self.uncommitted: PartitionRanges = {}  # of batches that are finished: the group would not have them
        self.rebalances = 0
        self.news = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None  # its place in the group, perhaps
        self._last_call: int | None = None  # when it ended; None: it goes on, or there was none
        self._is_leaving = False
        self.membership = Membership(config, reader.cluster, self._changed)
        self._committed = CommittedOffsetFetcher(self.membership)
        self._loop = asyncio.get_running_loop()
        reader.cluster.on_metadata = self.membership.learn

    @property
    def member(self) -> AnyMember:
        """The pure state machine."""
        return self.membership.member

    def join(self, strategy: ConsumerStrategy) -> None:
        """Subscribes; the first poll sends JoinGroup."""
        pattern = None if strategy.pattern is None else re.compile(f"^(?:{strategy.pattern})$")
        self.membership.act(lambda member, now: member.subscribe(strategy.topics, pattern, now))

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """Its place in the group, by which offsets are committed in its name."""
        member = self.member
        return ConsumerGroupMetadata(self.name, member.generation_id, member.member_id, member.config.group_instance_id)

    @property
    def kept(self) -> Owned:
        """What it owns, without what the group has taken away and the query has yet to hear of."""
        gone = [callback.partitions for callback in self.member.callbacks if callback.kind is CallbackKind.LOST]
        return self.owned.difference(*gone)

    @property
    def is_settled(self) -> bool:
        """Whether it knows its share: in its group, with nothing to be told."""
        return self.member.knows_share

    @property
    def is_giving_up(self) -> bool:
        """Whether the batch under way keeps a partition from another member."""
        return bool(self.member.callbacks)

    # -- the engine

    def poll_begins(self) -> None:
        """It is alive, and remains so for max.poll.interval.ms after `poll_ends`."""
        self._last_call = None
        self.membership.act(lambda member, now: member.poll_begins(now))
        self._attend()

    def poll_ends(self, records: int) -> None:
        """Spark has its batch: max.poll.interval.ms counts from here until the next one is asked for."""
        self._last_call = now_ms()
        self.member.poll_ends(self._last_call, records=records)
        self.membership.act(lambda member, now: Step())  # the deadline is another now

    def finish_batch(self, uncommitted: PartitionRanges) -> None:
        """What it held is committed, as far as that was possible: now it can be given up."""
        self.busy, self.uncommitted = {}, uncommitted
        self._attend()

    def unknown_to_group(self) -> PartitionRanges:
        """What has been read, or is being read, and is not committed: the next owner begins before it."""
        earlier = {one: start for one, (start, _) in self.uncommitted.items()}
        busy = {one: (earlier.get(one, start), end) for one, (start, end) in self.busy.items()}
        return self.uncommitted | busy

    def take_failure(self) -> KafkaError | None:
        """The error that the query must fail with, once."""
        return self.member.take_failure()

    # -- the member

    def _changed(self) -> None:
        self.on_change()
        self._loop.call_soon(self._attend)

    def _attend(self) -> None:
        """Does what the member asks for, as far as it can be done now."""
        while not self.member.polls.is_waited_for or self._is_leaving:
            waiting = self.member.callbacks
            if not waiting or self._must_wait(waiting[0]):
                break
            callback = self.member.begin_callback()
            assert callback is not None
            self._follow(callback)
            self.on_change()
            self.membership.act(self._callback_done)
        self.news.set()

    def _must_wait(self, callback: Callback) -> bool:
        return callback.kind is CallbackKind.REVOKED and not self.busy.keys().isdisjoint(callback.partitions)

    def _callback_done(self, member: AnyMember, now: int) -> Step:
        """The engine is no nearer for that: its time runs on from its last call."""
        step = member.callback_done(now)
        if self._last_call is not None and not self._is_leaving:
            member.poll_ends(self._last_call)
        return step

    def _follow(self, callback: Callback) -> None:
        kind, partitions = callback
        if kind is CallbackKind.ASSIGNED:
            self.owned |= partitions
            self.fresh |= partitions
            self.rebalances += 1
            log.info("group %s: assigned %s", self.name, listed(partitions))
            return
        self.owned -= partitions
        self.fresh -= partitions
        unknown = {one: bounds for one, bounds in self.unknown_to_group().items() if one in partitions}
        self.uncommitted = {one: bounds for one, bounds in self.uncommitted.items() if one not in partitions}
        if kind is CallbackKind.LOST:
            held = [f"{one} [{start}, {end})" for one, (start, end) in sorted(unknown.items())]
            log.warning(
                "group %s has gone on without this query, which loses %s; read, or being read, and not committed: %s, "
                "which others may read too",
                self.name,
                listed(partitions),
                ", ".join(held) or "none of them",
            )
        else:
            log.info("group %s: gave up %s", self.name, listed(partitions))

    # -- offsets

    async def fetch(self, partitions: Iterable[TopicPartition]) -> Found:
        """The group's committed offsets of these partitions."""
        return await self._committed.fetch(partitions)

    # -- the end

    async def leave(self) -> None:
        """Commits under way first. A static member stays in the group until its session ends."""
        self._is_leaving, self.busy = True, {}
        self.membership.act(lambda member, now: member.close(now))
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                while not self.member.has_left:
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            log.warning("group %s could not be left within %g s: its session will end", self.name, _LEAVE_SECONDS)
        self.membership.close()
