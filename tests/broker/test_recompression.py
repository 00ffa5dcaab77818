"""compression.type of a topic or of the broker: batches are stored in it, and nothing else about them changes."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer

from equipoise.broker import Broker
from equipoise.log.batch_validation import BatchValidation
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import BatchHeader, Codec, iter_headers
from equipoise.wire.records.build import Record, build_batch, frame_batch
from equipoise.wire.records.codecs import compress
from tests.broker.calls import (
    BY_NAME,
    NOW,
    append,
    batch_of,
    create_topic,
    fetch,
    fetch_request,
    fetched,
    init_producer_id,
    list_offsets,
    produce,
    produce_request,
    produced,
    read_partition,
    records_in,
    stored,
)
from tests.broker.conftest import Connect, StandingClock, Start, eventually
from tests.broker.rawclient import RawClient
from tests.broker.test_topic_configs import SET, change

TARGETS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
RECORDS = [Record(i, NOW + i, b"key" if i % 2 else None, b"v" * 100, (("h", b"x"), ("n", None))) for i in range(20)]


def headers(client: RawClient, topic: str = "t", offset: int = 0) -> list[BatchHeader]:
    data = fetched(client.call(fetch_request({(topic, 0): offset}), BY_NAME))
    return [header for _, header in iter_headers(bytes(data.records or b""))]  # type: ignore[arg-type]


def codecs(client: RawClient, topic: str = "t") -> list[Codec]:
    return [header.codec for header in headers(client, topic)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("codec", Codec)
def test_batches_are_stored_in_the_topics_codec(client: RawClient, target: str, codec: Codec) -> None:
    create_topic(client, configs={"compression.type": target})
    producer_id, epoch = init_producer_id(client)
    idempotent: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0}
    sent = build_batch(RECORDS, codec=codec, **idempotent)
    assert produce(client, sent).base_offset == 0
    answer = fetch(client)
    assert records_in(answer) == RECORDS, "and its CRC is right"
    (header,) = headers(client)
    assert header.codec is TARGETS[target]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer_id, epoch, 0)
    assert (header.base_timestamp, header.max_timestamp, header.record_count) == (NOW, NOW + 19, 20)
    if codec is TARGETS[target]:
        assert stored(answer)[17:] == bytes(sent)[17:], "what is right already is stored as it came"


def test_a_batch_that_is_sent_again_is_stored_once(client: RawClient) -> None:
    create_topic(client, configs={"compression.type": "zstd"})
    producer_id, epoch = init_producer_id(client)
    for sequence in (0, 20, 0, 20, 40):
        batch = build_batch(
            RECORDS, codec=Codec.LZ4, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        assert produce(client, batch).base_offset == sequence
    gap = build_batch(RECORDS, codec=Codec.LZ4, producer_id=producer_id, producer_epoch=epoch, base_sequence=80)
    assert produce(client, gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(read_partition(client)) == 60


def test_many_in_flight_keep_their_order(client: RawClient) -> None:
    """Some need the thread, some do not: an idempotent producer's sequence must not break."""
    create_topic(client, configs={"compression.type": "gzip"})
    producer_id, epoch = init_producer_id(client)
    chance = Random(7)
    for number in range(200):
        batch = build_batch(
            [Record(0, NOW, None, b"%d" % number)],
            codec=chance.choice(list(Codec)),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=number,
        )
        client.send(produce_request(batch), BY_NAME)
    assert [produced(client.receive()).base_offset for _ in range(200)] == list(range(200))
    assert [record.value for record in read_partition(client)] == [b"%d" % number for number in range(200)]
    assert set(codecs(client)) == {Codec.GZIP}


def test_the_brokers_setting_is_the_default_of_topics_and_leaves_its_own_alone(start: Start, connect: Connect) -> None:
    broker = start({"compression.type": "snappy"})
    client = connect(broker)
    create_topic(client, "plain")
    create_topic(client, "own", configs={"compression.type": "producer"})
    for topic in ("plain", "own"):
        append(client, b"v", topic=topic, codec=Codec.ZSTD)
    assert (codecs(client, "plain"), codecs(client, "own")) == ([Codec.SNAPPY], [Codec.ZSTD])
    broker.call(lambda server: server.group_coordinator.shards)
    offsets = broker.call(lambda server: server.topics.require("__consumer_offsets"))
    assert offsets.codec is None


def test_a_changed_setting_counts_from_the_next_batch(client: RawClient) -> None:
    create_topic(client)
    for codec in ("producer", "lz4", "uncompressed", "producer"):
        assert change(client, ("compression.type", SET, codec)).error_code == ErrorCode.NONE
        append(client, b"v", codec=Codec.ZSTD)
    assert codecs(client) == [Codec.ZSTD, Codec.LZ4, Codec.NONE, Codec.ZSTD]


def test_levels_are_heeded(client: RawClient) -> None:
    noise = Random(1)
    value = b" ".join(noise.choice([b"alpha", b"beta", b"gamma", b"delta"]) for _ in range(20_000))
    sizes: dict[str, list[int]] = {}
    for codec, levels in {"gzip": (1, 9), "lz4": (9, 12), "zstd": (1, 19)}.items():
        for level in levels:
            topic = f"{codec}-{level}"
            create_topic(client, topic, configs={"compression.type": codec, f"compression.{codec}.level": str(level)})
            append(client, value, topic=topic)
            sizes.setdefault(codec, []).append(headers(client, topic)[0].size)
            assert [record.value for record in read_partition(client, topic)] == [value]
    assert all(strong < weak for weak, strong in sizes.values()), sizes


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_the_brokers_time_is_stamped_after_it(start: Start, connect: Connect, policy: str) -> None:
    """The time of the wall, not of deadlines, which begins anywhere."""
    clock = StandingClock(NOW)
    clock.set_wall_clock(500)
    client = connect(start(clock=clock))
    settings = {"compression.type": "lz4", "message.timestamp.type": "LogAppendTime", "cleanup.policy": policy}
    create_topic(client, configs=settings)
    records = [record._replace(key=b"k") for record in RECORDS]
    answer = produce(client, build_batch(records, codec=Codec.GZIP))
    assert answer.log_append_time_ms == NOW + 500
    assert {record.timestamp for record in read_partition(client)} == {NOW + 500}
    assert [header.max_timestamp for header in headers(client)] == [NOW + 500]


def test_what_becomes_too_large_is_refused(client: RawClient) -> None:
    create_topic(client, configs={"compression.type": "uncompressed", "max.message.bytes": "5000"})
    assert produce(client, batch_of(bytes(4000), codec=Codec.ZSTD)).error_code == ErrorCode.NONE
    answer = produce(client, batch_of(bytes(40_000), codec=Codec.ZSTD))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "5000" in str(answer.error_message)
    assert len(read_partition(client)) == 1


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "lz4"])
def test_what_expands_too_far_or_not_at_all_is_refused(client: RawClient, target: str) -> None:
    create_topic(client, configs={"compression.type": target})
    header = BatchHeader(0, 0, -1, 2, 0, Codec.ZSTD, 0, NOW, NOW, -1, -1, -1, 1)
    for body in (compress(Codec.ZSTD, bytes(64 << 20)), b"\xff" * 20):
        answer = produce(client, frame_batch(header, body))
        assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
    assert append(client, b"next", codec=Codec.ZSTD) == 0


def test_keys_are_looked_at_too(client: RawClient) -> None:
    create_topic(client, configs={"compression.type": "zstd", "cleanup.policy": "compact"})
    answer = produce(client, build_batch(RECORDS, codec=Codec.LZ4))
    assert [error.batch_index for error in answer.record_errors] == list(range(0, 20, 2))
    assert append(client, b"v", key=b"k", codec=Codec.LZ4) == 0
    assert codecs(client) == [Codec.ZSTD]


def test_others_are_served_meanwhile(
    broker: Broker, client: RawClient, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(client, configs={"compression.type": "zstd"})
    create_topic(client, "plain")
    entered, let_go, run = threading.Event(), threading.Event(), BatchValidation.run

    def held(*arguments: object) -> object:
        entered.set()
        assert let_go.wait(60)
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(BatchValidation, "run", held)
    client.send(produce_request(batch_of(b"a")), BY_NAME)
    assert entered.wait(60)
    assert append(connect(broker), b"b", topic="plain") == 0
    let_go.set()
    assert produced(client.receive()).base_offset == 0


def test_without_acks_they_come_too(client: RawClient) -> None:
    create_topic(client, configs={"compression.type": "zstd"})
    for _ in range(3):
        client.send(produce_request(batch_of(b"v"), acks=0), BY_NAME, answered=False)
    eventually(lambda: list_offsets(client, -1).offset == 3, "all three are appended")
    assert codecs(client) == [Codec.ZSTD] * 3


def test_they_are_durable_before_they_are_acknowledged(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(data=tmp_path)
    client = connect(broker)
    create_topic(client, configs={"compression.type": "zstd"})
    for acks in (-1, 1):
        answer = produce(client, build_batch(RECORDS, codec=Codec.GZIP), acks=acks)
        assert list_offsets(client, -1).offset == answer.base_offset + 20
    broker.stop()
    client = connect(broker.start())
    assert [record.value for record in read_partition(client)] == [record.value for record in RECORDS] * 2
    assert codecs(client) == [Codec.ZSTD] * 2


@pytest.mark.parametrize("target", TARGETS)
def test_a_real_producer_does_not_notice(broker: Broker, client: RawClient, target: str) -> None:
    create_topic(client, configs={"compression.type": target})
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        settings = {"compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
        for number in range(500):
            producer.produce("t", b"%d" % number * 20, key=b"k")
        assert producer.flush(60) == 0
    found = Counter(record.value for record in read_partition(client))
    assert found == {b"%d" % number * 20: 5 for number in range(500)}
    assert set(codecs(client)) == {TARGETS[target]}
