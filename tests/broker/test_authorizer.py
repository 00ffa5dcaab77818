"""An authorizer that says no: each API answers with its own code, and nothing is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.security.acls import ANY_NAME, CLUSTER, AclOperation, Resource, ResourceType
from equipoise.security.session import Session
from equipoise.wire.apis import k33_alter_configs as k33
from equipoise.wire.apis import k44_incremental_alter_configs as k44
from equipoise.wire.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
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
from equipoise.wire.apis.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from equipoise.wire.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from equipoise.wire.apis.k35_describe_log_dirs import DescribeLogDirsRequest
from equipoise.wire.apis.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from equipoise.wire.apis.k43_elect_leaders import ElectLeadersRequest
from equipoise.wire.apis.k45_alter_partition_reassignments import AlterPartitionReassignmentsRequest
from equipoise.wire.apis.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from equipoise.wire.apis.k61_describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from equipoise.wire.apis.k74_list_config_resources import ListConfigResourcesRequest
from equipoise.wire.apis.k75_describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message
from tests.broker.calls import (
    BY_NAME,
    batch_of,
    create_topic,
    delete_topic,
    fetch_request,
    list_offsets,
    produce_request,
)
from tests.broker.conftest import Connect, Start
from tests.broker.rawclient import RawClient

T = Resource(ResourceType.TOPIC, "t")
GROUP = Resource(ResourceType.GROUP, "g")
# What allows a caller as well what a case denies on a topic or a group.
OTHER_WAYS = {
    *((operation, CLUSTER) for operation in (AclOperation.CREATE, AclOperation.DELETE, AclOperation.DESCRIBE)),
    (AclOperation.CLUSTER_ACTION, CLUSTER),
    (AclOperation.WRITE, Resource(ResourceType.TOPIC, ANY_NAME)),
}
BY_NAME_COMMIT = 9  # later versions of OffsetCommit name topics by id


class Authorizer:
    """Allows all until told what to deny, and notes what it was asked."""

    def __init__(self) -> None:
        self.denied: set[tuple[AclOperation, Resource]] = set()
        self.asked: list[tuple[str, AclOperation, Resource]] = []

    def __call__(self, session: Session, operation: AclOperation, resource: Resource) -> bool:
        self.asked.append((session.principal, operation, resource))
        return (operation, resource) not in self.denied


@pytest.fixture
def authorizer() -> Authorizer:
    return Authorizer()


@pytest.fixture
def guarded(start: Start, authorizer: Authorizer) -> Broker:
    return start(authorizer=authorizer)


@pytest.fixture
def guest(guarded: Broker, connect: Connect, authorizer: Authorizer) -> RawClient:
    client = connect(guarded)
    create_topic(client)
    authorizer.asked.clear()
    return client


def records(topic: str) -> DeleteRecordsTopic:
    return DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])


def offsets(topic: str) -> ListOffsetsTopic:
    return ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])


def committed(topic: str) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        name=topic, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
    )


def epochs(topic: str) -> OffsetForLeaderTopic:
    return OffsetForLeaderTopic(topic=topic, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])


Case = tuple[AclOperation, Resource, Message, int | None, Callable[[Any], int]]
CASES: dict[str, Case] = {
    "Produce": (
        AclOperation.WRITE,
        T,
        produce_request(batch_of(b"a")),
        BY_NAME,
        lambda r: r.responses[0].partition_responses[0].error_code,
    ),
    "Fetch": (AclOperation.READ, T, fetch_request(), BY_NAME, lambda r: r.responses[0].partitions[0].error_code),
    "ListOffsets": (
        AclOperation.DESCRIBE,
        T,
        ListOffsetsRequest(topics=[offsets("t")]),
        None,
        lambda r: r.topics[0].partitions[0].error_code,
    ),
    "FindCoordinator": (
        AclOperation.DESCRIBE,
        GROUP,
        FindCoordinatorRequest(coordinator_keys=["g"]),
        None,
        lambda r: r.coordinators[0].error_code,
    ),
    "Metadata": (
        AclOperation.DESCRIBE,
        T,
        MetadataRequest(topics=[MetadataRequestTopic(name="t")]),
        None,
        lambda r: r.topics[0].error_code,
    ),
    "Metadata that creates": (
        AclOperation.CREATE,
        Resource(ResourceType.TOPIC, "new"),
        MetadataRequest(topics=[MetadataRequestTopic(name="new")]),
        None,
        lambda r: r.topics[0].error_code,
    ),
    "DescribeTopicPartitions": (
        AclOperation.DESCRIBE,
        T,
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]),
        None,
        lambda r: r.topics[0].error_code,
    ),
    "CreateTopics": (
        AclOperation.CREATE,
        Resource(ResourceType.TOPIC, "u"),
        CreateTopicsRequest(topics=[CreatableTopic(name="u", num_partitions=1, replication_factor=1)]),
        None,
        lambda r: r.topics[0].error_code,
    ),
    "DeleteTopics": (
        AclOperation.DELETE,
        T,
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000),
        None,
        lambda r: r.responses[0].error_code,
    ),
    "DeleteRecords": (
        AclOperation.DELETE,
        T,
        DeleteRecordsRequest(topics=[records("t")], timeout_ms=1000),
        None,
        lambda r: r.topics[0].partitions[0].error_code,
    ),
    "WriteTxnMarkers": (
        AclOperation.ALTER,
        CLUSTER,
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=False,
                    coordinator_epoch=0,
                    topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                )
            ]
        ),
        None,
        lambda r: r.markers[0].topics[0].partitions[0].error_code,
    ),
    "DescribeProducers": (
        AclOperation.READ,
        T,
        DescribeProducersRequest(topics=[DescribeProducersTopicRequest(name="t", partition_indexes=[0])]),
        None,
        lambda r: r.topics[0].partitions[0].error_code,
    ),
    "InitProducerId": (
        AclOperation.IDEMPOTENT_WRITE,
        CLUSTER,
        InitProducerIdRequest(transaction_timeout_ms=1),
        None,
        lambda r: r.error_code,
    ),
    "OffsetForLeaderEpoch": (
        AclOperation.DESCRIBE,
        T,
        OffsetForLeaderEpochRequest(topics=[epochs("t")]),
        None,
        lambda r: r.topics[0].partitions[0].error_code,
    ),
    "DescribeConfigs of a topic": (
        AclOperation.DESCRIBE_CONFIGS,
        T,
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name="t")]),
        None,
        lambda r: r.results[0].error_code,
    ),
    "DescribeConfigs of the broker": (
        AclOperation.DESCRIBE_CONFIGS,
        CLUSTER,
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name="1")]),
        None,
        lambda r: r.results[0].error_code,
    ),
    "AlterConfigs": (
        AclOperation.ALTER_CONFIGS,
        T,
        k33.AlterConfigsRequest(resources=[k33.AlterConfigsResource(resource_type=2, resource_name="t", configs=[])]),
        None,
        lambda r: r.responses[0].error_code,
    ),
    "IncrementalAlterConfigs": (
        AclOperation.ALTER_CONFIGS,
        T,
        k44.IncrementalAlterConfigsRequest(
            resources=[k44.IncrementalAlterConfigsResource(resource_type=2, resource_name="t", configs=[])]
        ),
        None,
        lambda r: r.responses[0].error_code,
    ),
    "DescribeLogDirs": (
        AclOperation.DESCRIBE,
        CLUSTER,
        DescribeLogDirsRequest(topics=None),
        None,
        lambda r: r.error_code,
    ),
    "ElectLeaders": (
        AclOperation.ALTER,
        CLUSTER,
        ElectLeadersRequest(topic_partitions=None),
        None,
        lambda r: r.error_code,
    ),
    "AlterPartitionReassignments": (
        AclOperation.ALTER,
        CLUSTER,
        AlterPartitionReassignmentsRequest(topics=[]),
        None,
        lambda r: r.error_code,
    ),
    "ListPartitionReassignments": (
        AclOperation.DESCRIBE,
        CLUSTER,
        ListPartitionReassignmentsRequest(),
        None,
        lambda r: r.error_code,
    ),
    "ListConfigResources": (
        AclOperation.DESCRIBE_CONFIGS,
        CLUSTER,
        ListConfigResourcesRequest(),
        None,
        lambda r: r.error_code,
    ),
    "CreatePartitions": (
        AclOperation.ALTER,
        T,
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2)], timeout_ms=1000),
        None,
        lambda r: r.results[0].error_code,
    ),
}
CODES = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_denied_is_answered_by_code_and_allowed_goes_through(
    guest: RawClient, authorizer: Authorizer, case: Case
) -> None:
    operation, resource, request, version, code_of = case
    authorizer.denied = {(operation, resource), *OTHER_WAYS}
    assert code_of(guest.call(request, version)) == CODES[resource.type]
    assert ("User:ANONYMOUS", operation, resource) in authorizer.asked
    authorizer.denied = set()
    assert code_of(guest.call(request, version)) == ErrorCode.NONE


def test_topics_that_may_not_be_described_are_left_out_of_a_list_of_all(
    guest: RawClient, authorizer: Authorizer
) -> None:
    create_topic(guest, "seen")
    authorizer.denied = {(AclOperation.DESCRIBE, T)}
    assert [row.name for row in guest.call(MetadataRequest(topics=None)).topics] == ["seen"]
    assert [row.name for row in guest.call(DescribeTopicPartitionsRequest(topics=[])).topics] == ["seen"]


def test_who_may_not_ask_does_not_learn_whether_a_topic_is_there(guest: RawClient, authorizer: Authorizer) -> None:
    authorizer.denied = {(AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, "absent"))}
    assert list_offsets(guest, -1, topic="absent").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    authorizer.denied |= OTHER_WAYS
    assert delete_topic(guest, "absent") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    authorizer.denied = {(AclOperation.DELETE, Resource(ResourceType.TOPIC, "absent")), *OTHER_WAYS}
    assert delete_topic(guest, "absent") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it may describe the topic"
    authorizer.denied = {(AclOperation.DELETE, T), *OTHER_WAYS}
    assert delete_topic(guest, "t") == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_groups_that_may_not_be_described_are_left_out_of_a_list_of_all(
    guest: RawClient, authorizer: Authorizer
) -> None:
    for group in ("g", "seen"):
        guest.call(OffsetCommitRequest(group_id=group, topics=[committed("t")]), BY_NAME_COMMIT)
    authorizer.denied = {(AclOperation.DESCRIBE, GROUP)}
    seen = sorted(row.group_id for row in guest.call(ListGroupsRequest()).groups)
    assert seen == ["g", "seen"], "DESCRIBE on the cluster is enough"
    authorizer.denied |= OTHER_WAYS
    assert [row.group_id for row in guest.call(ListGroupsRequest()).groups] == ["seen"]


def test_what_was_denied_was_not_done(guest: RawClient, authorizer: Authorizer) -> None:
    authorizer.denied = {(operation, resource) for operation, resource, *_ in CASES.values()} | OTHER_WAYS
    for _, _, request, version, _ in CASES.values():
        guest.call(request, version)
    authorizer.denied = set()
    assert list_offsets(guest, -1).offset == 0, "nothing was produced, the topic is still there"
    assert list_offsets(guest, -1, partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offsets(guest, -1, topic="u").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
