"""Fetch (1). Waits for `min_bytes` until `max_wait_ms` is over, woken by appends; answers whole batches.

What counts for `min_bytes` is what there is up to the limits, as in Kafka, which fills them with a cut batch.

The first batch is always sent, however large, so that no limit can stop a consumer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from equipoise.broker.net.access import Operation
from equipoise.broker.net.purgatory import Parked, Release
from equipoise.broker.topics.fetch_sessions import Plan, Wanted
from equipoise.broker.topics.topics import check_leader_epoch
from equipoise.wire.apis.k01_fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition

VERSIONS = "4-18"
NAMES_PARTITIONS = True
_FIRST_VERSION_WITH_IDS = 13
_READ_COMMITTED = 1


def handle(server: Server, request: FetchRequest, call: Call) -> FetchResponse | None:
    try:
        plan = _plan(server, request, call)
    except KafkaError as error:
        return FetchResponse(error_code=error.code, responses=[])
    reading = _Reading(server, request, call, plan)
    found = reading.read_all()
    if request.max_wait_ms <= 0 or reading.is_enough(found):
        return reading.response(found)
    reading.park()
    return None


def _plan(server: Server, request: FetchRequest, call: Call) -> Plan:
    by_id = call.version >= _FIRST_VERSION_WITH_IDS
    wanted = [
        Wanted(
            topic.topic_id if by_id else topic.topic,
            asked.partition,
            asked.fetch_offset,
            asked.partition_max_bytes,
            asked.current_leader_epoch,
        )
        for topic in request.topics
        for asked in topic.partitions
    ]
    forgotten = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    return server.fetch_sessions.plan(
        request.session_id, request.session_epoch, wanted, forgotten, by_id, server.clock.now(), call.connection
    )


class _Found(NamedTuple):
    wanted: Wanted
    data: PartitionData
    size: int


class _Reading:
    """One Fetch: looked at when it comes, perhaps parked, answered once."""

    def __init__(self, server: Server, request: FetchRequest, call: Call, plan: Plan) -> None:
        self.server = server
        self.request = request
        self.call = call
        self.plan = plan
        self.max_bytes = min(request.max_bytes, server.config.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.parked: Parked | None = None
        self.is_leaving = False
        self.watched: list[Partition] = []

    # -- waiting

    def is_enough(self, found: list[_Found]) -> bool:
        """Whether there are `min_bytes`, or an error to tell."""
        errors = any(one.data.error_code for one in found)
        size = sum(one.size for one in found)
        return errors or not found or size >= self.min_bytes or (size > 0 and self.has_enough())

    def has_enough(self) -> bool:
        """The same, asked again after an append; most often no, so nothing is read for it."""
        missing = self.min_bytes
        for wanted in self.plan.wanted:
            try:
                missing -= self.find(wanted).has_bytes(wanted.fetch_offset, wanted.max_bytes, missing)
            except KafkaError:
                return True
            if missing <= 0:
                return True
        return False

    def park(self) -> None:
        self.parked = Parked(self.call, self.server.clock, self.request.max_wait_ms, self.answer)
        self.watched = [self.find(wanted) for wanted in self.plan.wanted]
        for partition in self.watched:
            partition.watch(self.check)

    def check(self) -> None:
        """What else becomes readable in this turn of the loop is then in the same answer."""
        if not self.is_leaving and self.has_enough():
            self.is_leaving = True
            asyncio.get_running_loop().call_soon(self.leave)

    def leave(self) -> None:
        if self.parked is not None:
            self.parked.release(Release.READY)

    def answer(self, reason: Release) -> FetchResponse:
        for partition in self.watched:
            partition.unwatch(self.check)
        if reason is Release.DISCONNECTED:
            return FetchResponse(responses=[])
        return self.response(self.read_all())

    # -- answering

    def read_all(self) -> list[_Found]:
        left, is_first, found = self.max_bytes, True, []
        for wanted in self.plan.wanted:
            data = self.read(wanted, left, is_first)
            size = sum(map(len, data.records)) if isinstance(data.records, list) else 0
            left -= size
            is_first = is_first and not size
            found.append(_Found(wanted, data, size))
        return found

    def response(self, found: list[_Found]) -> FetchResponse:
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for wanted, data, size in found:
            if not self.plan.incremental or self.has_news(wanted, data):
                self.topic(topics, wanted.topic).partitions.append(data)
                self.note(wanted, data, size)
        return FetchResponse(session_id=self.plan.session_id, responses=list(topics.values()))

    def topic(self, topics: dict[str | bytes, FetchableTopicResponse], key: str | bytes) -> FetchableTopicResponse:
        found = topics.get(key)
        if found is None:
            found = topics[key] = FetchableTopicResponse(partitions=[])
            if isinstance(key, str):
                found.topic = key
            else:
                found.topic_id = key
        return found

    def read(self, wanted: Wanted, left: int, is_first: bool) -> PartitionData:
        try:
            partition = self.find(wanted)
            log = partition.log
            records = partition.read(wanted.fetch_offset, min(wanted.max_bytes, left), at_least_one=is_first)
        except KafkaError as error:
            return _failed(wanted, error.code)
        return PartitionData(
            partition_index=wanted.index,
            error_code=ErrorCode.NONE,
            high_watermark=log.high_watermark,
            last_stable_offset=log.high_watermark,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self.request.isolation_level == _READ_COMMITTED else None,
            records=records,
        )

    def find(self, wanted: Wanted) -> Partition:
        partition = self.server.find_partition(self.call, Operation.READ, wanted.topic, wanted.index)
        check_leader_epoch(wanted.leader_epoch)
        return partition

    def has_news(self, wanted: Wanted, data: PartitionData) -> bool:
        told = wanted.high_watermark, wanted.log_start_offset
        return bool(data.records or data.error_code) or told != (data.high_watermark, data.log_start_offset)

    def note(self, wanted: Wanted, data: PartitionData, size: int) -> None:
        """Remembers what the session's client now knows."""
        wanted.high_watermark, wanted.log_start_offset = data.high_watermark, data.log_start_offset
        if self.plan.session is not None and size:
            self.plan.session.rotate(wanted.key)


def _failed(wanted: Wanted, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=wanted.index, error_code=code, high_watermark=-1, records=b"")
