"""One line when the system begins to refuse something, one when it is over; and files that share few descriptors."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from equipoise.log.config import LogConfig
from equipoise.log.partition import Flush, PartitionLog
from equipoise.log.recovery.recovery import recover
from equipoise.log.storage import disk as disk_module
from equipoise.log.storage.disk import Disk, FileStorage, PartitionFiles
from equipoise.log.storage.faults import Faults
from equipoise.wire.errors import ErrorCode, KafkaError
from tests.log.log_helpers import put, read_log, texts


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def full(code: int = errno.ENOSPC) -> OSError:
    return OSError(code, os.strerror(code))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def faults(clock: Clock) -> Faults:
    return Faults(clock)


def test_a_fault_is_said_once_with_path_and_remedy_and_its_end_once(
    faults: Faults, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        faults.report(full(), "/data/t-0", 1000)
    clock.now = 12
    faults.wrote("/data/t-0", 10)  # five seconds without a refusal are enough
    faults.wrote("/data/t-0", 1000)
    began, ended = [record.getMessage() for record in caplog.records]
    assert began.startswith("disk full: /data/t-0: No space left on device. ")
    assert "free space" in began
    assert ended == "disk full: over after 12 s and 100 refusals: /data/t-0 succeeded"
    assert not faults.any


def test_a_small_write_that_still_fits_does_not_end_a_full_disk(
    faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        faults.report(full(), "/data/t-0", 1000)
        faults.wrote("/data/t-1", 10)
    assert len(caplog.records) == 1
    faults.wrote("/data/t-1", 1000)
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EROFS, "file system read-only"),
        (errno.EMFILE, "no file descriptors left"),
        (errno.ENOMEM, "no memory left"),
        (errno.EDQUOT, "disk full"),
        (errno.EIO, "disk error"),
    ],
)
def test_each_kind_has_its_own_line(
    faults: Faults, clock: Clock, caplog: pytest.LogCaptureFixture, code: int, words: str
) -> None:
    faults.report(full(), "/data/a")
    caplog.clear()
    faults.report(full(code), "/data/b")
    assert [words in record.getMessage() for record in caplog.records] == ([] if words == "disk full" else [True])
    clock.now = 6
    faults.wrote("/data/b", 1)
    assert not faults.any


# -- read-only


def test_a_read_only_file_system_refuses_writes_says_so_and_lets_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_on(Disk(), tmp_path / "t-0")
    put(log, "before")
    log.flush()
    for segment in log._segments:  # as after a while without use
        segment.storage.close()
    real = os.open

    def read_only(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", read_only)
        for _ in range(3):
            with pytest.raises(KafkaError) as refused:
                put(log, "refused")
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert texts(read_log(log)) == ["before"]
        assert log.offline is None
    put(log, "after, and longer than what was refused")
    log.flush()
    assert texts(read_log(log)) == ["before", "after, and longer than what was refused"]
    lines = [record.getMessage() for record in caplog.records]
    assert [line.startswith("file system read-only: ") for line in lines] == [True, True]
    assert str(tmp_path / "t-0") in lines[0]
    assert "over after" in lines[1]


# -- files that are open


def open_on(disk: Disk, path: Path, **config: Any) -> PartitionLog:
    files, settings = PartitionFiles(path, disk), LogConfig(**config)
    flush: Flush = "commit" if disk.durable else "never"
    return PartitionLog(path.name, settings, files, recover(files, settings), flush=flush)


def file_of(log: PartitionLog) -> FileStorage:
    """The last one."""
    storage = log._segments[-1].storage
    assert isinstance(storage, FileStorage)
    return storage


def held(log: PartitionLog) -> bool:
    return file_of(log).descriptor is not None


def test_the_least_used_files_are_closed(tmp_path: Path) -> None:
    disk = Disk(3, durable=False)
    logs = [open_on(disk, tmp_path / f"t-{number}") for number in range(3)]
    for log in logs:
        put(log, "a")
    new = open_on(disk, tmp_path / "t-3")
    put(new, "a")  # all have been used: now they are looked at
    open_logs = [log for log in logs if held(log)]
    assert len(open_logs) == 2
    put(open_logs[0], "in use")
    put(open_on(disk, tmp_path / "t-4"), "a")
    assert [held(log) for log in (open_logs[0], open_logs[1], new)] == [True, False, True]
    assert [texts(read_log(log)) for log in logs] == [["a", "in use"] if log is open_logs[0] else ["a"] for log in logs]
    assert len(disk.open_files) == 3


def test_unsynced_files_are_closed_last_and_synced_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(disk_module, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_ino))
    disk = Disk(2)
    logs = [open_on(disk, tmp_path / f"t-{number}") for number in range(3)]
    put(logs[0], "a")
    put(logs[1], "a")
    logs[0].flush()
    synced.clear()
    put(logs[2], "a")
    assert [held(log) for log in logs] == [False, True, True]
    assert synced == []
    put(logs[0], "b")
    assert [held(log) for log in logs] == [True, False, True]
    assert synced == [os.stat(tmp_path / "t-1" / f"{0:020d}.log").st_ino]
    assert logs[1].high_watermark == 0  # that is for the flusher to tell
    logs[1].flush()
    assert logs[1].high_watermark == 1


def test_a_sync_that_fails_before_a_file_is_closed_takes_its_own_log_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(2)
    logs = [open_on(disk, tmp_path / f"t-{number}") for number in range(3)]

    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(disk_module, "fdatasync", fails)
        for log in logs:
            put(log, "a")  # the third finds no room; the others stay open
    failed = [log for log in logs if file_of(log).sync_error]
    assert logs[2] not in failed
    assert failed
    for log in failed:
        assert held(log)
        assert log.begin_sync() is None
        assert "could not be made durable" in (log.offline or "")
    logs[2].flush()
    assert logs[2].high_watermark == 1
