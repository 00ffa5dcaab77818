"""Runs a pipeline: one Spark session, and in it a query for each member, until they end or are stopped."""

from __future__ import annotations

import dataclasses
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.text import Text

from equipoise.settings import convert
from equipoise.spark.pipeline.checkpoint_claim import CheckpointClaim
from equipoise.spark.pipeline.checks import blame, check, checkpoint_of, load, path_of, paths_of, source_of
from equipoise.spark.pipeline.config import OURS, TOPIC, Pipeline
from equipoise.spark.pipeline.errors import PipelineError, Stopped, explain, explained
from equipoise.spark.pipeline.progress import MemberProgress, ProgressTable
from equipoise.spark.pipeline.py_files import with_py_files
from equipoise.spark.pipeline.spark_session import SparkApplication, is_one_machine, spark_session, wait_for_sources
from equipoise.wire.text import printable

_LOOK_S = 0.5
_LEAVE_S = 20.0
_SAME_END_S = 0.5
_LATE, _CHANCES = "worker failed to connect back", 5
_SHOWN = 20  # rows of a batch that the console sink prints
_PARTIAL = (
    "the pipeline keeps state (it aggregates, joins or removes duplicates), but partitions move between members and "
    'their state does not: each member\'s results are of what it has read itself; group.mode = "commit" reads all'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a pipeline, as the command line asks for it."""

    pipeline: Pipeline
    members: int = 1
    until_idle: bool = False  # ends when all is read that was there at its begin
    master: str = "local[*]"
    log: Path | None = None  # for what Spark has to say


def run(plan: Run, console: Console) -> None:
    """Runs until Ctrl-C, SIGTERM or the end of the records. PipelineError says in one sentence why it failed."""
    if plan.pipeline.function is not None:
        load(plan.pipeline.function)
    stopping = threading.Event()
    with _signals(stopping), ExitStack() as stack:
        check(plan.pipeline, plan.members)
        if plan.pipeline.checkpoint is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="equipoise-checkpoint-"))
            plan = dataclasses.replace(plan, pipeline=dataclasses.replace(plan.pipeline, checkpoint=directory))
        with suppress(Stopped), _until_told(stopping):
            _Running(plan, console, stopping).run()


class _Running:
    def __init__(self, plan: Run, console: Console, stopping: threading.Event) -> None:
        self.plan = plan
        self.pipeline = plan.pipeline
        self.console = console
        self.queries: list[Any] = []
        self.figures = [MemberProgress(f"{plan.pipeline.name}-{number}") for number in range(plan.members)]
        self.stopping = stopping
        self.chances = _CHANCES

    def tell(self, line: str) -> None:
        self.console.print(Text(printable(line)), soft_wrap=True)

    def run(self) -> None:
        name, master = self.pipeline.name, self.plan.master
        with self.console.status(Text(f"starting Spark for {name} on {master} ...")) as status:
            application = SparkApplication(name=name, master=master, settings=self.pipeline.spark, log=self.plan.log)
            with spark_session(application, self.tell, self.stopping) as spark, self.modules(spark):
                try:
                    for number in range(self.plan.members):
                        if not self.stopping.is_set():
                            self.queries.append(self.start(spark, number))
                    status.stop()
                    self.watch(spark)
                finally:
                    self.stop(spark)

    def modules(self, spark: Any) -> AbstractContextManager[None]:
        """The modules to send to executors. On one machine, all processes find the same modules."""
        function = None if is_one_machine(self.plan.master) else self.pipeline.function
        return nullcontext() if function is None else with_py_files(spark, function)

    # -- queries

    def start(self, spark: Any, number: int) -> Any:
        with explained():
            frame = self.transformed(spark, self.read(spark, number))
            CheckpointClaim(self.pipeline, paths_of(self.pipeline, number), spark).claim()
            return self.write(frame, number)

    def read(self, spark: Any, number: int) -> Any:
        options = source_of(self.pipeline, number, self.plan.members)
        return spark.readStream.format(self.pipeline.source_format).options(**options).load()

    def transformed(self, spark: Any, source: Any) -> Any:
        if self.pipeline.function is not None:
            return self.called(load(self.pipeline.function), source)
        if self.pipeline.sql is None:
            return source
        source.createOrReplaceTempView("source")
        return spark.sql(self.pipeline.sql)

    def called(self, function: Any, source: Any) -> Any:
        from pyspark.errors import PySparkException
        from pyspark.sql import DataFrame

        try:
            frame = function(source)
        except PySparkException as error:
            raise PipelineError(f"{self.pipeline.function}: {explain(error)}") from None
        except Exception as error:  # noqa: BLE001 it is anybody's code
            raise PipelineError(f"{self.pipeline.function} failed: {blame(error)}") from None
        if not isinstance(frame, DataFrame):
            kind = type(frame).__name__
            raise PipelineError(f"{self.pipeline.function} returned {kind}: it is to return a DataFrame")
        return frame

    def write(self, frame: Any, number: int) -> Any:
        pipeline = self.pipeline
        options = pipeline.sink_options
        if pipeline.is_files:
            options["path"] = path_of(pipeline, number)
        writer = frame.writeStream.queryName(self.figures[number].name).options(**options)
        writer = writer.option("checkpointLocation", checkpoint_of(pipeline, number))
        if "outputMode" in pipeline.sink:
            writer = writer.outputMode(pipeline.sink["outputMode"])
        if self.plan.until_idle:
            writer = writer.trigger(availableNow=True)
        elif pipeline.trigger is not None:
            writer = writer.trigger(processingTime=pipeline.trigger)
        if pipeline.sink_format == "console":
            return writer.foreachBatch(_show(options)).start()
        return writer.format(OURS if pipeline.sink_format == TOPIC else pipeline.sink_format).start()

    # -- until the end

    def watch(self, spark: Any) -> None:
        warned = False
        with ProgressTable(self.console, self.figures) as display:
            while not self.stopping.wait(_LOOK_S):
                is_over = not any(query.isActive for query in self.queries)
                is_restarted = self.look(spark)
                display.show(time.monotonic())
                if is_over and not is_restarted:
                    return
                if not warned and self.pipeline.is_shared and any(member.has_state for member in self.figures):
                    warned = True
                    self.tell(f"warning: {_PARTIAL}")
            self.look(spark)

    def look(self, spark: Any) -> bool:
        """Looks after the queries. True if one had to be started again."""
        is_restarted = False
        for number, (query, figures) in enumerate(zip(self.queries, self.figures, strict=False)):
            figures.take(query.recentProgress, time.monotonic())
            failure = query.exception()
            if failure is None or self.stopping.is_set():
                continue
            if not self.is_late(failure):
                raise explain(failure)
            self.queries[number] = self.start(spark, number)
            is_restarted = True
        return is_restarted

    def is_late(self, failure: Exception) -> bool:
        """Whether a Python process of Spark came too late, and the query may start again: busy machines do that."""
        if _LATE not in str(failure) or self.chances == 0:
            return False
        self.chances -= 1
        self.tell("warning: Spark waits 10 s for a Python process, which was not ready by then; once more")
        return True

    def stop(self, spark: Any) -> None:
        """Stops the queries, then waits: a member has left its group when the process of its source has ended."""
        for query in self.queries:
            query.stop()
        if not wait_for_sources(spark, _LEAVE_S):
            self.tell(f"warning: a member has not left its group within {_LEAVE_S:g} s: its session will end")


def _show(options: dict[str, str]) -> Any:
    """The console sink, printed by this process: Spark's own prints from the JVM and would break the table."""
    rows = convert("numRows", options.get("numRows", _SHOWN), int)
    is_cut = convert("truncate", options.get("truncate", "true"), bool)

    def show(batch: Any, number: int) -> None:
        shown = batch.limit(rows + 1).cache()
        if not shown.isEmpty():
            print(f"batch {number}", flush=True)
            shown.show(rows, truncate=is_cut)
        shown.unpersist()

    return show


@contextmanager
def _until_told(stopping: threading.Event) -> Iterator[None]:
    """A block that ends quietly after a signal. `timeout` and systemd signal the JVM too, whose end can be noticed here
    before the signal is: such a failure is no error."""
    try:
        with explained():
            yield
    except Stopped:
        raise
    except PipelineError:
        if not stopping.wait(_SAME_END_S):
            raise


@contextmanager
def _signals(stopping: threading.Event) -> Iterator[None]:
    """The first signal asks for a clean end; a second Ctrl-C ends at once. Spark's own handler would cancel jobs."""

    def handle(signum: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
