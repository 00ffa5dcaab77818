"""The brokers that are measured, each a process: started, timed until ready, asked for CPU and memory, stopped."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from equipoise.wire.errors import EquipoiseError

PARTITIONS = 4  # what the mock cluster gives a topic, so ours gets the same
_SCHEDULER_CLOCK = 2  # Linux: the process clock that counts what the scheduler gave, in nanoseconds


class Target(NamedTuple):
    """Something to measure. `{data}` in its command becomes an empty directory."""

    key: str
    title: str
    command: tuple[str, ...]
    keeps_all: bool  # the mock cluster keeps 5 MB a partition, and cannot delete topics

    @classmethod
    def ours(cls, key: str, *storage: str) -> Target:
        command = ("equipoise", "serve", "--listen", "127.0.0.1:0", "--set", f"num.partitions={PARTITIONS}", *storage)
        return cls(key, " ".join((*command[:2], storage[0])), command, True)


DISK = Target.ours("equipoise_data", "--data", "{data}")
MEMORY = Target.ours("equipoise_memory", "--memory")
MOCK = Target("mock_cluster", "librdkafka mock", ("equipoise.proving.mock",), False)
TARGETS = (DISK, MEMORY, MOCK)


class Server:
    """A target that runs, and is ready, inside a `with`."""

    def __init__(self, target: Target, data: Path) -> None:
        self.target = target
        arguments = [argument.format(data=data) for argument in target.command]
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.bootstrap_servers = self._await_ready()
        self.seconds_to_ready = time.perf_counter() - began

    def cpu_seconds(self) -> float:
        """CPU of all threads so far. /proc's own figure comes in steps of 10 ms, too coarse here."""
        return time.clock_gettime(~self._process.pid << 3 | _SCHEDULER_CLOCK)

    def resident_mb(self) -> float:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise EquipoiseError(f"{self.target.title} has ended in the middle of the measurement")

    def stop(self) -> None:
        with self._process as process:
            process.terminate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _await_ready(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.stop()
            raise EquipoiseError(f"{self.target.title} ended before it was ready; its own words are above")
        return line.split()[-1]
