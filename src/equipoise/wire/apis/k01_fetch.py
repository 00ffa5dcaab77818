"""Fetch (1): record batches from an offset on, for consumers and followers.

v4  the first served; batches of magic 2, isolation_level, aborted_transactions
v5  log_start_offset
v6  KAFKA_STORAGE_ERROR may be answered
v7  fetch sessions (KIP-227)
v8  throttled answers leave at once
v9  current_leader_epoch fences (KIP-320)
v10 zstd allowed
v11 rack_id, preferred_read_replica (KIP-392)
v12 flexible; last_fetched_epoch, diverging_epoch, current_leader
v13 topic ids in place of names (KIP-516)
v14 OFFSET_MOVED_TO_TIERED_STORAGE may be answered
v15 replica_state in place of replica_id (KIP-903)
v16 node_endpoints (KIP-951)
v17 replica_directory_id (KIP-853)
v18 high_watermark in requests (KIP-1166)
"""

from __future__ import annotations

from equipoise.wire.apis.common import ErrorOfPartition, Throttled
from equipoise.wire.apis.k00_produce import LeaderIdAndEpoch, NodeEndpoint
from equipoise.wire.schema import ZERO_UUID, Message, Records, Struct, field


class ReplicaState(Struct):
    replica_id: int = field("int32", default=-1)
    replica_epoch: int = field("int64", default=-1)


class FetchPartition(Struct):
    partition: int = field("int32")
    current_leader_epoch: int = field("int32", "9+", default=-1)
    fetch_offset: int = field("int64")
    last_fetched_epoch: int = field("int32", "12+", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    partition_max_bytes: int = field("int32")
    replica_directory_id: bytes = field("uuid", "17+", tag=0, default=ZERO_UUID)
    high_watermark: int = field("int64", "18+", tag=1, default=2**63 - 1)


class FetchTopicKey(Struct, shared=True):
    """A topic by its name, later by its id."""

    topic: str = field("string", "0-12", default="")
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)


class FetchTopic(FetchTopicKey):
    partitions: list[FetchPartition] = field([FetchPartition])


class ForgottenTopic(FetchTopicKey):
    partitions: list[int] = field(["int32"])


class FetchRequest(Message, api_key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = field("string", "12+", nullable=True, tag=0, default=None)
    replica_id: int = field("int32", "0-14", default=-1)
    replica_state: ReplicaState | None = field(ReplicaState, "15+", tag=1, default=None)
    max_wait_ms: int = field("int32")
    min_bytes: int = field("int32")
    max_bytes: int = field("int32", default=0x7FFFFFFF)
    isolation_level: int = field("int8", default=0)
    session_id: int = field("int32", "7+", default=0)
    session_epoch: int = field("int32", "7+", default=-1)
    topics: list[FetchTopic] = field([FetchTopic])
    forgotten_topics_data: list[ForgottenTopic] = field([ForgottenTopic], "7+", default=[])
    rack_id: str = field("string", "11+", default="")


class DivergingEpoch(Struct):
    epoch: int = field("int32", default=-1)
    end_offset: int = field("int64", default=-1)


class SnapshotId(Struct):
    end_offset: int = field("int64", default=-1)
    epoch: int = field("int32", default=-1)


class AbortedTransaction(Struct):
    producer_id: int = field("int64")
    first_offset: int = field("int64")


class PartitionData(ErrorOfPartition):
    high_watermark: int = field("int64")
    last_stable_offset: int = field("int64", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    diverging_epoch: DivergingEpoch | None = field(DivergingEpoch, "12+", tag=0, default=None)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "12+", tag=1, default=None)
    snapshot_id: SnapshotId | None = field(SnapshotId, "12+", tag=2, default=None)
    aborted_transactions: list[AbortedTransaction] | None = field([AbortedTransaction], nullable=True, default=None)
    preferred_read_replica: int = field("int32", "11+", default=-1)
    records: Records | None = field("records", nullable=True)


class FetchableTopicResponse(FetchTopicKey):
    partitions: list[PartitionData] = field([PartitionData])


class FetchResponse(Throttled, Message, api_key=1, versions="4-18", flexible="12+"):
    error_code: int = field("int16", "7+", default=0)
    session_id: int = field("int32", "7+", default=0)
    responses: list[FetchableTopicResponse] = field([FetchableTopicResponse])
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], "16+", tag=0, default=[])
