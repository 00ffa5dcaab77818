"""ElectLeaders (43): asks for the election of a preferred, or of any, replica as leader.

v1  election_type, 0 preferred or 1 unclean (KIP-460); a top-level error_code
v2  flexible
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled
from equipoise.wire.schema import Message, Struct, field


class ElectLeadersTopicPartitions(Struct):
    topic: str = field("string")
    partitions: list[int] = field(["int32"])


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    election_type: int = field("int8", "1+", default=0)
    topic_partitions: list[ElectLeadersTopicPartitions] | None = field([ElectLeadersTopicPartitions], nullable=True)
    timeout_ms: int = field("int32", default=60000)


class PartitionResult(Struct):
    partition_id: int = field("int32")
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)


class ReplicaElectionResult(Struct):
    topic: str = field("string")
    partition_result: list[PartitionResult] = field([PartitionResult])


class ElectLeadersResponse(Throttled, Message, api_key=43, versions="0-2", flexible="2+"):
    error_code: int = field("int16", "1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field([ReplicaElectionResult])
