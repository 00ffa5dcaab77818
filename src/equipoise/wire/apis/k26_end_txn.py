"""EndTxn (26): commits or aborts a transaction.

v1  throttled answers leave at once
v2  PRODUCER_FENCED may be answered
v3  flexible
v4  TRANSACTION_ABORTABLE may be answered (KIP-890)
v5  the epoch grows with each transaction; the answer has what the producer uses next (KIP-890)
"""

from __future__ import annotations

from equipoise.wire.apis.common import OfTransaction, Throttled
from equipoise.wire.schema import Message, field


class EndTxnRequest(OfTransaction, Message, api_key=26, versions="0-5", flexible="3+"):
    committed: bool = field("bool")


class EndTxnResponse(Throttled, Message, api_key=26, versions="0-5", flexible="3+"):
    error_code: int = field("int16")
    producer_id: int = field("int64", "5+", default=-1)
    producer_epoch: int = field("int16", "5+", default=-1)
