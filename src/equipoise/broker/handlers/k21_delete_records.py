"""DeleteRecords (21): moves the log's start to the given offset; -1 stands for the high watermark. Internal topics are
refused: what groups and transactions have written there is their state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

NAMES_PARTITIONS = True
HIGH_WATERMARK = -1


def handle(server: Server, request: DeleteRecordsRequest, call: Call) -> None:
    """Each partition once, as on Kafka, with the offset given last. Each is a sync of the disk: others go between
    (KafkaApis.handleDeleteRecordsRequest, ReplicaManager.deleteRecords)."""
    asked = {(topic.name, one.partition_index): one for topic in request.topics for one in topic.partitions}
    topics = {topic.name: DeleteRecordsTopicResult(name=topic.name, partitions=[]) for topic in request.topics}

    def steps() -> Iterator[None]:
        for (name, _), one in asked.items():
            topics[name].partitions.append(_delete(server, call, name, one))
            yield

    server.turns.run(call, steps(), lambda: DeleteRecordsResponse(topics=list(topics.values())))


def _delete(server: Server, call: Call, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=ErrorCode.NONE
    )
    try:
        partition = server.find_led(call, AclOperation.DELETE, topic, asked.partition_index)
        server.topics.check_deletable(partition.topic)
        answer.low_watermark = partition.delete_records(None if asked.offset == HIGH_WATERMARK else asked.offset)
    except KafkaError as error:
        answer.error_code = error.code
    return answer
