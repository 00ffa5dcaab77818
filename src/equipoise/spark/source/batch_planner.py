"""Plans the next batch of a streaming query: the positions of its partitions, their ends, and the size of the batch.

All of it runs on the loop of its reader.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from dataclasses import replace

from equipoise.client.consumer.config import LATEST
from equipoise.client.fetch.fetch_request import FetchLimits, PartitionFetch, fetch_request, has_records, newest_version
from equipoise.client.metadata.leader_epochs import LogPosition
from equipoise.client.net.lasting_warnings import LastingWarning
from equipoise.client.net.pool import Purpose
from equipoise.member.partitions import TopicPartition, listed
from equipoise.spark.options import SourceOptions
from equipoise.spark.source.all_partitions import AllPartitions
from equipoise.spark.source.group_partitions import GroupPartitions, not_joined
from equipoise.spark.source.offset_reader import OffsetReader
from equipoise.spark.source.read_limit import BatchDelay, available, rate_limit
from equipoise.spark.source.source_offset import INITIAL, PartitionOffsetMap, PartitionRanges, SourceOffset
from equipoise.spark.source.truncation import PositionValidation, loss_of_records, loss_of_topics
from equipoise.wire.apis.k01_fetch import FetchResponse
from equipoise.wire.errors import EquipoiseError, UsageError

log = logging.getLogger(__name__)

_LONG_POLL_SECONDS = 0.25  # Spark asks again at once: an idle query had better wait here
_JOIN_SECONDS = 10.0  # in which the group may be joined; brokers wait 3 s for the second member
_UNMATCHED_SECONDS = 10.0  # after which a pattern without topics is told: it may be there before them
_ABSENT_SECONDS = 5.0  # after which a topic that the cluster does not know is taken to be deleted


class BatchPlanner:
    """The plan of one query, from its first batch to its end."""

    def __init__(self, reader: OffsetReader, options: SourceOptions) -> None:
        self.partitions: AllPartitions | GroupPartitions = (
            GroupPartitions if options.group_mode == "member" else AllPartitions
        )(reader, options)
        self.ends: PartitionOffsetMap = {}  # the last known
        self.lag = 0  # behind the batch that was planned last
        self._reader = reader
        self._options = options
        self._delay = BatchDelay(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self._available_now: PartitionOffsetMap | None = None  # of a query that reads what is there and ends
        self._absent: set[TopicPartition] = set()  # those whose end was waited for in vain
        self._validation = PositionValidation(reader)
        self._unmatched = LastingWarning(self._tell_unmatched, _UNMATCHED_SECONDS)
        self._has_heard = False  # of the topics in the checkpoint
        self._recreated: dict[str, str] = {}  # topics that were told of, and the ids that they have no more
        self._query = uuid.uuid4().hex  # of a query that begins; one that goes on has it from the checkpoint
        self._start = INITIAL

    async def prepare_for_available_now(self) -> None:
        """availableNow: nothing that is written from now on is read. Without failOnDataLoss a deleted topic is no
        error: if the query has just begun, the first batch looks."""
        there = await self._reader.listing(self._options.strategy, must_exist=self._options.fail_on_data_loss)
        self._available_now = await self._reader.ends(there, LATEST)

    async def latest_offset(self, start: SourceOffset, limit: int | None) -> SourceOffset | None:
        """The end of the next batch; None: there is nothing to read yet."""
        self._start = start = start if start.query else replace(start, query=self._query)
        self.partitions.poll_begins()
        end: SourceOffset | None = None
        try:
            await self.partitions.commit_batch(start)
            end = await self._plan(start, limit)
        finally:
            self.partitions.poll_ends({} if end is None else end.ranges(start))
        return end

    async def hold_again(self, ranges: PartitionRanges) -> PartitionRanges:
        """Of a batch that was under way when the query ended: what is still this query's to read."""
        self.partitions.poll_begins()
        held: PartitionRanges = {}
        try:
            held = await self.partitions.hold_again(ranges)
        finally:
            self.partitions.poll_ends(held)
        return held

    async def claim(self, batch: SourceOffset, ranges: PartitionRanges) -> None:
        """Tells the sink what the batch reads."""
        self.partitions.claim(batch, ranges)

    async def _plan(self, start: SourceOffset, limit: int | None) -> SourceOffset | None:
        deadline = time.monotonic() + _LONG_POLL_SECONDS
        while True:
            is_settled = self.partitions.is_settled
            start = await self._of_these_topics(start)
            positions = await self.partitions.positions(start)
            self._look_for_matches()
            ends = await self._ends(positions, start)
            positions = await self.partitions.ready(positions, deadline - time.monotonic())
            deleted = self.partitions.take_deleted() - self._absent
            self._report_absent(deleted)
            self._absent |= deleted
            sizes = available(positions, ends)
            is_enough = bool(sizes) and self._is_enough(sum(sizes.values()))
            if is_enough or self.partitions.must_record(start, positions):
                planned = rate_limit(positions, ends, limit)
                self.lag = sum(available(planned, self.ends).values())
                return self._offset(start, positions, planned)
            self.lag = sum(available(positions, self.ends).values())
            is_settled = is_settled and self.partitions.is_settled
            left = deadline - time.monotonic()
            if self._is_over(left, is_settled=is_settled):
                return None
            await self._until_news(positions, max(left, 0.01), has_data=bool(sizes))

    def _is_over(self, left: float, *, is_settled: bool) -> bool:
        """Whether the answer to Spark is that there is nothing to read.

        Spark may not ask again for minutes, so the member joins its group first. A query that ends with this answer
        must know its share."""
        if is_settled:
            return self._available_now is not None or left <= 0
        patience = self._options.consumer.default_api_timeout_ms / 2000
        if self._available_now is None:
            return left <= -min(_JOIN_SECONDS, patience)
        if left <= -patience:
            raise not_joined(self._options.consumer.group_id, patience)
        return False

    def _is_enough(self, size: int) -> bool:
        return self._available_now is not None or self._delay.is_over(size, time.monotonic_ns() // 1_000_000)

    async def _of_these_topics(self, start: SourceOffset) -> SourceOffset:
        """Without offsets of topics that were recreated meanwhile: the same offset is another record there."""
        if not self._has_heard:
            await self._reader.learn_topics(start.ids)
            self._has_heard = True
        anew = self._reader.recreated(start.ids)
        new = {name for name in anew if self._recreated.get(name) != start.ids[name]}
        if new:
            self._report_loss(loss_of_topics(new), " with the first record of the new one")
            self._recreated |= {name: start.ids[name] for name in new}
            self.partitions.forget_topics(new)
        return start.without(anew) if anew else start

    async def _check_epochs(self, positions: PartitionOffsetMap, start: SourceOffset) -> None:
        held = {one: LogPosition(at, self.partitions.epoch(start, one, at)) for one, at in positions.items()}
        for one, truncation in await self._validation.find_truncations(held):
            at = positions[one] if truncation.divergent is None else truncation.divergent.offset
            self._report_loss(loss_of_records(one, truncation), f" from {at}, with what stands there now")
            positions[one] = at
            self.partitions.move(one, at)

    async def _ends(self, positions: PartitionOffsetMap, start: SourceOffset) -> PartitionOffsetMap:
        ends = await self._latest(positions)
        self.ends = dict(ends)
        await self._check_epochs(positions, start)
        ends |= await self._ends_passed(positions, ends)
        if self._available_now is not None:
            goal = self._available_now
            ends = {one: max(min(at, goal.get(one, 0)), positions[one]) for one, at in ends.items()}
        return ends

    async def _ends_passed(self, positions: PartitionOffsetMap, ends: PartitionOffsetMap) -> PartitionOffsetMap:
        """Of partitions that stand behind their end. With read_committed that is no loss, if only a transaction is open
        there: who was here before, this query with other options or another member, has read it."""
        passed = {one for one, at in ends.items() if at < positions[one]}
        if passed and self._options.consumer.isolation:
            written = await self._reader.written(passed)
            waiting = {one for one in passed if positions[one] <= written[one]}
        else:
            waiting = set()
        for one in sorted(passed - waiting):
            self._lost(one, positions, ends[one])
        return {one: positions[one] for one in waiting}

    async def _latest(self, positions: PartitionOffsetMap) -> PartitionOffsetMap:
        """Takes out of `positions` what is not there any more, when that is certain."""
        while True:
            self._absent = {one for one in self._absent if not self._reader.has(one)}
            for one in self._absent & positions.keys():
                del positions[one]
            asked = asyncio.create_task(self._reader.ends(positions, LATEST))
            try:
                await self._until_answered(asked, positions)
                if asked.done():
                    return asked.result()
            finally:
                asked.cancel()

    async def _until_answered(self, asked: asyncio.Task[PartitionOffsetMap], positions: PartitionOffsetMap) -> None:
        """Or until it is clear that there will be no answer, since one of the topics is deleted."""
        while not asked.done():
            await asyncio.wait({asked}, timeout=_ABSENT_SECONDS)
            absent = set() if asked.done() else {one for one in positions if not self._reader.has(one)}
            if absent:
                self._report_absent(absent)
                self._absent |= absent
                return

    def _lost(self, partition: TopicPartition, positions: PartitionOffsetMap, end: int) -> None:
        told = (
            f"{partition} ends at {end}, before offset {positions[partition]} where the query stands: the topic was "
            "made anew, or has lost its end"
        )
        self._report_loss(told, f" from {end}")
        positions[partition] = end
        self.partitions.move(partition, end)

    def _report_absent(self, absent: set[TopicPartition]) -> None:
        if absent:
            self._report_loss(f"{listed(absent)} is not there any more: what was not read yet is lost", "")

    def _report_loss(self, told: str, where: str) -> None:
        if self._options.fail_on_data_loss:
            raise UsageError(f"{told}; set failOnDataLoss to false to go on{where}")
        log.warning("%s; going on%s", told, where)

    def _offset(self, start: SourceOffset, positions: PartitionOffsetMap, ends: PartitionOffsetMap) -> SourceOffset:
        return SourceOffset(
            to=ends,
            since={one: at for one, at in positions.items() if start.to.get(one) != at},
            query=start.query,
            batch=start.batch + 1,
            seen=self.partitions.seen(),
            group=self._options.consumer.group_id or "",
            epochs={one: epoch for one in ends if (epoch := self._reader.epochs.get(one, -1)) >= 0},
            ids=self._reader.topic_ids({one.topic for one in ends}),
        )

    # -- waiting

    async def _until_news(self, positions: PartitionOffsetMap, seconds: float, *, has_data: bool) -> None:
        """Until records come, or the time is up. Where there are some, but not enough, it is up soon."""
        if has_data or not positions:
            await asyncio.sleep(min(seconds, 0.05))
            return
        waits = [
            asyncio.create_task(self._wait_at(node_id, {one: positions[one] for one in mine}, seconds))
            for node_id, mine in self._reader.lookup.by_leader(positions).items()
            if node_id is not None
        ]
        waits.append(asyncio.create_task(asyncio.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def _wait_at(self, node_id: int, positions: PartitionOffsetMap, seconds: float) -> None:
        """A Fetch that is answered when there is something, which executors will read for themselves."""
        config = self._options.consumer
        fetches = {one: PartitionFetch(at, max_bytes=1) for one, at in positions.items()}
        limits = FetchLimits(max_wait_ms=int(seconds * 1000), max_bytes=1, isolation_level=config.isolation)
        try:
            connection = await self._reader.cluster.connection(node_id, Purpose.FETCH)
            answer = await connection.send(
                fetch_request(limits, fetches),
                FetchResponse,
                config.request_timeout_ms / 1000,
                newest=newest_version(fetches.values()),
            )
        except EquipoiseError as error:
            log.debug("waiting for records: %s", error)
        else:
            if has_records(answer):
                return
        await asyncio.sleep(seconds)  # nothing came, or a refusal did

    # -- what is amiss for long: brokers that do not answer and topics that are missing the cluster tells itself

    def _look_for_matches(self) -> None:
        strategy = self._options.strategy
        self._unmatched.set(strategy.pattern is not None and not self._reader.matching(strategy))

    def _tell_unmatched(self, seconds: float) -> str:
        pattern, where = self._options.strategy.pattern, self._options.consumer.bootstrap_servers
        return (
            f"no topic at {where} has matched subscribePattern={pattern} for {seconds:.0f} s, so that the query has "
            "nothing to read: check it, and that the topics are there"
        )

    async def close(self) -> None:
        """Commits and leaves the group where there is one."""
        self._unmatched.end()
        await self.partitions.close(self._start)


async def open_planner(reader: OffsetReader, options: SourceOptions) -> BatchPlanner:
    """On the loop of the reader, where a planner must begin."""
    return BatchPlanner(reader, options)
