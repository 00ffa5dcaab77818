"""A broker as a process of its own, to be killed, starved of disk space, and started again on the same port."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from equipoise.process_guard import GuardedProcess
from equipoise.server_process import free_port

RLIM_INFINITY = resource.RLIM_INFINITY


class Running(ABC):
    """A broker's process."""

    pid: int

    @abstractmethod
    def ready_line(self) -> str:
        """The first line that it says."""

    @abstractmethod
    def end(self, signal_number: int) -> int:
        """Its status, once it has ended by this signal."""


class Started(Running):
    """A process that was started for it."""

    def __init__(self, arguments: Sequence[str], log: Path, **options: Any) -> None:
        command = [sys.executable, "-m", "equipoise", *arguments]
        with log.open("a") as stderr:
            self._process: subprocess.Popen[str] = GuardedProcess(
                command, stdout=subprocess.PIPE, stderr=stderr, text=True, **options
            )
        self.pid = self._process.pid

    def ready_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def end(self, signal_number: int) -> int:
        self._process.send_signal(signal_number)
        try:
            return self._process.wait(120)
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()


class ServedBroker:
    """`equipoise serve` on a data directory. What it says on stderr is kept in `log`, a file. Where
    `settings` has listeners, `address` is the first of them."""

    def __init__(
        self,
        data: Path,
        log: Path,
        settings: Mapping[str, object] | None = None,
        arguments: Sequence[str] = (),
        address: str | None = None,
        **options: Any,
    ) -> None:
        self.data = data
        self.log = log
        self.address = address or f"127.0.0.1:{free_port()}"
        self._settings = settings or {}
        self._arguments = arguments
        self._options = options
        self._process: Running | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self.address

    def start(self) -> Self:
        """Returns when clients can connect."""
        arguments = ["serve", "--data", str(self.data)]
        if "listeners" not in self._settings:
            arguments += ["--listen", self.address]
        arguments += self._arguments
        for name, value in self._settings.items():
            arguments += ["--set", f"{name}={value}"]
        self._process = self.launch(arguments)
        told, _, secured = self._process.ready_line().rstrip("\n").partition(" (security.protocol=")
        assert told == f"equipoise ready on {self.address}", self.log.read_text()
        assert bool(secured) == ("--tls" in self._arguments or "--users" in self._arguments)
        return self

    def launch(self, arguments: list[str]) -> Running:
        return Started(arguments, self.log, **self._options)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: no time for a last word."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, signal_number: int) -> int:
        process, self._process = self._process, None
        return 0 if process is None else process.end(signal_number)

    def close(self) -> None:
        """When the test is over."""
        self.kill()

    def limit_file_size(self, size: int) -> None:
        """From now on no file of the broker can grow beyond `size` bytes, as on a disk that is full."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, RLIM_INFINITY))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def run_serve(*arguments: str, **options: Any) -> tuple[int, str]:
    """Runs `equipoise serve` that cannot start: its status and stderr."""
    command = [sys.executable, "-m", "equipoise", "serve", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    return ended.returncode, ended.stderr
