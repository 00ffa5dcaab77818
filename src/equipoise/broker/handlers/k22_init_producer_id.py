"""InitProducerId (22) for idempotent producers. An id is never given twice, not even after a crash.

From v3 on a producer may bring the id it has and gets the next epoch (KIP-360); when epochs are used up, a new id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.access import CLUSTER, Operation
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-6"
_LAST_EPOCH = 2**15 - 2


def handle(server: Server, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    try:
        server.authorize(call, Operation.IDEMPOTENT_WRITE, CLUSTER)
        producer_id, epoch = _next(server, request)
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=epoch)


def _next(server: Server, request: InitProducerIdRequest) -> tuple[int, int]:
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served")
    if request.producer_id >= 0 and 0 <= request.producer_epoch < _LAST_EPOCH:
        return request.producer_id, request.producer_epoch + 1
    return server.topics.next_producer_id(), 0
