"""Spark applications as processes: started, stopped, killed, and what they have written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from equipoise.process_guard import GuardedProcess
from equipoise.spark.source.source_offset import INITIAL, SourceOffset
from tests.spark.streams import PATIENCE_S, Place, committed_by, until

ROOT = Path(__file__).parents[2]


class Application:
    """One checkpoint, and the process that runs on it, if any."""

    def __init__(self, home: Path, servers: str, **options: str) -> None:
        self.home = home
        self.windows: Counter[Place] = Counter()  # what may come again from others
        self._servers = servers
        self._options = {"kafka.bootstrap.servers": servers, "subscribe": "t"}
        self._options |= {name.replace("__", "."): value for name, value in options.items()}
        self._process: subprocess.Popen[str] | None = None
        self._runs = 0
        self._known: dict[tuple[str, int, int], list[Place]] = {}
        home.mkdir()

    def start(self, **given: Any) -> Application:
        self._runs += 1
        given = {"home": str(self.home), "options": self._options, **given}
        with self._log.open("w") as log:
            self._process = GuardedProcess(
                [sys.executable, "-m", "tests.spark.driver", json.dumps(given)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        return self

    @property
    def _log(self) -> Path:
        return self.home / f"log-{self._runs}"

    @property
    def log(self) -> str:
        return "".join((self.home / f"log-{run}").read_text() for run in range(1, self._runs + 1))

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    # -- its ends

    def stop(self) -> None:
        """As its user would. A batch under way is given up, and comes again from the checkpoint, if ever."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        self._process = None
        if not self._is_known:
            self._open_window()

    @property
    def _is_known(self) -> bool:
        """Whether the last batch is with the group. A user can stop a query between a batch and the source's knowledge
        of it, which comes with the next. Others may have read it again by now, and committed that: only the query's
        own commits count."""
        if self._last is None:
            return True
        last = SourceOffset.parse(self._planned[self._last])
        known = committed_by(self._servers, last.query)
        return all(known.get((one.topic, one.partition), 0) >= end for one, end in last.to.items())

    def kill(self) -> None:
        """All of it at once: Python, the JVM, the source's process and the workers, which have groups of their own."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        os.killpg(self.process.pid, signal.SIGKILL)
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.wait_for_death()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """As a machine that does not get to it: no heartbeat comes."""
        family = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        try:
            yield
        finally:
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def wait_for_death(self) -> None:
        """And open its window: the last batch, finished or not, may be unknown to the group."""
        assert self.process.stdin is not None
        self.process.wait(PATIENCE_S)
        self.process.stdin.close()
        self._process = None
        self._open_window()

    def _open_window(self) -> None:
        last, planned = self._last, self._planned
        if last is None:
            return
        before = SourceOffset.parse(planned[last - 1]) if last else INITIAL
        for one, (begin, end) in SourceOffset.parse(planned[last]).ranges(before).items():
            self.windows.update((one.topic, one.partition, at) for at in range(begin, end))

    @property
    def _last(self) -> int | None:
        return max(self._planned, default=None)

    @property
    def _planned(self) -> dict[int, Any]:
        """The write-ahead log: version, metadata, and a line for the source."""
        files = [one for one in (self.home / "checkpoint" / "offsets").glob("*") if one.name.isdecimal()]
        return {int(one.name): json.loads(one.read_text().splitlines()[2]) for one in files}

    @property
    def put_out_with(self) -> Counter[Place]:
        """What may come again from others as well: by its own word, what was not committed when it was put out."""
        batches = re.findall(r"without this query, .* and not committed: (.*), which others", self.log)
        ranges = [found for batch in batches for found in re.findall(r"(\w+)-(\d+) \[(\d+), (\d+)\)", batch)]
        return Counter(
            (topic, int(partition), at) for topic, partition, start, end in ranges for at in range(int(start), int(end))
        )

    # -- what it has read

    @property
    def places(self) -> Counter[Place]:
        return Counter(place for file in (self.home / "out").glob("*.json") for place in self._places(file))

    def _places(self, file: Path) -> list[Place]:
        """A file appears whole, and is read once."""
        found = file.stat()
        version = file.name, found.st_ino, found.st_mtime_ns
        if version not in self._known:
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            self._known[version] = [(row["topic"], row["partition"], row["offset"]) for row in rows]
        return self._known[version]

    def wait(self, what: str, is_true: Any) -> None:
        until(what, lambda: is_true() or not self.is_running)
        assert is_true(), f"the application has ended before: {what}\n{self.log}"
