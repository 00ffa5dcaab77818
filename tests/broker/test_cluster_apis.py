"""What tools ask of a cluster, answered by one broker: directories, elections, reassignments, config resources; and
what happens to whoever asks for what is not served."""

from __future__ import annotations

import logging
import struct
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.broker.net.client_warnings import ClientWarnings
from equipoise.wire.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from equipoise.wire.apis.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from equipoise.wire.apis.k43_elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from equipoise.wire.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from equipoise.wire.apis.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from equipoise.wire.apis.k74_list_config_resources import ListConfigResourcesRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import append, create_topic
from tests.broker.conftest import Connect, Start
from tests.broker.rawclient import RawClient, sized

TOPIC, BROKER = 2, 4


# -- DescribeLogDirs


@pytest.mark.parametrize("version", range(1, 6))
def test_partitions_lie_in_the_data_directory(start: Start, connect: Connect, tmp_path: Path, version: int) -> None:
    client = connect(start(data=tmp_path))
    create_topic(client, "a", partitions=2)
    create_topic(client, "b")
    append(client, b"x" * 1000, topic="a", partition=1)
    (found,) = client.call(DescribeLogDirsRequest(topics=None), version).results
    assert (found.error_code, found.log_dir) == (ErrorCode.NONE, str(tmp_path))
    assert (found.total_bytes >= found.usable_bytes > 0) is (version >= 4)
    sizes = {
        (topic.name, row.partition_index): row.partition_size for topic in found.topics for row in topic.partitions
    }
    assert sizes.keys() == {("a", 0), ("a", 1), ("b", 0)}
    assert sizes["a", 0] == 0 < 1000 < sizes["a", 1] == (tmp_path / "a-1").joinpath(f"{0:020}.log").stat().st_size


def test_only_what_is_asked_for_and_is_there_each_once(client: RawClient) -> None:
    create_topic(client, "a", partitions=3)
    rows = [
        DescribableLogDirTopic(topic="a", partitions=[2, 0, 2, 7]),
        DescribableLogDirTopic(topic="a", partitions=[0]),
        DescribableLogDirTopic(topic="absent", partitions=[0]),
    ]
    (found,) = client.call(DescribeLogDirsRequest(topics=rows)).results
    assert [(topic.name, [row.partition_index for row in topic.partitions]) for topic in found.topics] == [
        ("a", [0, 2])
    ]
    assert (found.log_dir, found.total_bytes) == ("memory", -1)


# -- ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments


@pytest.mark.parametrize("version", range(3))
def test_the_one_broker_leads_already(client: RawClient, version: int) -> None:
    create_topic(client, "a", partitions=2)
    asked = [
        ElectLeadersTopicPartitions(topic="a", partitions=[1, 9, 1]),
        ElectLeadersTopicPartitions(topic="absent", partitions=[0]),
    ]
    answer = client.call(ElectLeadersRequest(topic_partitions=asked), version)
    found = {
        row.topic: {one.partition_id: one.error_code for one in row.partition_result}
        for row in answer.replica_election_results
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {"a": {1: ErrorCode.ELECTION_NOT_NEEDED, 9: unknown}, "absent": {0: unknown}}
    assert client.call(ElectLeadersRequest(topic_partitions=None), version).replica_election_results == []


def test_an_election_of_another_kind_is_refused(client: RawClient) -> None:
    request = ElectLeadersRequest(election_type=7, topic_partitions=[])
    assert client.call(request).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(2))
def test_partitions_can_be_reassigned_to_where_they_are(client: RawClient, version: int) -> None:
    create_topic(client, "a", partitions=4)
    replicas: dict[int, list[int] | None] = {0: [1], 1: [2], 2: [1, 2], 3: None, 4: [1]}
    rows = [ReassignablePartition(partition_index=index, replicas=one) for index, one in replicas.items()]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="a", partitions=rows)])
    answer = client.call(request, version)
    assert answer.error_code == ErrorCode.NONE
    (topic,) = answer.responses
    assert [row.error_code for row in topic.partitions] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    listed = client.call(ListPartitionReassignmentsRequest())
    assert (listed.error_code, listed.topics) == (ErrorCode.NONE, [])


# -- ListConfigResources, and the listener in DescribeConfigs


def test_config_resources_by_type(client: RawClient) -> None:
    create_topic(client, "a")

    def listed(*types: int, version: int = 1) -> set[tuple[str, int]]:
        answer = client.call(ListConfigResourcesRequest(resource_types=list(types)), version)
        assert answer.error_code == ErrorCode.NONE
        return {(row.resource_name, row.resource_type) for row in answer.config_resources}

    assert listed() == {("a", TOPIC), ("1", BROKER)}
    assert listed(TOPIC, TOPIC) == {("a", TOPIC)}
    assert listed(BROKER) == {("1", BROKER)}
    assert listed(8, 16, 32) == set()
    assert listed(version=0) == set()
    assert client.call(ListConfigResourcesRequest(resource_types=[3])).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("setting", "told"), [("", "PLAINTEXT://127.0.0.1:{port}"), ("broker.test:99", "PLAINTEXT://broker.test:99")]
)
def test_the_listener_in_use_is_described(start: Start, connect: Connect, setting: str, told: str) -> None:
    broker = start({"advertised.listeners": setting})
    asked = DescribeConfigsResource(
        resource_type=BROKER, resource_name="1", configuration_keys=["advertised.listeners"]
    )
    (found,) = connect(broker).call(DescribeConfigsRequest(resources=[asked])).results
    assert [row.value for row in found.configs] == [told.format(port=broker.server.port)]


# -- what is not served


def test_an_api_that_is_not_served_is_named_once(
    broker: Broker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """One client filled the log with a thousand lines in two minutes."""
    for _ in range(20):
        client = connect(broker)
        client.send_bytes(sized(struct.pack(">hhih", 55, 2, 1, -1) + b"\0\1\0"))
        client.wait_closed()
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert "API key 55 (DescribeQuorum) is not served" in said[0]


def test_a_client_that_goes_on_is_mentioned_once_a_minute_with_the_number_of_times() -> None:
    now = 0
    complaints = ClientWarnings(lambda: now)
    said = []
    for second in range(180):
        now = second * 1000
        said.append(complaints.about("peer", "this"))
    told = [(second, text) for second, text in enumerate(said) if text is not None]
    more = "this (59 more warnings about this client were left out)"
    assert told == [(0, "this"), (60, more), (120, more)]


def test_different_complaints_about_one_client_are_bounded_too_and_others_are_heard() -> None:
    complaints = ClientWarnings(lambda: 0)
    assert sum(complaints.about("peer", f"{number}") is not None for number in range(1000)) == 20
    assert complaints.about("other", "this") == "this"
