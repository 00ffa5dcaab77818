"""What one request may cost: its answer grows with what there is, not with what a stranger repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.topics.topics import MAX_NEW_PARTITIONS
from equipoise.log.storage import directory
from equipoise.log.storage.disk import write_dumped
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from equipoise.wire.apis.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from equipoise.wire.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from equipoise.wire.apis.k33_alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from equipoise.wire.apis.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from equipoise.wire.apis.k65_describe_transactions import DescribeTransactionsRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import append, create_topic, served_apis
from tests.broker.conftest import Connect, Start
from tests.broker.rawclient import RawClient
from tests.broker.txn_calls import RawProducer
from tests.spec.requests import commit


@pytest.fixture
def saves(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are written, with a sync of the disk each."""
    written: list[str] = []
    plain = write_dumped

    def write(path: Path, *args: Any, **options: Any) -> None:
        written.append(path.name)
        plain(path, *args, **options)

    monkeypatch.setattr(directory, "write_dumped", write)
    return written


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def creatable(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


# -- what stands twice


@pytest.mark.parametrize("version", [1, 8, 13])
def test_metadata_answers_each_name_once(client: RawClient, version: int) -> None:
    create_topic(client, "many", 1000)
    create_topic(client, "few", 3)
    answer = client.call(MetadataRequest(topics=named(*["many", "few"] * 1000, "none")), version)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics[:2]] == [("many", 1000), ("few", 3)]
    assert len(answer.topics) == 3
    assert [row.partition_index for row in answer.topics[0].partitions] == list(range(1000))
    assert {(row.leader_id, *row.replica_nodes, *row.isr_nodes) for row in answer.topics[0].partitions} == {(1, 1, 1)}


def test_metadata_answers_each_id_once(client: RawClient) -> None:
    topic_id = create_topic(client, "many", 10)
    asked = [MetadataRequestTopic(name=None, topic_id=topic_id)] * 100
    (topic,) = client.call(MetadataRequest(topics=asked), 13).topics
    assert (topic.name, len(topic.partitions)) == ("many", 10)


def test_describe_configs_answers_each_resource_once(client: RawClient) -> None:
    create_topic(client, "t", configs={"retention.ms": "5"})
    asked = [DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)] * 100
    (result,) = client.call(DescribeConfigsRequest(resources=asked)).results
    assert {row.name: row.value for row in result.configs}["retention.ms"] == "5"


def test_configs_of_a_topic_that_stands_twice_are_not_altered(client: RawClient) -> None:
    create_topic(client, "t")
    rows = [
        AlterConfigsResource(
            resource_type=2, resource_name="t", configs=[AlterableConfig(name="retention.ms", value=value)]
        )
        for value in ("1", "2")
    ]
    (answer,) = client.call(AlterConfigsRequest(resources=rows)).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_partitions_of_a_topic_that_stands_twice_are_not_added(broker: Broker, client: RawClient) -> None:
    create_topic(client, "t")
    rows = [CreatePartitionsTopic(name="t", count=count, assignments=None) for count in (2, 3)]
    (answer,) = client.call(CreatePartitionsRequest(topics=rows, timeout_ms=1000)).results
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert broker.call(lambda s: len(s.topics.require("t").partitions)) == 1


def test_all_offsets_of_a_group_are_answered_once(client: RawClient) -> None:
    """With the topics named, a request is as long as its answer, and each row is answered, as on Kafka."""
    create_topic(client, "t", 100)
    (committed,) = client.call(commit({"t": list(range(100))}), 8).topics
    assert {row.error_code for row in committed.partitions} == {ErrorCode.NONE}
    every, named = OffsetFetchRequestGroup(group_id="g", topics=None), OffsetFetchRequestGroup(group_id="g", topics=[])
    for require_stable in (False, True):
        request = OffsetFetchRequest(groups=[every] * 1000 + [named] * 2, require_stable=require_stable)
        groups = client.call(request, 8).groups
        assert [sum(len(topic.partitions) for topic in group.topics) for group in groups] == [100, 0, 0]


def test_a_transaction_is_described_once(client: RawClient) -> None:
    RawProducer(client, "tx")
    (state,) = client.call(DescribeTransactionsRequest(transactional_ids=["tx"] * 1000)).transaction_states
    assert (state.transactional_id, state.error_code) == ("tx", ErrorCode.NONE)


# -- new partitions


def test_a_request_may_add_so_many_partitions_in_all(broker: Broker, client: RawClient) -> None:
    each = MAX_NEW_PARTITIONS // 5
    topics = [creatable(f"t{number}", each) for number in range(6)]
    answer = client.call(CreateTopicsRequest(topics=topics))
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.POLICY_VIOLATION}
    assert "at most 10000 in one request" in answer.topics[0].error_message
    answer = client.call(CreateTopicsRequest(topics=topics[:5]))
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}
    assert broker.call(lambda s: s.topics.partition_count) == MAX_NEW_PARTITIONS


def test_create_partitions_may_add_as_many_and_no_more(broker: Broker, client: RawClient) -> None:
    for name in ("a", "b"):
        create_topic(client, name)
    rows = [CreatePartitionsTopic(name=name, count=5_002, assignments=None) for name in ("a", "b")]
    answers = client.call(CreatePartitionsRequest(topics=rows, timeout_ms=1000)).results
    assert {answer.error_code for answer in answers} == {ErrorCode.POLICY_VIOLATION}
    for row in rows:
        row.count = 5001
    answers = client.call(CreatePartitionsRequest(topics=rows, timeout_ms=1000)).results
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    assert broker.call(lambda s: [len(s.topics.require(name).partitions) for name in ("a", "b")]) == [5001, 5001]


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_broker_has_no_more_partitions_than_it_may(start: Start, connect: Connect, validate_only: bool) -> None:
    client = connect(start({"max.partitions": 10}))
    create_topic(client, "t", 8)
    request = CreateTopicsRequest(topics=[creatable("u", 3)], validate_only=validate_only)
    (answer,) = client.call(request).topics
    assert (answer.error_code, "max.partitions is 10" in answer.error_message) == (ErrorCode.POLICY_VIOLATION, True)
    growth = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=11, assignments=None)],
        timeout_ms=1000,
        validate_only=validate_only,
    )
    (result,) = client.call(growth).results
    assert result.error_code == ErrorCode.POLICY_VIOLATION
    answer = client.call(MetadataRequest(topics=named("v", "w", "x")))
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.POLICY_VIOLATION}


def test_many_new_partitions_are_opened_in_slices(broker: Broker, connect: Connect) -> None:
    """Others are served meanwhile; the topic is seen when it is whole; nobody else can have its name."""
    client, other = connect(broker), connect(broker)
    client.send(CreateTopicsRequest(topics=[creatable("large", MAX_NEW_PARTITIONS)]))
    seen = set()
    while not client.has_reply():
        assert served_apis(other)
        seen.add(broker.call(lambda s: s.topics.get("large") is not None and len(s.topics.require("large").partitions)))
        (again,) = other.call(CreateTopicsRequest(topics=[creatable("large", 1)])).topics
        assert again.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        if again.error_code == ErrorCode.NONE:
            return  # it was first: also lawful
    assert seen <= {False, MAX_NEW_PARTITIONS}
    (topic,) = client.receive().topics
    assert topic.error_code == ErrorCode.NONE
    assert broker.call(lambda s: len(s.topics.require("large").partitions)) == MAX_NEW_PARTITIONS


# -- one save for all


def test_metadata_creates_all_it_names_with_one_save(
    start: Start, connect: Connect, tmp_path: Path, saves: list[str]
) -> None:
    client = connect(start(data=tmp_path))
    saves.clear()
    names = [f"t{number}" for number in range(1500)]
    answer = client.call(MetadataRequest(topics=named(*names, "not legal!", "t.1", "t_1")))
    by_name = {topic.name: topic.error_code for topic in answer.topics}
    assert {by_name[name] for name in names} == {ErrorCode.NONE}
    assert by_name["not legal!"] == by_name["t_1"] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert saves == ["topics.json"]


def test_alter_configs_saves_once(start: Start, connect: Connect, tmp_path: Path, saves: list[str]) -> None:
    broker = start(data=tmp_path)
    client = connect(broker)
    names = [f"t{number}" for number in range(200)]
    client.call(CreateTopicsRequest(topics=[creatable(name, 1) for name in names]))
    saves.clear()
    rows = [
        AlterConfigsResource(
            resource_type=2, resource_name=name, configs=[AlterableConfig(name="retention.ms", value="77")]
        )
        for name in [*names, "none"]
    ]
    answers = client.call(AlterConfigsRequest(resources=rows)).responses
    assert [answer.error_code for answer in answers[-2:]] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert broker.call(lambda s: {s.topics.require(name).settings.log_retention_ms for name in names}) == {77}
    assert saves == ["topics.json"]


def test_records_of_a_partition_are_deleted_once(broker: Broker, client: RawClient) -> None:
    create_topic(client, "t")
    for _ in range(3):
        append(client, b"x")
    rows = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in [1, 2] * 500]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=rows)], timeout_ms=1000)
    (topic,) = client.call(request).topics
    assert [(row.low_watermark, row.error_code) for row in topic.partitions] == [(2, ErrorCode.NONE)]


def test_new_names_are_kept_through_a_restart(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(data=tmp_path)
    client = connect(broker)
    client.call(MetadataRequest(topics=named("a", "b")))
    rows = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in (("a", 3), ("b", 2))]
    client.call(CreatePartitionsRequest(topics=rows, timeout_ms=1000))
    broker.stop()
    again = start(data=tmp_path)
    assert again.call(lambda s: {topic.name: len(topic.partitions) for topic in s.topics}) == {"a": 3, "b": 2}
