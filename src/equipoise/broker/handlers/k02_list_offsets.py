"""ListOffsets (2): latest (-1), earliest (-2), of the largest timestamp (-3), earliest local (-4), by timestamp.

There is no tiered storage: -4 is -2, and -5 and -6 find nothing. If records must be decoded, a thread does it, and the
answer waits.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from equipoise.broker.net.purgatory import Completion, DelayedOperation
from equipoise.broker.topics.batch_thread import WorkStopped
from equipoise.broker.topics.topics import Partition
from equipoise.log.timestamp_lookup import LookupBudget, TimestampLookup
from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

NAMES_PARTITIONS = True
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
# The first version in which a client may ask for it.
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_NEVER = 32767
_READ_COMMITTED = 1  # the isolation level
_A_TURN = 100  # look-ups that find nothing, in one turn of the loop


class _Search(NamedTuple):
    """A row of the answer that needs a look into records."""

    row: ListOffsetsPartitionResponse
    partition: Partition
    timestamp: int | None


def handle(server: Server, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse | None:
    """Answers offsets that are known, and looks others up on a thread (KafkaApis.handleListOffsetRequest)."""
    answering = _Answering(server, request, call)
    rows = [[answering.row(topic.name, asked) for asked in answering.once(topic)] for topic in request.topics]
    topics = [
        ListOffsetsTopicResponse(name=topic.name, partitions=found)
        for topic, found in zip(request.topics, rows, strict=True)
        if found or not topic.partitions
    ]
    response = ListOffsetsResponse(topics=topics)
    if not answering.searches:
        return response
    answering.wait(response)
    return None


class _Answering:
    """One request. A partition that is named twice is refused, as Kafka does: each could cost a look-up."""

    def __init__(self, server: Server, request: ListOffsetsRequest, call: Call) -> None:
        self.server = server
        self.call = call
        named = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
        self.twice = {key for key, count in named.items() if count > 1}
        self.refused: set[tuple[str, int]] = set()
        self.is_committed = request.isolation_level == _READ_COMMITTED
        self.searches: list[_Search] = []
        self.is_over = False

    def once(self, topic: ListOffsetsTopic) -> Iterator[ListOffsetsPartition]:
        """What is named twice is answered once."""
        for asked in topic.partitions:
            key = topic.name, asked.partition_index
            if key not in self.refused:
                yield asked
            if key in self.twice:
                self.refused.add(key)

    def row(self, topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        index = asked.partition_index
        try:
            if (topic, index) in self.twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic}-{index} is asked for more than once")
            partition = self.server.find_led(self.call, AclOperation.DESCRIBE, topic, index)
            partition.check_leader_epoch(asked.current_leader_epoch)
            if asked.timestamp < 0 and self.call.version < _SINCE.get(asked.timestamp, _NEVER):
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked.timestamp} has no meaning here")
        except KafkaError as error:
            return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
        row = ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.NONE)
        if asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP:
            row.error_code = ErrorCode.LEADER_NOT_AVAILABLE  # should the broker stop before it is found
            self.searches.append(_Search(row, partition, asked.timestamp if asked.timestamp >= 0 else None))
        else:
            _fill(row, partition, -1, self.known_offset(partition, asked.timestamp))
        return row

    def wait(self, response: ListOffsetsResponse) -> None:
        def answer(reason: Completion) -> ListOffsetsResponse:
            self.is_over = True
            return response

        self.server.lookups.begin(self.search(DelayedOperation(self.call, self.server.clock, None, answer)))

    async def search(self, delayed: DelayedOperation) -> None:
        budget = LookupBudget()
        try:
            for number, (row, partition, timestamp) in enumerate(self.searches):
                if number % _A_TURN == _A_TURN - 1:
                    await asyncio.sleep(0)
                await self.look_up(row, partition, TimestampLookup(partition.log, timestamp, budget))
        except WorkStopped:
            return
        except Exception:  # noqa: BLE001  as for any request: the log gets it, the client an end
            self.call.connection.fail()
        delayed.complete(Completion.SATISFIED)

    async def look_up(self, row: ListOffsetsPartitionResponse, partition: Partition, lookup: TimestampLookup) -> None:
        try:
            while not self.is_over and lookup.advance():
                await self.server.lookups.run(lookup.search, lambda: not self.is_over)
        except KafkaError as error:
            row.error_code = error.code
            return
        if self.is_over:
            return
        row.error_code = ErrorCode.NONE
        if lookup.found is not None and lookup.found[1] < self.end_of(partition):
            _fill(row, partition, *lookup.found)

    def end_of(self, partition: Partition) -> int:
        """Of what the client may read: nothing at or behind it is told (Partition.fetchOffsetForTimestamp). Rule
        T.53."""
        return partition.log.last_stable_offset if self.is_committed else partition.log.high_watermark

    def known_offset(self, partition: Partition, timestamp: int) -> int:
        if timestamp == LATEST:
            return self.end_of(partition)
        return partition.log.log_start_offset if timestamp in (EARLIEST, EARLIEST_LOCAL) else -1


def _fill(row: ListOffsetsPartitionResponse, partition: Partition, timestamp: int, offset: int) -> None:
    row.timestamp, row.offset = timestamp, offset
    row.leader_epoch = partition.epoch_at(offset) if offset >= 0 else -1
