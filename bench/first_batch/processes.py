"""A process and its descendants while they run: when each began, and the CPU that it took, read from /proc."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_PAUSE_S = 0.04
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_DAEMON = "pyspark.daemon"
_RUNNER = "python_streaming_source_runner"


class Lane(NamedTuple):
    """One process: its name, and its CPU seconds so far at several times. Times are seconds since the beginning."""

    name: str
    samples: list[tuple[float, float]]

    @property
    def cpu(self) -> float:
        return self.samples[-1][1] - self.samples[0][1]


class Processes:
    """Watches in a thread of its own, from `with` on."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._found: dict[int, Lane] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watches-processes", daemon=True)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._look(is_first=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()
        self._look()

    @property
    def lanes(self) -> list[Lane]:
        """The JVM, and the Python processes that did something, in the order of their starts."""
        return [lane for lane in self._found.values() if lane.name and (lane.cpu > 0 or lane.name == "JVM")]

    def _watch(self) -> None:
        while not self._is_over.wait(_PAUSE_S):
            self._look()

    def _look(self, *, is_first: bool = False) -> None:
        for pid, parent in _descendants(self._root):
            try:
                cpu = _cpu_seconds(pid)
                name = "JVM" if pid == self._root else _name(pid, parent)
            except (OSError, ValueError):  # it has ended meanwhile
                continue
            lane = self._found.get(pid)
            if lane is None or lane.name != name:  # new, or a program that has replaced another
                self._found[pid] = Lane(name, [(self._now, cpu if is_first else 0.0)])
            self._found[pid].samples.append((self._now, cpu))

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began


def _descendants(root: int) -> list[tuple[int, int]]:
    """Process ids, each with its parent's."""
    found = [(root, 0)]
    for pid, _ in found:
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                children = Path(f"/proc/{pid}/task/{thread}/children").read_text()
                found += [(int(child), pid) for child in children.split()]
        except OSError:
            continue
    return found


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def _name(pid: int, parent: int) -> str:
    """What the process does, in a word; "" for all but those of PySpark."""
    command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    if any(part.endswith(_RUNNER) for part in command):
        return "driver's source"
    if _DAEMON not in command:
        return ""
    module = next((part for part in command if part.startswith("pyspark.") and part != _DAEMON), "pyspark.worker")
    what = _TITLES.get(module.rpartition(".")[2], module)
    is_fork = Path(f"/proc/{parent}/cmdline").read_text().split("\0") == command
    return what if is_fork else f"{what}: daemon"


_TITLES = {
    "lookup_data_sources": "lookup",
    "create_data_source": "creation",
    "plan_data_source_read": "planning",
    "worker": "reading",
}
