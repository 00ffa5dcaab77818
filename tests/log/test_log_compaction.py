"""Compaction: the newest record of each key survives, and nothing else about the log changes."""

from __future__ import annotations

import dataclasses
import os

import pytest

from equipoise.log import compaction as compaction_module
from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.log.segment import LogSegment
from equipoise.log.storage import disk as disk_module
from equipoise.wire.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Codec,
    crc_of,
    iter_headers,
    read_header,
    validate,
    write_header,
)
from equipoise.wire.records.build import Record
from equipoise.wire.records.read import read_all
from tests.log.compacting import COMPACT, compacted, roll, set_key, state
from tests.log.log_helpers import (
    ALL,
    NOW,
    Medium,
    append,
    batch,
    offsets,
    read_from,
    read_log,
    texts,
    values,
)


def test_of_each_key_the_newest_record_survives_at_its_offset(medium: Medium) -> None:
    log = medium.open(COMPACT)
    newest = {}
    for number in range(40):
        key = f"key-{number % 7}"
        newest[key] = (set_key(log, key, f"value-{number}"), f"value-{number}")
    assert compacted(log) > 0
    found = {str(r.key, "ascii"): (r.offset, str(r.value, "ascii")) for r in read_log(log) if r.key and r.value}
    assert found == newest
    assert len(read_log(log)) == 7
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 40, 40)
    assert set_key(log, "next", "one") == 40


def test_the_active_segment_is_left_alone(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, segment_bytes=1 << 20))
    for number in range(5):
        set_key(log, "same", str(number))
    assert log.compact(NOW) == 0
    roll(log)
    for number in range(5, 8):
        set_key(log, "same", str(number))
    assert log.compact(NOW) > 0
    assert texts(read_log(log)) == ["4", "5", "6", "7"]


def test_a_second_compaction_takes_values_that_were_clean_before(medium: Medium) -> None:
    log = medium.open(COMPACT)
    for key in "abcdef":
        set_key(log, key, "old")
    compacted(log)
    set_key(log, "c", "new")
    compacted(log)
    assert [(r.offset, r.key) for r in read_log(log)] == [
        (0, b"a"),
        (1, b"b"),
        (3, b"d"),
        (4, b"e"),
        (5, b"f"),
        (6, b"c"),
    ]


def test_reads_go_on_over_gaps(medium: Medium) -> None:
    log = medium.open(COMPACT)
    for number in range(60):
        set_key(log, "rare" if number % 20 == 0 else "often", str(number))
    set_key(log, "last", "one")
    compacted(log)
    survivors = offsets(read_log(log))
    assert survivors == [40, 59, 60]
    for offset in range(61):
        expected = next(o for o in survivors if o >= offset)
        for max_bytes in (1, ALL):
            reached = offset
            found: list[Record] = []
            while not found:  # a batch without records tells only where to go on
                views = log.read(reached, max_bytes, 61)
                assert views, f"nothing at {reached}, though {expected} is there"
                found = read_from(log, reached, max_bytes)
                reached = [h.last_offset + 1 for view in views for _, h in iter_headers(view)][-1]
            assert found[0].offset == expected


def test_batches_lose_records_one_by_one_and_keep_their_range(medium: Medium) -> None:
    log = medium.open(COMPACT)
    append(log, batch(values("a", "b", "c", "d"), producer_id=9, epoch=1, sequence=0, codec=Codec.ZSTD))
    append(log, batch([(b"b", b"new"), (b"d", b"new")]))
    compacted(log)
    header = read_header(log.read(0, ALL, 6)[0])
    assert (header.base_offset, header.last_offset, header.record_count, header.codec) == (0, 3, 2, Codec.ZSTD)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (9, 1, 0, 3)
    assert [(r.offset, r.value) for r in read_log(log)] == [(0, b"a"), (2, b"c"), (4, b"new"), (5, b"new")]


def test_timestamps_survive(medium: Medium) -> None:
    log = medium.open(COMPACT)
    append(log, batch(values("a", "b", "c"), timestamps=[50, 10, 30]))
    append(log, batch([(b"a", b"new")], timestamps=[20]))
    compacted(log)
    assert [(r.key, r.timestamp) for r in read_log(log)] == [(b"b", 10), (b"c", 30), (b"a", 20)]
    assert log.max_timestamp() == (30, 2)
    assert log.offset_for_timestamp(20) == (30, 2)


def test_log_append_time_survives(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, message_timestamp_type="LogAppendTime"))
    append(log, batch(values("a", "b"), timestamps=[1, 2]), NOW)
    append(log, batch(values("a"), timestamps=[3]), NOW + 1)
    compacted(log)
    assert [(r.key, r.timestamp) for r in read_log(log)] == [(b"b", NOW), (b"a", NOW + 1)]


def test_tombstones_stay_for_a_while_after_they_were_first_passed(medium: Medium) -> None:
    log = medium.open(COMPACT)
    set_key(log, "gone", "value", now=5)
    set_key(log, "gone", None, now=5)  # long ago, but nobody has lost the value yet
    compacted(log, NOW)
    assert [(r.offset, r.value) for r in read_log(log)] == [(1, None)]
    set_key(log, "other", "1")
    compacted(log, NOW + 999)
    assert 1 in offsets(read_log(log))
    set_key(log, "other", "2")
    compacted(log, NOW + 1000)
    assert texts(read_log(log)) == ["2"]


def test_a_tombstone_right_after_the_last_compaction_has_its_time_before_it(medium: Medium) -> None:
    log = medium.open(COMPACT)
    set_key(log, "a", "1")
    compacted(log, NOW)
    set_key(log, "gone", None)
    for later, there in [(500, True), (1000, True), (1499, True), (1500, False)]:
        set_key(log, "busy", str(later))
        compacted(log, NOW + later)
        assert (b"gone" in [record.key for record in read_log(log)]) == there


def test_a_later_compaction_does_not_lengthen_a_tombstones_life(medium: Medium) -> None:
    log = medium.open(COMPACT)
    set_key(log, "gone", None)
    for number in range(11):
        set_key(log, "busy", str(number))
        compacted(log, NOW + 100 * number)
    assert texts(read_log(log)) == ["10"]


def test_an_emptied_log_still_knows_its_end_and_its_producers(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open(COMPACT)
    append(log, batch([(b"k", b"v")], producer_id=9, epoch=0, sequence=0))
    append(log, batch([(b"k", None)], producer_id=9, epoch=0, sequence=1))
    compacted(log, NOW)
    append(log, batch([(b"z", None)], producer_id=8, epoch=0, sequence=0))
    compacted(log, NOW)
    append(log, batch([(b"z", None)]))
    compacted(log, NOW + 1000)
    log.close()
    for name in ("producers.json", f"{0:020d}.seal"):
        (disk.path / name).unlink()
    again = disk.open(COMPACT)
    assert again.log_end_offset == 4
    assert texts(read_log(again)) == [None]
    assert append(again, batch([(b"k", None)], producer_id=9, epoch=0, sequence=1)).duplicate
    assert append(again, batch([(b"z", None)], producer_id=8, epoch=0, sequence=0)).duplicate


def test_a_log_whose_last_batch_is_dropped_still_knows_its_end(disk: Medium) -> None:
    log = disk.open(dataclasses.replace(COMPACT, cleanup_policy=frozenset({"delete"})))
    append(log, batch([(b"k", b"v")]))
    append(log, batch([(None, b"no key")]))
    log.config = COMPACT
    compacted(log)
    log.close()
    again = disk.open(COMPACT)
    assert (again.log_end_offset, texts(read_log(again))) == (2, ["v"])


def test_a_batch_without_records_does_not_count_for_times(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, segment_bytes=90))
    append(log, batch([(b"k", b"late")], timestamps=[500], producer_id=9, epoch=0, sequence=0))
    append(log, batch([(b"k", b"early")], timestamps=[100]))
    compacted(log)
    assert next(h.record_count for v in log.read(0, ALL, 1) for _, h in iter_headers(v)) == 0
    assert log.max_timestamp() == (100, 1)
    assert log.offset_for_timestamp(101) is None


def test_what_was_clean_before_the_log_lost_its_tail_is_dirty_again(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open(COMPACT)
    for number in range(10):
        set_key(log, f"key-{number}", "value")
    compacted(log)
    log.close()
    for file in sorted(disk.path.glob("*.log"))[1:]:
        file.unlink()
    again = disk.open(COMPACT)
    assert 0 < again.log_end_offset < 10
    set_key(again, "key-0", "new")
    compacted(again)
    assert [r.value for r in read_log(again) if r.key == b"key-0"] == [b"new"]


def test_a_compacted_segment_is_durable_before_it_takes_its_place(
    disk: Medium, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert disk.path is not None
    log = disk.open(COMPACT)
    for number in range(20):
        set_key(log, "k", str(number))
    roll(log)
    synced: list[int] = []
    monkeypatch.setattr(disk_module, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_ino))
    compaction = log.begin_compaction(NOW)
    assert compaction is not None
    compaction.run()
    cleaned = [file.stat().st_ino for file in disk.path.glob("*.cleaned")]
    assert cleaned
    assert sorted(synced) == sorted(cleaned)
    log.end_compaction(compaction)


def test_small_segments_are_merged(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, segment_bytes=2000))
    for number in range(400):
        set_key(log, f"key-{number % 3}", str(number))
    roll(log)
    assert len(log._segments) > 10
    log.compact(NOW)
    assert len(log._segments) == 2  # all in one, and the active
    assert texts(read_log(log)) == ["397", "398", "399"]
    set_key(log, "key-9", "x")
    compacted(log)
    assert [segment.size for segment in log._segments] == [log.size, 0]
    assert log.size < 400  # the headers that marked the ends of merged segments are gone


def test_what_gains_nothing_is_not_rewritten(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, segment_bytes=200))
    for number in range(10):
        set_key(log, f"key-{number}", "x" * 40)
    roll(log)
    before = list(log._segments)
    assert log.compact(NOW) == 0
    assert log._segments == before
    assert log.begin_compaction(NOW) is None


def test_too_little_dirt_is_not_worth_it(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, min_cleanable_dirty_ratio=0.5))
    for number in range(12):
        set_key(log, f"key-{number}", "value")
    assert compacted(log) == 0
    set_key(log, "key-1", "new")
    roll(log)
    assert log.begin_compaction(NOW) is None
    log.config = dataclasses.replace(log.config, max_compaction_lag_ms=1000)
    assert log.begin_compaction(NOW + 1000) is None
    assert log.compact(NOW + 1001) > 0


def test_young_records_are_left_alone(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, min_compaction_lag_ms=1000))
    set_key(log, "k", "1", now=NOW)
    set_key(log, "k", "2", now=NOW)
    roll(log)
    assert log.compact(NOW + 999) == 0
    assert log.compact(NOW + 1000) > 0


def test_a_topic_that_does_not_compact_is_left_alone(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, cleanup_policy=frozenset({"delete"})))
    set_key(log, "k", "1")
    set_key(log, "k", "2")
    assert compacted(log) == 0


def test_records_without_key_from_before_the_policy_changed_go(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, cleanup_policy=frozenset({"delete"})))
    append(log, batch([(None, b"no key"), (b"k", b"v")]))
    set_key(log, "l", "w")
    log.config = COMPACT
    compacted(log)
    assert texts(read_log(log)) == ["v", "w"]


def test_a_batch_that_cannot_be_decoded_stays_as_it_is(medium: Medium) -> None:
    log = medium.open(LogConfig(segment_bytes=300))
    set_key(log, "k", "1")
    broken = batch([(b"k", b"broken")])
    broken[HEADER_SIZE] = 0x70  # the record's length: far more than there is
    header = read_header(broken)
    write_header(broken, 0, header._replace(crc=crc_of(broken, 0, header.size)))
    append(log, broken)
    set_key(log, "k", "2")
    log.config = COMPACT
    compacted(log)
    headers = [h for view in log.read(0, ALL, 3) for _, h in iter_headers(view)]
    assert [h.base_offset for h in headers] == [1, 2]
    set_key(log, "k", "3")
    compacted(log)
    headers = [h for view in log.read(0, ALL, 4) for _, h in iter_headers(view)]
    assert [h.base_offset for h in headers if h.record_count] == [1, 3]


def test_long_keys_are_told_apart(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, segment_bytes=10_000))
    for number in range(6):
        set_key(log, "x" * 500 + str(number % 3), str(number))
    compacted(log)
    assert texts(read_log(log)) == ["3", "4", "5"]


def test_more_keys_than_memory_are_done_in_several_passes(medium: Medium, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_module, "_MAX_KEYS", 4)
    log = medium.open(COMPACT)
    for number in range(30):
        set_key(log, f"key-{number % 10}", str(number))
    roll(log)
    expected = state(read_log(log))
    passes = 0
    while log.begin_compaction(NOW) is not None:
        log._is_compacting = False
        log.compact(NOW)
        assert state(read_log(log)) == expected
        passes += 1
    assert passes > 3
    assert texts(read_log(log)) == [str(number) for number in range(20, 30)]


def test_control_batches_are_kept(medium: Medium) -> None:
    log = medium.open(COMPACT)
    marker = batch([(b"k", b"marker")])
    header = read_header(marker)
    header = header._replace(attributes=header.attributes | 0x20)
    write_header(marker, 0, header)
    write_header(marker, 0, header._replace(crc=crc_of(marker, 0, header.size)))
    log.append(marker, [(0, read_header(marker))], NOW)
    set_key(log, "k", "1")
    compacted(log)
    (view,) = log.read(0, ALL, 2)
    assert [h.is_control for _, h in iter_headers(view)] == [True, False]
    assert len(read_all(view, control=True)) == 2


def test_every_batch_of_a_compacted_log_is_valid(disk: Medium) -> None:
    log = disk.open(COMPACT)
    for number in range(30):
        append(log, batch(values(f"a-{number % 3}", f"b-{number}"), codec=Codec(number % 5)))
    compacted(log)
    for segment in log._segments:
        check_segment(segment)


def check_segment(segment: LogSegment) -> None:
    for view in segment.storage.views(0, segment.size):
        for position, header in iter_headers(view):
            assert crc_of(view, position, header.size) == header.crc
            if header.record_count == header.last_offset_delta + 1:
                validate(view, position, len(view))


def headers_read(log: PartitionLog, offset: int, max_bytes: int = ALL) -> list[BatchHeader]:
    views = log.read(offset, max_bytes, log.high_watermark)
    return [header for view in views for _, header in iter_headers(view)]


def overwritten(log: PartitionLog) -> None:
    """Segments that lose some of their records, the last of them, or all; the active one has something to read."""
    for number in range(200):
        set_key(log, f"key-{number % 5}", str(number))
    for number in range(30):
        set_key(log, "other", str(number))
    compacted(log)
    set_key(log, "active", "value")


@pytest.mark.parametrize("max_bytes", [1, 150, 500, ALL])
def test_no_batch_without_records_is_served(medium: Medium, max_bytes: int) -> None:
    """As on Kafka, which drops them. kafka-go takes an answer that has batches, but no record, for the beginning."""
    log = medium.open(COMPACT)
    overwritten(log)
    for offset in range(log.log_end_offset):
        found = headers_read(log, offset, max_bytes)
        assert found, f"nothing at {offset}, though there is something behind it"
        assert all(header.record_count for header in found)
    assert [record.key for record in read_log(log, max_bytes)][-3:] == [b"key-4", b"other", b"active"]


def test_compacted_segments_end_where_the_next_begin(disk: Medium) -> None:
    """Also after a start: a gap would be a segment that is lost."""
    log = disk.open(COMPACT)
    overwritten(log)
    for _ in range(2):
        segments = log._segments
        assert [one.end_offset for one in segments[:-1]] == [one.base_offset for one in segments[1:]]
        log.close()
        log = disk.open(COMPACT)
    assert [record.key for record in read_log(log)][-1] == b"active"


def test_where_nothing_else_is_left_a_reader_is_told_where_the_log_ends(medium: Medium) -> None:
    """The active segment may be empty, after a write that failed: the end must be reached all the same."""
    log = medium.open(dataclasses.replace(COMPACT, delete_retention_ms=0))
    for number in range(20):
        set_key(log, "k", None if number == 19 else "value")
    compacted(log, NOW)
    set_key(log, "dirt", None)
    compacted(log, NOW + 1)
    set_key(log, "dirt", None)
    compacted(log, NOW + 2)
    assert headers_read(log, 0)[-1].last_offset + 1 <= log.high_watermark
    offset = 0
    while offset < log.high_watermark:
        offset = headers_read(log, offset)[-1].last_offset + 1


def test_a_producers_last_batch_stays_and_is_not_served_first(medium: Medium) -> None:
    log = medium.open(COMPACT)
    append(log, batch(values("a"), producer_id=9, epoch=0, sequence=0))
    append(log, batch(values("a"), producer_id=9, epoch=0, sequence=1))
    for number in range(10):
        set_key(log, "a", str(number))
    compacted(log)
    bare = [header for header in bare_headers(log) if header.producer_id == 9]
    assert [(header.base_offset, header.record_count, header.base_sequence) for header in bare] == [(1, 0, 1)]
    assert headers_read(log, 0)[0].record_count == 1


def bare_headers(log: PartitionLog) -> list[BatchHeader]:
    return [header for segment in log._segments for _, header in segment.headers()]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_with_more_keys_than_memory_is_done_in_several_passes(
    medium: Medium, monkeypatch: pytest.MonkeyPatch, codec: Codec
) -> None:
    monkeypatch.setattr(compaction_module, "_MAX_KEYS", 7)
    log = medium.open(COMPACT)
    keys = [f"key-{number % 30}" for number in range(60)]
    append(log, batch([(key.encode(), b"%d" % number) for number, key in enumerate(keys)], codec=codec))
    roll(log)
    expected = state(read_log(log))
    passes = 0
    while log.begin_compaction(NOW) is not None:
        log._is_compacting = False
        log.compact(NOW)
        assert state(read_log(log)) == expected
        passes += 1
    assert passes > 6
    assert offsets(read_log(log)) == list(range(30, 60))
