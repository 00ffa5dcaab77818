"""ListOffsets (2): latest (-1), earliest (-2), of the largest timestamp (-3), earliest local (-4), by timestamp.

There is no tiered storage: -4 is -2, and -5 and -6 find nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.access import Operation
from equipoise.broker.topics import LEADER_EPOCH, Partition, check_leader_epoch
from equipoise.wire.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "1-11"
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
# The first version in which a client may ask for it.
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_NEVER = 32767
_NOTHING = (-1, -1)


def handle(server: Server, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name, partitions=[_answer(server, call, topic.name, asked) for asked in topic.partitions]
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def _answer(server: Server, call: Call, topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    index = asked.partition_index
    try:
        partition = server.find_partition(call, Operation.DESCRIBE, topic, index)
        check_leader_epoch(asked.current_leader_epoch)
        if asked.timestamp < 0 and call.version < _SINCE.get(asked.timestamp, _NEVER):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked.timestamp} has no meaning here")
        timestamp, offset = _look_up(partition, asked.timestamp)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    epoch = LEADER_EPOCH if offset >= 0 else -1
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=ErrorCode.NONE, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _look_up(partition: Partition, timestamp: int) -> tuple[int, int]:
    log = partition.log
    if timestamp == LATEST:
        return -1, log.high_watermark
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return found if found is not None and found[1] < log.high_watermark else _NOTHING
