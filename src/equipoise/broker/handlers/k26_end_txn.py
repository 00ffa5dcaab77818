"""EndTxn (26): commits or aborts. The answer leaves when the decision is durable; markers follow it.

From v5 on the epoch grows with each transaction, and the answer has what the producer uses next (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.transactions import AnswerToken, authorize_id, known_error
from equipoise.coordinator.transactions.config import EPOCH_BUMP
from equipoise.coordinator.transactions.requests import Answer, EndTxn
from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k26_end_txn import EndTxnRequest, EndTxnResponse
from equipoise.wire.errors import KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_FIRST_WITH_FENCED = 2
_FIRST_WITH_EPOCH = 5


def handle(server: Server, request: EndTxnRequest, call: Call) -> EndTxnResponse | None:
    """Asks the coordinator (KafkaApis.handleEndTxnRequest)."""
    try:
        authorize_id(server, call, AclOperation.WRITE, request.transactional_id)
    except KafkaError as error:
        return EndTxnResponse(error_code=error.code)
    version = EPOCH_BUMP if call.version >= _FIRST_WITH_EPOCH else 0
    asked = EndTxn(request.transactional_id, request.producer_id, request.producer_epoch, request.committed, version)

    def make(answer: Answer) -> EndTxnResponse:
        error = known_error(answer.error_code, call.version, _FIRST_WITH_FENCED)
        return EndTxnResponse(error_code=error, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    server.transaction_coordinator.serve(call, asked, AnswerToken(call, make))
    return None
