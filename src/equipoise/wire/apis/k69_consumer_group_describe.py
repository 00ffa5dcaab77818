"""ConsumerGroupDescribe (69): state, epochs and members of KIP-848 groups.

v1  member_type, 0 classic or 1 consumer (KIP-1099)
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled, WithError
from equipoise.wire.schema import Message, Struct, field


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = field(["string"])
    include_authorized_operations: bool = field("bool", default=False)


class DescribedTopicPartitions(Struct):
    topic_id: bytes = field("uuid")
    topic_name: str = field("string")
    partitions: list[int] = field(["int32"])


class DescribedAssignment(Struct):
    topic_partitions: list[DescribedTopicPartitions] = field([DescribedTopicPartitions])


class DescribedConsumerGroupMember(Struct):
    member_id: str = field("string")
    instance_id: str | None = field("string", nullable=True, default=None)
    rack_id: str | None = field("string", nullable=True, default=None)
    member_epoch: int = field("int32")
    client_id: str = field("string")
    client_host: str = field("string")
    subscribed_topic_names: list[str] = field(["string"])
    subscribed_topic_regex: str | None = field("string", nullable=True, default=None)
    assignment: DescribedAssignment = field(DescribedAssignment)
    target_assignment: DescribedAssignment = field(DescribedAssignment)
    member_type: int = field("int8", "1+", default=-1)


class DescribedConsumerGroup(WithError):
    group_id: str = field("string")
    group_state: str = field("string", default="")
    group_epoch: int = field("int32", default=0)
    assignment_epoch: int = field("int32", default=0)
    assignor_name: str = field("string", default="")
    members: list[DescribedConsumerGroupMember] = field([DescribedConsumerGroupMember], default=[])
    authorized_operations: int = field("int32", default=-(2**31))


class ConsumerGroupDescribeResponse(Throttled, Message, api_key=69, versions="0-1", flexible="0+"):
    groups: list[DescribedConsumerGroup] = field([DescribedConsumerGroup])
