"""DescribeTransactions (65): state, timeout, producer and partitions of transactional ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.transactions import authorize_id
from equipoise.coordinator.transactions.describe import describe
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k65_describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(server: Server, request: DescribeTransactionsRequest, call: Call) -> None:
    """Topics that the caller may not describe are left out (KafkaApis.handleDescribeTransactionsRequest)."""
    server.turns.encode_each(
        call,
        dict.fromkeys(request.transactional_ids),  # each once, as groups: one may have thousands of partitions
        lambda name: _describe(server, call, name),
        lambda rows: DescribeTransactionsResponse(transaction_states=rows),
    )


def _describe(server: Server, call: Call, transactional_id: str) -> DescribedTransaction:
    def is_visible(topic: str) -> bool:
        return server.is_authorized(call, AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, topic), quiet=True)

    try:
        authorize_id(server, call, AclOperation.DESCRIBE, transactional_id)
        if server.transaction_coordinator.is_elsewhere(call, transactional_id):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        core = server.transaction_coordinator.shard_of(transactional_id).core
    except KafkaError as error:
        return DescribedTransaction(error_code=error.code, transactional_id=transactional_id)
    return describe(core, transactional_id, is_visible)
