"""Batches of a few kilobytes that hold millions of records, or gigabytes of them: read in slices, within bounds."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.fetch import columns as columns_module
from equipoise.client.fetch import fetch_buffer as fetch_buffer_module
from equipoise.client.fetch import records as records_module
from equipoise.client.fetch.completed_fetch import CompletedFetch
from equipoise.client.fetch.fetch_buffer import FetchBuffer
from equipoise.client.fetch.subscription_state import MAX_OFFSET, SubscriptionState
from equipoise.member.partitions import TopicPartition
from equipoise.spark.executor.decoding import FetchedRange, decode
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.records import rows as rows_module
from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Codec, crc_of, iter_headers, write_header
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.codecs import compress
from tests.client.test_fetch_buffer import Buffer, both

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
EMPTY = b"\x0c\x00\x00\x00\x01\x01\x00"  # a record of seven bytes, which is the least
Take = Callable[[FetchBuffer, int], list[tuple[TopicPartition, int]]]


def packed(body: bytes, count: int, codec: Codec = Codec.ZSTD) -> bytes:
    data = compress(codec, body)
    header = BatchHeader(0, 49 + len(data), 0, 2, 0, int(codec), count - 1, 0, 0, -1, -1, -1, count)
    batch = bytearray(HEADER_SIZE) + data
    write_header(batch, 0, header)
    write_header(batch, 0, header._replace(crc=crc_of(batch, 0, len(batch))))
    return bytes(batch)


def bomb(count: int) -> bytes:
    return packed(EMPTY * count, count)


def numbered(count: int, first: int = 0, codec: Codec = Codec.ZSTD) -> bytes:
    records = [Record(first + at, 1000 + at, b"k%d" % at, b"v%d" % at, (("h", b"%d" % at),)) for at in range(count)]
    return bytes(build_batch(records, base_offset=first, codec=codec))


def play(kind: str) -> None:
    """In a process of its own: the bomb as a consumer, or a task of Spark, meets it."""
    data = bomb(8_400_000)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    if kind == "spark":
        ((_, header),) = iter_headers(data)
        part = FetchedRange(A, 0, 2**62, memoryview(data), [(0, header)])
        rows = next(decode([part], ("value", "offset"))).num_rows
    else:
        partitions = [TopicPartition("t", number) for number in range(8)]
        subscriptions = SubscriptionState()
        subscriptions.assign(partitions)
        for partition in partitions:
            subscriptions.seek(partition, 0)
            subscriptions.add_completed_fetch(
                subscriptions.assignment[partition], CompletedFetch(memoryview(data), 0, ())
            )
        fetch_buffer = FetchBuffer(subscriptions, ConsumerConfig.from_keywords(bootstrap_servers="a:1"))
        if kind == "records":
            rows = sum(len(fetch_buffer.take(500)) for _ in range(20))
        else:
            rows = sum(table.num_rows for _ in range(20) if (table := fetch_buffer.take_arrow(100_000)) is not None)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(rows, round(grown), round(time.process_time() - began, 2))


@pytest.mark.parametrize("kind", ["records", "columns", "spark"])
def test_a_bomb_costs_memory_and_time_within_bounds(kind: str) -> None:
    """8.4 million records in 6 KB, of eight partitions: all at once they took a gigabyte and 10 s for each."""
    script = f"from tests.client.test_row_bombs import play; play({kind!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    rows, megabytes, seconds = map(float, done.stdout.split())
    assert rows >= {"records": 20 * 500, "columns": 20 * 50_000, "spark": 10_000}[kind]
    assert megabytes < 500
    assert seconds < 10


@both
def test_slices_give_every_record_once_and_in_order(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MOST_ROWS", 100)
    buffer = Buffer(A, B)
    buffer.add(A, numbered(250), numbered(30, 250), numbered(220, 280, Codec.NONE))
    buffer.add(A, numbered(10, 500))
    buffer.add(B, numbered(330))
    taken: list[Any] = []
    while len(taken) < 840:
        some = take(buffer.fetch_buffer, 70)
        assert 0 < len(some) <= 70
        taken += some
    assert [at for partition, at in taken if partition == A] == list(range(510))
    assert [at for partition, at in taken if partition == B] == list(range(330))
    assert take(buffer.fetch_buffer, 70) == []
    assert buffer.subscriptions.positions() == {A: 510, B: 330}


@both
def test_a_slice_begins_where_the_position_is(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MOST_ROWS", 100)
    buffer = Buffer(A)
    buffer.subscriptions.seek(A, 333)
    buffer.add(A, numbered(1000))
    taken: list[Any] = []
    while len(taken) < 667:
        taken += take(buffer.fetch_buffer, 10_000)
    assert [at for _, at in taken] == list(range(333, 1000))


def test_slices_are_the_same_records_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of(buffer: Buffer) -> list[object]:
        found: list[object] = []
        while some := buffer.fetch_buffer.take(1000):
            found += some
        return found

    whole, sliced = Buffer(A), Buffer(A)
    whole.add(A, numbered(500))
    sliced.add(A, numbered(500))
    expected = all_of(whole)
    monkeypatch.setattr(rows_module, "MOST_ROWS", 64)
    assert all_of(sliced) == expected


@both
def test_what_is_broken_behind_millions_is_told_with_its_offset(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MOST_ROWS", 100)
    monkeypatch.setattr(records_module, "_PIECE_BYTES", 2000)
    records = [Record(at, 1000, None, b"v%d" % at) for at in range(361)]
    body = bytes(build_batch(records))[HEADER_SIZE:-1] + b"\x02"  # the last says that it has a header
    buffer = Buffer(A)
    buffer.add(A, packed(body, 361))
    taken: list[Any] = []
    while len(taken) < 360:
        some = take(buffer.fetch_buffer, 50)
        assert some
        taken += some
    assert [at for _, at in taken] == list(range(360))
    with pytest.raises(KafkaError, match=r"t-0: the record at offset 360 cannot be read.* seek\(\) to 361"):
        take(buffer.fetch_buffer, 50)


@both
def test_large_records_come_a_few_at_a_time(take: Take) -> None:
    """Forty batches of one record each, of 40 MB when it is expanded."""
    size = 40 << 20
    one = bytes(build_batch([Record(0, 0, None, bytes(size))], codec=Codec.ZSTD))
    buffer = Buffer(A)
    data = b""
    for at in range(40):
        moved = bytearray(one)
        moved[:8] = at.to_bytes(8, "big")
        data += bytes(moved)
    buffer.add(A, data)
    assert len(take(buffer.fetch_buffer, 500)) <= 5
    assert len(take(buffer.fetch_buffer, 500)) <= 5


@both
def test_a_paused_bomb_does_not_stop_others(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_buffer_module, "HEAVY", 1)
    monkeypatch.setattr(columns_module, "HEAVY", 1)
    monkeypatch.setattr(fetch_buffer_module, "_MOST_HELD", 1)
    buffer = Buffer(A, B)
    buffer.add(A, numbered(1000))
    buffer.add(B, numbered(1000))
    first = take(buffer.fetch_buffer, 10)
    (partition,) = {one for one, _ in first}
    again = take(buffer.fetch_buffer, 10)  # nobody else is decoded before that one is done
    assert {one for one, _ in again} == {partition}
    buffer.subscriptions.pause([partition])
    other = take(buffer.fetch_buffer, 10)
    assert {one for one, _ in other} == {A, B} - {partition}
    buffer.subscriptions.resume([partition])
    taken = first + again + other
    while len(taken) < 2000:
        some = take(buffer.fetch_buffer, 400)
        assert some
        taken += some
    assert [at for one, at in taken if one == A] == [at for one, at in taken if one == B] == list(range(1000))


@both
def test_the_last_offset_there_can_be(take: Take) -> None:
    """It is read, and then there is nothing to fetch or to commit, and no error."""
    batch = bytearray(build_batch([Record(0, 0, b"k", b"v")]))
    batch[:8] = MAX_OFFSET.to_bytes(8, "big")
    buffer = Buffer(A)
    buffer.subscriptions.seek(A, MAX_OFFSET)
    buffer.add(A, bytes(batch))
    assert take(buffer.fetch_buffer, 10) == [(A, MAX_OFFSET)]
    assert buffer.subscriptions.position(A) == MAX_OFFSET + 1
    assert not buffer.subscriptions.assignment[A].is_fetchable
    assert buffer.subscriptions.consumed() == {}
    assert take(buffer.fetch_buffer, 10) == []
    with pytest.raises(UsageError, match="offsets end at 9223372036854775807"):
        buffer.subscriptions.seek(A, MAX_OFFSET + 1)
