"""What the clients write and read here: records with every odd key, value and header, and how they are compared."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START = 1_700_000_000_000  # the timestamp that made-up records begin at
STEP = 10
CLIENTS_CLOCK = -1  # the timestamp of a record that its client stamps itself, on sending

Headers = tuple[tuple[str, bytes | None], ...]

EVERY_BYTE = bytes(range(256))
HEADERS: tuple[Headers, ...] = (
    (),
    (("plain", b"value"),),
    (("null", None),),
    (("empty", b""), ("", b"no name")),
    (("every-byte", EVERY_BYTE),),
    (("ключ-λ-鍵-🔑", "значение".encode()),),
    (("twice", b"1"), ("twice", b"2"), ("twice", b"1")),
    (("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", None), ("c", b"")),
)


class Record(NamedTuple):
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def make_records(count: int, partitions: int, seed: int, first: Mapping[int, int] | None = None) -> list[Record]:
    """`count` records for a topic, numbered from `first` in each partition, as the broker must number them.

    Timestamps rise, but every seventh record is half a second late, so that no look-up may rely on order.
    """
    dice = random.Random(seed)
    offsets = defaultdict(int, first or {})
    records = []
    for i in range(count):
        partition = dice.randrange(partitions)
        timestamp = START + i * STEP - (500 if i % 7 == 0 else 0)
        key, value = _key(dice, i), _value(dice, i)
        records.append(Record(partition, offsets[partition], timestamp, key, value, HEADERS[i % len(HEADERS)]))
        offsets[partition] += 1
    return records


def _key(dice: random.Random, i: int) -> bytes | None:
    return (None, b"", f"key-{i}".encode(), dice.randbytes(8), b"\x00\xff" * 3)[i % 5]


def _value(dice: random.Random, i: int) -> bytes | None:
    text = f"record {i} of many that look alike, so that every codec has something to do".encode()
    return (text, None, b"", dice.randbytes(dice.randrange(40)), text * 3, EVERY_BYTE)[i % 6]


def by_place(records: Iterable[Record]) -> list[Record]:
    """In the order of the log: partition, then offset."""
    return sorted(records, key=lambda record: (record.partition, record.offset))


def next_offsets(records: Iterable[Record]) -> dict[int, int]:
    """Where each partition goes on after these records."""
    return {record.partition: record.offset + 1 for record in by_place(records)}


def first_at(records: Iterable[Record], partition: int, timestamp: int) -> int | None:
    """Kafka's look-up by time: the first offset of the partition whose record is not older than `timestamp`."""
    offsets = (r.offset for r in records if r.partition == partition and r.timestamp >= timestamp)
    return min(offsets, default=None)


def group_headers(headers: Headers) -> Headers:
    """Equal names brought together, each where it stood first: all that a map of names to values can tell."""
    grouped: dict[str, list[bytes | None]] = {}
    for name, value in headers:
        grouped.setdefault(name, []).append(value)
    return tuple((name, value) for name, values in grouped.items() for value in values)


def without_null_headers(record: Record) -> Record:
    return record._replace(headers=tuple((name, value or b"") for name, value in record.headers))


def with_key_or_value(record: Record) -> Record:
    return record._replace(value=b"") if record.key is None and record.value is None else record


def assert_same(read: Sequence[Record], written: Sequence[Record], sent: tuple[int, int] | None = None) -> None:
    """Byte for byte. `sent` is the span of time in which records with CLIENTS_CLOCK were sent.

    Names the first record that differs: a diff of thousands of records helps nobody.
    """
    for got, expected in zip(read, written, strict=False):
        if expected.timestamp == CLIENTS_CLOCK:
            assert sent is not None
            assert sent[0] <= got.timestamp <= sent[1], f"{got}: not sent between {sent[0]} and {sent[1]}"
            expected = expected._replace(timestamp=got.timestamp)
        assert got == expected
    assert len(read) == len(written)
