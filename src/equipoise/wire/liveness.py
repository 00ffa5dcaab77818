"""What our broker adds to DescribeGroups and ConsumerGroupDescribe for our own clients: deadlines of members.

The addition is a tagged field of the answer. Every client skips tags that it does not know, and the broker sends this
one only to clients that call themselves `equipoise`. Kafka counts its own tags from 0; ours begins far beyond them.
The tables of Kafka's messages stay as Kafka has them.
"""

from __future__ import annotations

from equipoise.wire.apis.k15_describe_groups import DescribeGroupsResponse
from equipoise.wire.apis.k69_consumer_group_describe import ConsumerGroupDescribeResponse
from equipoise.wire.schema import Struct, field

SOFTWARE = "equipoise"  # what a client calls itself in ApiVersions
LIVENESS_TAG = 9000
UNKNOWN = -1
AWAITS_NOTHING, AWAITS_JOIN, AWAITS_SYNC, AWAITS_REVOCATION = 0, 1, 2, 3


class MemberLiveness(Struct):
    """Spans of milliseconds from the moment of the answer. -1: not known, or the clock does not run."""

    member_id: str = field("string")
    last_seen_ms_ago: int = field("int64", default=UNKNOWN)
    session_ms_left: int = field("int64", default=UNKNOWN)
    awaiting: int = field("int8", default=AWAITS_NOTHING)
    awaited_ms_left: int = field("int64", default=UNKNOWN)


class GroupLiveness(Struct):
    """The members of one group. `state_ms_ago`: for how long the group has had its state."""

    group_id: str = field("string")
    state_ms_ago: int = field("int64", default=UNKNOWN)
    members: list[MemberLiveness] = field([MemberLiveness])


class LiveDescribeGroupsResponse(DescribeGroupsResponse, api_key=15, versions="0-6", flexible="5+"):
    """DescribeGroups with deadlines; older versions have no tags."""

    liveness: list[GroupLiveness] = field([GroupLiveness], "5+", tag=LIVENESS_TAG, default=[])


class LiveConsumerGroupDescribeResponse(ConsumerGroupDescribeResponse, api_key=69, versions="0-1", flexible="0+"):
    """ConsumerGroupDescribe with deadlines."""

    liveness: list[GroupLiveness] = field([GroupLiveness], tag=LIVENESS_TAG, default=[])
