"""DescribeProducers (61): the producers that a partition knows, and their open transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k61_describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    ProducerState,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

NAMES_PARTITIONS = True


def handle(server: Server, request: DescribeProducersRequest, call: Call) -> None:
    """Each partition once, as others have their turns: it may know many. Rule T.58. Kafka:
    KafkaApis.handleDescribeProducersRequest."""
    asked = {(topic.name, index): None for topic in request.topics for index in topic.partition_indexes}
    topics = {topic.name: DescribeProducersTopicResponse(name=topic.name, partitions=[]) for topic in request.topics}

    def steps() -> Iterator[None]:
        for name, index in asked:
            topics[name].partitions.append(_describe(server, call, name, index))
            yield

    server.turns.run(call, steps(), lambda: DescribeProducersResponse(topics=list(topics.values())))


def _describe(server: Server, call: Call, topic: str, index: int) -> DescribeProducersPartitionResponse:
    row = DescribeProducersPartitionResponse(partition_index=index, error_code=ErrorCode.NONE, active_producers=[])
    try:
        partition = server.find_partition(call, AclOperation.READ, topic, index)
    except KafkaError as error:
        row.error_code, row.error_message = error.code, str(error)
        return row
    row.active_producers = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.txn_first_offset,
        )
        for producer_id, entry in partition.log.producers.items()
    ]
    return row
