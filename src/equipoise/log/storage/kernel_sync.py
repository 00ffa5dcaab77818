"""fdatasync of many files by one call, on Linux: the kernel syncs them side by side, and an event descriptor tells
when one is done.

A thread that waits for a disk has to win the interpreter from the loop twice for each file. Here nobody waits: the loop
hands files over, and is told. Linux calls this asynchronous input and output (io_submit(2)); it has fdatasync since
4.18. The C library has no function for it, so the calls go by their numbers.

Where it cannot be had, `open_kernel_sync` returns None, and threads sync (`flusher.py`).
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

try:
    import ctypes
except ImportError:  # a Python that was built without libffi
    _has_calls = False
else:
    _has_calls = hasattr(os, "eventfd") and ctypes.sizeof(ctypes.c_void_p) == 8

_MOST = 256  # files under way; others wait for a thread
_FDATASYNC = 3  # IOCB_CMD_FDSYNC
_REPORT = 1  # IOCB_FLAG_RESFD
# struct iocb of linux/aio_abi.h: data, key and flags, command, priority, descriptor, buffer, length, offset, reserved,
# flags, event descriptor. The two integers behind `data` change places with the byte order; both are 0.
_REQUEST = Struct("=QIIHhIQQqQII")
_EVENT = Struct("=QQqq")  # struct io_event: data, request, result, second result
_WAIT_FOR_ONE = 1
_SPARES = 2  # kept for the next broker of this process: to give one back takes the kernel 30 ms


class _Calls(NamedTuple):
    """The numbers of system calls on one kind of machine."""

    setup: int
    destroy: int
    get_events: int
    submit: int


_CALLS = {"x86_64": _Calls(206, 207, 208, 209), "aarch64": _Calls(0, 1, 4, 2)}


class Synced(NamedTuple):
    """A file is synced, or its sync has failed."""

    key: int
    error: OSError | None


def open_kernel_sync() -> KernelSync | None:
    """None: this system has no such calls, forbids them (as a container may), or has lent all that it has."""
    while _spare:
        if (found := _spare.pop()).process == os.getpid():  # a child of a fork would hear what is done for its parent
            return found
    calls = _CALLS.get(platform.machine())
    if not sys.platform.startswith("linux") or calls is None or not _has_calls:
        return None
    try:
        return KernelSync(calls)
    except OSError:
        return None


class KernelSync:
    """Syncs files by descriptor. All of it runs on one thread."""

    def __init__(self, calls: _Calls) -> None:
        self.process = os.getpid()
        self._calls = calls
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._context = ctypes.c_ulong(0)
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Readable when something is done."""
        try:
            self._checked(calls.setup, _MOST, ctypes.byref(self._context))
        except OSError:
            os.close(self.descriptor)
            raise
        self.under_way = 0
        self._requests = (ctypes.c_char * (_REQUEST.size * _MOST))()
        first = ctypes.addressof(self._requests)
        self._places = (ctypes.c_void_p * _MOST)(*(first + _REQUEST.size * number for number in range(_MOST)))
        self._events = (ctypes.c_char * (_EVENT.size * _MOST))()

    def _checked(self, number: int, *arguments: object) -> int:
        result: int = self._call(ctypes.c_long(number), *arguments)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    def submit(self, files: Sequence[tuple[int, int]]) -> int:
        """Begins to sync files, each a key and a descriptor. Returns how many of the first it has taken: what the
        kernel does not take now, or at all, is left to the caller."""
        files = files[: _MOST - self.under_way]
        for number, (key, descriptor) in enumerate(files):
            row = (key, 0, 0, _FDATASYNC, 0, descriptor, 0, 0, 0, 0, _REPORT, self.descriptor)
            _REQUEST.pack_into(self._requests, number * _REQUEST.size, *row)
        try:
            taken = self._checked(self._calls.submit, self._context, ctypes.c_long(len(files)), self._places)
        except OSError:
            return 0
        self.under_way += taken
        return taken

    def done(self) -> Iterator[Synced]:
        """What is done by now."""
        try:
            os.eventfd_read(self.descriptor)
        except BlockingIOError:
            return
        yield from self._collect(at_least=0)

    def wait(self) -> Iterator[Synced]:
        """Waits for all that is under way."""
        while self.under_way:
            yield from self._collect(_WAIT_FOR_ONE)
        yield from self.done()  # nothing more: the descriptor is not readable any more

    def _collect(self, at_least: int) -> Iterator[Synced]:
        if not self.under_way:
            return
        size = ctypes.c_long(_MOST)
        try:
            count = self._checked(
                self._calls.get_events, self._context, ctypes.c_long(at_least), size, self._events, None
            )
        except InterruptedError:
            return
        self.under_way -= count
        found = _EVENT.iter_unpack(self._events.raw[: count * _EVENT.size])
        for key, _, result, _ in found:
            yield Synced(key, OSError(-result, os.strerror(-result)) if result < 0 else None)

    def close(self) -> None:
        """Nothing may be under way."""
        if len(_spare) < _SPARES:
            _spare.append(self)
            return
        self._call(ctypes.c_long(self._calls.destroy), self._context)
        os.close(self.descriptor)


_spare: list[KernelSync] = []
