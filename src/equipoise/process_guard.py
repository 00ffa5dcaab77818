"""Child processes that end with this process, even if it is killed outright.

A SIGKILL leaves no time to stop children. A small separate process, the guard, therefore holds one end of a pipe and
knows the children by their ids. When this process ends, however it ends, the system closes the other end of the pipe.
The guard notices, and kills the children that are left. PR_SET_PDEATHSIG would not do: it follows the thread that
started the child, which may end much earlier than the process.

This file is also the guard's program. It runs without the package, so that it starts at once.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from typing import Any, AnyStr

_IS_POSSIBLE = os.name == "posix"
_BEGIN, _END = "+", "-"


class ProcessGuard:
    """The guard of this process, started with the first child. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guard: subprocess.Popen[str] | None = None
        self._owner = 0  # the process that has started the guard: a fork of it starts another

    def watch(self, pid: int) -> None:
        """The child `pid` is not to outlive this process."""
        with self._lock:
            if _IS_POSSIBLE:
                self._tell(_BEGIN, pid)

    def forget(self, pid: int) -> None:
        """The child has ended. Its id may soon be another's."""
        with self._lock:
            if self._guard is not None and self._owner == os.getpid():
                self._tell(_END, pid)

    def _tell(self, what: str, pid: int) -> None:
        if self._guard is None or self._owner != os.getpid():
            self._start()
        assert self._guard is not None
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the guard was killed: then there is none
            self._guard.stdin.write(f"{what}{pid}\n")
            self._guard.stdin.flush()

    def _start(self) -> None:
        """In a session of its own: what a terminal sends to this process must not end the guard."""
        self._owner = os.getpid()
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        atexit.register(_dismiss, self._guard)


GUARD = ProcessGuard()


class GuardedProcess(subprocess.Popen[AnyStr]):
    """A child that ends with this process, however that ends. The guard forgets it when its status is known."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        GUARD.watch(self.pid)

    def poll(self) -> int | None:
        """Its status; None: it runs."""
        return self._noted(super().poll())

    def wait(self, timeout: float | None = None) -> int:
        """Its status, when it has ended."""
        status = super().wait(timeout)
        self._noted(status)
        return status

    def _noted(self, status: int | None) -> int | None:
        if status is not None:
            GUARD.forget(self.pid)
        return status


def _dismiss(guard: subprocess.Popen[str]) -> None:
    """At the end of this process: the guard ends the children that are left, and itself."""
    with contextlib.suppress(BrokenPipeError), guard:
        pass


def main() -> None:
    """The guard: reads ids line by line, until no process is left that could send one."""
    children: set[int] = set()
    for line in sys.stdin:
        (children.add if line[0] == _BEGIN else children.discard)(int(line[1:]))
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
