"""The same batches sent to Apache Kafka and to ours: what is left after compaction, recompression and refusal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from equipoise.wire.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest
from equipoise.wire.apis.k44_incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import Codec, iter_headers
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.read import read_records
from proving.brokers import BrokerProcess, EquipoiseBroker, KafkaBroker
from tests.broker.calls import (
    BY_NAME,
    NOW,
    create_topic,
    fetch_request,
    fetched,
    list_offsets,
    produce,
    produce_request,
    produced,
)
from tests.broker.rawclient import RawClient
from tests.proving.needed import needed

pytestmark = pytest.mark.kafka

SETTINGS = {"log.cleaner.backoff.ms": 100, "log.retention.check.interval.ms": 300_000}
SECONDS = 60.0
LATEST = -1  # of ListOffsets


@pytest.fixture(scope="module")
def both() -> Iterator[list[RawClient]]:
    """A connection to Kafka, and one to ours."""
    brokers: list[BrokerProcess] = [needed(lambda: KafkaBroker(SETTINGS)), EquipoiseBroker(SETTINGS)]
    with brokers[0], brokers[1]:
        clients = [RawClient(broker.bootstrap_servers) for broker in brokers]
        yield clients
        for client in clients:
            client.close()


def new_producer(client: RawClient) -> int:
    """Its id. Kafka has none to give in its first moments."""
    deadline = time.monotonic() + SECONDS
    while True:
        answer = client.call(InitProducerIdRequest(transaction_timeout_ms=1000), 4)
        if answer.error_code == ErrorCode.NONE:
            return int(answer.producer_id)
        assert time.monotonic() < deadline, ErrorCode(answer.error_code)


def new_topic(client: RawClient, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    """Returns when its partitions can be written to: Kafka answers earlier, before they have their leaders."""
    create_topic(client, name, partitions, configs)
    deadline = time.monotonic() + SECONDS
    for partition in range(partitions):
        while (error := list_offsets(client, LATEST, topic=name, partition=partition).error_code) != ErrorCode.NONE:
            assert time.monotonic() < deadline, ErrorCode(error)


class Left(NamedTuple):
    """A batch as a reader finds it."""

    base_offset: int
    last_offset: int
    has_producer: bool
    base_sequence: int
    codec: Codec
    records: list[Record]


def batches(client: RawClient, topic: str) -> list[Left]:
    """All that raw fetches from the beginning bring, one after the other."""
    found: list[Left] = []
    offset = 0
    while True:
        data = fetched(client.call(fetch_request({(topic, 0): offset}), BY_NAME))
        assert data.error_code == ErrorCode.NONE
        records = bytes(data.records or b"")  # type: ignore[arg-type]
        new = [(at, header) for at, header in iter_headers(records) if header.last_offset >= offset]
        if not new:
            assert offset == data.high_watermark, "a reader would never come to the end"
            return found
        found += [
            Left(
                header.base_offset,
                header.last_offset,
                header.producer_id >= 0,
                header.base_sequence,
                header.codec,
                read_records(records, at, header),
            )
            for at, header in new
        ]
        offset = found[-1].last_offset + 1


def send(client: RawClient, topic: str, batch: bytearray) -> None:
    answer = produce(client, batch, topic=topic)
    assert answer.error_code == ErrorCode.NONE, answer.error_message


def keyed(keys: str, at: int, codec: Codec = Codec.NONE, **producer: Any) -> bytearray:
    """A record for each letter; a small one is a tombstone."""
    records = [
        Record(i, NOW + at, key.upper().encode(), b"%d" % at * 20 if key.isupper() else None)
        for i, key in enumerate(keys)
    ]
    return build_batch(records, codec=codec, **producer)


def begin_compaction(client: RawClient, topic: str) -> None:
    """Until now nothing was dirty enough, so that both see everything at once."""
    config = IncrementalAlterableConfig(name="min.cleanable.dirty.ratio", config_operation=0, value="0.001")
    resource = IncrementalAlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    (answer,) = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == ErrorCode.NONE


def compacted(client: RawClient, topic: str, survivors: int) -> list[Left]:
    begin_compaction(client, topic)
    deadline = time.monotonic() + SECONDS
    while True:
        found = batches(client, topic)
        if sum(len(batch.records) for batch in found) == survivors:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1",
    "internal.segment.bytes": "1500",
    "delete.retention.ms": "86400000",
}


@pytest.fixture(scope="module")
def left(both: list[RawClient]) -> list[list[Left]]:
    """Whole segments lose all their records; so do the ends of others; producers' last batches stay, if empty."""
    left = []
    for client in both:
        new_topic(client, "compacted", configs=CONFIGS)
        first, second = new_producer(client), new_producer(client)
        for at in range(60):  # of all these only the newest of each key stays
            send(client, "compacted", keyed("ABC", at, Codec.ZSTD if at % 3 else Codec.NONE))
        send(client, "compacted", keyed("DEF", 60, producer_id=first, producer_epoch=0, base_sequence=0))
        send(client, "compacted", keyed("GH", 61, producer_id=second, producer_epoch=0, base_sequence=0))
        send(client, "compacted", keyed("DE", 62, producer_id=first, producer_epoch=0, base_sequence=3))
        for at in range(63, 100):
            send(client, "compacted", keyed("DEGH", at))
        send(client, "compacted", keyed("bX", 100))
        for at in range(101, 130):
            send(client, "compacted", keyed("Y", at))
        for key in (b"W", b"Z"):  # the latter is alone in the active segment, which is not touched
            send(client, "compacted", build_batch([Record(0, NOW, key, bytes(1300))]))
        left.append(compacted(client, "compacted", len("ABCDEFGHWXYZ")))
    return left


def test_compaction_leaves_the_same_batches(left: list[list[Left]]) -> None:
    theirs, ours = left
    assert [batch.base_sequence for batch in theirs if not batch.records] == [0, 3], "producers' last batches"
    assert ours == theirs


@pytest.mark.usefixtures("left")
def test_a_reader_that_takes_an_empty_answer_for_the_beginning_ends(both: list[RawClient]) -> None:
    """kafka-go until 0.4: where a fetch brings batches but no record, it goes on at offset 1."""
    for client in both:
        offset, seen = 0, 0
        while True:
            data = fetched(client.call(fetch_request({("compacted", 0): offset}, partition_max_bytes=200), BY_NAME))
            if offset == data.high_watermark:
                break
            headers = [header for _, header in iter_headers(bytes(data.records or b""))]  # type: ignore[arg-type]
            with_records = [header for header in headers if header.record_count]
            if client is both[0] and headers and not with_records:  # a producer's last batch, which Kafka sends alone
                offset = headers[-1].last_offset + 1
                continue
            assert with_records, f"an answer without records at offset {offset}"
            offset, seen = with_records[-1].last_offset + 1, seen + 1
        assert seen


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_recompression_leaves_the_same_batches(both: list[RawClient], target: str) -> None:
    left = []
    for client in both:
        new_topic(client, target, configs={"compression.type": target})
        producer_id = new_producer(client)
        for at, codec in enumerate(Codec):
            records = [Record(i, NOW + i, b"k%d" % i, b"v" * 50, (("h", b"x"), ("n", None))) for i in range(20)]
            records[3] = records[3]._replace(key=None, value=None)
            idempotent: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 20 * at}
            send(client, target, build_batch(records, codec=codec, **idempotent))
            send(client, target, build_batch(records[:1], codec=codec))
        left.append(batches(client, target))
    theirs, ours = left
    expected = {Codec[target.upper()]} if target.upper() in Codec.__members__ else set(Codec)
    assert {batch.codec for batch in ours} == ({Codec.NONE} if target == "uncompressed" else expected)
    assert ours == theirs


def test_the_records_that_are_bad_are_named_alike(both: list[RawClient]) -> None:
    named = []
    for client in both:
        new_topic(client, "keys", configs={"cleanup.policy": "compact"})
        records = [Record(i, NOW, None if i % 10 == 7 else b"k", b"v") for i in range(100)]
        for codec in (Codec.NONE, Codec.LZ4):
            answer = produced(client.call(produce_request(build_batch(records, codec=codec), "keys"), BY_NAME))
            named.append((answer.error_code, [error.batch_index for error in answer.record_errors]))
    assert named == [(ErrorCode.INVALID_RECORD, list(range(7, 100, 10)))] * 4


def test_what_is_asked_for_twice_is_refused_alike(both: list[RawClient]) -> None:
    answers: list[Any] = []
    for client in both:
        new_topic(client, "twice", partitions=2)
        asked = [ListOffsetsPartition(partition_index=index, timestamp=NOW) for index in (0, 1, 0)]
        (topic,) = client.call(ListOffsetsRequest(topics=[ListOffsetsTopic(name="twice", partitions=asked)]), 9).topics
        answers.append(sorted((row.partition_index, row.error_code, row.offset) for row in topic.partitions))
    assert answers == [[(0, ErrorCode.INVALID_REQUEST, -1), (1, ErrorCode.NONE, -1)]] * 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "1048575"),
        ("compression.type", "none"),
        ("compression.type", "ZSTD"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
    ],
)
def test_what_a_config_cannot_be_is_refused_alike(both: list[RawClient], name: str, value: str) -> None:
    for client in both:
        topic = CreatableTopic(
            name="refused",
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=name, value=value)],
        )
        (answer,) = client.call(CreateTopicsRequest(topics=[topic]), 7).topics
        assert answer.error_code == ErrorCode.INVALID_CONFIG
