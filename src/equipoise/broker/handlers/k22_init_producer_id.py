"""InitProducerId (22) for idempotent producers. No id is given twice, not even after a crash.

A producer without a transactional id gets a new id and epoch 0, whatever it brings: it moves to the next epoch by
itself (KIP-360), and only transactions have a coordinator that keeps epochs
(TransactionCoordinator.handleInitProducerId).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation, Resource, ResourceType
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-5"  # Kafka 4.3 has v6 too (two-phase commit), as a version that is not stable yet
_NONE = -1


def handle(server: Server, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """Gives a new producer id (KafkaApis.handleInitProducerIdRequest)."""
    try:
        _authorize(server, request, call)
        producer_id, epoch = _next(server, request)
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=epoch)


def _authorize(server: Server, request: InitProducerIdRequest, call: Call) -> None:
    """A principal that may write to some topic may do so idempotently (KIP-679)."""
    if request.transactional_id is not None:
        resource = Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        server.authorize(call, AclOperation.WRITE, resource)
    elif not server.is_authorized_by_type(call, AclOperation.WRITE, ResourceType.TOPIC):
        server.authorize(call, AclOperation.IDEMPOTENT_WRITE, CLUSTER)


def _next(server: Server, request: InitProducerIdRequest) -> tuple[int, int]:
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served")
    if (request.producer_id == _NONE) is not (request.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together, or both are -1")
    return server.topics.next_producer_id(), 0
