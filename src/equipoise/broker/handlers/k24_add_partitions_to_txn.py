"""AddPartitionsToTxn (24). If one partition cannot be added, none is: the others are answered OPERATION_NOT_ATTEMPTED.

Versions from 4 on are for brokers: many transactions in one request, which may be verified only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.handlers.collected_reply import CollectedReply
from equipoise.broker.handlers.transactions import AnswerToken, authorize_id, known_error
from equipoise.coordinator.transactions.config import EPOCH_BUMP
from equipoise.coordinator.transactions.metadata import group_by_topic
from equipoise.coordinator.transactions.requests import AddPartitions, Answer, TopicPartition
from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.wire.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

NAMES_PARTITIONS = True
_FIRST_WITH_FENCED = 2
_FIRST_OF_BROKERS = 4
_Errors = Mapping[TopicPartition, ErrorCode]


def handle(server: Server, request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse | None:
    """Adds partitions to transactions, or verifies them (KafkaApis.handleAddPartitionsToTxnRequest)."""
    if call.version >= _FIRST_OF_BROKERS:
        return _of_brokers(server, request, call)
    topics = request.v3_and_below_topics
    asked = AddPartitions(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        _partitions(topics),
    )
    try:
        authorize_id(server, call, AclOperation.WRITE, asked.transactional_id)
    except KafkaError as error:
        return _of_client(dict.fromkeys(asked.partitions, error.code))
    if errors := _errors(server, call, topics):
        others = dict.fromkeys(asked.partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        return _of_client(others | errors)
    server.transaction_coordinator.serve(call, asked, AnswerToken(call, partial(_answered, call, asked)))
    return None


def _answered(call: Call, asked: AddPartitions, answer: Answer) -> AddPartitionsToTxnResponse:
    error = known_error(answer.error_code, call.version, _FIRST_WITH_FENCED)
    return _of_client(dict.fromkeys(asked.partitions, error))


def _of_client(errors: _Errors) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(errors))


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset((topic.name, index) for topic in topics for index in topic.partitions)


def _errors(server: Server, call: Call, topics: Sequence[AddPartitionsToTxnTopic]) -> dict[TopicPartition, ErrorCode]:
    """The partitions that cannot be added. Topics of the broker's own count as unauthorized."""
    found: dict[TopicPartition, ErrorCode] = {}
    for topic in topics:
        for index in topic.partitions:
            try:
                partition = server.find_partition(call, AclOperation.WRITE, topic.name, index)
                if partition.topic.is_internal:
                    found[topic.name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            except KafkaError as error:
                found[topic.name, index] = error.code
    return found


def _results(errors: _Errors) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=errors[name, index])
                for index in indexes
            ],
        )
        for name, indexes in group_by_topic(errors).items()
    ]


# -- of brokers


def _of_brokers(server: Server, request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse | None:
    try:
        server.authorize(call, AclOperation.CLUSTER_ACTION, CLUSTER)
    except KafkaError as error:
        return AddPartitionsToTxnResponse(error_code=error.code)
    if not request.transactions:
        return AddPartitionsToTxnResponse()
    token = CollectedReply(call, len(request.transactions), _combined)
    for one in request.transactions:
        _one_of_many(server, call, one, token)
    return None


def _combined(parts: list[AddPartitionsToTxnResponse]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[row for one in parts for row in one.results_by_transaction]
    )


def _one_of_many(
    server: Server,
    call: Call,
    one: AddPartitionsToTxnTransaction,
    token: CollectedReply[AddPartitionsToTxnResponse],
) -> None:
    coordinator, partitions = server.transaction_coordinator, _partitions(one.topics)
    asked = AddPartitions(one.transactional_id, one.producer_id, one.producer_epoch, partitions, EPOCH_BUMP)
    missing = {name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for name in partitions if not _exists(server, name)}
    if missing:
        others = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        token.reply(_of_broker(asked, others | missing))
    elif one.verify_only:
        token.reply(_of_broker(asked, coordinator.verify(asked)))
    else:
        coordinator.ask(asked, _PartToken(asked, token), call.version)


def _exists(server: Server, name: TopicPartition) -> bool:
    topic = server.topics.get(name[0])
    return topic is not None and 0 <= name[1] < len(topic.partitions)


def _of_broker(asked: AddPartitions, errors: _Errors) -> AddPartitionsToTxnResponse:
    row = AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=_results(errors))
    return AddPartitionsToTxnResponse(results_by_transaction=[row])


class _PartToken:
    """One transaction of many."""

    def __init__(self, asked: AddPartitions, token: CollectedReply[AddPartitionsToTxnResponse]) -> None:
        self._asked = asked
        self._token = token

    def admitted(self) -> None:
        """The request brings no records."""

    def reply(self, answer: Answer) -> None:
        """One more part."""
        self._token.reply(_of_broker(self._asked, dict.fromkeys(self._asked.partitions, answer.error_code)))
