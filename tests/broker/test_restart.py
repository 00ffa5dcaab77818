"""What a broker with a data directory knows after a restart, and what it does by the clock."""

from __future__ import annotations

from pathlib import Path

from equipoise.broker import Broker
from equipoise.log.recovery.inventory import TopicRecord
from equipoise.log.storage.directory import DataDirectory
from equipoise.wire.apis.k03_metadata import MetadataRequest
from equipoise.wire.apis.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.build import Record
from tests.broker.calls import (
    NOW,
    append,
    batch_of,
    create_topic,
    delete_topic,
    fetch,
    init_producer_id,
    list_offsets,
    produce,
    read_partition,
)
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient
from tests.broker.test_topic_configs import DEFAULT, DYNAMIC_TOPIC, SET, change, value_of
from tests.broker.test_topics import grow, partition_count


def reopen(broker: Broker, connect: Connect) -> RawClient:
    broker.stop()
    broker.start()
    return connect(broker)


def test_a_restart_keeps_topics_ids_configs_and_records(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(data=tmp_path)
    client = connect(broker)
    create_topic(client, "a", partitions=2, configs={"retention.ms": "-1"})
    create_topic(client, "b")
    append(client, b"1", b"2", topic="a", partition=1)
    change(client, ("segment.bytes", SET, "5000000"), name="b")
    assert grow(client, 3, name="b") == ErrorCode.NONE
    before = client.call(MetadataRequest(topics=None))
    client = reopen(broker, connect)
    after = client.call(MetadataRequest(topics=None))
    assert (after.topics, after.cluster_id) == (before.topics, before.cluster_id)
    assert value_of(client, "retention.ms", "a") == ("-1", DYNAMIC_TOPIC)
    assert value_of(client, "segment.bytes", "b") == ("5000000", DYNAMIC_TOPIC)
    assert [record.value for record in read_partition(client, "a", 1)] == [b"1", b"2"]
    assert append(client, b"3", topic="a", partition=1) == 2


def test_a_restart_keeps_what_was_deleted_deleted(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(data=tmp_path)
    client = connect(broker)
    for name in ("kept", "gone", "again"):
        create_topic(client, name)
        append(client, b"old", b"older", topic=name)
    delete_topic(client, "gone")
    delete_topic(client, "again")
    create_topic(client, "again")
    row = DeleteRecordsPartition(partition_index=0, offset=1)
    client.call(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="kept", partitions=[row])], timeout_ms=1000))
    client = reopen(broker, connect)
    assert {topic.name for topic in client.call(MetadataRequest(topics=None)).topics} == {"again", "kept"}
    assert list_offsets(client, -2, topic="kept").offset == 1
    assert list_offsets(client, -1, topic="again").offset == 0


def test_producer_ids_are_never_given_twice(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(data=tmp_path)
    client = connect(broker)
    seen: set[int] = set()
    for _ in range(3):
        seen |= {init_producer_id(client)[0] for _ in range(5)}
        client = reopen(broker, connect)
    assert len(seen) == 15


def test_a_restart_remembers_what_idempotent_producers_sent(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(data=tmp_path)
    client = connect(broker)
    create_topic(client)
    producer_id, epoch = init_producer_id(client)

    def send(sequence: int) -> tuple[int, int]:
        batch = batch_of(b"%d" % sequence, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        answer = produce(client, batch)
        return answer.error_code, answer.base_offset

    assert [send(sequence) for sequence in range(3)] == [(ErrorCode.NONE, offset) for offset in range(3)]
    client = reopen(broker, connect)
    assert send(1) == (ErrorCode.NONE, 1)
    assert send(4) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(3) == (ErrorCode.NONE, 3)
    assert fetch(client).high_watermark == 4


def test_records_over_many_segments_survive(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start({"internal.log.segment.bytes": 500}, data=tmp_path)
    client = connect(broker)
    create_topic(client)
    values = [b"%0100d" % number for number in range(50)]
    for value in values:
        append(client, value)
    client = reopen(broker, connect)
    assert [record.value for record in read_partition(client)] == values
    assert len(list((tmp_path / "t-0").glob("*.log"))) > 10


def test_memory_is_empty_after_a_restart(start: Start, connect: Connect) -> None:
    broker = start()
    client = connect(broker)
    create_topic(client)
    client = reopen(broker, connect)
    assert client.call(MetadataRequest(topics=None)).topics == []


def test_settings_of_the_new_start_are_in_force_for_topics_without_their_own(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    broker = start(data=tmp_path)
    create_topic(connect(broker))
    broker.stop()
    client = connect(start({"message.max.bytes": 100}, data=tmp_path))
    assert produce(client, batch_of(bytes(100))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert partition_count(client) == 1


# -- by the clock


def test_old_segments_are_removed_while_the_broker_runs(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start({"log.retention.check.interval.ms": 20, "internal.log.segment.bytes": 500}, data=tmp_path)
    client = connect(broker)
    create_topic(client, configs={"retention.ms": "60000"})
    for _ in range(10):
        append(client, bytes(200), timestamp=NOW)
    eventually(lambda: list_offsets(client, -2).offset == 10, "all records are too old")
    assert append(client, b"next") == 10
    eventually(lambda: len(list((tmp_path / "t-0").glob("*.log"))) <= 1, "the old files are removed")


def newest_per_key(client: RawClient) -> dict[bytes | None, list[Record]]:
    by_key: dict[bytes | None, list[Record]] = {}
    for record in read_partition(client):
        by_key.setdefault(record.key, []).append(record)
    return by_key


def test_a_compacted_topic_keeps_the_newest_of_each_key_at_its_offset(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    broker = start({"log.cleaner.backoff.ms": 20}, data=tmp_path)
    client = connect(broker)
    configs = {"cleanup.policy": "compact", "internal.segment.bytes": "500", "min.cleanable.dirty.ratio": "0"}
    create_topic(client, configs=configs)
    for number in range(40):
        append(client, b"%0100d" % number, key=b"key-%d" % (number % 4))
    append(client, bytes(400), key=b"last")  # in a segment of its own: the active one is never compacted
    eventually(
        lambda: all(len(records) == 1 for records in newest_per_key(client).values()), "one record for each key is left"
    )
    left = newest_per_key(client)
    assert {key: records[0].offset for key, records in left.items()} == {
        b"key-0": 36,
        b"key-1": 37,
        b"key-2": 38,
        b"key-3": 39,
        b"last": 40,
    }
    client = reopen(broker, connect)
    assert newest_per_key(client) == left
    assert append(client, b"next", key=b"next") == 41


def test_a_topic_deleted_while_it_is_compacted_harms_nobody(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start({"log.cleaner.backoff.ms": 1}, data=tmp_path)
    client = connect(broker)
    create_topic(client, "other")
    for _ in range(5):
        create_topic(client, configs={"cleanup.policy": "compact", "internal.segment.bytes": "500"})
        for number in range(20):
            append(client, bytes(100), key=b"%d" % (number % 2))
        assert delete_topic(client, "t") == ErrorCode.NONE
    assert append(client, b"alive", topic="other") == 0


def test_segments_smaller_than_kafka_allows_are_kept_from_an_older_version(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    directory = DataDirectory(tmp_path)
    directory.save_topics([TopicRecord("t", bytes(range(16)), 1, {"segment.bytes": "1500", "retention.ms": "-1"})])
    directory.close()
    client = connect(start(data=tmp_path))
    for _ in range(3):
        append(client, bytes(1000))
    assert len(list((tmp_path / "t-0").glob("*.log"))) == 3
    assert value_of(client, "retention.ms") == ("-1", DYNAMIC_TOPIC)
    assert value_of(client, "segment.bytes") == ("1073741824", DEFAULT)
