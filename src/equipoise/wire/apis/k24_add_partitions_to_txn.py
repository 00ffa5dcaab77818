"""AddPartitionsToTxn (24): partitions that a producer is about to write to within its transaction.

v1  throttled answers leave at once
v2  PRODUCER_FENCED may be answered
v3  flexible; the last version of clients
v4  many transactions in one request, of brokers only; partitions may be verified instead of added (KIP-890)
v5  TRANSACTION_ABORTABLE may be answered
"""

from __future__ import annotations

from equipoise.wire.apis.common import Named, OfPartition, OfTransaction, Throttled
from equipoise.wire.schema import Message, Struct, field


class AddPartitionsToTxnTopic(Named):
    partitions: list[int] = field(["int32"])


class AddPartitionsToTxnTransaction(OfTransaction):
    verify_only: bool = field("bool", default=False)
    topics: list[AddPartitionsToTxnTopic] = field([AddPartitionsToTxnTopic])


class AddPartitionsToTxnRequest(Message, api_key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = field([AddPartitionsToTxnTransaction], "4+", default=[])
    v3_and_below_transactional_id: str = field("string", "0-3", default="")
    v3_and_below_producer_id: int = field("int64", "0-3", default=0)
    v3_and_below_producer_epoch: int = field("int16", "0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field([AddPartitionsToTxnTopic], "0-3", default=[])


class AddPartitionsToTxnPartitionResult(OfPartition):
    partition_error_code: int = field("int16")


class AddPartitionsToTxnTopicResult(Named):
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field([AddPartitionsToTxnPartitionResult])


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field("string")
    topic_results: list[AddPartitionsToTxnTopicResult] = field([AddPartitionsToTxnTopicResult])


class AddPartitionsToTxnResponse(Throttled, Message, api_key=24, versions="0-5", flexible="3+"):
    error_code: int = field("int16", "4+", default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = field([AddPartitionsToTxnResult], "4+", default=[])
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        [AddPartitionsToTxnTopicResult], "0-3", default=[]
    )
