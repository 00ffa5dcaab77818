"""A group as anyone may see it over the wire, on any broker of one node."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from equipoise.client.admin import Admin
from equipoise.client.net.addresses import parse_bootstrap_servers
from equipoise.client.net.blocking import Connection
from equipoise.coordinator.placement import partition_for
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from equipoise.wire.apis.k69_consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import GroupMetadataKey, GroupMetadataValue, decode_record
from equipoise.wire.records.read import read_all
from equipoise.wire.schema import Message
from proving.members.events import Place

Response = TypeVar("Response", bound=Message)

CONSUMER = "consumer"  # as the protocol of a group: the broker assigns
_OFFSETS_TOPIC = "__consumer_offsets"
_ENOUGH_BYTES = 1 << 20


class GroupView(NamedTuple):
    state: str
    protocol: str
    members: dict[str, str | None]  # member id to group.instance.id


class Generation(NamedTuple):
    """A group as it was written down: when its assignment was made, or when its last member had left."""

    generation_id: int
    members: int


def view_group(bootstrap_servers: str, group: str) -> GroupView:
    """A group that is not there, or not yet to be had, has no members; the first is Dead, the other has no state."""
    answer = _ask(bootstrap_servers, DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
    (found,) = answer.groups
    if found.group_state == "Dead" or found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return _view_consumer_group(bootstrap_servers, group)
    members = {member.member_id: member.group_instance_id for member in found.members}
    return GroupView(found.group_state, found.protocol_data, members)


def _view_consumer_group(bootstrap_servers: str, group: str) -> GroupView:
    """DescribeGroups calls it Dead: it may be a group of KIP-848."""
    answer = _ask(bootstrap_servers, ConsumerGroupDescribeRequest(group_ids=[group]), ConsumerGroupDescribeResponse)
    (found,) = answer.groups
    members = {member.member_id: member.instance_id for member in found.members}
    return GroupView("Dead" if found.error_code else found.group_state, CONSUMER, members)


def committed(bootstrap_servers: str, group: str) -> dict[Place, int]:
    asked = OffsetFetchRequestGroup(group_id=group, topics=None)
    request = OffsetFetchRequest(group_id=group, topics=None, groups=[asked])
    answer = _ask(bootstrap_servers, request, OffsetFetchResponse)
    topics = [topic for found in answer.groups for topic in found.topics] or answer.topics
    unnamed = {topic.topic_id for topic in topics if not topic.name}
    if not unnamed <= _names.keys():
        _learn_names(bootstrap_servers)
    return {
        (topic.name or _names[topic.topic_id], row.partition_index): row.committed_offset
        for topic in topics
        for row in topic.partitions
    }


def generations(bootstrap_servers: str, group: str) -> list[Generation]:
    """All that the group's partition of __consumer_offsets tells. Compaction may have thinned out the oldest."""
    with Admin(bootstrap_servers) as admin:
        topic = admin.topic(_OFFSETS_TOPIC)
        partition = partition_for(group, len(topic.partitions))
        start, end = admin.offsets(_OFFSETS_TOPIC)[partition]
    found: list[Generation] = []
    while start < end:
        for record in read_all(_fetch(bootstrap_servers, topic.topic_id, partition, start)):
            start = max(start, record.offset + 1)
            found += _generation(group, record.key or b"", record.value)
    return found


def _generation(group: str, key: bytes, value: bytes | None) -> list[Generation]:
    match decode_record(key, value):
        case (GroupMetadataKey(group=name), GroupMetadataValue() as written) if name == group:
            return [Generation(written.generation, len(written.members))]
    return []


def _fetch(bootstrap_servers: str, topic_id: bytes, partition: int, offset: int) -> bytes:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_ENOUGH_BYTES)
    topics = [FetchTopic(topic=_OFFSETS_TOPIC, topic_id=topic_id, partitions=[wanted])]
    answer = _ask(bootstrap_servers, FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), FetchResponse)
    ((found,),) = (topic.partitions for topic in answer.responses)
    assert isinstance(found.records, bytes | memoryview)
    return bytes(found.records)


_names: dict[bytes, str] = {}  # by topic id, of which no two are the same on any broker


def _learn_names(bootstrap_servers: str) -> None:
    """Of all topics, which takes long where there are many."""
    answer = _ask(bootstrap_servers, MetadataRequest(topics=None), MetadataResponse)
    _names.update({topic.topic_id: topic.name or "" for topic in answer.topics})


def _ask(bootstrap_servers: str, request: Message, response: type[Response]) -> Response:
    """A connection for each question: the broker may have been killed since the last one."""
    (host, port), *_ = parse_bootstrap_servers(bootstrap_servers)
    with Connection(host, port) as connection:
        return connection.send(request, response)
