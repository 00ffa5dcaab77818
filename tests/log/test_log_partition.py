"""One partition's log: append, read, find by time, roll, retention. On disk and in memory alike."""

from __future__ import annotations

import pytest

from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.records.batch import HEADER_SIZE, Codec, iter_headers, read_header, validate
from equipoise.wire.records.read import read_all
from tests.log.log_helpers import ALL, NOW, Medium, append, batch, offsets, put, read_from, read_log, texts, values

SMALL = LogConfig(segment_bytes=300)  # three or four batches of one short record


def fill(log: PartitionLog, count: int, now: int = NOW) -> None:
    for number in range(count):
        put(log, f"value-{number}", now=now)


# Appending


def test_offsets_are_given_in_order(medium: Medium) -> None:
    log = medium.open()
    first = put(log, "a", "b", "c")
    second = put(log, "d")
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 2, 3)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 4, 4)
    assert [(r.offset, r.value) for r in read_log(log)] == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]


def test_the_leader_epoch_is_stamped_and_the_crc_stays_true(medium: Medium) -> None:
    log = medium.open()
    data = batch(values("a"))
    log.append(data, [(0, validate(data, 0, len(data)))], NOW, leader_epoch=5)
    (view,) = log.read(0, ALL, 1)
    header = validate(view, 0, len(view))
    assert header.partition_leader_epoch == 5


def test_batches_are_taken_out_of_the_bytes_around_them(medium: Medium) -> None:
    log = medium.open()
    one, two = batch(values("a")), batch(values("b", "c"))
    frame = bytearray(b"before" + one + b"between" + two + b"after")
    at = 6 + len(one) + 7
    headers = [(6, validate(frame, 6, len(frame))), (at, validate(frame, at, len(frame)))]
    assert log.append(memoryview(frame), headers, NOW)[:2] == (0, 2)
    assert texts(read_log(log)) == ["a", "b", "c"]
    assert log.size == len(one) + len(two)


def test_the_producers_buffer_can_be_used_again_after_an_append(medium: Medium) -> None:
    log = medium.open()
    data = batch(values("a"))
    append(log, data)
    data.clear()
    data += b"something else of any length" * 20
    assert texts(read_log(log)) == ["a"]


def test_an_append_of_nothing_is_a_mistake_of_the_caller(medium: Medium) -> None:
    with pytest.raises(UsageError, match="at least one"):
        medium.open().append(bytearray(), [], NOW)


def test_log_append_time_replaces_the_producers_time(medium: Medium) -> None:
    log = medium.open(LogConfig(message_timestamp_type="LogAppendTime"))
    appended = append(log, batch(values("a", "b"), timestamps=[5, 6], codec=Codec.LZ4), NOW)
    assert appended.log_append_time == NOW
    (view,) = log.read(0, ALL, 2)
    header = read_header(view)
    assert header.is_log_append_time
    assert [record.timestamp for record in read_all(view, verify_crc=True)] == [NOW, NOW]
    assert log.offset_for_timestamp(NOW) == (NOW, 0)


def test_create_time_answers_no_append_time(medium: Medium) -> None:
    assert put(medium.open(), "a").log_append_time == -1


def test_a_compacted_topic_refuses_records_without_key(medium: Medium) -> None:
    log = medium.open(LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(KafkaError, match="no key") as caught:
        append(log, batch([(b"k", b"v"), (None, b"v")]))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 0


def test_a_duplicate_is_answered_with_its_first_offset_and_not_written_again(medium: Medium) -> None:
    log = medium.open()
    put(log, "x")
    first = put(log, "a", "b", producer_id=9, epoch=0, sequence=0)
    again = put(log, "a", "b", producer_id=9, epoch=0, sequence=0)
    assert not first.duplicate
    assert again == first._replace(duplicate=True)
    assert log.log_end_offset == 3


def test_a_duplicate_on_a_log_append_time_topic_keeps_its_first_time(medium: Medium) -> None:
    log = medium.open(LogConfig(message_timestamp_type="LogAppendTime"))
    put(log, "a", producer_id=9, epoch=0, sequence=0, now=NOW)
    assert put(log, "a", producer_id=9, epoch=0, sequence=0, now=NOW + 5).log_append_time == NOW


def test_a_gap_in_a_producers_sequence_is_refused(medium: Medium) -> None:
    log = medium.open()
    put(log, "a", producer_id=9, epoch=0, sequence=0)
    with pytest.raises(KafkaError) as caught:
        put(log, "c", producer_id=9, epoch=0, sequence=2)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 1


def test_listeners_hear_of_the_high_watermark(medium: Medium) -> None:
    log = medium.open()
    heard: list[int] = []

    def listener(log: PartitionLog) -> None:
        heard.append(log.high_watermark)

    log.subscribe(listener)
    put(log, "a", "b")
    log.unsubscribe(listener)
    put(log, "c")
    assert heard == [2]


# Reading


def test_a_read_begins_with_the_batch_that_holds_the_offset(medium: Medium) -> None:
    log = medium.open()
    put(log, "a", "b", "c")
    put(log, "d", "e")
    (view,) = log.read(1, ALL, 5)
    assert offsets(read_all(view)) == [0, 1, 2, 3, 4]
    (view,) = log.read(4, ALL, 5)
    assert offsets(read_all(view)) == [3, 4]


def test_each_offset_of_many_batches_is_found_by_where_it_lies(medium: Medium) -> None:
    """The last batches are known by heart, older ones are looked for."""
    log = medium.open()
    for _ in range(300):
        put(log, "a", "b", "c")
    for offset in range(900):
        (view,) = log.read(offset, 1, 900)
        assert offsets(read_all(view)) == [offset // 3 * 3, offset // 3 * 3 + 1, offset // 3 * 3 + 2]


def test_a_read_never_exceeds_max_bytes_but_for_the_first_batch(medium: Medium) -> None:
    log = medium.open()
    for _ in range(50):
        put(log, "x" * 100)
    size = log.size // 50
    for max_bytes in range(0, 6 * size, size // 3):
        views = log.read(7, max_bytes, 50)
        assert sum(map(len, views)) == max(max_bytes // size, 1) * size


def test_what_is_left_is_cut_too_if_it_is_a_byte_too_long(medium: Medium) -> None:
    log = medium.open()
    fill(log, 2)
    for max_bytes, expected in [(log.size - 1, 1), (log.size, 2), (log.size + 1, 2)]:
        assert len(read_from(log, 0, max_bytes)) == expected


def test_a_read_stops_before_the_limit(medium: Medium) -> None:
    log = medium.open(SMALL)
    fill(log, 12)
    for limit in range(13):
        found = [o for start in range(12) for v in log.read(start, ALL, limit) for o in offsets(read_all(v))]
        assert set(found) == set(range(limit))


def test_a_read_at_the_end_gives_nothing_and_beyond_it_an_error(medium: Medium) -> None:
    log = medium.open()
    put(log, "a")
    assert log.read(1, ALL, 1) == []
    for offset in (-1, 2):
        with pytest.raises(KafkaError, match=f"0 to 1, {offset} was asked for") as caught:
            log.read(offset, ALL, 1)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("interval", [1, 200, 4096])
@pytest.mark.parametrize("max_bytes", [1, 250, ALL])
def test_every_offset_is_found_whatever_the_index_is_like(medium: Medium, interval: int, max_bytes: int) -> None:
    log = medium.open(LogConfig(segment_bytes=2000, index_interval_bytes=interval))
    for number in range(60):
        put(log, *(f"{number}-{i}" for i in range(number % 4 + 1)))
    assert offsets(read_log(log, max_bytes)) == list(range(log.log_end_offset))
    for offset in range(log.log_end_offset):
        assert read_from(log, offset, max_bytes)[0].offset == offset


def test_views_stay_valid_when_their_segment_is_deleted_and_the_log_closed(medium: Medium) -> None:
    log = medium.open(LogConfig(segment_bytes=400_000))
    put(log, "x" * 300_000)
    (view,) = log.read(0, ALL, 1)
    before = bytes(view)
    put(log, "y" * 300_000)
    assert log.delete_records(1) == 1
    log.close()
    assert bytes(view) == before


def test_a_growing_segment_is_read_to_its_new_end(medium: Medium) -> None:
    log = medium.open()
    held = []
    for number in range(5):
        put(log, str(number) * 100_000)
        held += log.read(number, ALL, number + 1)
    assert [read_all(view)[0].value for view in held] == [str(n).encode() * 100_000 for n in range(5)]
    assert len(read_log(log)) == 5


# Rolling


def test_a_segment_rolls_before_it_would_grow_too_large(medium: Medium) -> None:
    log = medium.open(SMALL)
    fill(log, 30)
    sizes = [segment.size for segment in log._segments]
    assert len(sizes) > 5
    assert max(sizes) <= 300
    assert [segment.base_offset for segment in log._segments[1:]] == [s.end_offset for s in log._segments[:-1]]


def test_a_batch_larger_than_a_segment_gets_one_for_itself(medium: Medium) -> None:
    log = medium.open(SMALL)
    put(log, "x" * 1000)
    put(log, "y" * 1000)
    assert [segment.base_offset for segment in log._segments] == [0, 1]
    assert len(read_log(log)) == 2


def test_a_segment_rolls_when_its_first_record_is_old(medium: Medium) -> None:
    log = medium.open(LogConfig(segment_ms=1000))
    put(log, "a", now=NOW)
    put(log, "b", now=NOW + 1000)
    assert len(log._segments) == 1
    put(log, "c", now=NOW + 1001)
    assert len(log._segments) == 2


def test_the_compaction_lag_limit_rolls_too(medium: Medium) -> None:
    compact = LogConfig(cleanup_policy=frozenset({"compact"}), max_compaction_lag_ms=1000)
    log = medium.open(compact)
    put(log, "a", now=NOW)
    put(log, "b", now=NOW + 1001)
    assert len(log._segments) == 2


# Times


def test_a_record_is_found_by_its_timestamp(medium: Medium) -> None:
    log = medium.open(LogConfig(segment_bytes=400, index_interval_bytes=1))
    times = [[10, 20, 15], [30], [25, 40], [40, 50], [5], [60]]
    for batch_times in times:
        append(log, batch(values(*map(str, batch_times)), timestamps=batch_times))
    flat = [(time, offset) for offset, time in enumerate(t for batch_times in times for t in batch_times)]
    assert len(log._segments) > 1
    for wanted in range(65):
        assert log.offset_for_timestamp(wanted) == next((one for one in flat if one[0] >= wanted), None)
    assert log.max_timestamp() == (60, 9)


def test_a_record_before_the_logs_start_is_not_found(medium: Medium) -> None:
    log = medium.open()
    append(log, batch(values("a", "b"), timestamps=[10, 20]))
    log.delete_records(1)
    assert log.offset_for_timestamp(0) == (20, 1)


def test_the_latest_timestamp_is_that_of_the_first_record_that_has_it(medium: Medium) -> None:
    log = medium.open()
    assert log.max_timestamp() is None
    append(log, batch(values("a", "b", "c"), timestamps=[10, 30, 20]))
    append(log, batch(values("d"), timestamps=[30]))
    assert log.max_timestamp() == (30, 1)


# Deleting


def test_old_segments_are_deleted_by_time(medium: Medium) -> None:
    log = medium.open(LogConfig(segment_bytes=300, retention_ms=1000))
    fill(log, 6, NOW)
    fill(log, 6, NOW + 800)
    segments = len(log._segments)
    assert log.enforce_retention(NOW + 1000) == 0
    deleted = log.enforce_retention(NOW + 1001)
    assert 0 < deleted < segments
    assert log.log_start_offset > 0
    assert offsets(read_log(log)) == list(range(log.log_start_offset, 12))


def test_a_log_that_is_wholly_expired_is_emptied_and_keeps_its_end(medium: Medium) -> None:
    log = medium.open(LogConfig(retention_ms=1000))
    fill(log, 6)
    assert log.enforce_retention(NOW + 1001) == 1
    assert (log.log_start_offset, log.log_end_offset, log.size) == (6, 6, 0)
    assert log.enforce_retention(NOW + 9999) == 0
    assert put(log, "next").base_offset == 6


def test_segments_are_deleted_by_size_down_to_the_limit(medium: Medium) -> None:
    log = medium.open(LogConfig(segment_bytes=300, retention_bytes=700, retention_ms=-1))
    fill(log, 30)
    assert log.enforce_retention(NOW) > 0
    oldest = log._segments[0].size
    assert 700 <= log.size < 700 + oldest
    assert log.enforce_retention(NOW) == 0


def test_nothing_expires_without_limits_or_with_compaction_only(medium: Medium) -> None:
    log = medium.open(LogConfig(segment_bytes=300, retention_ms=-1))
    fill(log, 30, now=0)
    assert log.enforce_retention(NOW) == 0
    log.config = LogConfig(segment_bytes=300, retention_ms=1, cleanup_policy=frozenset({"compact"}))
    assert log.enforce_retention(NOW) == 0


def test_batches_without_timestamps_age_from_when_they_were_written(medium: Medium) -> None:
    log = medium.open(LogConfig(retention_ms=1000))
    append(log, batch(values("a"), timestamps=[-1]), NOW)
    assert log.enforce_retention(NOW + 1000) == 0
    assert log.enforce_retention(NOW + 1001) == 1


def test_retention_forgets_idle_producers(medium: Medium) -> None:
    log = medium.open(LogConfig(producer_id_expiration_ms=1000, retention_ms=-1))
    put(log, "a", producer_id=9, epoch=0, sequence=0)
    log.enforce_retention(NOW + 1000)
    assert not put(log, "a", producer_id=9, epoch=0, sequence=0).duplicate


def test_deleted_records_are_gone_to_the_record(medium: Medium) -> None:
    log = medium.open(SMALL)
    fill(log, 12)
    assert log.delete_records(7) == 7
    assert log.log_start_offset == 7
    assert offsets(read_log(log)) == [7, 8, 9, 10, 11]
    assert log._segments[0].end_offset > 7
    with pytest.raises(KafkaError):
        log.read(6, ALL, 12)
    assert log.delete_records(3) == 7
    assert log.delete_records(12) == 12
    assert read_log(log) == []
    assert put(log, "next").base_offset == 12


def test_records_above_the_high_watermark_cannot_be_deleted(medium: Medium) -> None:
    log = medium.open()
    put(log, "a")
    with pytest.raises(KafkaError, match="high watermark 1, 2 was asked for") as caught:
        log.delete_records(2)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_deleted_log_takes_no_more(medium: Medium) -> None:
    log = medium.open()
    put(log, "a")
    heard: list[str | None] = []
    log.subscribe(lambda log: heard.append(log.offline))
    log.delete()
    assert heard == ["t-0 is deleted"]
    with pytest.raises(KafkaError, match="is deleted") as caught:
        put(log, "b")
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    if medium.path is not None:
        assert not medium.path.exists()


def test_headers_on_disk_are_what_was_sent(medium: Medium) -> None:
    log = medium.open()
    sent = batch(values("a"), producer_id=9, epoch=3, sequence=0, codec=Codec.ZSTD)
    append(log, bytearray(sent))
    (view,) = log.read(0, ALL, 1)
    assert bytes(view[16:]) == bytes(sent[16:])  # all but base offset and leader epoch
    assert [h.size for _, h in iter_headers(view)] == [len(sent)]
    assert len(sent) > HEADER_SIZE
