"""Look-ups by time, step by step: the log may change between the steps, and headers may promise what is not there."""

from __future__ import annotations

import dataclasses

import pytest

from equipoise.log import timestamp_lookup as lookup_module
from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.log.timestamp_lookup import LookupBudget, TimestampLookup
from equipoise.wire.errors import KafkaError
from equipoise.wire.records.batch import Codec, crc_of, read_header, write_header
from tests.log.log_helpers import NOW, Medium, append, batch, put, values

SMALL = LogConfig(segment_bytes=300, retention_ms=-1)


def promising(timestamp: int, codec: Codec = Codec.NONE, texts: tuple[str, ...] = ("a", "b")) -> bytearray:
    """A batch whose header promises a later record than there is."""
    data = batch(values(*texts), codec=codec)
    write_header(data, 0, read_header(data)._replace(max_timestamp=timestamp))
    write_header(data, 0, read_header(data)._replace(crc=crc_of(data, 0, len(data))))
    return data


@pytest.fixture
def log(medium: Medium) -> PartitionLog:
    """Three batches that promise a record at NOW + 10, and one that has it, over several segments."""
    log = medium.open(SMALL)
    for _ in range(3):
        append(log, promising(NOW + 10))
        put(log, "x", "y")
    put(log, "here", now=NOW + 10)
    put(log, "behind", now=NOW + 11)
    assert len(log._segments) > 2
    return log


FOUND = (NOW + 10, 12)


def test_batches_that_promise_too_much_are_passed_over(log: PartitionLog) -> None:
    assert log.offset_for_timestamp(NOW + 10) == FOUND
    assert log.offset_for_timestamp(NOW) == (NOW, 0)
    assert log.max_timestamp() == (NOW + 11, 13)
    assert log.offset_for_timestamp(NOW + 12) is None


def test_segments_may_be_deleted_between_the_steps(log: PartitionLog) -> None:
    lookup = TimestampLookup(log, NOW + 10)
    assert lookup.advance()
    log.flush()
    log.delete_records(9)
    lookup.search()
    while lookup.advance():
        lookup.search()
    assert lookup.found == FOUND


def test_segments_may_be_compacted_between_the_steps(log: PartitionLog) -> None:
    lookup = TimestampLookup(log, NOW + 10)
    assert lookup.advance()
    log._roll()
    log.flush()
    log.config = dataclasses.replace(
        SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, segment_bytes=10_000
    )
    assert log.compact(NOW) > 0
    lookup.search()
    while lookup.advance():
        lookup.search()
    assert lookup.found == FOUND


def test_a_log_may_be_deleted_between_the_steps(log: PartitionLog) -> None:
    lookup = TimestampLookup(log, NOW + 10)
    assert lookup.advance()
    log.delete()
    lookup.search()
    assert not lookup.advance()
    assert lookup.found is None


def test_after_some_batches_in_vain_the_next_is_believed(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_module, "_MOST_IN_VAIN", 2)
    assert log.offset_for_timestamp(NOW + 10) == (NOW + 10, 8), "the beginning of the third batch that promises it"


def test_the_look_ups_of_a_request_have_one_budget(log: PartitionLog) -> None:
    budget = LookupBudget()
    assert TimestampLookup(log, NOW + 10, budget).run() == FOUND
    before = budget.left
    assert TimestampLookup(log, NOW, budget).run() == (NOW, 0)
    assert before - 1000 < budget.left < before
    budget.left = 0
    assert TimestampLookup(log, NOW, budget).run() == (NOW + 10, 0)
    assert TimestampLookup(log, NOW + 11, budget).run() == (NOW + 11, 13)


def test_a_batch_that_expands_too_far_is_believed(medium: Medium, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_module, "_BATCH_LIMIT", 1000)
    log = medium.open()
    append(log, promising(NOW + 10, Codec.ZSTD, ("x" * 400,)))
    append(log, promising(NOW + 10, Codec.ZSTD, ("x" * 600,)))
    assert log.offset_for_timestamp(NOW + 10) == (NOW + 10, 1)


def test_bytes_that_are_no_records_are_an_error(medium: Medium) -> None:
    log = medium.open()
    data = batch(values("a"))
    data[61:] = b"\xff" * (len(data) - 61)
    write_header(data, 0, read_header(data)._replace(crc=crc_of(data, 0, len(data))))
    append(log, data)
    with pytest.raises(KafkaError):
        log.offset_for_timestamp(NOW)


def test_where_the_log_has_been_cut_a_look_up_begins_behind(medium: Medium) -> None:
    log = medium.open(SMALL)
    append(log, batch(values("a", "b", "c"), timestamps=[NOW + 5, NOW + 6, NOW + 7]))
    log.flush()
    log.delete_records(2)
    assert log.offset_for_timestamp(NOW + 5) == (NOW + 7, 2)
