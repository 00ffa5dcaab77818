"""AddOffsetsToTxn (25): the partition of `__consumer_offsets` that keeps a group becomes part of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import authorize_group
from equipoise.broker.handlers.transactions import AnswerToken, authorize_id, known_error
from equipoise.broker.topics.topics import OFFSETS_TOPIC
from equipoise.coordinator.placement import partition_for
from equipoise.coordinator.transactions.requests import AddPartitions, Answer
from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from equipoise.wire.errors import KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_FIRST_WITH_FENCED = 2


def handle(server: Server, request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse | None:
    """Adds the group's partition (KafkaApis.handleAddOffsetsToTxnRequest)."""
    try:
        authorize_id(server, call, AclOperation.WRITE, request.transactional_id)
        authorize_group(server, call, request.group_id)
    except KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    partition = partition_for(request.group_id, len(server.group_coordinator.shards))
    asked = AddPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        frozenset({(OFFSETS_TOPIC, partition)}),
    )

    def make(answer: Answer) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=known_error(answer.error_code, call.version, _FIRST_WITH_FENCED))

    server.transaction_coordinator.serve(call, asked, AnswerToken(call, make))
    return None
