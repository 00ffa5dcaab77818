"""Each client, with each codec: create a topic with 6 partitions, produce thousands of records with headers, read them
back by assignment, look up offsets by timestamp and read from there, add partitions, delete the topic.

What a client cannot do stands in `lacks` of its driver; confluent-kafka then does the step in its place.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter

import pytest

from equipoise.broker import Broker
from tests.interop.conftest import PARTITIONS, records_by_codec
from tests.interop.drivers import Confluent, Driver
from tests.interop.records import CODECS, START, STEP, Record, assert_same, by_place, first_at, make_records

COUNTS = [2_000, pytest.param(10_000, marks=pytest.mark.soak)]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("codec", CODECS)
def test_round_trip(broker: Broker, client: Driver, confluent: Confluent, topic: str, codec: str, count: int) -> None:
    client.create_topic(topic, PARTITIONS)
    assert client.count_partitions(topic) == PARTITIONS

    written = [client.writable(record) for record in make_records(count, PARTITIONS, seed=1)]
    begin = now_ms()
    client.produce(topic, written, codec)
    sent = begin, now_ms()
    check_compression(records_by_codec(broker, topic), codec, count)

    read = client.consume_all(topic, PARTITIONS)
    assert_same(read, [client.readable(record) for record in by_place(written)], sent)
    look_up_by_time(client, topic, read)

    admin = confluent if "add partitions" in client.lacks else client
    admin.add_partitions(topic, PARTITIONS + 2)
    assert client.count_partitions(topic) == PARTITIONS + 2
    assert client.consume(topic, {PARTITIONS: 0, PARTITIONS + 1: 0}) == []

    admin = confluent if "delete" in client.lacks else client
    admin.delete_topic(topic)
    assert client.count_partitions(topic) is None


def check_compression(counts: Counter[str], codec: str, count: int) -> None:
    """A client may send a batch plain if it would not get smaller, as one of two records; never most of them."""
    assert counts.keys() <= {codec, "none"}
    assert sum(counts.values()) == count
    assert counts[codec] > count * 0.9


def look_up_by_time(client: Driver, topic: str, stored: list[Record]) -> None:
    """At a record's time, between two, before all, after all; then reads on from the offsets found."""
    ordered = sorted(record.timestamp for record in stored)
    middle = ordered[len(ordered) // 2]
    for timestamp in (ordered[0] - 1, middle, middle + STEP // 2, ordered[-1], ordered[-1] + 1):
        expected = {partition: first_at(stored, partition, timestamp) for partition in range(PARTITIONS)}
        assert client.offsets_for_time(topic, PARTITIONS, timestamp) == expected

    starts = {partition: first_at(stored, partition, middle) or 0 for partition in range(PARTITIONS)}
    assert_same(
        client.consume(topic, starts), [record for record in stored if record.offset >= starts[record.partition]]
    )


@pytest.mark.parametrize("count", COUNTS)
def test_records_are_as_odd_as_they_should_be(count: int) -> None:
    """Guards the corpus: nulls, empties, every byte, late timestamps, and each in all partitions."""
    records = make_records(count, PARTITIONS, seed=1)
    keys, values = {record.key for record in records}, {record.value for record in records}
    assert {None, b""} <= keys
    assert {None, b"", bytes(range(256))} <= values
    assert {record.partition for record in records} == set(range(PARTITIONS))
    assert any(a.timestamp > b.timestamp for a, b in itertools.pairwise(records))
    assert min(record.timestamp for record in records) == START - 500
