"""Every client reads what every client wrote, byte for byte. Each topic holds batches of all codecs, one after
the other, so that a reader also changes codec from batch to batch."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from equipoise.broker import Broker
from tests.interop.conftest import PARTITIONS, records_by_codec
from tests.interop.drivers import DRIVERS, Confluent, Driver
from tests.interop.records import (
    CLIENTS_CLOCK,
    CODECS,
    Record,
    assert_same,
    by_place,
    make_records,
    next_offsets,
)

COUNT = 240  # of each codec: each partition gets every kind of key, value and header


class Written:
    """A topic that one client has filled, and what it must hold."""

    def __init__(self, topic: str, records: list[Record], sent: tuple[int, int]) -> None:
        self.topic = topic
        self.records = by_place(records)
        self.sent = sent


@pytest.fixture(scope="module")
def written_by(open_client: Callable[[str], Driver]) -> Callable[[str], Written]:
    topics: dict[str, Written] = {}

    def find(name: str) -> Written:
        if name not in topics:
            topics[name] = write(open_client(name))
        return topics[name]

    return find


def write(client: Driver) -> Written:
    topic = f"written-by-{client.name}"
    client.create_topic(topic, PARTITIONS)
    records: list[Record] = []
    begin = time.time_ns() // 1_000_000
    for codec in CODECS:
        more = make_records(COUNT, PARTITIONS, seed=len(records), first=next_offsets(records))
        more = [client.writable(record) for record in more]
        client.produce(topic, more, codec)
        records += more
    return Written(topic, records, (begin, time.time_ns() // 1_000_000))


@pytest.mark.parametrize("writer", DRIVERS)
def test_read_what_others_wrote(
    broker: Broker, client: Driver, writer: str, written_by: Callable[[str], Written]
) -> None:
    written = written_by(writer)
    assert set(records_by_codec(broker, written.topic)) == set(CODECS)
    read = client.consume_all(written.topic, PARTITIONS)
    assert_same(read, [client.readable(record) for record in written.records], written.sent)


def test_all_see_the_same_timestamps(
    client: Driver, confluent: Confluent, written_by: Callable[[str], Written]
) -> None:
    """kcat's records carry its own clock, which no test can foretell: so readers are compared with each other."""
    written = written_by("kcat")
    assert {record.timestamp for record in written.records} == {CLIENTS_CLOCK}
    expected = confluent.consume_all(written.topic, PARTITIONS)
    assert_same(client.consume_all(written.topic, PARTITIONS), [client.readable(record) for record in expected])
