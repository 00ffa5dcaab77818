"""Produce: acks and durability, limits of a topic, and what an idempotent producer may and may not send."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.log.storage import disk
from equipoise.wire.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import Codec
from equipoise.wire.records.build import Record, build_batch
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
    values_in,
)
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually, waiting_calls
from tests.broker.rawclient import RawClient
from tests.broker.test_fetch import LONG_WAIT, send_delayed

# -- answers


@pytest.mark.parametrize("acks", [-1, 1])
def test_offsets_count_up_over_batches(client: RawClient, acks: int) -> None:
    create_topic(client)
    answers = [produce(client, batch_of(b"a", b"b"), acks=acks) for _ in range(3)]
    assert [(answer.error_code, answer.base_offset, answer.log_start_offset) for answer in answers] == [
        (ErrorCode.NONE, 0, 0),
        (ErrorCode.NONE, 2, 0),
        (ErrorCode.NONE, 4, 0),
    ]


@pytest.mark.parametrize("codec", Codec)
def test_batches_are_served_as_they_came(client: RawClient, codec: Codec) -> None:
    create_topic(client)
    records = [Record(0, NOW, b"key", b"value", (("name", b"\0\xff"),)), Record(1, NOW + 1, None, None)]
    batch = build_batch(records, codec=codec)
    produce(client, batch)
    answer = fetch(client)
    assert records_in(answer) == records
    assert stored(answer)[17:] == bytes(batch)[17:], "only base offset and leader epoch are the broker's"


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_must_be_all_0_or_1(client: RawClient, acks: int) -> None:
    create_topic(client)
    answer = produce(client, batch_of(b"a"), acks=acks)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert fetch(client).high_watermark == 0


@pytest.mark.parametrize(("topic", "partition"), [("absent", 0), ("t", 1), ("t", -1)])
def test_an_unknown_partition_is_refused_and_the_others_of_the_request_are_served(
    client: RawClient, topic: str, partition: int
) -> None:
    create_topic(client)
    request = produce_request(batch_of(b"good"))
    request.topic_data += produce_request(batch_of(b"lost"), topic, partition).topic_data
    good, bad = (topic.partition_responses[0] for topic in client.call(request, BY_NAME).responses)
    assert (good.error_code, good.base_offset) == (ErrorCode.NONE, 0)
    assert (bad.error_code, bad.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert [record.value for record in read_partition(client)] == [b"good"]


def test_version_13_names_topics_by_id(client: RawClient) -> None:
    topic_id = create_topic(client)
    for key, code in ((topic_id, ErrorCode.NONE), (bytes(16), ErrorCode.UNKNOWN_TOPIC_ID)):
        data = PartitionProduceData(index=0, records=bytes(batch_of(b"a")))
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(topic_id=key, partition_data=[data])]
        )
        answer = client.call(request, 13)
        assert answer.responses[0].topic_id == key
        assert produced(answer).error_code == code


def test_an_error_without_acks_closes_the_connection(broker: Broker, connect: Connect) -> None:
    client, other = connect(broker), connect(broker)
    client.send(produce_request(batch_of(b"a"), topic="absent", acks=0), BY_NAME, answered=False)
    client.wait_closed()
    create_topic(other)


def test_two_partitions_in_one_request_get_offsets_of_their_own(client: RawClient) -> None:
    create_topic(client, partitions=2)
    append(client, b"before", partition=1)
    data = [PartitionProduceData(index=index, records=bytes(batch_of(b"%d" % index))) for index in (0, 1)]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    (topic,) = client.call(request, BY_NAME).responses
    assert [(row.index, row.base_offset) for row in topic.partition_responses] == [(0, 0), (1, 1)]


# -- the topic's limits


def test_a_batch_may_be_as_large_as_max_message_bytes_and_no_larger(client: RawClient) -> None:
    limit = len(batch_of(bytes(100)))
    create_topic(client, configs={"max.message.bytes": str(limit)})
    assert produce(client, batch_of(bytes(100))).error_code == ErrorCode.NONE
    refused = produce(client, batch_of(bytes(101)))
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert str(limit) in (refused.error_message or "")


def test_a_batch_must_fit_into_a_segment(client: RawClient) -> None:
    limit = 1 << 20
    create_topic(client, configs={"max.message.bytes": str(2 * limit), "segment.bytes": str(limit)})
    room = limit - (len(batch_of(bytes(limit - 100))) - (limit - 100))
    assert len(batch_of(bytes(room))) == limit
    assert produce(client, batch_of(bytes(room))).error_code == ErrorCode.NONE
    refused = produce(client, batch_of(bytes(room + 1)))
    assert refused.error_code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert str(limit) in (refused.error_message or "")


@pytest.mark.parametrize(
    ("distance", "code"),
    [
        (1000, ErrorCode.NONE),
        (1001, ErrorCode.INVALID_TIMESTAMP),
        (-2000, ErrorCode.NONE),
        (-2001, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_timestamps_must_lie_near_now(start: Start, connect: Connect, distance: int, code: ErrorCode) -> None:
    client = connect(start(clock=StandingClock(now=NOW)))
    limits = {"message.timestamp.after.max.ms": "1000", "message.timestamp.before.max.ms": "2000"}
    create_topic(client, configs=limits)
    assert produce(client, batch_of(b"a", timestamp=NOW + distance)).error_code == code


def test_log_append_time_is_the_brokers_and_is_told(start: Start, connect: Connect) -> None:
    client = connect(start(clock=StandingClock(now=NOW)))
    create_topic(client, configs={"message.timestamp.type": "LogAppendTime"})
    assert produce(client, batch_of(b"a", timestamp=5)).log_append_time_ms == NOW
    assert [record.timestamp for record in records_in(fetch(client))] == [NOW]


def test_a_compacted_topic_needs_keys(client: RawClient) -> None:
    create_topic(client, configs={"cleanup.policy": "compact"})
    assert produce(client, batch_of(b"a")).error_code == ErrorCode.INVALID_RECORD
    assert produce(client, batch_of(b"a", key=b"k")).error_code == ErrorCode.NONE


# -- durability


class Gate:
    """Stands in for fdatasync: syncs wait until the test lets them go on, or fails them."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.let_go = threading.Event()
        self.error: OSError | None = None

    def __call__(self, fd: int) -> None:
        self.entered.set()
        assert self.let_go.wait(60)
        if self.error is not None:
            raise self.error
        os.fdatasync(fd)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, synced_by_threads: None) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(disk, "fdatasync", gate)
    yield gate
    gate.let_go.set()


@pytest.mark.parametrize("acks", [-1, 1])
def test_what_is_acknowledged_is_durable_can_be_read_and_counts(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path, acks: int
) -> None:
    broker = start(data=tmp_path)
    client, other, reader = connect(broker), connect(broker), connect(broker)
    create_topic(other)
    client.send(produce_request(batch_of(b"durable"), acks=acks), BY_NAME)
    assert gate.entered.wait(60)
    assert fetch(other).high_watermark == 0
    assert list_offsets(other, -1).offset == 0
    for timestamp in (0, -3):
        assert list_offsets(other, timestamp).offset == -1
    send_delayed(broker, reader, fetch_request(max_wait_ms=LONG_WAIT))
    assert not client.has_reply()
    gate.let_go.set()
    assert produced(client.receive()).error_code == ErrorCode.NONE
    assert list_offsets(other, -1).offset == 1
    assert values_in(fetched(reader.receive())) == [b"durable"]


def test_what_is_not_durable_in_time_is_answered_with_a_timeout(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path
) -> None:
    clock = StandingClock()
    broker = start(data=tmp_path, clock=clock)
    client = connect(broker)
    create_topic(client)
    client.send(produce_request(batch_of(b"a"), timeout_ms=1000), BY_NAME)
    assert gate.entered.wait(60)
    advance(broker, clock, 999)
    assert waiting_calls(broker) == 1
    advance(broker, clock, 1)
    assert produced(client.receive()).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_after_a_failed_sync_nothing_more_is_promised_for_that_partition(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path
) -> None:
    client = connect(start(data=tmp_path))
    create_topic(client, partitions=2)
    gate.error = OSError(errno.EIO, os.strerror(errno.EIO))
    gate.let_go.set()
    for _ in range(2):
        assert produce(client, batch_of(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    gate.error = None
    assert produce(client, batch_of(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(client, batch_of(b"b"), partition=1).error_code == ErrorCode.NONE


def test_with_flush_never_nobody_waits_for_the_disk(start: Start, connect: Connect, gate: Gate, tmp_path: Path) -> None:
    client = connect(start({"flush": "never"}, data=tmp_path))
    create_topic(client)
    assert append(client, b"a") == 0
    assert fetch(client).high_watermark == 1
    gate.let_go.set()


# -- idempotence


def numbered(sequence: int, *values: bytes, producer: tuple[int, int]) -> bytearray:
    return batch_of(*values, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence)


@pytest.fixture
def producer(client: RawClient) -> tuple[int, int]:
    create_topic(client)
    return init_producer_id(client)


def send(client: RawClient, sequence: int, *values: bytes, producer: tuple[int, int]) -> tuple[int, int]:
    answer = produce(client, numbered(sequence, *(values or (b"x",)), producer=producer))
    return answer.error_code, answer.base_offset


def test_a_repeated_batch_is_answered_with_its_first_offset(client: RawClient, producer: tuple[int, int]) -> None:
    assert send(client, 0, b"a", b"b", producer=producer) == (ErrorCode.NONE, 0)
    assert send(client, 2, b"c", producer=producer) == (ErrorCode.NONE, 2)
    assert send(client, 0, b"a", b"b", producer=producer) == (ErrorCode.NONE, 0)
    assert [record.value for record in read_partition(client)] == [b"a", b"b", b"c"]


def test_any_of_the_last_five_batches_may_be_repeated(client: RawClient, producer: tuple[int, int]) -> None:
    for sequence in range(6):
        send(client, sequence, producer=producer)
    for sequence in range(1, 6):
        assert send(client, sequence, producer=producer) == (ErrorCode.NONE, sequence)
    assert send(client, 0, producer=producer)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert fetch(client).high_watermark == 6


@pytest.mark.parametrize("sequence", [0, 2, 3])
def test_a_gap_or_an_overlap_is_refused(client: RawClient, producer: tuple[int, int], sequence: int) -> None:
    send(client, 0, producer=producer)
    refused = send(client, sequence, b"x", b"y", producer=producer)
    assert refused == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(client, 1, producer=producer) == (ErrorCode.NONE, 1)


def test_an_older_epoch_is_fenced(client: RawClient, producer: tuple[int, int]) -> None:
    send(client, 0, producer=producer)
    newer = producer[0], producer[1] + 1
    assert send(client, 0, producer=newer) == (ErrorCode.NONE, 1)
    assert send(client, 1, producer=producer)[0] == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_with_sequence_0(client: RawClient, producer: tuple[int, int]) -> None:
    send(client, 0, producer=producer)
    newer = producer[0], producer[1] + 1
    assert send(client, 1, producer=newer)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(client, 0, producer=newer) == (ErrorCode.NONE, 1)


def test_sequences_wrap_to_0(client: RawClient, producer: tuple[int, int]) -> None:
    last = 2**31 - 1
    assert send(client, last - 1, b"a", b"b", b"c", producer=producer) == (ErrorCode.NONE, 0)
    assert send(client, 1, producer=producer) == (ErrorCode.NONE, 3)
    assert send(client, last - 1, b"a", b"b", b"c", producer=producer) == (ErrorCode.NONE, 0)


def test_producers_and_partitions_do_not_disturb_each_other(client: RawClient) -> None:
    create_topic(client, partitions=2)
    first, second = init_producer_id(client), init_producer_id(client)
    assert first[0] != second[0]
    for producer in (first, second):
        for partition in (0, 1):
            answer = produce(client, numbered(0, b"x", producer=producer), partition=partition)
            assert answer.error_code == ErrorCode.NONE


def test_a_duplicate_waits_for_the_durability_of_the_first(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path
) -> None:
    broker = start(data=tmp_path)
    client, other = connect(broker), connect(broker)
    create_topic(client)
    batch = numbered(0, b"once", producer=init_producer_id(client))
    for connection in (client, other):
        connection.send(produce_request(batch), BY_NAME)
    eventually(lambda: waiting_calls(broker) == 2, "both copies wait for the disk")
    gate.let_go.set()
    answers: list[Any] = [produced(connection.receive()) for connection in (client, other)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(ErrorCode.NONE, 0)] * 2
    assert fetch(client).high_watermark == 1


@pytest.mark.parametrize("version", range(6))
def test_ids_are_new_in_every_version(client: RawClient, version: int) -> None:
    answers = [client.call(InitProducerIdRequest(transaction_timeout_ms=1), version) for _ in range(3)]
    assert len({answer.producer_id for answer in answers}) == 3
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(ErrorCode.NONE, 0)}


@pytest.mark.parametrize("epoch", [0, 7, 32766])
def test_a_producer_that_brings_its_id_gets_a_new_one(client: RawClient, epoch: int) -> None:
    """Without a transactional id nobody keeps epochs: Kafka gives a new id with epoch 0, whatever comes."""
    producer_id, _ = init_producer_id(client)
    other, new_epoch = init_producer_id(client, producer_id, epoch)
    assert (other != producer_id, new_epoch) == (True, 0)


@pytest.mark.parametrize("brought", [(5, -1), (-1, 5)])
def test_an_id_comes_with_its_epoch(client: RawClient, brought: tuple[int, int]) -> None:
    producer_id, epoch = brought
    request = InitProducerIdRequest(transaction_timeout_ms=1, producer_id=producer_id, producer_epoch=epoch)
    answer = client.call(request)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_a_transactional_batch_needs_the_id_of_its_transaction(client: RawClient) -> None:
    """Rule T.41."""
    create_topic(client)
    producer_id, epoch = init_producer_id(client)
    batch = batch_of(b"a", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
    answer = produced(client.call(produce_request(batch), BY_NAME))
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_other_batches_may_come_with_an_id(client: RawClient) -> None:
    """Rule T.41: the batch says whether it is transactional."""
    create_topic(client)
    producer_id, epoch = init_producer_id(client)
    batch = batch_of(b"a", producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    request = produce_request(batch)
    request.transactional_id = "tx"
    assert produced(client.call(request, BY_NAME)).error_code == ErrorCode.NONE
