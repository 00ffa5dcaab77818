"""Spark's part of a streaming query, played in this process: the order of its calls, and its checkpoint.

The real engine is in test_stream.py and its neighbours; here every instant can be chosen.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar

from equipoise.spark.options import SourceOptions
from equipoise.spark.source.batch_planner import BatchPlanner
from equipoise.spark.source.offset_reader import OffsetReader
from equipoise.spark.source.source_offset import INITIAL, SourceOffset

Range = tuple[str, int, int, int]
PATIENCE_S = 120.0


def until(what: str, is_true: Callable[[], object], act: Callable[[], object] = lambda: time.sleep(0.01)) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s in vain: {what}"
        act()


class Engine:
    """`log` and `commits` are Spark's checkpoint; a new Engine with them is the query started again."""

    running: ClassVar[set[Engine]] = set()

    def __init__(self, bootstrap_servers: str, checkpoint: Engine | None = None, /, **options: str) -> None:
        given = {"kafka.bootstrap.servers": bootstrap_servers}
        given |= {} if {"subscribePattern", "assign"} & options.keys() else {"subscribe": "t"}
        given |= {name.replace("__", "."): value for name, value in options.items()}
        self.options = SourceOptions.parse(given, streaming=True)
        self.log: list[str] = [] if checkpoint is None else checkpoint.log
        self.commits: int = 0 if checkpoint is None else checkpoint.commits
        self.read: list[Range] = []  # by batches of this run
        self.reader = OffsetReader(self.options.consumer)
        self.running.add(self)
        self.planner = self.reader.run(self._begin(), "the start")

    async def _begin(self) -> BatchPlanner:
        return BatchPlanner(self.reader, self.options)

    @property
    def start(self) -> SourceOffset:
        return SourceOffset.parse(json.loads(self.log[self.commits - 1])) if self.commits else INITIAL

    def plan(self) -> bool:
        """Up to the write-ahead log: whether there is a batch."""
        assert self.commits == len(self.log), "the last batch is not finished"
        end = self.reader.run(
            self.planner.latest_offset(self.start, self.options.max_offsets_per_trigger), "the next batch"
        )
        if end is not None:
            self.log.append(json.dumps(end.json()))
        return end is not None

    def run(self) -> list[Range]:
        """The batch in the log is read and written to the sink, and into the log of commits."""
        end = SourceOffset.parse(json.loads(self.log[self.commits]))
        ranges = [(*one, *bounds) for one, bounds in end.ranges(self.start).items()]
        self.read += ranges
        self.commits += 1
        return ranges

    def run_again(self) -> list[Range]:
        """As `run`, of a batch that was under way when the query ended: what is still its own, exactly once."""
        end = SourceOffset.parse(json.loads(self.log[self.commits]))
        held = self.reader.run(self.planner.hold_again(end.ranges(self.start)), "what is held")
        self.reader.run(self.planner.claim(end, held), "the claim")
        ranges = [(*one, *bounds) for one, bounds in sorted(held.items())]
        self.read += ranges
        self.commits += 1
        return ranges

    def batch(self) -> list[Range]:
        return self.run() if self.plan() else []

    def stop(self) -> None:
        self.reader.run(self.planner.close(), "the end")
        self._end()

    def kill(self, planning: Future[bool] | None = None) -> None:
        """Without a word to anybody, as SIGKILL would, and with it a plan that is being made in another thread."""
        self.reader.thread.run(_cancel_all())
        while planning is not None and not planning.done():
            self.reader.thread.run(_cancel_all())
        self._end()

    def _end(self) -> None:
        self.reader.close()
        self.running.discard(self)

    def pause(self, seconds: float) -> None:
        """The process stands still, but for the thread of the engine: no heartbeats."""
        self.reader.thread.loop.call_soon_threadsafe(time.sleep, seconds)

    @property
    def group(self) -> Any:
        partitions: Any = self.planner.partitions
        return partitions._group

    @property
    def offset_commits(self) -> Any:
        partitions: Any = self.planner.partitions
        return partitions._commits

    @property
    def owned(self) -> set[int]:
        return {one.partition for one in self.group.owned}

    def records(self) -> list[tuple[int, int]]:
        """Partition and offset of all that was read."""
        return [(partition, at) for _, partition, begin, end in self.read for at in range(begin, end)]


async def _cancel_all() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
