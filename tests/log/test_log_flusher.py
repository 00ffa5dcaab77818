"""Group commit: the high watermark moves when data is durable, and never because of wishful thinking."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest

from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.log.storage import disk as disk_module
from equipoise.log.storage.faults import ShortageError
from equipoise.log.storage.flusher import Flusher
from equipoise.wire.errors import KafkaError, UsageError
from tests.log.log_helpers import ALL, NOW, Medium, open_log, put, read_log, texts


class Loop:
    """Stands in for an event loop: what other threads hand over runs when the test lets it."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run_one(self) -> None:
        self.calls.get(timeout=60)()

    def run_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.run_one()


class Disk:
    """Stands in for fdatasync: counts, waits where it is told to, fails where it is told to."""

    def __init__(self) -> None:
        self.synced: list[int] = []
        self.entered = threading.Semaphore(0)
        self.gate: threading.Semaphore | None = None
        self.failing = False
        self.failure: BaseException | None = None
        self.slow = -1  # the inode of a file that takes until `let_go`
        self.let_go = threading.Event()

    def fdatasync(self, descriptor: int) -> None:
        self.entered.release()
        if self.gate is not None:
            assert self.gate.acquire(timeout=60)
        if self.failure is not None:
            raise self.failure
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if os.fstat(descriptor).st_ino == self.slow:
            assert self.let_go.wait(60)
        self.synced.append(os.fstat(descriptor).st_ino)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def platter(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(disk_module, "fdatasync", disk.fdatasync)
    return disk


@pytest.fixture
def flusher(loop: Loop) -> Iterator[Flusher]:
    flusher = Flusher(loop.calls.put)
    yield flusher
    flusher.close()


@pytest.fixture
def log(tmp_path: Path, platter: Disk) -> Iterator[PartitionLog]:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=300), flush="commit")
    yield log
    platter.gate = None
    log.close()


def test_records_are_seen_when_they_are_durable(log: PartitionLog, flusher: Flusher, loop: Loop) -> None:
    heard: list[int] = []
    log.subscribe(lambda log: heard.append(log.high_watermark))
    put(log, "a", "b")
    assert (log.high_watermark, log.log_end_offset, log.unsynced) == (0, 2, True)
    assert log.read(0, ALL, log.high_watermark) == []
    flusher.dirty(log)
    loop.run_one()
    assert (heard, log.unsynced) == ([2], False)
    assert texts(read_log(log)) == ["a", "b"]


def test_appends_during_a_round_wait_for_the_next_and_share_it(
    log: PartitionLog, flusher: Flusher, loop: Loop, platter: Disk
) -> None:
    platter.gate = threading.Semaphore(0)
    put(log, "a")
    flusher.dirty(log)
    assert platter.entered.acquire(timeout=60)
    for text in "bcd":
        put(log, text * 10)
        flusher.dirty(log)
    platter.gate.release()
    loop.run_one()
    assert log.high_watermark == 1  # what was written before the sync began
    platter.gate.release(5)
    loop.run_one()
    assert log.high_watermark == 4


def test_one_round_serves_many_logs(tmp_path: Path, flusher: Flusher, loop: Loop, platter: Disk) -> None:
    logs = [open_log(tmp_path / f"t-{number}", flush="commit") for number in range(5)]
    platter.gate = threading.Semaphore(0)
    for log in logs:
        put(log, "a")
        flusher.dirty(log)
    platter.gate.release()
    loop.run_one()
    assert [log.high_watermark for log in logs] == [1, 0, 0, 0, 0]
    platter.gate.release(4)
    loop.run_until(lambda: all(log.high_watermark == 1 for log in logs))
    assert len(platter.synced) == len(set(platter.synced)) == 5
    platter.gate = None
    for log in logs:
        log.close()


def test_a_slow_file_holds_up_no_other(tmp_path: Path, flusher: Flusher, loop: Loop, platter: Disk) -> None:
    logs = [open_log(tmp_path / f"t-{number}", flush="commit") for number in range(20)]
    for log in logs:  # the first is a round of its own
        put(log, "a")
        flusher.dirty(log)
    platter.slow = os.stat(tmp_path / "t-7" / f"{0:020d}.log").st_ino
    loop.run_until(lambda: sum(log.high_watermark for log in logs) == 19)
    assert logs[7].high_watermark == 0
    waits: list[int] = []
    assert flusher.after_round(lambda: waits.append(logs[7].high_watermark))
    platter.let_go.set()
    loop.run_until(lambda: bool(waits))
    assert waits == [1]
    for log in logs:
        log.close()


def test_rolled_segments_are_synced_and_then_sealed(
    log: PartitionLog, flusher: Flusher, loop: Loop, platter: Disk, tmp_path: Path
) -> None:
    for number in range(10):
        put(log, f"value-{number}")
    files = sorted((tmp_path / "t-0").glob("*.log"))
    assert len(files) > 2
    assert not list((tmp_path / "t-0").glob("*.seal"))
    flusher.dirty(log)
    loop.run_one()
    assert sorted(platter.synced) == sorted(file.stat().st_ino for file in files)
    assert len(list((tmp_path / "t-0").glob("*.seal"))) == len(files) - 1
    assert [segment.sealed for segment in log._segments] == [True] * (len(files) - 1) + [False]


def test_the_directories_of_a_new_file_are_synced(
    log: PartitionLog, flusher: Flusher, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(disk_module, "sync_directory", synced.append)
    for _ in range(2):
        put(log, "a")
        flusher.dirty(log)
        loop.run_one()
    assert sorted(synced) == [tmp_path, tmp_path / "t-0"]


def test_what_is_not_durable_is_neither_deleted_nor_compacted(log: PartitionLog, flusher: Flusher, loop: Loop) -> None:
    log.config = LogConfig(segment_bytes=300, retention_ms=1000, cleanup_policy=frozenset({"compact", "delete"}))
    for _ in range(10):
        put(log, "same")
    assert len(log._segments) > 2
    assert log.enforce_retention(NOW + 2000) == 0
    assert log.begin_compaction(NOW) is None
    flusher.dirty(log)
    loop.run_one()
    assert log.begin_compaction(NOW) is not None
    assert log.enforce_retention(NOW + 2000) > 0


def test_rolled_segments_are_not_compacted_before_they_are_sealed(disk: Medium) -> None:
    """The seal of the old bytes would come after the new bytes."""
    log = disk.open(LogConfig(segment_bytes=300, cleanup_policy=frozenset({"compact"})))
    for _ in range(10):
        put(log, "same")
    assert log.begin_compaction(NOW) is None
    log.flush()
    assert log.begin_compaction(NOW) is not None


def test_after_a_failed_sync_the_waiters_are_told_and_nothing_is_promised(
    log: PartitionLog, flusher: Flusher, loop: Loop, platter: Disk
) -> None:
    put(log, "a")
    flusher.dirty(log)
    loop.run_one()
    heard: list[str | None] = []
    log.subscribe(lambda log: heard.append(log.offline))
    platter.failing = True
    put(log, "b")
    flusher.dirty(log)
    loop.run_one()
    assert len(heard) == 1
    assert heard[0] is not None
    assert "could not be made durable" in heard[0]
    platter.failing = False
    flusher.dirty(log)
    assert log.high_watermark == 1
    with pytest.raises(KafkaError, match="could not be made durable"):
        put(log, "c")
    assert texts(read_log(log)) == ["a"]


def test_one_failing_disk_does_not_stop_the_others(
    log: PartitionLog, flusher: Flusher, loop: Loop, platter: Disk, tmp_path: Path
) -> None:
    other = open_log(tmp_path / "u-0", flush="commit")
    platter.failing = True
    put(log, "a")
    flusher.dirty(log)
    put(other, "a")
    loop.run_one()
    platter.failing = False
    flusher.dirty(other)
    loop.run_one()
    assert (log.offline is None, other.offline is None, other.high_watermark) == (False, True, 1)
    other.close()


def test_a_segment_deleted_during_its_sync_does_no_harm(
    log: PartitionLog, flusher: Flusher, loop: Loop, platter: Disk, tmp_path: Path
) -> None:
    platter.gate = threading.Semaphore(0)
    put(log, "a")
    flusher.dirty(log)
    assert platter.entered.acquire(timeout=60)
    log.delete()
    platter.gate.release(5)
    loop.run_one()
    assert len(platter.synced) == 1
    assert not (tmp_path / "t-0").exists()


def test_closing_waits_for_the_round_under_way(tmp_path: Path, loop: Loop) -> None:
    log = open_log(tmp_path / "t-0", flush="commit")
    flusher = Flusher(loop.calls.put)
    put(log, "a")
    flusher.dirty(log)
    flusher.close()
    assert log.high_watermark == 1
    put(log, "b")
    flusher.dirty(log)
    log.close()
    again = open_log(tmp_path / "t-0", flush="commit")
    assert again.high_watermark == 2
    again.close()


def test_a_call_that_comes_after_closing_finds_nothing_to_do(log: PartitionLog, loop: Loop) -> None:
    flusher = Flusher(loop.calls.put)
    put(log, "a")
    flusher.dirty(log)
    late = loop.calls.get(timeout=60)
    flusher.close()
    assert log.high_watermark == 1
    late()
    assert log.high_watermark == 1


def test_closing_an_idle_flusher_is_nothing(loop: Loop) -> None:
    Flusher(loop.calls.put).close()


def test_without_commit_only_rolled_segments_are_for_the_flusher(disk: Medium) -> None:
    log = disk.open(LogConfig(segment_bytes=300))
    put(log, "a")
    assert (log.high_watermark, log.unsynced) == (1, False)
    put(log, "x" * 300)
    assert (log.high_watermark, log.unsynced) == (2, True)
    log.flush()
    assert not log.unsynced
    assert [segment.sealed for segment in log._segments] == [True, False]


def test_a_log_in_memory_needs_no_flusher() -> None:
    log = Medium(None).open(LogConfig(segment_bytes=100))
    for _ in range(3):
        put(log, "a")
    assert (log.high_watermark, log.unsynced, log.begin_sync()) == (3, False, None)


def test_who_waits_for_the_end_of_a_round_is_called_before_the_next_begins(
    log: PartitionLog, flusher: Flusher, loop: Loop, platter: Disk
) -> None:
    def append() -> None:
        put(log, "b", "c")
        flusher.dirty(log)

    assert not flusher.after_round(append)  # none is under way: nothing to wait for
    assert log.log_end_offset == 0
    platter.gate = threading.Semaphore(0)
    put(log, "a")
    flusher.dirty(log)
    assert flusher.after_round(append)
    platter.gate.release()
    loop.run_one()
    assert (log.high_watermark, log.log_end_offset) == (1, 3)
    platter.gate.release()
    loop.run_one()
    assert log.high_watermark == 3


def test_who_comes_at_the_end_of_a_round_does_not_wait_for_a_next_one_that_never_begins(
    log: PartitionLog, flusher: Flusher, loop: Loop, platter: Disk
) -> None:
    called: list[str] = []

    def come_again() -> None:
        called.append("first")
        assert flusher.after_round(lambda: called.append("second"))

    platter.gate = threading.Semaphore(0)
    put(log, "a")
    flusher.dirty(log)
    assert flusher.after_round(come_again)
    platter.gate.release()
    loop.run_one()
    assert called == ["first", "second"]


# -- threads and descriptors that cannot be had


def test_a_sync_that_finds_no_descriptor_waits_for_one(
    loop: Loop, flusher: Flusher, log: PartitionLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The directory of a new segment has to be opened to be synced. The records stay unread until that is done."""
    refused = threading.Semaphore(0)
    short = threading.Event()
    short.set()

    def open_file(path: Path, flags: int) -> int:
        if short.is_set():
            refused.release()
            raise ShortageError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return os.open(path, flags)

    put(log, "waits")
    monkeypatch.setattr(disk_module, "open_file", open_file)
    flusher.dirty(log)
    for _ in range(3):
        assert refused.acquire(timeout=60)
    assert (log.high_watermark, log.offline) == (0, None)
    short.clear()
    loop.run_until(lambda: log.high_watermark == 1)
    assert log.offline is None
    assert [record.getMessage() for record in caplog.records if "no file descriptors" in record.getMessage()][1:] == []


@pytest.mark.parametrize("failure", [RuntimeError("broken"), MemoryError(), SystemExit(1), KeyError("seal")])
def test_whatever_a_thread_meets_is_an_answer_and_the_threads_live_on(
    loop: Loop, flusher: Flusher, log: PartitionLog, tmp_path: Path, platter: Disk, failure: BaseException
) -> None:
    other = open_log(tmp_path / "t-1", LogConfig(), flush="commit")
    told: list[str | None] = []
    log.subscribe(lambda log: told.append(log.offline))
    put(log, "never durable")
    platter.failure = failure
    flusher.dirty(log)
    loop.run_until(lambda: log.offline is not None)
    assert told == [log.offline]
    assert "could not be made durable" in (log.offline or "")
    platter.failure = None
    for number in range(10):  # more than there are threads
        put(other, "durable")
        flusher.dirty(other)
        loop.run_until(partial(_reaches, other, number + 1))
    other.close()


def test_without_a_thread_the_loop_syncs(
    loop: Loop, flusher: Flusher, log: PartitionLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threading.Thread, "start", cannot_start)
    for number in range(3):
        put(log, "value")
        flusher.dirty(log)
        loop.run_until(partial(_reaches, log, number + 1))
    assert len([record for record in caplog.records if "could be started" in record.getMessage()]) == 1


def test_a_broker_that_cannot_start_a_thread_says_so_at_its_start(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", cannot_start)
    with pytest.raises(UsageError, match="ulimit -u"):
        Flusher(loop.calls.put).start()


def cannot_start(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_an_error_in_what_one_log_tells_leaves_no_other_without_an_answer(
    loop: Loop, flusher: Flusher, log: PartitionLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = open_log(tmp_path / "t-1", LogConfig(), flush="commit")

    def fail(log: PartitionLog) -> None:
        raise RuntimeError("a listener")

    log.subscribe(fail)
    for one in (log, other):
        put(one, "value")
        flusher.dirty(one)
    loop.run_until(lambda: other.high_watermark == 1)
    assert "a listener" in caplog.text
    log.unsubscribe(fail)
    other.close()


def _reaches(log: PartitionLog, offset: int) -> bool:
    return log.high_watermark == offset
