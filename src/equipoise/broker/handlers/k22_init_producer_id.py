"""InitProducerId (22): an id for idempotent producers, and who is the producer of a transactional id. No id is given
twice, not even after a crash.

A producer without a transactional id gets a new id and epoch 0, whatever it brings: it moves to the next epoch by
itself (KIP-360), and only transactions have a coordinator that keeps epochs
(TransactionCoordinator.handleInitProducerId).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.transactions import AnswerToken, authorize_id, known_error
from equipoise.coordinator.transactions.requests import Answer, InitProducerId
from equipoise.security.acls import CLUSTER, AclOperation, ResourceType
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_NONE = -1
_FIRST_WITH_FENCED = 4


def handle(server: Server, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse | None:
    """Gives a new producer id, or the next epoch (KafkaApis.handleInitProducerIdRequest)."""
    try:
        _authorize(server, request, call)
        if (request.producer_id == _NONE) is not (request.producer_epoch == _NONE):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together, or both are -1")
        if request.transactional_id is None:
            return _response(Answer(ErrorCode.NONE, server.topics.next_producer_id(), 0), call)
        asked = InitProducerId(
            request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
        token = AnswerToken(call, lambda answer: _response(answer, call))
        server.transaction_coordinator.serve(call, asked, token)
    except KafkaError as error:
        return _response(Answer(error.code), call)
    return None


def _response(answer: Answer, call: Call) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=known_error(answer.error_code, call.version, _FIRST_WITH_FENCED),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )


def _authorize(server: Server, request: InitProducerIdRequest, call: Call) -> None:
    """A principal that may write to some topic may do so idempotently (KIP-679)."""
    if request.transactional_id is not None:
        authorize_id(server, call, AclOperation.WRITE, request.transactional_id)
    elif not server.is_authorized_by_type(call, AclOperation.WRITE, ResourceType.TOPIC):
        server.authorize(call, AclOperation.IDEMPOTENT_WRITE, CLUSTER)
