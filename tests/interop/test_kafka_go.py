"""kafka-go on compacted topics and on every codec.

It takes an answer that has batches, but no record, for the beginning, and starts over. Kafka drops batches that have
lost all their records, and so does our broker. Those that must stay, for the end of the log and for what a producer
sent last, never come alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from equipoise import Producer
from equipoise.wire.records.batch import Codec
from equipoise.wire.records.build import Record, build_batch
from proving.brokers import EquipoiseBroker
from proving.fetched import Unavailable
from proving.members.foreign import kafka_go_programs
from tests.broker.calls import NOW, create_topic, init_producer_id, produce, read_partition
from tests.broker.rawclient import RawClient

ROUNDS, KEYS = 60, 40
PATIENCE_S = 60.0
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "internal.segment.bytes": "3000",
    "delete.retention.ms": "86400000",
}


@pytest.fixture(scope="module")
def reader() -> str:
    try:
        return str(kafka_go_programs() / "reader")
    except Unavailable as missing:
        if os.environ.get("EQUIPOISE_REQUIRE_CLIENTS") == "1" and shutil.which("go"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def broker() -> Iterator[EquipoiseBroker]:
    with EquipoiseBroker({"log.cleaner.backoff.ms": 100}) as running:
        yield running


def fill(client: RawClient, topic: str) -> int:
    """How many records will be left: keys come again and again, so that whole batches and ends of segments are lost."""
    create_topic(client, topic, configs=CONFIGS)
    producer_id, epoch = init_producer_id(client)
    batches = [
        [Record(0, NOW, b"%d" % key, b"%d" % number * 20) for key in range(number % 7, KEYS, 7)]
        for number in range(ROUNDS)
    ]
    for number, rows in enumerate(batches):
        records = [row._replace(offset=place) for place, row in enumerate(rows)]
        producer: dict[str, Any] = (
            {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0} if number == 3 else {}
        )
        answer = produce(client, build_batch(records, codec=list(Codec)[number % 5], **producer), topic=topic)
        assert answer.error_code == 0, answer.error_message
    for place in range(3):  # each alone in a segment: the last one is not touched
        produce(client, build_batch([Record(0, NOW, b"end-%d" % place, bytes(2800))]), topic=topic)
    return KEYS + 3


def test_a_compacted_topic_is_read_to_its_end_and_each_record_once(broker: EquipoiseBroker, reader: str) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        survivors = fill(client, "compacted")
        deadline = time.monotonic() + PATIENCE_S
        while len(left := read_partition(client, "compacted")) > survivors:
            assert time.monotonic() < deadline, len(left)
            time.sleep(0.05)
    assert read(reader, broker, "compacted") == [record.offset for record in left]


def read(reader: str, broker: EquipoiseBroker, topic: str) -> list[int]:
    """The offsets that kafka-go finds."""
    command = [reader, broker.bootstrap_servers, topic, "1000"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    return [int(line) for line in ended.stdout.split()]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_our_producer_compresses_is_read(broker: EquipoiseBroker, reader: str, codec: str) -> None:
    """Its lz4 knows no checksums of blocks: it would try again for ever, in silence."""
    with RawClient(broker.bootstrap_servers) as client:
        create_topic(client, codec)
    with Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec}) as producer:
        for number in range(300):
            producer.send(codec, b"%d" % number * 100)
    assert read(reader, broker, codec) == list(range(300))
