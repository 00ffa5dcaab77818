"""Topics: created, described, grown and deleted, by every API that does so."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.topics import topics
from equipoise.log.storage.directory import MemoryDirectory
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from equipoise.wire.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from equipoise.wire.apis.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from equipoise.wire.apis.k60_describe_cluster import DescribeClusterRequest
from equipoise.wire.apis.k75_describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import ZERO_UUID
from tests.broker.calls import append, create_topic, delete_topic, fetch, read_partition
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient
from tests.spec.requests import commit, join


def create(client: RawClient, *topics: CreatableTopic, validate_only: bool = False, version: int = 7) -> list[Any]:
    answer = client.call(CreateTopicsRequest(topics=list(topics), validate_only=validate_only), version)
    return list(answer.topics)


def topic(name: str = "t", num_partitions: int = 1, replication_factor: int = 1, **options: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=num_partitions, replication_factor=replication_factor, **options)


def metadata(client: RawClient, *names: str, create: bool = False, version: int = 13) -> list[Any]:
    asked = [MetadataRequestTopic(name=name) for name in names]
    return list(client.call(MetadataRequest(topics=asked, allow_auto_topic_creation=create), version).topics)


def partition_count(client: RawClient, name: str = "t") -> int:
    (described,) = metadata(client, name)
    return len(described.partitions)


# -- CreateTopics


def test_a_created_topic_is_described_in_the_answer(client: RawClient) -> None:
    (created,) = create(client, topic(num_partitions=3, configs=[CreatableTopicConfig(name="flush.ms", value="5")]))
    assert (created.error_code, created.num_partitions, created.replication_factor) == (ErrorCode.NONE, 3, 1)
    assert created.topic_id != ZERO_UUID
    assert {row.name: row.value for row in created.configs}["flush.ms"] == "5"


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates(client: RawClient, version: int) -> None:
    assert create(client, topic(), version=version)[0].error_code == ErrorCode.NONE
    assert partition_count(client) == 1


def test_minus_1_stands_for_the_brokers_defaults(start: Start, connect: Connect) -> None:
    client = connect(start({"num.partitions": 4}))
    (created,) = create(client, topic(num_partitions=-1, replication_factor=-1))
    assert (created.num_partitions, created.replication_factor) == (4, 1)


def test_a_topic_is_created_once(client: RawClient) -> None:
    create_topic(client)
    (again,) = create(client, topic())
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_name_that_stands_twice_in_a_request_is_refused(client: RawClient) -> None:
    results = create(client, topic("a"), topic("b"), topic("a"))
    assert {row.name: row.error_code for row in results} == {
        "a": ErrorCode.INVALID_REQUEST,
        "b": ErrorCode.NONE,
    }


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b", "a.b")])
def test_names_that_differ_in_dot_and_underscore_only_collide(client: RawClient, first: str, second: str) -> None:
    create_topic(client, first)
    (created,) = create(client, topic(second))
    assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert first in created.error_message


def test_names_that_collide_within_one_request(client: RawClient) -> None:
    first, second = create(client, topic("a.b"), topic("a_b"))
    assert (first.error_code, second.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert metadata(client, "a_b")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_many_topics_are_saved_once(broker: Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop waits for each save, and with it the heartbeats of all members."""
    saved: list[int] = []
    monkeypatch.setattr(MemoryDirectory, "save_topics", lambda directory, topics: saved.append(len(topics)))
    names = [f"t{number}" for number in range(50)]
    assert {row.error_code for row in create(client, *map(topic, names))} == {ErrorCode.NONE}
    states = [DeleteTopicState(name=name) for name in names]
    results = client.call(DeleteTopicsRequest(topics=states, timeout_ms=1000)).responses
    assert {row.error_code for row in results} == {ErrorCode.NONE}
    assert saved == [50, 0]


def test_validate_only_creates_nothing(client: RawClient) -> None:
    assert create(client, topic(), validate_only=True)[0].error_code == ErrorCode.NONE
    assert metadata(client, "t")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert create(client, topic(num_partitions=0), validate_only=True)[0].error_code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [2, 0, -2])
def test_there_is_one_broker_to_replicate_to(client: RawClient, factor: int) -> None:
    (created,) = create(client, topic(replication_factor=factor))
    assert created.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert str(factor) in created.error_message


ASSIGNMENTS: dict[str, tuple[list[tuple[int, list[int]]], ErrorCode]] = {
    "two partitions here": ([(0, [1]), (1, [1])], ErrorCode.NONE),
    "in any order": ([(1, [1]), (0, [1])], ErrorCode.NONE),
    "another broker": ([(0, [2])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "two replicas": ([(0, [1, 2])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "no replica": ([(0, [])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a gap": ([(0, [1]), (2, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "twice the same": ([(0, [1]), (0, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
}


@pytest.mark.parametrize(("rows", "code"), ASSIGNMENTS.values(), ids=ASSIGNMENTS.keys())
def test_assignments_by_hand(client: RawClient, rows: list[tuple[int, list[int]]], code: ErrorCode) -> None:
    assigned = [CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in rows]
    (created,) = create(client, topic(num_partitions=-1, replication_factor=-1, assignments=assigned))
    assert created.error_code == code


def test_an_assignment_and_a_count_contradict_each_other(client: RawClient) -> None:
    assigned = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
    assert create(client, topic(assignments=assigned))[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("retention.mss", "1", "retention.ms"),
        ("retention.ms", "soon", "number"),
        ("retention.ms", "-2", "between"),
        ("cleanup.policy", "shred", "delete, compact"),
    ],
)
def test_a_bad_config_is_refused_by_name(client: RawClient, name: str, value: str, hint: str) -> None:
    (created,) = create(client, topic(configs=[CreatableTopicConfig(name=name, value=value)]))
    assert created.error_code == ErrorCode.INVALID_CONFIG
    assert name in created.error_message
    assert hint in created.error_message
    assert metadata(client, "t")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- Metadata


@pytest.mark.parametrize("version", range(14))
def test_metadata_says_where_partitions_are_in_every_version(broker: Broker, client: RawClient, version: int) -> None:
    create_topic(client, partitions=2)
    answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), version)
    (node,) = answer.brokers
    assert f"{node.host}:{node.port}" == broker.bootstrap_servers
    (described,) = answer.topics
    rows = [(row.partition_index, row.leader_id, row.replica_nodes, row.isr_nodes) for row in described.partitions]
    assert rows == [(0, node.node_id, [1], [1]), (1, node.node_id, [1], [1])]


def test_null_asks_for_all_topics_and_an_empty_list_for_none(client: RawClient) -> None:
    for name in ("a", "b"):
        create_topic(client, name)
    assert [row.name for row in client.call(MetadataRequest(topics=None)).topics] == ["a", "b"]
    assert client.call(MetadataRequest(topics=[])).topics == []
    assert len(client.call(MetadataRequest(topics=[]), 0).topics) == 2, "in version 0 an empty list is all"


@pytest.mark.parametrize("name", [None, ""])
def test_topics_are_asked_by_id(client: RawClient, name: str | None) -> None:
    """With an empty name too, as Java asks for the topics of a pattern that the broker has matched."""
    topic_id = create_topic(client)
    for asked, code in ((topic_id, ErrorCode.NONE), (bytes(range(16)), ErrorCode.UNKNOWN_TOPIC_ID)):
        row = MetadataRequestTopic(topic_id=asked, name=name)
        (described,) = client.call(MetadataRequest(topics=[row], allow_auto_topic_creation=False)).topics
        assert (described.error_code, described.topic_id) == (code, asked)


@pytest.mark.parametrize(("broker_allows", "client_allows"), [(True, True), (True, False), (False, True)])
def test_a_topic_is_created_on_demand_if_both_sides_allow_it(
    start: Start, connect: Connect, broker_allows: bool, client_allows: bool
) -> None:
    client = connect(start({"auto.create.topics.enable": broker_allows, "num.partitions": 3}))
    (described,) = metadata(client, "t", create=client_allows)
    if broker_allows and client_allows:
        assert (described.error_code, len(described.partitions)) == (ErrorCode.NONE, 3)
    else:
        assert (described.error_code, described.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_an_address_to_advertise_is_told_in_place_of_ours(start: Start, connect: Connect) -> None:
    client = connect(start({"advertised.listeners": "PLAINTEXT://kafka.example:19092"}))
    (node,) = client.call(MetadataRequest(topics=[])).brokers
    assert (node.host, node.port) == ("kafka.example", 19092)


def test_the_cluster_describes_itself_alike_everywhere(start: Start, connect: Connect) -> None:
    client = connect(start({"node.id": 7, "broker.rack": "r1"}))
    answer = client.call(MetadataRequest(topics=[]))
    described = client.call(DescribeClusterRequest())
    (node,), (other) = answer.brokers, described.brokers[0]
    assert answer.cluster_id == described.cluster_id != ""
    assert answer.controller_id == described.controller_id == node.node_id == other.broker_id == 7
    assert (node.host, node.port, node.rack) == (other.host, other.port, other.rack)
    coordinator = client.call(FindCoordinatorRequest(coordinator_keys=["g"])).coordinators[0]
    assert (coordinator.node_id, coordinator.host, coordinator.port) == (7, node.host, node.port)


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (77, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
@pytest.mark.parametrize("version", [1, 2])
def test_no_controllers_are_described(client: RawClient, version: int, endpoint_type: int, code: ErrorCode) -> None:
    answer = client.call(DescribeClusterRequest(endpoint_type=endpoint_type), version)
    assert (answer.error_code, answer.brokers) == (code, [])
    assert client.call(DescribeClusterRequest(endpoint_type=1), version).brokers


@pytest.mark.parametrize("version", range(8, 14))
def test_authorized_operations_are_told_if_asked_for(client: RawClient, version: int) -> None:
    create_topic(client)
    for ask in (False, True):
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], include_topic_authorized_operations=ask)
        (described,) = client.call(request, version).topics
        assert (described.topic_authorized_operations > 0) is ask


_ALL, _UNTOLD = 3576, -(2**31)


@pytest.mark.parametrize("version", range(8, 14))
def test_topics_in_error_have_authorized_operations_too(client: RawClient, version: int) -> None:
    asked = [MetadataRequestTopic(name="unknown"), MetadataRequestTopic(name="not legal")]
    for told, ask in ((_UNTOLD, False), (_ALL, True)):
        request = MetadataRequest(
            topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=ask
        )
        rows = client.call(request, version).topics
        assert [(row.error_code, row.topic_authorized_operations) for row in rows] == [
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, told),
            (ErrorCode.INVALID_TOPIC_EXCEPTION, told),
        ]


def test_of_an_unknown_id_and_a_hidden_topic_no_operations_are_told(start: Start, connect: Connect) -> None:
    client = connect(start(authorizer=lambda session, operation, resource: resource.name != "hidden"))
    asked = [MetadataRequestTopic(topic_id=b"x" * 16), MetadataRequestTopic(name="hidden")]
    for row in client.call(MetadataRequest(topics=asked, include_topic_authorized_operations=True)).topics:
        assert row.error_code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert row.topic_authorized_operations == _UNTOLD
    assert describe(client, "hidden").topics[0].topic_authorized_operations == _UNTOLD


# -- DeleteTopics


def test_a_deleted_topic_is_gone_and_its_name_free(client: RawClient) -> None:
    first = create_topic(client)
    append(client, b"old")
    assert delete_topic(client, "t") == ErrorCode.NONE
    assert delete_topic(client, "t") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert create_topic(client) != first
    assert fetch(client).high_watermark == 0


def test_topics_are_deleted_by_id(client: RawClient) -> None:
    topic_id = create_topic(client)
    states = [DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=bytes(range(16)))]
    results = client.call(DeleteTopicsRequest(topics=states, timeout_ms=1000)).responses
    assert [row.error_code for row in results] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
    assert results[0].name == "t"


def test_a_topic_that_stands_twice_in_a_request_stays(client: RawClient) -> None:
    topic_id = create_topic(client)
    create_topic(client, "u")
    states = [DeleteTopicState(name="t"), DeleteTopicState(name="u"), DeleteTopicState(topic_id=topic_id)]
    results = client.call(DeleteTopicsRequest(topics=states, timeout_ms=1000)).responses
    assert [row.error_code for row in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert partition_count(client) == 1


def test_a_name_and_an_id_together_are_refused(client: RawClient) -> None:
    topic_id = create_topic(client)
    states = [DeleteTopicState(name="t", topic_id=topic_id)]
    (result,) = client.call(DeleteTopicsRequest(topics=states, timeout_ms=1000)).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert partition_count(client) == 1


def test_deletion_can_be_switched_off(start: Start, connect: Connect) -> None:
    client = connect(start({"delete.topic.enable": "false"}))
    create_topic(client)
    assert delete_topic(client, "t") == ErrorCode.TOPIC_DELETION_DISABLED
    assert partition_count(client) == 1


# -- CreatePartitions


def grow(client: RawClient, count: int, *, name: str = "t", validate_only: bool = False, **options: Any) -> int:
    asked = CreatePartitionsTopic(name=name, count=count, **options)
    (result,) = client.call(
        CreatePartitionsRequest(topics=[asked], timeout_ms=1000, validate_only=validate_only)
    ).results
    return int(result.error_code)


def test_a_topic_grows_and_keeps_its_records(client: RawClient) -> None:
    create_topic(client)
    append(client, b"old")
    assert grow(client, 3) == ErrorCode.NONE
    assert partition_count(client) == 3
    append(client, b"new", partition=2)
    assert [[r.value for r in read_partition(client, "t", p)] for p in range(3)] == [[b"old"], [], [b"new"]]


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_a_topic_never_shrinks(client: RawClient, count: int) -> None:
    create_topic(client, partitions=2)
    assert grow(client, count) == ErrorCode.INVALID_PARTITIONS
    assert partition_count(client) == 2


def test_growth_can_be_tried_out(client: RawClient) -> None:
    create_topic(client)
    assert grow(client, 2, validate_only=True) == ErrorCode.NONE
    assert partition_count(client) == 1


def test_growth_has_its_errors(client: RawClient) -> None:
    create_topic(client)
    here, elsewhere = CreatePartitionsAssignment(broker_ids=[1]), CreatePartitionsAssignment(broker_ids=[2])
    assert grow(client, 2, name="absent") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert grow(client, 3, assignments=[here]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(client, 2, assignments=[elsewhere]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(client, 20_000) == ErrorCode.POLICY_VIOLATION
    assert grow(client, 2, assignments=[here]) == ErrorCode.NONE


# -- DescribeTopicPartitions


def describe(client: RawClient, *names: str, limit: int = 2000, cursor: Cursor | None = None) -> Any:
    asked = [TopicRequest(name=name) for name in names]
    return client.call(DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=limit, cursor=cursor))


def test_topics_in_error_are_described_with_their_operations(client: RawClient) -> None:
    create_topic(client)
    rows = describe(client, "t", "unknown", "not legal").topics
    assert {row.name: (row.error_code, row.topic_authorized_operations) for row in rows} == {
        "t": (ErrorCode.NONE, _ALL),
        "unknown": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _ALL),
        "not legal": (ErrorCode.INVALID_TOPIC_EXCEPTION, _ALL),
    }


def test_topics_are_described_in_pages(client: RawClient) -> None:
    for name in ("a", "b", "c"):
        create_topic(client, name, partitions=2)
    seen, cursor = [], None
    for _ in range(10):
        page = describe(client, "c", "a", "b", limit=3, cursor=cursor)
        rows = [(row.name, part.partition_index) for row in page.topics for part in row.partitions]
        assert len(rows) <= 3
        seen += rows
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]


def test_an_unknown_topic_is_described_by_its_error(client: RawClient) -> None:
    create_topic(client)
    answer = describe(client, "absent", "t")
    assert [(row.name, row.error_code) for row in answer.topics] == [
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", ErrorCode.NONE),
    ]
    assert answer.next_cursor is None


# -- FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_every_group_has_its_coordinator_here(client: RawClient, version: int) -> None:
    request = FindCoordinatorRequest(key="g", coordinator_keys=["g"])
    answer = client.call(request, version)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)


def test_transactional_ids_have_a_coordinator(client: RawClient) -> None:
    """Rule T.1: the first question makes `__transaction_state`."""
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["x", "y", "x"])
    found = client.call(request).coordinators
    assert [(one.key, one.error_code, one.node_id) for one in found] == [("x", 0, 1), ("y", 0, 1)]
    (topic,) = metadata(client, "__transaction_state")
    assert (topic.is_internal, len(topic.partitions)) == (True, 50)


def test_nothing_else_has_a_coordinator(client: RawClient) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["x"])
    (found,) = client.call(request).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_internal_topics_are_made_by_the_broker_alone(client: RawClient) -> None:
    """Auto-creation would give `__consumer_offsets` one partition and no compaction, and no group would work."""
    (found,) = metadata(client, "__consumer_offsets", create=True)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (created,) = create(client, topic("__rebalances"))
    assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "made by the broker" in created.error_message


@pytest.mark.parametrize("name", ["__consumer.offsets", "_.consumer_offsets", "_.rebalances", "._rebalances"])
def test_names_that_collide_with_internal_topics_are_reserved(client: RawClient, name: str) -> None:
    """On a fresh broker nothing is there to collide with, and the topic would stand in the way of every group."""
    (created,) = create(client, topic(name))
    assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "collides" in created.error_message
    (found,) = metadata(client, name, create=True)
    assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.call(MetadataRequest(topics=None)).topics == []


def _commits(client: RawClient, name: str, offset: int) -> bool:
    (row,) = client.call(commit({name: [0]}, offset=offset), 9).topics[0].partitions
    return bool(row.error_code == ErrorCode.NONE)


def test_a_directory_with_such_names_serves_groups_all_the_same(
    start: Start, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers have made them, before the names were reserved."""
    taken = ["__consumer.offsets", "_.rebalances"]
    broker = start(data=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(topics, "_RESERVED", {})
        for name in taken:
            create_topic(connect(broker), name)
    for restart in range(2):
        broker.stop()
        broker.start()
        client = connect(broker)
        eventually(partial(_commits, client, taken[0], restart), "groups are loaded")
        assert client.call(join(group=f"g{restart}")).error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert append(client, b"x", topic=taken[1]) == restart
    assert [delete_topic(client, name) for name in taken] == [ErrorCode.NONE] * 2
    assert {row.error_code for row in create(client, *map(topic, taken))} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
