"""AddOffsetsToTxn (25): a producer is about to commit offsets of a group within its transaction.

v1  throttled answers leave at once
v2  PRODUCER_FENCED may be answered
v3  flexible
v4  TRANSACTION_ABORTABLE may be answered (KIP-890)
"""

from __future__ import annotations

from equipoise.wire.apis.common import OfTransaction, Throttled
from equipoise.wire.schema import Message, field


class AddOffsetsToTxnRequest(OfTransaction, Message, api_key=25, versions="0-4", flexible="3+"):
    group_id: str = field("string")


class AddOffsetsToTxnResponse(Throttled, Message, api_key=25, versions="0-4", flexible="3+"):
    error_code: int = field("int16")
