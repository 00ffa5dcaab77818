"""WriteTxnMarkers (27): ends transactions in partitions. On one broker the coordinator writes markers itself; a tool
sends this to end a transaction that no coordinator knows (`kafka-transactions.sh abort`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from equipoise.log.producer_state import TxnMarker
from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.wire.apis.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition

NAMES_PARTITIONS = True


def handle(server: Server, request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse | None:
    """Answers when all markers are durable, or refused. Rule T.35. Kafka: KafkaApis.handleWriteTxnMarkersRequest."""
    is_allowed = server.is_authorized(call, AclOperation.CLUSTER_ACTION, CLUSTER, quiet=True)
    is_allowed = is_allowed or server.is_authorized(call, AclOperation.ALTER, CLUSTER)
    code = ErrorCode.NONE if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    server.turns.run(call, _Writing(server, call).steps(request, code), None)
    return None


def _marker(asked: WritableTxnMarker) -> TxnMarker:
    return TxnMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )


class _Writing:
    """One request, until the last of its markers is settled."""

    def __init__(self, server: Server, call: Call) -> None:
        self._server = server
        self._call = call
        self._to_come = 1  # the end of the request counts as one
        self._response: WriteTxnMarkersResponse | None = None

    def steps(self, request: WriteTxnMarkersRequest, code: ErrorCode) -> Iterator[None]:
        """A marker for a partition in each. Rows are filled in when a marker is settled, if no error is known."""
        results = []
        for asked in request.markers:
            marker, topics = _marker(asked), list[WritableTxnMarkerTopicResult]()
            results.append(WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics))
            for topic in asked.topics:
                result = WritableTxnMarkerTopicResult(name=topic.name, partitions=[])
                topics.append(result)
                for index in topic.partition_indexes:
                    result.partitions.append(self._row(topic.name, index, marker, code))
                    yield
        self._response = WriteTxnMarkersResponse(markers=results)
        self._one_less()

    def _row(self, topic: str, index: int, marker: TxnMarker, code: ErrorCode) -> WritableTxnMarkerPartitionResult:
        row = WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        if code is not ErrorCode.NONE:
            return row
        try:
            partition = self._server.topics.partition(topic, index)
            offset = self._server.append_marker(partition, marker).last_offset
        except KafkaError as error:
            row.error_code = error.code
            return row
        self._to_come += 1
        partition.when_settled(offset, partial(self._settled, row, partition, offset))
        return row

    def _settled(self, row: WritableTxnMarkerPartitionResult, partition: Partition, offset: int) -> None:
        if not partition.is_durable(offset):
            row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        self._one_less()

    def _one_less(self) -> None:
        self._to_come -= 1
        if self._to_come == 0 and self._response is not None:
            self._call.reply(self._response)
