"""FindCoordinator (10). Every shard of `__consumer_offsets` and of `__transaction_state` is here, so every group and
every transactional id is.

v1 to v3 say "NONE" as the message of a success, as Kafka does; from v4 on keys are answered one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.transactions import authorize_id
from equipoise.security.acls import CLUSTER, AclOperation, Resource, ResourceType
from equipoise.wire.apis.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

GROUP, TRANSACTION, SHARE = 0, 1, 2
_FIRST_BATCHED = 4
_FIRST_WITH_SHARE = 6


def handle(server: Server, request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse | None:
    """Names the broker of each key (KafkaApis.handleFindCoordinatorRequest)."""
    if call.version >= _FIRST_BATCHED:
        server.turns.encode_each(
            call,
            dict.fromkeys(request.coordinator_keys),
            lambda key: _find(server, call, request.key_type, key),
            lambda found: FindCoordinatorResponse(coordinators=found),
        )
        return None
    one = _find(server, call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or "NONE",
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(server: Server, call: Call, key_type: int, key: str) -> Coordinator:
    try:
        if key_type == SHARE and call.version >= _FIRST_WITH_SHARE:
            server.authorize(call, AclOperation.CLUSTER_ACTION, CLUSTER)
        if key_type == TRANSACTION:
            authorize_id(server, call, AclOperation.DESCRIBE, key)
            node_id = server.transaction_coordinator.node_of(key)  # creates the shards, if nobody has asked before
        elif key_type == GROUP:
            server.authorize(call, AclOperation.DESCRIBE, Resource(ResourceType.GROUP, key))
            node_id = server.group_coordinator.node_of(key)  # the same
        else:
            what = f"coordinator type {key_type} is not served; 0 is a group's, 1 a transactional id's"
            raise KafkaError(ErrorCode.INVALID_REQUEST, what)
        node = server.cluster.nodes.get(node_id)
        if node is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no broker that could coordinate it is running")
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message or error.code.name
        )
    host, port = node.address_for(call.connection)
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=ErrorCode.NONE)
