"""A broker as a process of its own, to be killed, starved of disk space, and started again on the same port."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from equipoise.process_guard import GuardedProcess
from equipoise.server_process import free_port

RLIM_INFINITY = resource.RLIM_INFINITY


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
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Returns when clients can connect."""
        command = [sys.executable, "-m", "equipoise", "serve", "--data", str(self.data)]
        if "listeners" not in self._settings:
            command += ["--listen", self.address]
        command += self._arguments
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        with self.log.open("a") as log:
            self._process = GuardedProcess(command, stdout=subprocess.PIPE, stderr=log, text=True, **self._options)
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        told, _, secured = ready.rstrip("\n").partition(" (security.protocol=")
        assert told == f"equipoise ready on {self.address}", self.log.read_text()
        assert bool(secured) == ("--tls" in self._arguments or "--users" in self._arguments)
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: no time for a last word."""
        self._end(kill=True)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(kill=False)

    def _end(self, *, kill: bool) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        (process.kill if kill else process.terminate)()
        try:
            return process.wait(120)
        finally:
            assert process.stdout is not None
            process.stdout.close()

    def limit_file_size(self, size: int) -> None:
        """From now on no file of the broker can grow beyond `size` bytes, as on a disk that is full."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, RLIM_INFINITY))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def run_serve(*arguments: str, **options: Any) -> tuple[int, str]:
    """Runs `equipoise serve` that cannot start: its status and stderr."""
    command = [sys.executable, "-m", "equipoise", "serve", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    return ended.returncode, ended.stderr
