"""TxnOffsetCommit (28): positions of a group that take effect with a transaction. Errors are per partition only.

v1  throttled answers leave at once
v2  committed_leader_epoch
v3  flexible; the member of the group, so that one that has lost its partitions is refused (KIP-447)
v4  TRANSACTION_ABORTABLE may be answered
v5  the group's partition joins the transaction without AddOffsetsToTxn (KIP-890)
"""

from __future__ import annotations

from equipoise.wire.apis.common import ErrorOfPartition, Named, OfPartition, Throttled
from equipoise.wire.schema import Message, field


class TxnOffsetCommitRequestPartition(OfPartition):
    committed_offset: int = field("int64")
    committed_leader_epoch: int = field("int32", "2+", default=-1)
    committed_metadata: str | None = field("string", nullable=True, default="")


class TxnOffsetCommitRequestTopic(Named):
    partitions: list[TxnOffsetCommitRequestPartition] = field([TxnOffsetCommitRequestPartition])


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-5", flexible="3+"):
    transactional_id: str = field("string")
    group_id: str = field("string")
    producer_id: int = field("int64")
    producer_epoch: int = field("int16")
    generation_id: int = field("int32", "3+", default=-1)
    member_id: str = field("string", "3+", default="")
    group_instance_id: str | None = field("string", "3+", nullable=True, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field([TxnOffsetCommitRequestTopic])


class TxnOffsetCommitResponsePartition(ErrorOfPartition):
    """Of one partition of the request."""


class TxnOffsetCommitResponseTopic(Named):
    partitions: list[TxnOffsetCommitResponsePartition] = field([TxnOffsetCommitResponsePartition])


class TxnOffsetCommitResponse(Throttled, Message, api_key=28, versions="0-5", flexible="3+"):
    topics: list[TxnOffsetCommitResponseTopic] = field([TxnOffsetCommitResponseTopic])
