"""confluent-kafka's AdminClient: cluster, topics, configs, offsets, deletion of records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from equipoise.broker import Broker
from tests.interop.conftest import PARTITIONS
from tests.interop.drivers import Confluent
from tests.interop.drivers.base import PATIENCE_S
from tests.interop.records import START, STEP, Record, by_place, first_at, make_records, next_offsets


@pytest.fixture
def admin(confluent: Confluent, topic: str) -> AdminClient:
    confluent.create_topic(topic, PARTITIONS)
    return confluent.admin


def code_of(action: Callable[[], object]) -> int:
    with pytest.raises(KafkaException) as caught:
        action()
    return int(caught.value.args[0].code())


# -- cluster and topics


def test_describe_cluster(admin: AdminClient, broker: Broker) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True).result(PATIENCE_S)
    assert cluster.cluster_id == broker.call(lambda server: server.cluster_id)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker.bootstrap_servers]
    assert cluster.controller.id == cluster.nodes[0].id == 1
    assert AclOperation.CREATE in cluster.authorized_operations


def test_list_and_describe_topics(admin: AdminClient, topic: str) -> None:
    listed = admin.list_topics(timeout=PATIENCE_S).topics[topic]
    assert [(p.id, p.leader, p.replicas, p.isrs) for p in listed.partitions.values()] == [
        (index, 1, [1], [1]) for index in range(PARTITIONS)
    ]
    asked = TopicCollection([topic])
    described = admin.describe_topics(asked, include_authorized_operations=True)[topic].result(PATIENCE_S)
    assert [(p.id, p.leader.id) for p in described.partitions] == [(index, 1) for index in range(PARTITIONS)]
    assert not described.is_internal
    assert AclOperation.READ in described.authorized_operations


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (NewTopic("no good name", 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("none", 0), KafkaError.INVALID_PARTITIONS),
        (NewTopic("three", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("odd", 1, config={"cleanup.policy": "odd"}), KafkaError.INVALID_CONFIG),
    ],
    ids=lambda asked: asked.topic if isinstance(asked, NewTopic) else "",
)
def test_refused_topics(confluent: Confluent, asked: NewTopic, code: int) -> None:
    assert code_of(lambda: confluent.admin.create_topics([asked])[asked.topic].result(PATIENCE_S)) == code
    assert confluent.count_partitions(asked.topic) is None


def test_topic_is_created_once(confluent: Confluent, admin: AdminClient, topic: str) -> None:
    assert code_of(lambda: confluent.create_topic(topic, 1)) == KafkaError.TOPIC_ALREADY_EXISTS
    assert confluent.count_partitions(topic) == PARTITIONS


def test_validation_creates_nothing(confluent: Confluent, topic: str) -> None:
    confluent.admin.create_topics([NewTopic(topic, 2)], validate_only=True)[topic].result(PATIENCE_S)
    assert confluent.count_partitions(topic) is None


def test_partitions_only_grow(confluent: Confluent, admin: AdminClient, topic: str) -> None:
    assert code_of(lambda: confluent.add_partitions(topic, PARTITIONS - 1)) == KafkaError.INVALID_PARTITIONS
    asked = NewPartitions(topic, PARTITIONS + 1)
    admin.create_partitions([asked], validate_only=True)[topic].result(PATIENCE_S)
    assert confluent.count_partitions(topic) == PARTITIONS


def test_deleting_what_is_not_there(confluent: Confluent) -> None:
    assert code_of(lambda: confluent.delete_topic("nowhere")) == KafkaError.UNKNOWN_TOPIC_OR_PART


# -- configs


def describe(admin: AdminClient, resource: ConfigResource) -> dict[str, ConfigEntry]:
    configs: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    return configs


def topic_configs(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    return describe(admin, ConfigResource(ResourceType.TOPIC, topic))


def alter(admin: AdminClient, topic: str, *changes: tuple[str, str | None, AlterConfigOpType]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=operation) for name, value, operation in changes]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def test_describe_topic_configs(admin: AdminClient, topic: str) -> None:
    configs = topic_configs(admin, topic)
    policy, retention = configs["cleanup.policy"], configs["retention.ms"]
    assert (policy.value, ConfigSource(policy.source)) == ("delete", ConfigSource.DEFAULT_CONFIG)
    assert (retention.value, ConfigSource(retention.source)) == ("-1", ConfigSource.STATIC_BROKER_CONFIG)
    assert "log.retention.ms" in retention.synonyms
    assert not retention.is_read_only


def test_describe_broker_configs(confluent: Confluent) -> None:
    configs = describe(confluent.admin, ConfigResource(ResourceType.BROKER, "1"))
    partitions = configs["num.partitions"]
    assert (partitions.value, ConfigSource(partitions.source)) == (str(PARTITIONS), ConfigSource.STATIC_BROKER_CONFIG)
    assert partitions.is_read_only


def test_incremental_alter_configs(admin: AdminClient, topic: str) -> None:
    operation = AlterConfigOpType
    alter(
        admin,
        topic,
        ("cleanup.policy", "compact", operation.APPEND),
        ("retention.ms", "86400000", operation.SET),
        ("max.message.bytes", "2000", operation.SET),
    )
    alter(admin, topic, ("cleanup.policy", "delete", operation.SUBTRACT), ("retention.ms", None, operation.DELETE))
    configs = topic_configs(admin, topic)
    changed = {name for name, entry in configs.items() if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}
    assert changed == {"cleanup.policy", "max.message.bytes"}
    assert configs["cleanup.policy"].value == "compact"
    assert configs["max.message.bytes"].value == "2000"
    assert configs["retention.ms"].value == "-1"


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated:DeprecationWarning")
def test_alter_configs_replaces_all(admin: AdminClient, topic: str) -> None:
    for name, value in (("segment.bytes", "1048576"), ("retention.ms", "86400000")):
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config={name: value})
        admin.alter_configs([resource])[resource].result(PATIENCE_S)
    configs = topic_configs(admin, topic)
    assert configs["retention.ms"].value == "86400000"
    assert configs["segment.bytes"].is_default


@pytest.mark.parametrize(
    "change",
    [
        ("retention.ms", "long", AlterConfigOpType.SET),
        ("retention.msec", "1", AlterConfigOpType.SET),
        ("retention.ms", "1", AlterConfigOpType.APPEND),
    ],
    ids=["no number", "no such config", "no list"],
)
def test_refused_configs(admin: AdminClient, topic: str, change: tuple[str, str, AlterConfigOpType]) -> None:
    assert code_of(lambda: alter(admin, topic, change)) == KafkaError.INVALID_CONFIG
    assert topic_configs(admin, topic)["retention.ms"].value == "-1"


# -- offsets


def list_offsets(admin: AdminClient, topic: str, spec: OffsetSpec) -> dict[int, tuple[int, int]]:
    """Offset and timestamp of each partition."""
    asked = {TopicPartition(topic, partition): spec for partition in range(PARTITIONS)}
    found = {place.partition: future.result(PATIENCE_S) for place, future in admin.list_offsets(asked).items()}
    return {partition: (one.offset, one.timestamp) for partition, one in found.items()}


@pytest.fixture
def records(confluent: Confluent, admin: AdminClient, topic: str) -> list[Record]:
    """In five batches or more for each partition, so that a look-up has to find the batch, too."""
    written: list[Record] = []
    for _ in range(5):
        more = make_records(120, PARTITIONS, seed=len(written), first=next_offsets(written))
        more = [record._replace(timestamp=record.timestamp + len(written) * STEP) for record in more]
        confluent.produce(topic, more, "lz4")
        written += more
    return by_place(written)


def test_list_offsets_of_the_ends(admin: AdminClient, topic: str, records: Sequence[Record]) -> None:
    ends = next_offsets(records)
    assert list_offsets(admin, topic, OffsetSpec.earliest()) == dict.fromkeys(range(PARTITIONS), (0, -1))
    assert list_offsets(admin, topic, OffsetSpec.latest()) == {p: (ends[p], -1) for p in range(PARTITIONS)}


def test_list_offsets_of_the_largest_timestamp(admin: AdminClient, topic: str, records: Sequence[Record]) -> None:
    """Of several records with the largest timestamp, the first."""
    latest = {
        p: max((r for r in records if r.partition == p), key=lambda r: (r.timestamp, -r.offset))
        for p in range(PARTITIONS)
    }
    expected = {p: (record.offset, record.timestamp) for p, record in latest.items()}
    assert list_offsets(admin, topic, OffsetSpec.max_timestamp()) == expected


@pytest.mark.parametrize("step", [0, 1, 119, 120, 299, 300.5, 480, 599])
def test_list_offsets_by_timestamp(admin: AdminClient, topic: str, records: Sequence[Record], step: float) -> None:
    timestamp = START + int(step * STEP)
    found = list_offsets(admin, topic, OffsetSpec.for_timestamp(timestamp))
    stamps = {(record.partition, record.offset): record.timestamp for record in records}
    for partition in range(PARTITIONS):
        offset = first_at(records, partition, timestamp)
        assert found[partition] == ((-1, -1) if offset is None else (offset, stamps[partition, offset]))


def test_list_offsets_of_an_empty_topic(admin: AdminClient, topic: str) -> None:
    assert set(list_offsets(admin, topic, OffsetSpec.latest()).values()) == {(0, -1)}
    assert set(list_offsets(admin, topic, OffsetSpec.max_timestamp()).values()) == {(-1, -1)}
    assert set(list_offsets(admin, topic, OffsetSpec.for_timestamp(0)).values()) == {(-1, -1)}


# -- deletion of records


def test_delete_records(confluent: Confluent, admin: AdminClient, topic: str, records: Sequence[Record]) -> None:
    """From within a batch, and all (-1). What is left is read; what is gone is not."""
    ends = next_offsets(records)
    asked = [TopicPartition(topic, 0, 7), TopicPartition(topic, 1, -1)]
    deleted = {p.partition: f.result(PATIENCE_S).low_watermark for p, f in admin.delete_records(asked).items()}
    assert deleted == {0: 7, 1: ends[1]}
    assert list_offsets(admin, topic, OffsetSpec.earliest())[0] == (7, -1)
    left = [r for r in records if r.offset >= {0: 7, 1: ends[1]}.get(r.partition, 0)]
    assert confluent.consume(topic, {p: deleted.get(p, 0) for p in range(PARTITIONS)}) == left


def test_delete_records_beyond_the_end(admin: AdminClient, topic: str, records: Sequence[Record]) -> None:
    asked = TopicPartition(topic, 0, 10_000)
    assert code_of(lambda: admin.delete_records([asked])[asked].result(PATIENCE_S)) == KafkaError.OFFSET_OUT_OF_RANGE


def test_the_one_broker_leads_already(admin: AdminClient, topic: str) -> None:
    place = TopicPartition(topic, 1)
    elected = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(PATIENCE_S)
    assert elected[place].code() == KafkaError.ELECTION_NOT_NEEDED
