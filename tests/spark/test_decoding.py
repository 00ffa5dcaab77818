"""Decoding in an executor: room that is used again, pieces of moderate size, and slices of equal size."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from equipoise.member.partitions import TopicPartition
from equipoise.spark.executor import decoding
from equipoise.spark.executor.decoding import FetchedRange, decode
from equipoise.wire.records.batch import Codec, iter_headers
from equipoise.wire.records.build import Record, build_batch

PLACE = TopicPartition("orders", 3)
PACKED = Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD


def fetched(codec: Codec, batches: int, records: int, size: int, seed: int = 0) -> tuple[FetchedRange, list[bytes]]:
    noise = random.Random(seed)
    values = [noise.randbytes(8) + b"x" * (size - 8) for _ in range(batches * records)]
    data = b""
    for number in range(batches):
        some = values[number * records : (number + 1) * records]
        rows = [
            Record(offset=number * records + at, timestamp=1, key=None, value=value) for at, value in enumerate(some)
        ]
        data += bytes(build_batch(rows, base_offset=number * records, codec=codec))
    view = memoryview(data)
    return FetchedRange(PLACE, 0, len(values), view, list(iter_headers(view))), values


def values_of(batches: list[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


@pytest.mark.parametrize("codec", PACKED)
def test_what_was_decoded_stays_when_the_room_is_used_again(codec: Codec) -> None:
    one, of_one = fetched(codec, 3, 200, 300, seed=1)
    two, of_two = fetched(codec, 3, 200, 300, seed=2)
    first = list(decode([one], ("value", "offset")))
    second = list(decode([two], ("value", "offset")))
    assert values_of(first) == of_one
    assert values_of(second) == of_two
    interleaved = list(zip(decode([one], ("value",)), decode([two], ("value",)), strict=True))
    assert values_of([pair[0] for pair in interleaved]) == of_one
    assert values_of([pair[1] for pair in interleaved]) == of_two


def test_the_room_is_not_made_anew() -> None:
    one, _ = fetched(Codec.ZSTD, 3, 500, 900)
    list(decode([one], ("value",)))
    before = decoding._room.arena._room
    list(decode([one], ("value",)))
    assert decoding._room.arena._room is before
    assert len(before) >= 3 * 500 * 900


def test_records_that_expand_far_come_in_pieces() -> None:
    one, values = fetched(Codec.ZSTD, 40, 500, 1000)  # of a few kilobytes 20 MB
    list(decode([one], ("value",)))  # by now it is known how far
    found = list(decode([one], ("value",)))
    assert values_of(found) == values
    assert max(batch.nbytes for batch in found) < 2 * decoding._PIECE_BYTES
    assert len(decoding._room.arena._room) < 4 * decoding._PIECE_BYTES


def test_ranges_of_one_answer_are_decoded_where_they_stand() -> None:
    one, of_one = fetched(Codec.NONE, 2, 10, 50, seed=1)
    two, of_two = fetched(Codec.NONE, 3, 10, 50, seed=2)
    frame = memoryview(b"head" + bytes(one.data) + b"between" + bytes(two.data))
    begin = len(frame) - len(two.data)
    parts = [
        one._replace(data=frame[4 : 4 + len(one.data)]),
        two._replace(data=frame[begin:], partition=TopicPartition("orders", 4)),
    ]
    (found,) = decode(parts, ("value", "partition", "offset"))
    assert values_of([found]) == of_one + of_two
    assert found.column("partition").to_pylist() == [3] * 20 + [4] * 30
    assert found.column("offset").to_pylist() == [*range(20), *range(30)]


def test_slices_have_equal_sizes() -> None:
    one, values = fetched(Codec.NONE, 1, decoding._MOST_ROWS + 10, 8)
    found = list(decode([one], ("value",)))
    assert [batch.num_rows for batch in found] == [(decoding._MOST_ROWS + 10) // 2] * 2
    assert values_of(found) == values


def test_a_record_batch_has_at_most_a_megabyte() -> None:
    one, values = fetched(Codec.NONE, 4, 1000, 1000)
    found = list(decode([one], ("value", "offset")))
    assert [batch.num_rows for batch in found] == [1000] * 4
    assert values_of(found) == values
    large, values = fetched(Codec.NONE, 1, 3, 3 << 20)
    assert [batch.num_rows for batch in decode([large], ("value",))] == [1] * 3
    assert values_of(list(decode([large], ("value",)))) == values
