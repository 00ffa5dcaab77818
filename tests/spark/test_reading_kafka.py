"""What an executor reads from Apache Kafka: transactions, committed and aborted, compacted logs, deleted records."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from equipoise.client import Admin
from equipoise.spark.source.offset_ranges import OffsetRange
from equipoise.wire.errors import KafkaError
from equipoise.wire.records.batch import Codec
from equipoise.wire.records.build import Record
from proving.brokers import KafkaBroker
from tests.client.records import numbered, produce
from tests.spark.conftest import create, delete_before
from tests.spark.reads import all_of, places, table

pytestmark = pytest.mark.kafka


def whole(kafka: KafkaBroker, topic: str) -> OffsetRange:
    with Admin(kafka.bootstrap_servers) as admin:
        found = admin.offsets(topic)[0]
    return OffsetRange(topic, 0, found.earliest, found.latest)


def test_transactions(kafka: KafkaBroker) -> None:
    create(kafka.bootstrap_servers, "executor-transactions")
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "executor", "compression.type": "lz4"}
    )
    producer.init_transactions(30)
    for turn in range(6):
        producer.begin_transaction()
        for number in range(50):
            producer.produce("executor-transactions", b"%d-%d" % (turn, number))
        producer.flush(30)
        if turn % 3 == 0:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    mine = whole(kafka, "executor-transactions")
    assert mine.end == 6 * 51
    written = [b"%d-%d" % (turn, number) for turn in range(6) for number in range(50)]
    everything = table(kafka.bootstrap_servers, [mine], ("offset", "value"))
    assert everything["value"].to_pylist() == written
    kept = [value for value in written if value[:1] in b"03"]
    for size in ("1048576", "1000"):
        options = {"kafka__isolation__level": "read_committed", "kafka__max__partition__fetch__bytes": size}
        assert table(kafka.bootstrap_servers, [mine], ("value",), **options)["value"].to_pylist() == kept


def test_every_codec_and_many_partitions(kafka: KafkaBroker) -> None:
    create(kafka.bootstrap_servers, "executor-codecs", len(Codec))
    for codec in Codec:
        produce(kafka.bootstrap_servers, "executor-codecs", codec, numbered(1000, 40), codec=codec, per_batch=300)
    ranges = [OffsetRange("executor-codecs", codec, 10 * codec, 1000 - codec) for codec in Codec]
    found = table(kafka.bootstrap_servers, ranges)
    assert sorted(places(found)) == all_of(*ranges)
    assert set(found["value"].to_pylist()) <= {one.value for one in numbered(1000, 40)}


def test_a_compacted_log(kafka: KafkaBroker) -> None:
    """Kafka compacts when it likes, and never the newest segment: whatever is left comes, and nobody waits."""
    eager: dict[str, Any] = {"segment_ms": "100", "min_cleanable_dirty_ratio": "0.01", "max_compaction_lag_ms": "100"}
    create(kafka.bootstrap_servers, "executor-compacted", cleanup_policy="compact", **eager)
    now = int(time.time() * 1000)  # segments are rolled by the time of their records
    records = [Record(0, now, b"%d" % (number % 5), b"%d" % number) for number in range(2000)]
    produce(kafka.bootstrap_servers, "executor-compacted", 0, records, per_batch=100)
    deadline = time.monotonic() + 60
    while True:
        produce(kafka.bootstrap_servers, "executor-compacted", 0, [Record(0, int(time.time() * 1000), b"last", b"")])
        found = table(kafka.bootstrap_servers, [OffsetRange("executor-compacted", 0, 0, 2000)], ("offset", "key"))
        if found.num_rows < 500:
            break
        assert time.monotonic() < deadline, "Kafka has not compacted the log within a minute"
        time.sleep(0.2)
    offsets = found["offset"].to_pylist()
    assert offsets == sorted(set(offsets))
    assert set(found["key"].to_pylist()) == {b"%d" % key for key in range(5)}


def test_deleted_records(kafka: KafkaBroker) -> None:
    create(kafka.bootstrap_servers, "executor-deleted")
    produce(kafka.bootstrap_servers, "executor-deleted", 0, numbered(100))
    delete_before(kafka.bootstrap_servers, "executor-deleted", 40)
    asked = OffsetRange("executor-deleted", 0, 10, 90)
    with pytest.raises(KafkaError, match=r"offsets 10 to 39 cannot be read: the log holds \[40, 100\) only"):
        table(kafka.bootstrap_servers, [asked])
    found = table(kafka.bootstrap_servers, [asked], failOnDataLoss="false")
    assert places(found) == all_of(asked._replace(start=40))
