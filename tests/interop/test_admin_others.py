"""The admin clients of kafka-python, aiokafka and KafkaJS, and what kcat can ask."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.admin import RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.errors import InvalidPartitionsError as AioInvalidPartitions
from aiokafka.errors import TopicAlreadyExistsError as AioTopicAlreadyExists
from kafka import TopicPartition
from kafka.admin import ConfigResource, OffsetSpec
from kafka.errors import (
    InvalidPartitionsError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from equipoise.broker import Broker
from tests.interop.conftest import PARTITIONS
from tests.interop.drivers import AioKafka, Confluent, KafkaJs, KafkaPython, Kcat
from tests.interop.drivers.kafkajs import KafkaJsError
from tests.interop.records import START, Record, by_place, first_at, make_records, next_offsets

TOPIC_RESOURCE = 2  # KafkaJS and the protocol call it so


@pytest.fixture
def records(confluent: Confluent, topic: str) -> list[Record]:
    """In the topic, written by confluent-kafka."""
    written = make_records(120, PARTITIONS, seed=3)
    confluent.create_topic(topic, PARTITIONS)
    confluent.produce(topic, written, "zstd")
    return by_place(written)


def cluster_id(broker: Broker) -> str:
    return broker.call(lambda server: server.cluster_id)


def port(broker: Broker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


class TestKafkaPython:
    def test_cluster(self, kafka_python: KafkaPython, broker: Broker) -> None:
        cluster = kafka_python.admin.describe_cluster()
        assert (cluster["cluster_id"], cluster["controller_id"]) == (cluster_id(broker), 1)
        assert [(row["broker_id"], row["port"]) for row in cluster["brokers"]] == [(1, port(broker))]

    def test_directories_elections_and_reassignments(self, kafka_python: KafkaPython, topic: str) -> None:
        kafka_python.create_topic(topic, 2)
        place = TopicPartition(topic, 0)
        (found,) = kafka_python.admin.describe_log_dirs({topic: [0, 1]})
        assert topic in str(found)
        elected = kafka_python.admin.elect_leaders(0, {topic: [0]}, raise_errors=False)
        assert "84" in str(elected) or "ElectionNotNeeded" in str(elected)
        assert kafka_python.admin.list_partition_reassignments() == {}
        assert kafka_python.admin.alter_partition_reassignments({place: [1]}) == {place: None}
        (refused,) = kafka_python.admin.alter_partition_reassignments({place: [2]}).values()
        assert refused is not None
        assert topic in str(kafka_python.admin.list_config_resources())

    def test_topic_by_name_and_id(self, kafka_python: KafkaPython, records: list[Record], topic: str) -> None:
        assert topic in kafka_python.admin.list_topics()
        (by_name,) = kafka_python.admin.describe_topics([topic])
        (by_id,) = kafka_python.admin.describe_topics([uuid.UUID(by_name["topic_id"])])
        assert by_name == by_id
        assert [row["partition_index"] for row in by_name["partitions"]] == list(range(PARTITIONS))

    def test_partitions_page_by_page(self, kafka_python: KafkaPython, records: list[Record], topic: str) -> None:
        """DescribeTopicPartitions: no more than the limit, and a cursor to go on from."""
        pages: list[list[int]] = []
        cursor = None
        while cursor is not None or not pages:
            page = kafka_python.admin.describe_topic_partitions([topic], response_partition_limit=4, cursor=cursor)
            pages.append([row["partition_index"] for row in page["topics"][0]["partitions"]])
            cursor = page["next_cursor"]
        assert pages == [[0, 1, 2, 3], [4, 5]]

    @pytest.mark.parametrize("incremental", [True, False])
    def test_configs(self, kafka_python: KafkaPython, records: list[Record], topic: str, incremental: bool) -> None:
        def change(configs: dict[str, str]) -> None:
            asked = [ConfigResource("TOPIC", topic, configs)]
            assert kafka_python.admin.alter_configs(asked, incremental=incremental) == {"topic": {topic: "OK"}}

        def modified() -> dict[str, str]:
            found = kafka_python.admin.describe_configs([ConfigResource("TOPIC", topic)])["topic"][topic]
            return {name: row["value"] for name, row in found.items() if row["config_source"] == "DYNAMIC_TOPIC_CONFIG"}

        change({"cleanup.policy": "compact"})
        change({"segment.bytes": "1048576"})
        assert modified() == {"cleanup.policy": "compact", "segment.bytes": "1048576"}
        kafka_python.admin.reset_configs([ConfigResource("TOPIC", topic, ["cleanup.policy"])])
        assert modified() == {"segment.bytes": "1048576"}

    def test_offsets(self, kafka_python: KafkaPython, records: list[Record], topic: str) -> None:
        def offsets(spec: OffsetSpec | int) -> dict[int, int]:
            asked = {TopicPartition(topic, partition): spec for partition in range(PARTITIONS)}
            found = kafka_python.admin.list_partition_offsets(asked)
            return {place.partition: one.offset for place, one in found.items()}

        assert offsets(OffsetSpec.EARLIEST) == dict.fromkeys(range(PARTITIONS), 0)
        assert offsets(OffsetSpec.LATEST) == next_offsets(records)
        expected = {partition: first_at(records, partition, START + 400) for partition in range(PARTITIONS)}
        assert offsets(START + 400) == expected

    def test_delete_records(self, kafka_python: KafkaPython, records: list[Record], topic: str) -> None:
        place = TopicPartition(topic, 2)
        assert kafka_python.admin.delete_records({place: 3})[place]["low_watermark"] == 3
        assert kafka_python.consume(topic, {2: 3})[0].offset == 3
        with pytest.raises(OffsetOutOfRangeError):
            kafka_python.admin.delete_records({place: 1000})

    def test_refusals(self, kafka_python: KafkaPython, records: list[Record], topic: str) -> None:
        with pytest.raises(TopicAlreadyExistsError):
            kafka_python.create_topic(topic, 1)
        with pytest.raises(InvalidPartitionsError):
            kafka_python.add_partitions(topic, 1)
        with pytest.raises(UnknownTopicOrPartitionError):
            kafka_python.delete_topic("nowhere")


class TestAioKafka:
    def test_cluster(self, aiokafka: AioKafka, broker: Broker) -> None:
        cluster = aiokafka.with_admin(lambda admin: admin.describe_cluster())
        assert (cluster["cluster_id"], cluster["controller_id"]) == (cluster_id(broker), 1)
        assert [(row["node_id"], row["port"]) for row in cluster["brokers"]] == [(1, port(broker))]

    def test_topics(self, aiokafka: AioKafka, records: list[Record], topic: str) -> None:
        assert topic in aiokafka.with_admin(lambda admin: admin.list_topics())

    def test_configs(self, aiokafka: AioKafka, records: list[Record], topic: str) -> None:
        def resource(configs: dict[str, str] | None) -> AioConfigResource:
            return AioConfigResource(AioConfigResourceType.TOPIC, topic, configs)

        (altered,) = aiokafka.with_admin(lambda admin: admin.alter_configs([resource({"retention.ms": "86400000"})]))
        assert [row[0] for row in altered.resources] == [0]
        (described,) = aiokafka.with_admin(lambda admin: admin.describe_configs([resource({"retention.ms": ""})]))
        ((_, _, _, _, entries),) = described.resources
        assert [(name, value) for name, value, *_ in entries] == [("retention.ms", "86400000")]

    def test_delete_records(self, aiokafka: AioKafka, records: list[Record], topic: str) -> None:
        place = AioTopicPartition(topic, 2)
        deleted = aiokafka.with_admin(lambda admin: admin.delete_records({place: RecordsToDelete(3)}))
        assert deleted == {place: 3}
        assert aiokafka.consume(topic, {2: 3})[0].offset == 3

    def test_refusals(self, aiokafka: AioKafka, records: list[Record], topic: str) -> None:
        with pytest.raises(AioTopicAlreadyExists):
            aiokafka.create_topic(topic, 1)
        with pytest.raises(AioInvalidPartitions):
            aiokafka.add_partitions(topic, 1)


class TestKafkaJs:
    def test_cluster(self, kafkajs: KafkaJs, broker: Broker) -> None:
        node = {"nodeId": 1, "host": "127.0.0.1", "port": port(broker)}
        expected = {"brokers": [node], "controller": 1, "clusterId": cluster_id(broker)}
        assert kafkajs.call("admin.describeCluster") == expected

    def test_topics(self, kafkajs: KafkaJs, records: list[Record], topic: str) -> None:
        assert topic in kafkajs.call("admin.listTopics")
        (found,) = kafkajs.call("admin.fetchTopicMetadata", {"topics": [topic]})["topics"]
        assert sorted(row["partitionId"] for row in found["partitions"]) == list(range(PARTITIONS))

    def test_offsets(self, kafkajs: KafkaJs, records: list[Record], topic: str) -> None:
        found = {row["partition"]: (row["low"], row["high"]) for row in kafkajs.call("admin.fetchTopicOffsets", topic)}
        assert found == {partition: ("0", str(end)) for partition, end in next_offsets(records).items()}

    def test_configs(self, kafkajs: KafkaJs, records: list[Record], topic: str) -> None:
        def entry(**more: object) -> dict[str, Any]:
            return {"resources": [{"type": TOPIC_RESOURCE, "name": topic, **more}]}

        change = entry(configEntries=[{"name": "retention.ms", "value": "86400000"}])
        kafkajs.call("admin.alterConfigs", change)
        (described,) = kafkajs.call("admin.describeConfigs", entry(configNames=["retention.ms"]))["resources"]
        assert [(row["configName"], row["configValue"]) for row in described["configEntries"]] == [
            ("retention.ms", "86400000")
        ]

    def test_delete_records(self, kafkajs: KafkaJs, records: list[Record], topic: str) -> None:
        def low_offsets() -> list[str]:
            rows = kafkajs.call("admin.fetchTopicOffsets", topic)
            return [row["low"] for row in sorted(rows, key=lambda row: row["partition"])]

        assert low_offsets() == ["0"] * PARTITIONS  # KafkaJS looks for the leaders in what it has asked for before
        kafkajs.call("admin.deleteTopicRecords", {"topic": topic, "partitions": [{"partition": 2, "offset": "3"}]})
        assert low_offsets() == ["0", "0", "3", "0", "0", "0"]

    def test_refusals(self, kafkajs: KafkaJs, records: list[Record], topic: str) -> None:
        again = {"topics": [{"topic": topic, "numPartitions": 1}]}
        assert kafkajs.call("admin.createTopics", again) is False
        with pytest.raises(KafkaJsError) as caught:
            kafkajs.add_partitions(topic, 1)
        assert caught.value.kind == "INVALID_PARTITIONS"
        with pytest.raises(KafkaJsError) as caught:
            kafkajs.create_topic("no good name", 1)
        assert caught.value.kind == "INVALID_TOPIC_EXCEPTION"


class TestKcat:
    def test_metadata(self, kcat: Kcat, broker: Broker, records: list[Record], topic: str) -> None:
        found = kcat.metadata("-t", topic)
        assert found["brokers"] == [{"id": 1, "name": broker.bootstrap_servers}]
        assert found["controllerid"] == 1
        one = [{"id": 1}]
        assert found["topics"] == [
            {
                "topic": topic,
                "partitions": [
                    {"partition": index, "leader": 1, "replicas": one, "isrs": one} for index in range(PARTITIONS)
                ],
            }
        ]

    def test_query_by_timestamp(self, kcat: Kcat, records: list[Record], topic: str) -> None:
        """kcat -Q, at every timestamp of one partition."""
        for record in [record for record in records if record.partition == 2]:
            found = kcat.offsets_for_time(topic, 3, record.timestamp)
            assert found[2] == first_at(records, 2, record.timestamp)

    def test_consume_a_span_of_time(self, kcat: Kcat, records: list[Record], topic: str) -> None:
        """kcat -o s@ and e@: from the first record not older, to the first that is not older than the end."""
        begin, end = START + 300, START + 700
        out = kcat.run(
            *("-C", "-q", "-X", "fetch.wait.max.ms=10", "-t", topic, "-p", "2"),
            *("-o", f"s@{begin}", "-o", f"e@{end}", "-f", "%o\n"),
        )
        first, stop = first_at(records, 2, begin), first_at(records, 2, end)
        assert first is not None
        assert stop is not None
        assert [int(line) for line in out.split()] == list(range(first, stop))
