"""Group commit by the kernel alone: the same promises as with threads, tests/log/test_log_flusher.py."""

from __future__ import annotations

import errno
import os
import platform
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

import pytest

from equipoise.log.partition import PartitionLog
from equipoise.log.storage import disk as disk_module
from equipoise.log.storage import kernel_sync
from equipoise.log.storage.flusher import Flusher
from equipoise.log.storage.kernel_sync import KernelSync, Synced, open_kernel_sync
from tests.log.log_helpers import open_log, put, read_log, texts

_PATIENCE_MS = 60_000


@pytest.fixture(autouse=True)
def none_is_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_sync, "_spare", [])


@pytest.fixture
def kernel() -> Iterator[KernelSync]:
    found = open_kernel_sync()
    if found is None:
        pytest.skip("this system has no io_submit")
    yield found
    found.close()


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[list[PartitionLog]]:
    """Each has its file already: what is new is synced by threads, with its directory."""
    found = [open_log(tmp_path / f"t-{number}", flush="commit") for number in range(5)]
    for log in found:
        put(log, "first")
        log.flush()
    yield found
    for log in found:
        log.close()


@pytest.fixture
def threads_idle() -> Iterator[None]:
    def fails(descriptor: int) -> None:
        raise AssertionError("a thread syncs what the kernel should")

    with pytest.MonkeyPatch.context() as patch:  # over before the logs are closed
        patch.setattr(disk_module, "fdatasync", fails)
        yield


def wait_for(kernel: KernelSync, is_so: Callable[[], bool], then: Callable[[], object]) -> None:
    watch = select.poll()
    watch.register(kernel.descriptor, select.POLLIN)
    while not is_so():
        assert watch.poll(_PATIENCE_MS), "nothing was reported"
        then()


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def no_loop(callback: Callable[[], None]) -> None:
    raise AssertionError("a thread has reported")


def test_files_are_synced_and_told_by_their_keys(kernel: KernelSync, tmp_path: Path) -> None:
    files = [os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT) for number in range(50)]
    for descriptor in files:
        os.write(descriptor, b"some bytes")
    assert kernel.submit([(1000 + number, descriptor) for number, descriptor in enumerate(files)]) == 50
    for descriptor in files:
        os.close(descriptor)  # a segment may be deleted meanwhile
    told: list[Synced] = []
    wait_for(kernel, lambda: len(told) == 50, lambda: told.extend(kernel.done()))
    assert sorted(told) == [Synced(1000 + number, None) for number in range(50)]
    assert (kernel.under_way, list(kernel.done())) == (0, [])


def test_what_the_kernel_does_not_take_is_left_to_the_caller(kernel: KernelSync, tmp_path: Path) -> None:
    reads, writes = os.pipe()
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        assert kernel.submit([(1, file), (2, reads), (3, file)]) == 1  # a pipe cannot be synced
        assert kernel.submit([(2, reads)]) == 0
        assert list(kernel.wait()) == [Synced(1, None)]
        many = kernel.submit([(number, file) for number in range(10_000)])
        assert 0 < many < 10_000
        assert kernel.submit([(1, file)]) == 0  # all places are taken
        assert len(list(kernel.wait())) == many
        assert kernel.submit([(1, file)]) == 1
        assert list(kernel.wait()) == [Synced(1, None)]
    finally:
        for descriptor in (reads, writes, file):
            os.close(descriptor)


def test_the_kernel_moves_the_high_watermark(kernel: KernelSync, logs: list[PartitionLog], threads_idle: None) -> None:
    flusher = Flusher(no_loop, kernel)
    for log in logs:
        put(log, "second")
        flusher.dirty(log)
    put(logs[0], "third")
    flusher.dirty(logs[0])
    assert [log.high_watermark for log in logs] == [1] * 5
    wait_for(kernel, lambda: not any(log.unsynced for log in logs), flusher.collect_synced)
    assert [log.high_watermark for log in logs] == [3, 2, 2, 2, 2]
    assert texts(read_log(logs[0])) == ["first", "second", "third"]


def test_close_waits_for_what_is_under_way(logs: list[PartitionLog], threads_idle: None) -> None:
    if (kernel := open_kernel_sync()) is None:
        pytest.skip("this system has no io_submit")
    flusher = Flusher(no_loop, kernel)
    put(logs[0], "second")
    flusher.dirty(logs[0])
    flusher.close()
    assert logs[0].high_watermark == 2


def test_what_is_closed_serves_the_next_and_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    if (first := open_kernel_sync()) is None:
        pytest.skip("this system has no io_submit")
    others = [open_kernel_sync() for _ in range(2)]
    descriptors = []
    for one in (first, *others):
        assert one is not None
        descriptors.append(one.descriptor)
        one.close()
    assert [is_open(one) for one in descriptors] == [True, True, False]  # two are enough to keep
    assert open_kernel_sync() is others[0]
    monkeypatch.setattr(os, "getpid", lambda: first.process + 1)
    made = open_kernel_sync()
    assert made is not None
    assert (made is first, made.process) == (False, first.process + 1)
    first.close()
    made.close()


def test_new_files_and_what_the_kernel_leaves_are_synced_by_threads(tmp_path: Path) -> None:
    class Refusing:
        """As a kernel whose places are all taken."""

        def __init__(self) -> None:
            self.asked: list[int] = []

        def submit(self, files: list[tuple[int, int]]) -> int:
            self.asked += [key for key, _ in files]
            return 0

        def wait(self) -> Iterable[Synced]:
            return ()

        def close(self) -> None: ...

    refusing, calls = Refusing(), list[Callable[[], None]]()
    flusher = Flusher(calls.append, cast(KernelSync, refusing))
    log = open_log(tmp_path / "t-0", flush="commit")
    put(log, "a")
    flusher.dirty(log)
    flusher.close()  # waits for the threads
    assert (log.high_watermark, refusing.asked) == (1, [])
    flusher = Flusher(calls.append, cast(KernelSync, refusing))
    put(log, "b")
    flusher.dirty(log)
    flusher.close()
    assert (log.high_watermark, refusing.asked) == (2, [1])
    log.close()


def test_a_failed_sync_takes_its_log_offline_and_no_other(logs: list[PartitionLog], threads_idle: None) -> None:
    class Failing:
        """Reports an error of the disk for the first file."""

        def __init__(self) -> None:
            self.keys: list[int] = []

        def submit(self, files: list[tuple[int, int]]) -> int:
            self.keys += [key for key, _ in files]
            return len(files)

        def done(self) -> Iterator[Synced]:
            keys, self.keys = self.keys, []
            for key in keys:
                yield Synced(key, OSError(errno.EIO, os.strerror(errno.EIO)) if key == 1 else None)

    failing = Failing()
    flusher = Flusher(no_loop, cast(KernelSync, failing))
    for log in logs:
        put(log, "second")
        flusher.dirty(log)
    while failing.keys:  # one round for the first, one for the others
        flusher.collect_synced()
    assert [log.high_watermark for log in logs] == [1, 2, 2, 2, 2]
    assert "could not be made durable" in (logs[0].offline or "")
    assert [log.offline for log in logs[1:]] == [None] * 4


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM, errno.EAGAIN])
def test_a_system_that_has_no_such_calls_or_forbids_them_is_no_error(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuses(self: KernelSync, number: int, *arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(KernelSync, "_checked", refuses)
    before = len(os.listdir("/proc/self/fd"))
    assert open_kernel_sync() is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_python_without_ctypes_has_threads() -> None:
    words = "from equipoise.log.storage.kernel_sync import open_kernel_sync; print(open_kernel_sync())"
    without = f"import sys; sys.modules['ctypes'] = None; {words}"
    assert subprocess.check_output([sys.executable, "-c", without], text=True) == "None\n"


def test_an_unknown_kind_of_machine_has_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert open_kernel_sync() is None
