"""Record batches to Arrow columns: every shape of batch against the plain reader."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.records import rows
from equipoise.wire.records.arrow import SCHEMA, decode
from equipoise.wire.records.batch import Codec
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.read import read_all
from tests.wire.test_records_odd import columns_as_records

NOW = 1_700_000_000_000


def some_records(count: int, *, seed: int = 1, base: int = 0, largest: int = 150) -> list[Record]:
    """Keys, values and headers of all sizes, some null; timestamps that go forth and back."""
    rng = random.Random(seed)

    def some_bytes(most: int) -> bytes | None:
        return None if rng.random() < 0.1 else rng.randbytes(rng.randrange(most))

    return [
        Record(
            base + n,
            NOW + rng.randrange(-(10**6), 10**6),
            some_bytes(20),
            some_bytes(largest),
            tuple((rng.choice(["trace", "", "ключ"]), some_bytes(90)) for _ in range(rng.choice([0, 0, 0, 1, 3]))),
        )
        for n in range(count)
    ]


def many_batches(sizes: list[int], codec: Codec = Codec.NONE, largest: int = 150) -> bytes:
    out, base = bytearray(), 1000
    for seed, size in enumerate(sizes):
        out += build_batch(some_records(size, seed=seed, base=base, largest=largest), base_offset=base, codec=codec)
        base += size
    return bytes(out)


SHAPES = {
    "one record": [1],
    "one batch": [500],
    "few batches": [3, 700, 1, 20],
    "as many as go in lockstep": [40] * 16,
    "lockstep, then the longest alone": [5] * 10 + [300, 200, 100] + list(range(1, 30)),
    "many lanes of different lengths": list(range(1, 120)),
    "single records": [1] * 300,
    "more rows than a chunk": [9000, 9000, 9000],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_columns_hold_what_the_plain_reader_reads(shape: str) -> None:
    buf = many_batches(SHAPES[shape])
    assert columns_as_records(buf) == read_all(buf)


@pytest.mark.parametrize("codec", Codec)
def test_every_codec(codec: Codec) -> None:
    buf = many_batches([100, 1, 37], codec)
    assert columns_as_records(buf) == read_all(buf)


def test_batches_of_all_codecs_side_by_side() -> None:
    parts = [build_batch(some_records(50, base=n * 50), base_offset=n * 50, codec=Codec(n % 5)) for n in range(20)]
    buf = b"".join(parts)
    assert columns_as_records(buf) == read_all(buf)
    assert decode(buf).num_rows == 1000


@pytest.mark.parametrize("sizes", [[12] * 20, [30], [1] * 40])
def test_records_longer_than_two_bytes_can_say(sizes: list[int]) -> None:
    """Records from 8 KiB have lengths of three bytes, which the lanes cannot take in one step."""
    buf = many_batches(sizes, largest=30_000)
    assert columns_as_records(buf) == read_all(buf)


def test_data_that_expands_more_than_guessed() -> None:
    buf = b"".join(
        build_batch([Record(n, NOW, None, bytes(300_000))], base_offset=n, codec=codec) for n, codec in enumerate(Codec)
    )
    assert columns_as_records(buf) == read_all(buf)


def test_the_schema() -> None:
    assert decode(many_batches([3])).schema == SCHEMA
    assert str(SCHEMA.field("timestamp").type) == "timestamp[ms, tz=UTC]"
    assert decode(b"").schema == SCHEMA
    assert decode(many_batches([3]), headers=False).schema.names == SCHEMA.names[:-1]


@pytest.mark.parametrize("headers", [True, False])
def test_no_rows_at_all(headers: bool) -> None:
    marker = build_batch([Record(0, NOW, b"\0\0\0\1", b"")], control=True)
    empty = build_batch([], last_offset_delta=9, codec=Codec.LZ4)
    for buf in (b"", b"torn", marker, empty, marker + empty, many_batches([5])[:-1]):
        rows = decode(buf, headers=headers)
        assert rows.num_rows == 0
        rows.validate(full=True)


def test_control_batches_are_skipped_and_empty_ones_do_no_harm() -> None:
    buf = (
        build_batch(some_records(3), codec=Codec.ZSTD)
        + build_batch([Record(3, NOW, b"\0\0\0\1", b"")], base_offset=3, control=True)
        + build_batch([], base_offset=4, last_offset_delta=5)
        + build_batch(some_records(2, base=10), base_offset=10)
    )
    assert decode(buf).column("offset").to_pylist() == [0, 1, 2, 10, 11]
    assert columns_as_records(buf) == read_all(buf)


def test_a_torn_tail_is_left_out() -> None:
    first, second = build_batch(some_records(4)), build_batch(some_records(4, base=4), base_offset=4)
    for size in range(len(first), len(first + second)):
        assert decode((first + second)[:size]).num_rows == 4


def test_a_record_without_headers_has_null_there() -> None:
    records = [Record(0, NOW, None, None), Record(1, NOW, None, None, (("h", None),)), Record(2, NOW, None, None)]
    column = decode(build_batch(records)).column("headers")
    assert column.to_pylist() == [None, [{"key": "h", "value": None}], None]
    assert decode(build_batch(records[:1])).column("headers").to_pylist() == [None]


@pytest.mark.parametrize("counts", [[0, 1, 2, 3] * 50, [500], [1] * 100 + [400], [7] * 40])
def test_headers_in_all_numbers(counts: list[int]) -> None:
    records = [
        Record(n, NOW, b"k", b"v", tuple((f"h{i}", None if i % 3 == 2 else b"x" * i) for i in range(count)))
        for n, count in enumerate(counts)
    ]
    for codec in (Codec.NONE, Codec.LZ4):
        buf = build_batch(records, codec=codec)
        assert columns_as_records(buf) == records
        assert decode(buf, headers=False).num_rows == len(records)


def test_nulls_and_empty_bytes_are_different() -> None:
    records = [Record(0, NOW, None, b""), Record(1, NOW, b"", None), Record(2, NOW, b"k", b"v")]
    rows = decode(build_batch(records))
    assert rows.column("key").to_pylist() == [None, b"", b"k"]
    assert rows.column("value").to_pylist() == [b"", None, b"v"]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_offsets_are_clipped(codec: Codec) -> None:
    buf = many_batches([10, 10, 10], codec)  # offsets 1000 to 1029
    everything = columns_as_records(buf)
    for start, end in [(1005, 1025), (1010, 1020), (None, 1001), (1029, None), (0, 5000), (1015, 1016)]:
        rows = decode(buf, start=start, end=end)
        rows.validate(full=True)
        wanted = [r for r in everything if (start or 0) <= r.offset < (end or 9999)]
        assert rows.column("offset").to_pylist() == [r.offset for r in wanted]
        assert rows.column("key").to_pylist() == [r.key for r in wanted]
        assert [len(h or ()) for h in rows.column("headers").to_pylist()] == [len(r.headers) for r in wanted]
    for start, end in [(1030, None), (None, 1000), (1012, 1012), (1020, 1005)]:
        assert decode(buf, start=start, end=end).num_rows == 0


def test_clipping_in_a_compacted_batch_goes_by_offsets_not_by_counts() -> None:
    batch = build_batch([Record(n, NOW, b"k", b"v") for n in (3, 50, 90)], last_offset_delta=99)
    assert decode(batch, start=4, end=90).column("offset").to_pylist() == [50]
    assert decode(batch, start=91).num_rows == 0


def test_timestamps_and_their_type() -> None:
    create = build_batch([Record(0, NOW - 5, None, None), Record(1, -1, None, None)])
    append = build_batch([Record(2, 1, None, None), Record(3, 2, None, None)], base_offset=2, log_append_time=NOW)
    rows = decode(create + append)
    assert rows.column("timestamp").cast("int64").to_pylist() == [NOW - 5, -1, NOW, NOW]
    assert rows.column("timestamp_type").to_pylist() == [0, 0, 1, 1]
    assert rows.column("timestamp")[2].as_py().isoformat() == "2023-11-14T22:13:20+00:00"


def test_the_columns_outlive_the_buffer() -> None:
    buf = bytearray(many_batches([50]))
    expected = read_all(buf)
    rows = decode(buf)
    buf[:] = bytes(len(buf))  # resized or overwritten by the next fetch
    buf.clear()
    assert rows.column("value").to_pylist() == [record.value for record in expected]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_buffer_will_do(kind: Any) -> None:
    buf = many_batches([5])
    assert decode(kind(buf)).num_rows == 5


def test_batches_of_aiokafka() -> None:
    for codec in Codec:
        builder = DefaultRecordBatchBuilder(2, int(codec), 0, -1, -1, -1, 1 << 20)
        records = some_records(100, seed=9)
        for r in records:
            builder.append(r.offset, timestamp=r.timestamp, key=r.key, value=r.value, headers=list(r.headers))
        assert columns_as_records(bytes(builder.build())) == records


def test_a_damaged_batch_is_found_by_its_crc() -> None:
    buf = bytearray(many_batches([5, 5]))
    buf[-3] ^= 1
    with pytest.raises(KafkaError, match="CRC32C") as raised:
        decode(buf)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_more_bytes_than_a_column_can_hold(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    buf = many_batches([20, 20], codec)
    monkeypatch.setattr(rows, "_COLUMN_LIMIT", 1000)
    with pytest.raises(UsageError, match=r"an Arrow column at most 1000: decode smaller fetches"):
        decode(buf)


def test_one_record_with_very_many_headers_is_no_slow_path() -> None:
    """A step of all lanes costs as much for one lane as for a thousand; a lane left alone is walked."""
    records = [Record(0, NOW, None, None, (("", None),) * 200_000)]
    assert columns_as_records(build_batch(records)) == records


def test_without_numpy_the_error_names_the_extra() -> None:
    script = (
        "import sys; sys.modules['numpy'] = None\n"
        "import equipoise.wire.records.read, equipoise.wire.records.build\n"
        "from equipoise.wire.errors import UsageError\n"
        "try:\n    import equipoise.wire.records.arrow\n"
        "except UsageError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'equipoise[arrow]'" in done.stdout
