"""InitProducerId (22): an id and epoch for an idempotent or transactional producer.

v1  throttled answers leave at once
v2  flexible
v3  a producer may bring the id it had (KIP-360)
v4  PRODUCER_FENCED may be answered
v5  TRANSACTION_ABORTABLE may be answered (KIP-890)
v6  two-phase commit (KIP-939)
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled
from equipoise.wire.schema import Message, field


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+"):
    transactional_id: str | None = field("string", nullable=True, default=None)
    transaction_timeout_ms: int = field("int32")
    producer_id: int = field("int64", "3+", default=-1)
    producer_epoch: int = field("int16", "3+", default=-1)
    enable_2pc: bool = field("bool", "6+", default=False)
    keep_prepared_txn: bool = field("bool", "6+", default=False)


class InitProducerIdResponse(Throttled, Message, api_key=22, versions="0-6", flexible="2+"):
    error_code: int = field("int16")
    producer_id: int = field("int64", default=-1)
    producer_epoch: int = field("int16", default=0)
    ongoing_txn_producer_id: int = field("int64", "6+", default=-1)
    ongoing_txn_producer_epoch: int = field("int16", "6+", default=-1)
