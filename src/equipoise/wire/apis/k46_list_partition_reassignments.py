"""ListPartitionReassignments (46): partitions whose replicas are being moved (KIP-455)."""

from __future__ import annotations

from equipoise.wire.apis.common import Named, OfPartition, Throttled, WithError
from equipoise.wire.schema import Message, field


class ListPartitionReassignmentsTopics(Named):
    partition_indexes: list[int] = field(["int32"])


class ListPartitionReassignmentsRequest(Message, api_key=46, versions="0", flexible="0+"):
    """`topics` of null asks for all."""

    timeout_ms: int = field("int32", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        [ListPartitionReassignmentsTopics], nullable=True, default=None
    )


class OngoingPartitionReassignment(OfPartition):
    replicas: list[int] = field(["int32"])
    adding_replicas: list[int] = field(["int32"])
    removing_replicas: list[int] = field(["int32"])


class OngoingTopicReassignment(Named):
    partitions: list[OngoingPartitionReassignment] = field([OngoingPartitionReassignment])


class ListPartitionReassignmentsResponse(Throttled, WithError, Message, api_key=46, versions="0", flexible="0+"):
    topics: list[OngoingTopicReassignment] = field([OngoingTopicReassignment])
