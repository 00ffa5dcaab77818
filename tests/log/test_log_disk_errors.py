"""A disk that is full or fails: what was promised stays true, and nothing more is promised."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.log.storage import disk as disk_module
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import validate
from tests.log.log_helpers import ALL, NOW, Medium, batch, offsets, open_log, put, read_from, read_log, texts, values

SMALL = LogConfig(segment_bytes=300)


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """No file of this process grows beyond `limit`: a write that begins below it comes out short."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def input_output_error(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_half_written_batch_is_cut_away_and_the_log_goes_on(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    put(log, "a", producer_id=9, epoch=0, sequence=0)
    size = log.size
    with file_size_limit(size + 5), pytest.raises(KafkaError, match="File too large") as caught:
        put(log, "b", producer_id=9, epoch=0, sequence=1)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.log_end_offset, log.size, log.offline) == (1, size, None)
    assert (disk.path / f"{0:020d}.log").stat().st_size == size
    again = put(log, "b", producer_id=9, epoch=0, sequence=1)
    assert (again.base_offset, again.duplicate) == (1, False)
    assert texts(read_log(log)) == ["a", "b"]


def test_a_write_that_comes_out_short_is_continued(disk: Medium, monkeypatch: pytest.MonkeyPatch) -> None:
    log = disk.open()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", lambda fd, parts, position: os.pwrite(fd, bytes(parts[0])[:50], position))
        one, two = batch(values("a")), batch(values("b"))
        frame = bytearray(one + b"between" + two)
        at = len(one) + 7
        log.append(frame, [(0, validate(frame, 0, len(frame))), (at, validate(frame, at, len(frame)))], NOW)
    assert texts(read_log(log)) == ["a", "b"]


def test_more_parts_than_one_call_takes_are_written(tmp_path: Path) -> None:
    storage = disk_module.FileStorage(tmp_path / "file")
    storage.append([bytes([number % 256]) * 3 for number in range(2000)])
    assert storage.size == 6000
    assert (tmp_path / "file").read_bytes()[4500:4503] == bytes([1500 % 256]) * 3
    storage.close()


def test_a_first_append_without_room_leaves_an_empty_log(disk: Medium, monkeypatch: pytest.MonkeyPatch) -> None:
    log = disk.open()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", no_space)
        with pytest.raises(KafkaError, match="No space left on device"):
            put(log, "a")
    log.close()
    again = disk.open()
    assert put(again, "a").base_offset == 0


def test_a_segment_that_cannot_be_created_changes_nothing(disk: Medium, monkeypatch: pytest.MonkeyPatch) -> None:
    log = disk.open(SMALL)
    while log._segments[-1].size + 90 < 300:
        put(log, "value-x")
    end = log.log_end_offset
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_space)
        with pytest.raises(KafkaError) as caught:
            put(log, "x" * 100)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_end_offset == end
    assert put(log, "x" * 100).base_offset == end
    assert offsets(read_log(log)) == list(range(end + 1))


def test_a_tail_that_cannot_be_cut_takes_the_log_offline(disk: Medium, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk.path is not None
    log = disk.open()
    put(log, "a")
    heard: list[bool] = []
    log.subscribe(lambda log: heard.append(log.offline is not None))
    with monkeypatch.context() as patch, file_size_limit(log.size + 5):
        patch.setattr(os, "ftruncate", input_output_error)
        with pytest.raises(KafkaError, match="could not be undone") as caught:
            put(log, "b")
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert heard == [True]
    with pytest.raises(KafkaError, match="could not be undone"):
        put(log, "b")
    with pytest.raises(KafkaError):
        log.delete_records(1)
    assert texts(read_log(log)) == ["a"]
    log.close()
    again = open_log(disk.path)
    assert texts(read_log(again)) == ["a"]
    assert put(again, "b").base_offset == 1
    again.close()


def test_a_failed_fsync_takes_the_log_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "t-0", flush="commit")
    put(log, "a")
    log.flush()
    put(log, "b")
    with monkeypatch.context() as patch:
        patch.setattr(disk_module, "fdatasync", input_output_error)
        with pytest.raises(KafkaError, match="could not be made durable"):
            log.flush()
    assert log.high_watermark == 1
    log.flush()  # a second fsync would report success, and lie
    assert log.high_watermark == 1
    with pytest.raises(KafkaError, match="could not be made durable"):
        put(log, "c")
    assert texts(read_log(log)) == ["a"]
    log.close()
    assert not list((tmp_path / "t-0").glob("*.seal"))


def test_retention_works_on_a_full_disk(disk: Medium) -> None:
    log = disk.open(LogConfig(segment_bytes=300, retention_bytes=500, retention_ms=-1))
    for number in range(20):
        put(log, f"value-{number}")
    with file_size_limit(0):
        assert log.enforce_retention(NOW) > 0
    assert log.log_start_offset > 0


def with_a_segment_that_could_not_be_created(disk: Medium, monkeypatch: pytest.MonkeyPatch) -> PartitionLog:
    """Ten records, all durable, and an active segment without a file."""
    log = disk.open(LogConfig(segment_bytes=300, retention_ms=1000))
    for number in range(10):
        put(log, f"value-{number}")
    log.flush()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_space)
        with pytest.raises(KafkaError, match="No space left on device"):
            put(log, "x" * 300)
    assert (log._segments[-1].base_offset, log._segments[-1].size) == (10, 0)
    return log


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_log_goes_on_where_it_was_if_retention_leaves_no_file(
    disk: Medium, monkeypatch: pytest.MonkeyPatch, is_closed: bool
) -> None:
    log = with_a_segment_that_could_not_be_created(disk, monkeypatch)
    assert log.enforce_retention(NOW + 1001) > 0
    assert disk.path is not None
    assert not list(disk.path.glob("*.log"))
    if is_closed:
        log.close()
    again = disk.open(log.config)
    assert (again.log_start_offset, again.log_end_offset) == (10, 10)
    assert put(again, "y").base_offset == 10


def test_retention_leaves_the_last_file_while_the_disk_takes_no_checkpoint(
    disk: Medium, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = with_a_segment_that_could_not_be_created(disk, monkeypatch)
    with file_size_limit(0), pytest.raises(KafkaError, match="checkpoint not written"):
        log.enforce_retention(NOW + 1001)
    assert disk.path is not None
    assert len(list(disk.path.glob("*.log"))) == 1
    assert 0 < disk.open(log.config).log_start_offset < log.log_end_offset == 10
    assert log.enforce_retention(NOW + 1001) == 1
    assert disk.open(log.config).log_end_offset == 10


def test_a_log_start_that_cannot_be_saved_is_not_moved(disk: Medium) -> None:
    log = disk.open(SMALL)
    for number in range(10):
        put(log, f"value-{number}")
    with file_size_limit(0), pytest.raises(KafkaError, match="checkpoint not written") as caught:
        log.delete_records(5)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.log_start_offset, len(read_log(log))) == (0, 10)
    assert log.delete_records(5) == 5


def test_a_seal_that_cannot_be_written_is_no_failure(disk: Medium, caplog: pytest.LogCaptureFixture) -> None:
    log = disk.open(SMALL)
    for number in range(10):
        put(log, f"value-{number}")
    with file_size_limit(0):
        log.close()
    assert any("the next start will take longer" in record.getMessage() for record in caplog.records)
    assert len(read_log(disk.open(SMALL))) == 10


def test_a_file_that_lost_bytes_under_the_log_is_a_storage_error(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    put(log, "x" * 1000)
    put(log, "y" * 100_000)
    os.truncate(disk.path / f"{0:020d}.log", 1100)
    for offset in (0, 1):
        with pytest.raises(KafkaError, match="lost bytes") as caught:
            log.read(offset, ALL, 2)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_compaction_without_room_changes_nothing(disk: Medium, caplog: pytest.LogCaptureFixture) -> None:
    log = disk.open(LogConfig(segment_bytes=300, cleanup_policy=frozenset({"compact"})))
    for _ in range(20):
        put(log, "same")
    disk.settle(log)
    before = read_log(log)
    with file_size_limit(50):
        compaction = log.begin_compaction(NOW)
        assert compaction is not None
        compaction.run()
    assert log.end_compaction(compaction) == 0
    assert read_log(log) == before
    assert disk.path is not None
    assert not list(disk.path.glob("*.cleaned"))
    assert any("compaction stopped" in record.getMessage() for record in caplog.records)
    assert log.compact(NOW) > 0


def test_damaged_lengths_stop_a_read_and_a_compaction(disk: Medium, caplog: pytest.LogCaptureFixture) -> None:
    """Bytes that rot after they were sealed must not lead anyone round in circles."""
    assert disk.path is not None
    config = LogConfig(segment_bytes=300, cleanup_policy=frozenset({"compact"}))
    log = disk.open(config)
    for _ in range(10):
        put(log, "same")
    log.close()
    with open(disk.path / f"{0:020d}.log", "r+b") as file:
        file.seek(8)
        file.write((-12).to_bytes(4, "big", signed=True))
    again = disk.open(config)
    with pytest.raises(KafkaError, match="the data is damaged"):
        again.read(0, ALL, 10)
    assert again.compact(NOW) == 0
    assert any("the data is damaged" in record.getMessage() for record in caplog.records)
    assert offsets(read_from(again, 9)) == [9]
