"""ListTransactions (66): the transactional ids that the caller may describe, by state, producer id, age and pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.regex import compile_id_regex
from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.transactions.describe import STATE_NAMES, ListFilter, list_transactions
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k66_list_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(server: Server, request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse | None:
    """Lists, unless a shard is still loaded (KafkaApis.handleListTransactionsRequest)."""
    cores = server.transaction_coordinator.shards_of(call)
    if any(core.status is Status.LOADING for core in cores):
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        wanted = ListFilter(
            frozenset(request.state_filters),
            frozenset(request.producer_id_filters),
            request.duration_filter,
            _matcher(request.transactional_id_pattern),
        )
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATE_NAMES]
    server.turns.encode_each(
        call,
        (row for core in cores for row in list_transactions(core, wanted, call.now)),
        lambda row: row if _is_visible(server, call, row) else None,
        lambda rows: ListTransactionsResponse(
            error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=rows
        ),
    )
    return None


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    """The whole id must match. Raises INVALID_REGULAR_EXPRESSION."""
    return compile_id_regex(pattern).matches if pattern else None


def _is_visible(server: Server, call: Call, row: ListedTransaction) -> bool:
    resource = Resource(ResourceType.TRANSACTIONAL_ID, row.transactional_id)
    return server.is_authorized(call, AclOperation.DESCRIBE, resource, quiet=True)
