"""The requests that a restricted principal puts to both brokers: every API that asks for a permission, about topics
and groups that are there and that are not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from equipoise.wire.apis import k08_offset_commit as k08
from equipoise.wire.apis import k09_offset_fetch as k09
from equipoise.wire.apis import k32_describe_configs as k32
from equipoise.wire.apis import k33_alter_configs as k33
from equipoise.wire.apis import k44_incremental_alter_configs as k44
from equipoise.wire.apis import k47_offset_delete as k47
from equipoise.wire.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from equipoise.wire.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from equipoise.wire.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from equipoise.wire.apis.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest
from equipoise.wire.apis.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from equipoise.wire.apis.k29_describe_acls import DescribeAclsRequest
from equipoise.wire.apis.k30_create_acls import AclCreation, CreateAclsRequest
from equipoise.wire.apis.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from equipoise.wire.apis.k35_describe_log_dirs import DescribeLogDirsRequest
from equipoise.wire.apis.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest
from equipoise.wire.apis.k43_elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from equipoise.wire.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from equipoise.wire.apis.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from equipoise.wire.apis.k48_describe_client_quotas import ComponentData, DescribeClientQuotasRequest, EntityData
from equipoise.wire.apis.k49_alter_client_quotas import AlterClientQuotasEntry, AlterClientQuotasRequest, OpData
from equipoise.wire.apis.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from equipoise.wire.apis.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from equipoise.wire.apis.k60_describe_cluster import DescribeClusterRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.apis.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from equipoise.wire.apis.k74_list_config_resources import ListConfigResourcesRequest
from equipoise.wire.apis.k75_describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.schema import Message
from proving.conformance.access import ABSENT, DOOMED, GROUP, THERE, AccessRequest, AccessSide

UNKNOWN_ID = b"nobody has an id"
_TIMEOUT_MS = 30_000
_ATTRIBUTES, _TRANSACTIONAL = 22, 0x10  # of a batch: the low byte, and its bit
_BATCH = bytes(build_batch([Record(0, 1_700_000_000_000, None, b"x")]))


def access_requests() -> list[AccessRequest]:
    """All of them. None leaves a trace that a later one could see."""
    return [
        *(
            AccessRequest(f"{name} of {topic}", version, partial(_named, build, topic))
            for name, version, build in _OF_TOPICS
            for topic in (THERE, ABSENT)
        ),
        *(
            AccessRequest(f"{name} by id of {topic}", version, partial(_by_id, build, topic))
            for name, version, build in _BY_ID
            for topic in (THERE, ABSENT)
        ),
        *(
            AccessRequest(f"{name} of group {group}", version, partial(_named, build, group))
            for name, version, build in _OF_GROUPS
            for group in (GROUP, "no")
        ),
        *(AccessRequest(name, version, partial(_as_it_is, one)) for name, version, one in _ALONE),
        AccessRequest("DeleteTopics of one that is there by id", 6, _delete_by_id),
    ]


def _named(build: Callable[[str], Message], name: str, side: AccessSide) -> Message:
    return build(name)


def _by_id(build: Callable[[bytes], Message], topic: str, side: AccessSide) -> Message:
    return build(_id(side, topic))


def _as_it_is(request: Message, side: AccessSide) -> Message:
    return request


def _id(side: AccessSide, topic: str) -> bytes:
    return side.topic_ids.get(topic, UNKNOWN_ID)


def _produce(topic: str, acks: int = -1) -> Message:
    row = PartitionProduceData(index=5, records=_BATCH)  # a partition that is not there: nothing is appended
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[row])])


def _fetch(replica_id: int) -> Callable[[str], Message]:
    return lambda topic: FetchRequest(
        replica_id=replica_id, max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[_fetched()])]
    )


def _fetched() -> FetchPartition:
    return FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)


def _commit(**topic: object) -> Message:
    row = k08.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [k08.OffsetCommitRequestTopic(partitions=[row], **topic)]  # type: ignore[arg-type]
    return k08.OffsetCommitRequest(group_id="commits", topics=topics)


def _fetch_offsets(**topic: object) -> Message:
    topics = [k09.OffsetFetchRequestTopic(partition_indexes=[0], **topic)]  # type: ignore[arg-type]
    return k09.OffsetFetchRequest(groups=[k09.OffsetFetchRequestGroup(group_id="g", topics=topics)])


def _create(topic: str) -> Message:
    topics = [CreatableTopic(name=topic, num_partitions=1, replication_factor=1)]
    return CreateTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=True)


def _alter(kind: int, name: str) -> Message:
    resource = k33.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
    return k33.AlterConfigsRequest(resources=[resource], validate_only=True)


def _alter_incrementally(kind: int, name: str) -> Message:
    resource = k44.IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
    return k44.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def _describe_configs(kind: int, name: str) -> Message:
    resource = k32.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
    return k32.DescribeConfigsRequest(resources=[resource])


def _delete_records(topic: str) -> Message:
    rows = [DeleteRecordsPartition(partition_index=0, offset=0)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=_TIMEOUT_MS)


def _epoch(topic: str) -> Message:
    rows = [OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=rows)])


def _delete_offsets(topic: str) -> Message:
    rows = [k47.OffsetDeleteRequestPartition(partition_index=0)]
    return k47.OffsetDeleteRequest(group_id="g", topics=[k47.OffsetDeleteRequestTopic(name=topic, partitions=rows)])


def _list_offsets(topic: str) -> Message:
    rows = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=rows)])


def _grow(topic: str) -> Message:
    rows = [CreatePartitionsTopic(name=topic, count=3)]
    return CreatePartitionsRequest(topics=rows, timeout_ms=_TIMEOUT_MS, validate_only=True)


def _grow_twice() -> Message:
    rows = [CreatePartitionsTopic(name=THERE, count=3), CreatePartitionsTopic(name=THERE, count=4)]
    return CreatePartitionsRequest(topics=rows, timeout_ms=_TIMEOUT_MS, validate_only=True)


def _beat(group: str, *topics: str) -> Message:
    """Of a member that is not there: whatever is allowed, nobody joins."""
    names = list(topics) or None
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="nobody", member_epoch=7, subscribed_topic_names=names
    )


def _create_twice() -> Message:
    topics = [CreatableTopic(name=ABSENT, num_partitions=count, replication_factor=1) for count in (1, 2)]
    return CreateTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=True)


def _transactional(transactional_id: str | None) -> Message:
    batch = bytearray(_BATCH)
    batch[_ATTRIBUTES] |= _TRANSACTIONAL
    row = PartitionProduceData(index=0, records=bytes(batch))
    topics = [TopicProduceData(name=THERE, partition_data=[row])]
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=topics)


def _invalid_acl(**change: Any) -> Message:
    good: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:x",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return CreateAclsRequest(creations=[AclCreation(**{**good, **change})])


def _delete_by_id(side: AccessSide) -> Message:
    topics = [DeleteTopicState(topic_id=side.topic_ids[DOOMED[1]])]
    return DeleteTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS)


Naming = list[tuple[str, int, Callable[[str], Message]]]
_OF_TOPICS: Naming = [
    ("Produce", 12, _produce),
    ("Produce with unknown acks", 12, lambda topic: _produce(topic, 7)),
    ("Fetch", 12, _fetch(-1)),
    ("Fetch of a follower", 12, _fetch(1)),
    ("ListOffsets", 7, _list_offsets),
    (
        "Metadata",
        9,
        lambda topic: MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        ),
    ),
    ("OffsetCommit", 8, lambda topic: _commit(name=topic)),
    ("OffsetFetch", 8, lambda topic: _fetch_offsets(name=topic)),
    ("CreateTopics", 7, _create),
    ("DeleteRecords", 2, _delete_records),
    ("OffsetForLeaderEpoch", 4, _epoch),
    ("DescribeConfigs", 4, lambda topic: _describe_configs(2, topic)),
    ("AlterConfigs", 2, lambda topic: _alter(2, topic)),
    ("IncrementalAlterConfigs", 1, lambda topic: _alter_incrementally(2, topic)),
    ("CreatePartitions", 3, _grow),
    ("OffsetDelete", 0, _delete_offsets),
    ("DescribeTopicPartitions", 0, lambda topic: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)])),
    ("ConsumerGroupHeartbeat of nobody", 1, lambda topic: _beat(GROUP, topic)),
]
_BY_ID: list[tuple[str, int, Callable[[bytes], Message]]] = [
    (
        "Metadata",
        12,
        lambda topic_id: MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=topic_id, name=None)], allow_auto_topic_creation=False
        ),
    ),
    (
        "Fetch",
        16,
        lambda topic_id: FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=topic_id, partitions=[_fetched()])]
        ),
    ),
    ("OffsetCommit", 10, lambda topic_id: _commit(topic_id=topic_id)),
    ("OffsetFetch", 10, lambda topic_id: _fetch_offsets(topic_id=topic_id)),
]
_OF_GROUPS: Naming = [
    ("FindCoordinator", 4, lambda group: FindCoordinatorRequest(coordinator_keys=[group])),
    ("FindCoordinator", 3, lambda group: FindCoordinatorRequest(key=group)),
    (
        "JoinGroup",
        9,
        lambda group: JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="nobody",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
    ),
    ("Heartbeat", 4, lambda group: HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")),
    (
        "LeaveGroup",
        5,
        lambda group: LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="nobody")]),
    ),
    (
        "SyncGroup",
        5,
        lambda group: SyncGroupRequest(
            group_id=group, generation_id=1, member_id="nobody", protocol_type="consumer", protocol_name="range"
        ),
    ),
    ("SyncGroup without protocol", 5, lambda group: SyncGroupRequest(group_id=group, generation_id=1, member_id="x")),
    ("DescribeGroups", 5, lambda group: DescribeGroupsRequest(groups=[group], include_authorized_operations=True)),
    (
        "OffsetFetch of all topics",
        8,
        lambda group: k09.OffsetFetchRequest(groups=[k09.OffsetFetchRequestGroup(group_id=group, topics=None)]),
    ),
    ("OffsetFetch", 5, lambda group: k09.OffsetFetchRequest(group_id=group, topics=None)),
    ("DescribeConfigs", 4, lambda group: _describe_configs(32, group)),
    ("AlterConfigs of a group", 2, lambda group: _alter(32, group)),
    ("ConsumerGroupHeartbeat of nobody", 1, _beat),
    (
        "ConsumerGroupDescribe",
        1,
        lambda group: ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True),
    ),
]
_INVALID: dict[str, dict[str, Any]] = {
    "no name": {"resource_name": ""},
    "another cluster": {"resource_type": 4, "resource_name": "other"},
    "any type": {"resource_type": 1},
    "any pattern": {"resource_pattern_type": 1},
    "a match": {"resource_pattern_type": 2},
    "any operation": {"operation": 1},
    "any permission": {"permission_type": 1},
}
_FILTER: dict[str, Any] = {
    "resource_type_filter": 2,
    "resource_name_filter": "no topic of this name",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_QUOTA = OpData(key="producer_byte_rate", value=1e9, remove=False)
_OF_USERS: list[tuple[str, int, Message]] = [
    (
        "DescribeClientQuotas",
        1,
        DescribeClientQuotasRequest(
            components=[ComponentData(entity_type="user", match_type=2, match=None)], strict=False
        ),
    ),
    (
        "AlterClientQuotas",
        1,
        AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasEntry(entity=[EntityData(entity_type="user", entity_name=name)], ops=[_QUOTA])
                for name in ("nobody", "somebody")
            ],
            validate_only=True,
        ),
    ),
    # Not of all users: where that is denied, Kafka fails inside and never answers.
    ("DescribeUserScramCredentials", 0, DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")])),
    (
        "AlterUserScramCredentials",
        0,
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=name, mechanism=1) for name in ("nobody", "somebody")],
            upsertions=[],
        ),
    ),
]
_ALONE: list[tuple[str, int, Message]] = [
    *_OF_USERS,
    ("DeleteGroups", 2, DeleteGroupsRequest(groups_names=["no"])),
    ("DeleteTopics", 6, DeleteTopicsRequest(topics=[DeleteTopicState(name=ABSENT)], timeout_ms=_TIMEOUT_MS)),
    (
        "DeleteTopics by id",
        6,
        DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=UNKNOWN_ID)], timeout_ms=_TIMEOUT_MS),
    ),
    ("ListGroups", 5, ListGroupsRequest()),
    ("Metadata of all topics", 9, MetadataRequest(topics=None, include_cluster_authorized_operations=True)),
    ("DescribeTopicPartitions of all topics", 0, DescribeTopicPartitionsRequest(topics=[])),
    ("InitProducerId", 4, InitProducerIdRequest(transaction_timeout_ms=1000)),
    ("DescribeCluster", 1, DescribeClusterRequest(include_cluster_authorized_operations=True)),
    ("DescribeConfigs of the broker", 4, _describe_configs(4, "1")),
    ("DescribeLogDirs", 4, DescribeLogDirsRequest(topics=[])),
    (
        "ElectLeaders",
        2,
        ElectLeadersRequest(topic_partitions=[ElectLeadersTopicPartitions(topic=THERE, partitions=[0])]),
    ),
    (
        "AlterPartitionReassignments",
        0,
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=THERE, partitions=[ReassignablePartition(partition_index=0, replicas=[1])])]
        ),
    ),
    ("Produce of a transactional batch", 11, _transactional("tx")),
    ("Produce of a transactional batch without an id", 11, _transactional(None)),
    ("InitProducerId of a transaction", 4, InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)),
    ("FindCoordinator of a transaction", 4, FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])),
    ("CreateTopics twice the same", 7, _create_twice()),
    ("CreatePartitions twice the same", 3, _grow_twice()),
    ("ListPartitionReassignments", 0, ListPartitionReassignmentsRequest()),
    ("ListConfigResources", 1, ListConfigResourcesRequest()),
    ("DescribeAcls", 3, DescribeAclsRequest(**_FILTER)),
    *((f"CreateAcls with {what}", 3, _invalid_acl(**change)) for what, change in _INVALID.items()),
    (
        "DeleteTopics of one that is there",
        6,
        DeleteTopicsRequest(topics=[DeleteTopicState(name=DOOMED[0])], timeout_ms=_TIMEOUT_MS),
    ),
    ("DeleteAcls", 3, DeleteAclsRequest(filters=[DeleteAclsFilter(**_FILTER)])),
]
