"""Transactions as partitions serve them: Fetch, ListOffsets, WriteTxnMarkers, DescribeProducers on the raw protocol."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from equipoise.wire.apis.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from equipoise.wire.apis.k61_describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import (
    NOW,
    append,
    batch_of,
    create_topic,
    fetch,
    fetch_request,
    list_offsets,
    produce,
    values_in,
)
from tests.broker.conftest import Connect, eventually
from tests.broker.rawclient import RawClient
from tests.broker.txn_calls import READ_COMMITTED, RawProducer, fetch_committed

LATEST, MAX_TIMESTAMP = -1, -3


@pytest.fixture(params=[True, False], ids=["version-2", "version-1"])
def producer(client: RawClient, request: pytest.FixtureRequest) -> RawProducer:
    create_topic(client)
    return RawProducer(client, bumps=request.param)


def wait_for_end(client: RawClient, offset: int) -> None:
    eventually(lambda: fetch(client, offset - 1).last_stable_offset >= offset, f"the last stable offset at {offset}")


def test_t49_an_open_transaction_is_for_readers_of_uncommitted_records_alone(
    client: RawClient, producer: RawProducer
) -> None:
    append(client, b"before")
    producer.write(b"a", b"b")
    append(client, b"after")
    data = fetch_committed(client)
    assert values_in(data) == [b"before"]
    assert (data.high_watermark, data.last_stable_offset, data.aborted_transactions) == (4, 1, [])
    data = fetch(client)
    assert values_in(data) == [b"before", b"a", b"b", b"after"]
    assert (data.high_watermark, data.last_stable_offset, data.aborted_transactions) == (4, 1, None)
    assert values_in(fetch_committed(client, 2)) == []


@pytest.mark.parametrize("commit", [True, False])
def test_t49_the_answer_names_the_aborted_transactions_in_it(
    client: RawClient, producer: RawProducer, commit: bool
) -> None:
    first = producer.write(b"a", b"b")
    pid = producer.producer_id
    producer.end(commit=commit)
    wait_for_end(client, 3)
    data = fetch_committed(client, 1)
    assert values_in(data)[:2] == [b"a", b"b"]
    listed = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
    assert listed == ([] if commit else [(pid, first)])
    assert (data.last_stable_offset, data.high_watermark) == (3, 3)


def test_t51_a_parked_fetch_of_committed_records_wakes_with_the_marker(
    client: RawClient, connect: Connect, broker: Broker, producer: RawProducer
) -> None:
    producer.write(b"a")
    reader = connect(broker)
    reader.send(fetch_request(0, max_wait_ms=60_000, min_bytes=1, isolation_level=READ_COMMITTED), 12)
    append(client, b"others")  # moves the high watermark, and nothing for this reader
    assert not reader.has_reply()
    producer.end(commit=True)
    ((data,),) = [topic.partitions for topic in reader.receive().responses]
    assert values_in(data) == [b"a", b"others"]


@pytest.mark.parametrize("min_bytes", [1, 500])
def test_t51_min_bytes_are_counted_up_to_the_last_stable_offset(
    client: RawClient, connect: Connect, broker: Broker, producer: RawProducer, min_bytes: int
) -> None:
    append(client, b"small")
    producer.write(b"x" * 2000)
    reader = connect(broker)
    reader.send(fetch_request(0, max_wait_ms=300, min_bytes=min_bytes, isolation_level=READ_COMMITTED), 12)
    ((data,),) = [topic.partitions for topic in reader.receive().responses]
    assert values_in(data) == [b"small"]


def test_t53_offsets_behind_the_last_stable_one_are_not_told(client: RawClient, producer: RawProducer) -> None:
    append(client, b"before", timestamp=NOW)
    producer.write(b"a", timestamp=NOW + 1000)
    assert list_offsets(client, LATEST).offset == 2
    assert list_offsets(client, LATEST, isolation_level=READ_COMMITTED).offset == 1
    assert list_offsets(client, NOW + 500).offset == 1
    assert list_offsets(client, NOW + 500, isolation_level=READ_COMMITTED).offset == -1
    assert list_offsets(client, NOW, isolation_level=READ_COMMITTED).offset == 0
    assert list_offsets(client, MAX_TIMESTAMP, isolation_level=READ_COMMITTED).offset == -1


def test_t41_other_records_of_the_producer_are_refused_within_a_transaction(
    client: RawClient, producer: RawProducer
) -> None:
    producer.write(b"a")
    plain = batch_of(b"b", producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=1)
    assert produce(client, plain).error_code == ErrorCode.INVALID_TXN_STATE


# -- WriteTxnMarkers


def write_marker(client: RawClient, producer: RawProducer, *, partition: int = 0, **fields: int | bool) -> int:
    row = {"transaction_result": False, "coordinator_epoch": 0, "producer_epoch": producer.epoch, **fields}
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[partition])],
        **row,
    )
    ((result,),) = [one.topics for one in client.call(WriteTxnMarkersRequest(markers=[marker])).markers]
    ((answer,),) = [result.partitions]
    return int(answer.error_code)


def test_t35_a_tool_ends_a_transaction(client: RawClient, producer: RawProducer) -> None:
    producer.write(b"a")
    assert write_marker(client, producer, partition=5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write_marker(client, producer) == ErrorCode.NONE
    data = fetch_committed(client)
    assert (data.last_stable_offset, data.high_watermark) == (2, 2)
    assert len(data.aborted_transactions or ()) == 1


def test_t43_markers_of_the_past_are_refused(client: RawClient, producer: RawProducer) -> None:
    producer.write(b"a")
    assert write_marker(client, producer, coordinator_epoch=3) == ErrorCode.NONE
    assert write_marker(client, producer, coordinator_epoch=2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert write_marker(client, producer, producer_epoch=producer.epoch - 1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_t43_version_2_wants_a_newer_epoch(client: RawClient, producer: RawProducer) -> None:
    producer.write(b"a")
    assert write_marker(client, producer, transaction_version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    newer = producer.epoch + 1
    assert write_marker(client, producer, transaction_version=2, producer_epoch=newer) == ErrorCode.NONE


# -- DescribeProducers


def test_t58_producers_are_described(client: RawClient, producer: RawProducer) -> None:
    append(client, b"before")
    producer.write(b"a", b"b", timestamp=NOW - 5000)
    asked = [DescribeProducersTopicRequest(name="t", partition_indexes=[0, 7, 0])]
    (topic,) = client.call(DescribeProducersRequest(topics=asked)).topics
    known, unknown = topic.partitions
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (found,) = known.active_producers
    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch)
    assert (found.last_sequence, found.coordinator_epoch, found.current_txn_start_offset) == (1, -1, 1)
    assert found.last_timestamp == NOW - 5000, "what the producer says, not when it came"
    producer.end(commit=True)
    wait_for_end(client, 4)
    (topic,) = client.call(DescribeProducersRequest(topics=asked)).topics
    (found,) = topic.partitions[0].active_producers
    assert (found.coordinator_epoch, found.current_txn_start_offset) == (0, -1)
    assert found.last_timestamp > NOW - 5000, "the marker's"
    assert found.last_sequence == (-1 if producer.bumps else 1)
