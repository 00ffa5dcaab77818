"""The sink with faults: at a named step, once, its process is killed, or waits until the test lets it go on.

The writer travels to Spark's workers by value. A file in the directory of the option `faults` arms a step: `kill-STEP`
or `wait-STEP`. A step that is reached takes its file away; one that waits leaves `at-STEP` until the test removes it.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from equipoise.client.producer.producer import Producer
from equipoise.spark.sink import committing, sink
from equipoise.spark.source.data_source import EquipoiseSource

TASK_STEPS = ("claimed", "half", "prepared")
DRIVER_STEPS = ("checked", "decided", "first", "finished", "done")
ABORT_STEPS = ("aborting", "aborted")  # after another fault
_PATIENCE_S = 120.0
_FAULTS = "EQUIPOISE_TEST_FAULTS"  # a process serves one job after the other


class FaultySource(EquipoiseSource):
    """As `format("equipoise")`, under another name."""

    @classmethod
    def name(cls) -> str:
        return "equipoise-faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = dict(self.options)
        return FaultyWriter(sink._planned(schema, options), options.pop("queryname"))


class FaultyWriter(sink.StreamWriter):
    def __init__(self, options: Any, faults: str) -> None:
        super().__init__(options)
        self._faults = faults

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        os.environ[_FAULTS] = self._faults
        _after(Producer, "init_transactions", lambda: reach("claimed"))
        _after(Producer, "add", lambda: reach("half"))
        _after(Producer, "prepare_transaction", lambda: reach("prepared"))
        return super().write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        os.environ[_FAULTS] = self._faults
        _after(committing, "check_prepared", lambda: reach("checked"))
        _after(committing, "decide", lambda: reach("decided"))
        _after_each_end(lambda: reach("first"))
        _after(committing, "finish", lambda: reach("finished"))
        super().commit(messages, batchId)
        reach("done")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        os.environ[_FAULTS] = self._faults
        reach("aborting")
        super().abort(messages, batchId)
        reach("aborted")


def _after(owner: Any, name: str, then: Callable[[], None]) -> None:
    """Once for a process, which serves several tasks."""
    work = getattr(owner, name)
    if hasattr(work, "__wrapped__"):
        return

    @functools.wraps(work)
    def wrapped(*given: Any, **more: Any) -> Any:
        result = work(*given, **more)
        then()
        return result

    setattr(owner, name, wrapped)


def _after_each_end(then: Callable[[], None]) -> None:
    work = vars(committing)["end"]
    if hasattr(work, "__wrapped__"):
        return

    @functools.wraps(work)
    async def wrapped(*given: Any, **more: Any) -> Any:
        result = await work(*given, **more)
        then()
        return result

    vars(committing)["end"] = wrapped


def reach(step: str) -> None:
    here = Path(os.environ[_FAULTS])
    if _taken(here / f"kill-{step}"):
        os.kill(os.getpid(), signal.SIGKILL)
    if _taken(here / f"wait-{step}"):
        (here / f"at-{step}").touch()
        deadline = time.monotonic() + _PATIENCE_S
        while (here / f"at-{step}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)


def _taken(path: Path) -> bool:
    """By one process only."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
