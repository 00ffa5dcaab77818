"""Attacks on access rules: names that must not leak, pretended principals, rules that change under a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.security.acls import AclFilter, AclOperation, ResourceType
from equipoise.wire.apis import k32_describe_configs as k32
from equipoise.wire.apis import k33_alter_configs as k33
from equipoise.wire.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from equipoise.wire.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from equipoise.wire.apis.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from equipoise.wire.apis.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from equipoise.wire.apis.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from equipoise.wire.apis.k75_describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import ZERO_UUID, Message
from tests.broker.calls import (
    BY_NAME,
    append,
    batch_of,
    create_topic,
    fetch,
    fetch_request,
    fetched,
    list_offsets,
    produce,
    produce_request,
    stored,
)
from tests.broker.conftest import Start, connect, start, waiting_calls
from tests.broker.conftest import eventually as wait_until
from tests.broker.principals import ADMIN, GUARDED, As, add_acls, as_principal, remove_acls
from tests.broker.rawclient import RawClient, request_frame
from tests.security.acl_sets import DENY, GROUP, PREFIXED, TOPIC, acl

__all__ = ["as_principal", "connect", "start"]
Op = AclOperation
MALLORY = "User:mallory"
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
THERE, ABSENT = "there", "absnt"  # of one length: answers about them may differ in the name alone


@pytest.fixture
def broker(start: Start) -> Broker:
    return start(GUARDED | {"group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": True})


@pytest.fixture
def admin(broker: Broker, as_principal: As) -> RawClient:
    client = as_principal(broker, ADMIN)
    create_topic(client, THERE)
    return client


@pytest.fixture
def mallory(broker: Broker, admin: RawClient, as_principal: As) -> RawClient:
    """May do nothing yet. The admin's topic is there."""
    return as_principal(broker, MALLORY)


def joining(group: str) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )


# -- 34: principals that are pretended


def test_a_client_id_is_no_principal(broker: Broker, admin: RawClient, mallory: RawClient) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=THERE)])
    for client_id in ("User:admin", "admin", "User:*", ADMIN + "\0"):
        mallory.send_bytes(request_frame(request, 9, 7, client_id))
        mallory._unanswered.append((7, type(admin.call(request, 9)), 9))
        assert mallory.receive().topics[0].error_code == DENIED


@pytest.mark.parametrize("principal", ["User:*", "User:Admin", "User: admin", "admin", "Group:admin", "user:admin"])
def test_only_the_very_name_of_a_super_user_is_one(
    broker: Broker, admin: RawClient, as_principal: As, principal: str
) -> None:
    assert list_offsets(as_principal(broker, principal), -1, topic=THERE).error_code == DENIED


def test_a_user_that_is_called_star_is_not_everybody(broker: Broker, admin: RawClient, as_principal: As) -> None:
    add_acls(admin, acl(THERE, Op.READ, principal="User:bob"))
    assert list_offsets(as_principal(broker, "User:*"), -1, topic=THERE).error_code == DENIED


# -- 35, 36: patterns and implied operations


def test_patterns_cover_what_they_say(broker: Broker, admin: RawClient, mallory: RawClient) -> None:
    for name in ("a", "ab", "b"):
        create_topic(admin, name)

    def readable() -> str:
        rows = mallory.call(MetadataRequest(topics=None)).topics
        return " ".join(sorted(row.name for row in rows))

    for rules, expected in (
        ([acl("a", Op.READ, pattern=PREFIXED, principal=MALLORY)], "a ab"),
        ([acl("a", Op.READ, principal=MALLORY)], "a"),
        ([acl("*", Op.READ, principal=MALLORY)], f"a ab b {THERE}"),
        ([acl("*", Op.READ, pattern=PREFIXED, principal=MALLORY)], ""),
        ([acl("*", Op.READ, principal=MALLORY), acl("a", Op.ALL, DENY, PREFIXED)], f"a ab b {THERE}"),
        ([acl("*", Op.READ, principal=MALLORY), acl("a", Op.ALL, DENY, PREFIXED, principal="User:*")], f"b {THERE}"),
        (
            [acl("a", Op.READ, pattern=PREFIXED, principal=MALLORY), acl("ab", Op.DESCRIBE, DENY, principal=MALLORY)],
            "a",
        ),
    ):
        assert add_acls(admin, *rules) == [ErrorCode.NONE] * len(rules)
        assert readable() == expected
        remove_acls(admin, AclFilter())


def test_an_empty_prefix_is_refused(admin: RawClient) -> None:
    assert add_acls(admin, acl("", Op.READ, pattern=PREFIXED)) == [ErrorCode.INVALID_REQUEST]


def test_write_lets_describe_and_a_denied_describe_lets_read(admin: RawClient, mallory: RawClient) -> None:
    add_acls(admin, acl(THERE, Op.WRITE, principal=MALLORY))
    (row,) = mallory.call(MetadataRequest(topics=[MetadataRequestTopic(name=THERE)])).topics
    assert row.error_code == ErrorCode.NONE
    assert fetched(mallory.call(fetch_request({(THERE, 0): 0}), BY_NAME)).error_code == DENIED
    add_acls(admin, acl(THERE, Op.READ, principal=MALLORY), acl(THERE, Op.DESCRIBE, DENY, principal=MALLORY))
    (row,) = mallory.call(MetadataRequest(topics=[MetadataRequestTopic(name=THERE)])).topics
    assert row.error_code == DENIED
    assert fetched(mallory.call(fetch_request({(THERE, 0): 0}), BY_NAME)).error_code == ErrorCode.NONE


# -- 37: which topics are there


def partition_zero(name: str) -> OffsetCommitRequestTopic:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    return OffsetCommitRequestTopic(name=name, partitions=[row])


NAMING: dict[str, tuple[Callable[[str], Message], int | None]] = {
    "Produce": (lambda name: produce_request(batch_of(b"x"), topic=name), BY_NAME),
    "Fetch": (lambda name: fetch_request({(name, 0): 0}), BY_NAME),
    "ListOffsets": (
        lambda name: ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
        ),
        None,
    ),
    "Metadata": (
        lambda name: MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], include_topic_authorized_operations=True
        ),
        None,
    ),
    "OffsetCommit": (lambda name: OffsetCommitRequest(group_id="own", topics=[partition_zero(name)]), 9),
    "OffsetFetch": (
        lambda name: OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="own", topics=[OffsetFetchRequestTopic(name=name, partition_indexes=[0])]
                )
            ]
        ),
        9,
    ),
    "CreateTopics": (
        lambda name: CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]),
        None,
    ),
    "DeleteTopics": (lambda name: DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000), None),
    "DeleteRecords": (
        lambda name: DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])],
            timeout_ms=1000,
        ),
        None,
    ),
    "OffsetForLeaderEpoch": (
        lambda name: OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
            ]
        ),
        None,
    ),
    "DescribeConfigs": (
        lambda name: k32.DescribeConfigsRequest(
            resources=[k32.DescribeConfigsResource(resource_type=2, resource_name=name)]
        ),
        None,
    ),
    "AlterConfigs": (
        lambda name: k33.AlterConfigsRequest(
            resources=[k33.AlterConfigsResource(resource_type=2, resource_name=name, configs=[])]
        ),
        None,
    ),
    "CreatePartitions": (
        lambda name: CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=3)], timeout_ms=1000),
        None,
    ),
    "OffsetDelete": (
        lambda name: OffsetDeleteRequest(
            group_id="own",
            topics=[OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
        ),
        None,
    ),
    "DescribeTopicPartitions": (lambda name: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)]), None),
}


@pytest.mark.parametrize("api", NAMING)
def test_a_topic_that_is_there_is_answered_like_one_that_is_not(api: str, admin: RawClient, mallory: RawClient) -> None:
    build, version = NAMING[api]
    add_acls(admin, acl("own", Op.ALL, kind=GROUP, principal=MALLORY))
    admin.call(OffsetCommitRequest(group_id="own", topics=[partition_zero(THERE)]), 9)
    frames = []
    for name in (THERE, ABSENT):
        mallory.send(build(name), version)
        frame = mallory.receive_frame()
        mallory._unanswered.clear()
        assert name.encode() in frame
        frames.append(frame[4:].replace(name.encode(), b"....."))
    assert frames[0] == frames[1]


def test_all_topics_are_those_that_may_be_described(admin: RawClient, mallory: RawClient) -> None:
    assert mallory.call(MetadataRequest(topics=None)).topics == []
    assert mallory.call(DescribeTopicPartitionsRequest(topics=[])).topics == []


def test_an_id_tells_no_name(admin: RawClient, mallory: RawClient) -> None:
    topic_id = create_topic(admin, "secret")
    (row,) = mallory.call(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id)])).topics
    assert (row.error_code, row.name, row.topic_id) == (DENIED, None, topic_id)
    (row,) = mallory.call(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id)], timeout_ms=1)).responses
    assert (row.error_code, row.name, row.topic_id) == (DENIED, None, topic_id)
    add_acls(admin, acl("secret", Op.DESCRIBE, principal=MALLORY))
    (row,) = mallory.call(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id)], timeout_ms=1)).responses
    assert (row.error_code, row.name) == (DENIED, "secret")
    (row,) = mallory.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="secret")], timeout_ms=1)).responses
    assert (row.error_code, row.topic_id) == (DENIED, ZERO_UUID)


# -- 38: the one leak that Kafka has too


def test_create_tells_that_a_topic_exists_to_a_principal_that_may_create_it(
    admin: RawClient, mallory: RawClient
) -> None:
    add_acls(admin, acl("*", Op.CREATE, principal=MALLORY))
    build, _ = NAMING["CreateTopics"]
    (row,) = mallory.call(build(THERE)).topics
    assert row.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    (row,) = mallory.call(build("new")).topics
    assert (row.error_code, row.topic_config_error_code) == (ErrorCode.NONE, DENIED)
    assert (row.num_partitions, row.replication_factor, row.configs) == (-1, -1, [])


# -- 39: which groups are there


def test_groups_are_hidden(admin: RawClient, mallory: RawClient) -> None:
    admin.call(OffsetCommitRequest(group_id="g", topics=[partition_zero(THERE)]), 9)
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert mallory.call(ListGroupsRequest()).groups == []
    for group in ("g", "no"):
        assert mallory.call(DescribeGroupsRequest(groups=[group])).groups[0].error_code == denied
        (found,) = mallory.call(FindCoordinatorRequest(coordinator_keys=[group])).coordinators
        assert (found.error_code, found.node_id, found.host) == (denied, -1, "")
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        (fetched_group,) = mallory.call(OffsetFetchRequest(groups=[asked])).groups
        assert (fetched_group.error_code, fetched_group.topics) == (denied, [])
        assert mallory.call(DeleteGroupsRequest(groups_names=[group])).results[0].error_code == denied
        assert mallory.call(joining(group)).error_code == denied
    add_acls(admin, acl("g", Op.READ, kind=GROUP, principal=MALLORY))
    assert [row.group_id for row in mallory.call(ListGroupsRequest()).groups] == ["g"]


# -- 40: internal topics


def test_internal_topics_need_read_and_the_security_topic_is_for_nobody(
    broker: Broker, admin: RawClient, mallory: RawClient
) -> None:
    admin.call(OffsetCommitRequest(group_id="g", topics=[partition_zero(THERE)]), 9)
    add_acls(admin, acl("x", Op.READ))  # now there is __security
    topics = "__consumer_offsets", "__rebalances", "__security"

    def codes(client: RawClient) -> list[int]:
        return [fetched(client.call(fetch_request({(name, 0): 0}), BY_NAME)).error_code for name in topics]

    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(mallory) == [DENIED] * 3
    add_acls(admin, acl("*", Op.ALL, principal=MALLORY))
    assert codes(mallory)[0] == ErrorCode.NONE
    assert codes(mallory)[2] == codes(admin)[2] == gone
    topic = broker.call(lambda server: server.topics.get_hidden("__security"))
    assert topic is not None
    for client in (mallory, admin):
        names = {row.name for row in client.call(MetadataRequest(topics=None)).topics}
        assert "__security" not in names
        (row,) = client.call(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic.topic_id)])).topics
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert produce(client, batch_of(b"x"), topic="__security").error_code != ErrorCode.NONE
        assert list_offsets(client, -1, topic="__security").error_code == gone


# -- 41: rules that change under a request


def test_an_acl_removed_while_a_fetch_waits_makes_its_answer_a_denial(
    broker: Broker, admin: RawClient, mallory: RawClient
) -> None:
    add_acls(admin, acl(THERE, Op.READ, principal=MALLORY))
    mallory.send(fetch_request({(THERE, 0): 0}, max_wait_ms=60_000), BY_NAME)
    wait_until(lambda: waiting_calls(broker) == 1, "the Fetch waits")
    remove_acls(admin, AclFilter())
    append(admin, b"not for mallory", topic=THERE)
    answer = fetched(mallory.receive())
    assert (answer.error_code, stored(answer)) == (DENIED, b"")


def test_an_acl_removed_under_a_group_denies_its_member_and_the_group_goes_on(
    admin: RawClient, mallory: RawClient
) -> None:
    add_acls(admin, acl("g", Op.READ, kind=GROUP, principal=MALLORY))
    joined: Any = mallory.call(joining("g"), 3)
    beat = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
    for _ in range(3):  # a heartbeat that is known by its bytes is asked for its permission too
        assert mallory.call(beat).error_code == ErrorCode.NONE
    remove_acls(admin, AclFilter())
    assert mallory.call(beat).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    (group,) = admin.call(DescribeGroupsRequest(groups=["g"])).groups
    assert [member.member_id for member in group.members] == [joined.member_id]


# -- 42: changing the rules


def test_rules_are_changed_by_a_principal_that_may_alter_the_cluster(admin: RawClient, mallory: RawClient) -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    rules = [acl("a", Op.READ, principal=MALLORY), acl("b", Op.READ, principal=MALLORY)]
    assert add_acls(mallory, *rules) == [denied] * 2
    assert [row.error_code for row in remove_acls(mallory, AclFilter(), AclFilter())] == [denied] * 2
    add_acls(admin, *rules, acl("kafka-cluster", Op.ALTER, kind=ResourceType.CLUSTER, principal=MALLORY))
    (deleted,) = remove_acls(mallory, AclFilter())
    assert [(row.resource_type, row.resource_name) for row in deleted.matching_acls] == [
        (TOPIC, "a"),
        (TOPIC, "b"),
        (ResourceType.CLUSTER, "kafka-cluster"),
    ]
    assert add_acls(mallory, *rules) == [denied] * 2, "with the last rule the permission itself is gone"


def test_nothing_is_done_by_a_request_that_is_denied(admin: RawClient, mallory: RawClient) -> None:
    for build, version in NAMING.values():
        mallory.call(build(THERE), version)
        mallory.call(build(ABSENT), version)
    assert fetch(admin, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(row.name for row in admin.call(MetadataRequest(topics=None)).topics if not row.is_internal) == [THERE]
    assert list_offsets(admin, -1, topic=THERE).offset == 0
