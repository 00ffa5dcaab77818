"""What a streaming query reads next: where its partitions stand, how far they go, and how much of that is one batch.

On the loop of its session, all of it.
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
from equipoise.spark.source.offsets import INITIAL, SourceOffset
from equipoise.spark.source.read_limit import Patience, available, share
from equipoise.spark.source.session import Offsets, Session
from equipoise.spark.source.shared import Shared
from equipoise.spark.source.truncation import (
    PositionValidation,
    learn_topics,
    loss_of_records,
    loss_of_topics,
    recreated,
    topic_ids,
)
from equipoise.spark.source.whole import Whole
from equipoise.wire.apis.k01_fetch import FetchResponse
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, UsageError

log = logging.getLogger(__name__)

_LONG_POLL_SECONDS = 0.25  # Spark asks again at once: an idle query had better wait here
_JOIN_SECONDS = 10.0  # in which the group may be joined; brokers wait 3 s for the second member
_UNMATCHED_SECONDS = 10.0  # after which a pattern without topics is told: it may be there before them
_ABSENT_SECONDS = 5.0  # after which a topic that the cluster does not know is taken to be deleted


class Progress:
    def __init__(self, session: Session, options: SourceOptions) -> None:
        self.parts: Whole | Shared = (Shared if options.group_mode == "member" else Whole)(session, options)
        self.ends: Offsets = {}  # the last known
        self.lag = 0  # behind the batch that was planned last
        self._session = session
        self._options = options
        self._patience = Patience(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self._goal: Offsets | None = None  # of a query that reads what is there and ends
        self._absent: set[TopicPartition] = set()  # those whose end was waited for in vain
        self._validation = PositionValidation(session)
        self._unmatched = LastingWarning(self._tell_unmatched, _UNMATCHED_SECONDS)
        self._has_heard = False  # of the topics in the checkpoint
        self._made_anew: dict[str, str] = {}  # topics that were told of, and the ids that they have no more
        self._query = uuid.uuid4().hex  # of a query that begins; one that goes on has it from the checkpoint
        self._start = INITIAL

    async def set_goal(self) -> None:
        """availableNow: nothing that is written from now on is read."""
        self._goal = await self._session.ends(await self._session.listing(self._options.choice), LATEST)

    async def next(self, start: SourceOffset, limit: int | None) -> SourceOffset | None:
        """The end of the next batch; None: there is nothing to read yet."""
        self._start = start = start if start.query else replace(start, query=self._query)
        self.parts.engine_calls()
        end: SourceOffset | None = None
        try:
            await self.parts.finished(start)
            end = await self._plan(start, limit)
        finally:
            self.parts.engine_goes({} if end is None else end.ranges(start))
        return end

    async def _plan(self, start: SourceOffset, limit: int | None) -> SourceOffset | None:
        deadline = time.monotonic() + _LONG_POLL_SECONDS
        while True:
            is_settled = self.parts.is_settled
            start = await self._of_these_topics(start)
            positions = await self.parts.positions(start)
            self._look_for_matches()
            ends = await self._ends(positions, start)
            positions = await self.parts.ready(positions, deadline - time.monotonic())
            sizes = available(positions, ends)
            is_enough = bool(sizes) and self._is_enough(sum(sizes.values()))
            if is_enough or self.parts.must_record(start, positions):
                planned = share(positions, ends, limit)
                self.lag = sum(available(planned, self.ends).values())
                return self._offset(start, positions, planned)
            self.lag = sum(available(positions, self.ends).values())
            is_settled = is_settled and self.parts.is_settled
            left = deadline - time.monotonic()
            if self._is_over(left, is_settled=is_settled):
                return None
            await self._until_news(positions, max(left, 0.01), has_data=bool(sizes))

    def _is_over(self, left: float, *, is_settled: bool) -> bool:
        """Whether Spark is told that there is nothing. It may not ask again for minutes, so a group had better be
        joined before; a query that ends with that must know its share."""
        if is_settled:
            return self._goal is not None or left <= 0
        patience = self._options.consumer.default_api_timeout_ms / 2000
        if self._goal is None:
            return left <= -min(_JOIN_SECONDS, patience)
        if left <= -patience:
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"group {self._options.consumer.group_id} has not said within {patience:g} s what this query is to "
                "read: it waits for a member that is slow to join again; try later, or raise "
                "kafka.default.api.timeout.ms",
            )
        return False

    def _is_enough(self, size: int) -> bool:
        return self._goal is not None or self._patience.is_enough(size, time.monotonic_ns() // 1_000_000)

    async def _of_these_topics(self, start: SourceOffset) -> SourceOffset:
        """Without places in topics that were deleted and created anew meanwhile: the same offset is another record."""
        if not self._has_heard:
            await learn_topics(self._session, start.ids)
            self._has_heard = True
        anew = recreated(self._session, start.ids)
        new = {name for name in anew if self._made_anew.get(name) != start.ids[name]}
        if new:
            self._report_loss(loss_of_topics(new), " with the first record of the new one")
            self._made_anew |= {name: start.ids[name] for name in new}
            self.parts.forget_topics(new)
        return start.without(anew) if anew else start

    async def _check_epochs(self, positions: Offsets, start: SourceOffset) -> None:
        places = {one: LogPosition(at, self.parts.epoch(start, one, at)) for one, at in positions.items()}
        for one, truncation in await self._validation.find_truncations(places):
            at = positions[one] if truncation.divergent is None else truncation.divergent.offset
            self._report_loss(loss_of_records(one, truncation), f" from {at}, with what stands there now")
            positions[one] = at
            self.parts.move(one, at)

    async def _ends(self, positions: Offsets, start: SourceOffset) -> Offsets:
        ends = await self._latest(positions)
        self.ends = dict(ends)
        await self._check_epochs(positions, start)
        for one, at in ends.items():
            if at < positions[one]:
                self._lost(one, positions, at)
        if self._goal is not None:
            ends = {one: max(min(at, self._goal.get(one, at)), positions[one]) for one, at in ends.items()}
        return ends

    async def _latest(self, positions: Offsets) -> Offsets:
        """Takes out of `positions` what is not there any more, when that is certain."""
        while True:
            self._absent = {one for one in self._absent if not self._session.has(one)}
            for one in self._absent & positions.keys():
                del positions[one]
            asked = asyncio.create_task(self._session.ends(positions, LATEST))
            try:
                await self._until_answered(asked, positions)
                if asked.done():
                    return asked.result()
            finally:
                asked.cancel()

    async def _until_answered(self, asked: asyncio.Task[Offsets], positions: Offsets) -> None:
        """Or until it is clear that there will be no answer, since one of the topics is deleted."""
        while not asked.done():
            await asyncio.wait({asked}, timeout=_ABSENT_SECONDS)
            absent = set() if asked.done() else {one for one in positions if not self._session.has(one)}
            if absent:
                self._report_loss(f"{listed(absent)} is not there any more: what was not read yet is lost", "")
                self._absent |= absent
                return

    def _lost(self, partition: TopicPartition, positions: Offsets, end: int) -> None:
        told = (
            f"{partition} ends at {end}, before offset {positions[partition]} where the query stands: the topic was "
            "made anew, or has lost its end"
        )
        self._report_loss(told, f" from {end}")
        positions[partition] = end
        self.parts.move(partition, end)

    def _report_loss(self, told: str, where: str) -> None:
        if self._options.fail_on_data_loss:
            raise UsageError(f"{told}; set failOnDataLoss to false to go on{where}")
        log.warning("%s; going on%s", told, where)

    def _offset(self, start: SourceOffset, positions: Offsets, ends: Offsets) -> SourceOffset:
        return SourceOffset(
            to=ends,
            since={one: at for one, at in positions.items() if start.to.get(one) != at},
            query=start.query,
            batch=start.batch + 1,
            seen=self.parts.seen(),
            group=self._options.consumer.group_id or "",
            epochs={one: epoch for one in ends if (epoch := self._session.epochs.get(one, -1)) >= 0},
            ids=topic_ids(self._session, {one.topic for one in ends}),
        )

    # -- waiting

    async def _until_news(self, positions: Offsets, seconds: float, *, has_data: bool) -> None:
        """Until records come, or the time is up. Where there are some, but not enough, it is up soon."""
        if has_data or not positions:
            await asyncio.sleep(min(seconds, 0.05))
            return
        waits = [
            asyncio.create_task(self._wait_at(node_id, {one: positions[one] for one in mine}, seconds))
            for node_id, mine in self._session.lookup.by_leader(positions).items()
            if node_id is not None
        ]
        waits.append(asyncio.create_task(asyncio.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def _wait_at(self, node_id: int, positions: Offsets, seconds: float) -> None:
        """A Fetch that is answered when there is something, which executors will read for themselves."""
        config = self._options.consumer
        fetches = {one: PartitionFetch(at, max_bytes=1) for one, at in positions.items()}
        limits = FetchLimits(max_wait_ms=int(seconds * 1000), max_bytes=1, isolation_level=config.isolation)
        try:
            connection = await self._session.cluster.connection(node_id, Purpose.FETCH)
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
        choice = self._options.choice
        self._unmatched.set(choice.pattern is not None and not self._session.matching(choice))

    def _tell_unmatched(self, seconds: float) -> str:
        pattern, where = self._options.choice.pattern, self._options.consumer.bootstrap_servers
        return (
            f"no topic at {where} has matched subscribePattern={pattern} for {seconds:.0f} s, so that the query has "
            "nothing to read: check it, and that the topics are there"
        )

    async def close(self) -> None:
        self._unmatched.end()
        await self.parts.close(self._start)
