"""DescribeTransactions (65): the state of transactional ids at their coordinator (KIP-664)."""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled
from equipoise.wire.schema import Message, Struct, field


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    transactional_ids: list[str] = field(["string"])


class TopicData(Struct):
    topic: str = field("string")
    partitions: list[int] = field(["int32"])


class DescribedTransaction(Struct):
    """`topics`: of a transaction that ends, those partitions that have no marker yet."""

    error_code: int = field("int16")
    transactional_id: str = field("string")
    transaction_state: str = field("string", default="")
    transaction_timeout_ms: int = field("int32", default=0)
    transaction_start_time_ms: int = field("int64", default=0)
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    topics: list[TopicData] = field([TopicData], default=[])


class DescribeTransactionsResponse(Throttled, Message, api_key=65, versions="0", flexible="0+"):
    transaction_states: list[DescribedTransaction] = field([DescribedTransaction])
