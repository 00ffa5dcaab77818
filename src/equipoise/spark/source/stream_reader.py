"""The source of a streaming query, as Spark calls it.

Spark creates it in several processes. In the driver's it lives as long as the query, and Spark calls all methods but
`read` there, one at a time. Nothing is therefore opened before the first such call, and what is opened is not pickled.
What only the driver needs, and what only executors need, is imported there.
"""

from __future__ import annotations

import atexit
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from equipoise.garbage import without_collection
from equipoise.spark.options import SourceOptions
from equipoise.spark.source.offset_ranges import OffsetRange, ReadTask, plan
from equipoise.spark.source.source_offset import INITIAL, Json, PartitionRanges, SourceOffset, check_checkpoint
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from equipoise.spark.source.batch_planner import BatchPlanner
    from equipoise.spark.source.offset_reader import OffsetReader

log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query's source; only its options are pickled."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._reader: OffsetReader | None = None
        self._planner: BatchPlanner | None = None
        self._planned = INITIAL  # the last offset that this process has given to Spark

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"], state["_columns"])  # type: ignore[misc]

    def _open(self) -> tuple[OffsetReader, BatchPlanner]:
        if self._reader is None or self._planner is None:
            with without_collection():
                from equipoise.spark.source.batch_planner import open_planner
                from equipoise.spark.source.offset_reader import OffsetReader

            _unwind_on_sigterm()
            atexit.register(self.stop)
            self._reader = OffsetReader(self._options.consumer)
            self._planner = self._reader.run(open_planner(self._reader, self._options), "the start of the source")
        return self._reader, self._planner

    # -- what Spark asks

    def initialOffset(self) -> Json:
        """Always the same: where the query begins is found with the first batch, and written into its end."""
        return INITIAL.json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        reader, planner = self._open()
        reader.run(planner.prepare_for_available_now(), "the latest offsets")

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """`start` is the end of the last batch in Spark's commit log, and is committed to the group now."""
        reached = SourceOffset.parse(start)
        check_checkpoint(reached, self._options)  # before the group hears of the query
        reader, planner = self._open()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = reader.run(planner.latest_offset(reached, most), "the latest offsets")
        if end is None:
            return start
        self._planned = end
        return end.json()

    def reportLatestOffset(self) -> Json | None:
        """The ends of the partitions it has, for Spark's progress reports, and what `equipoise run` shows beside."""
        if self._planner is None:
            return None
        ends = SourceOffset(to=self._planner.ends, query="latest", batch=0)
        return ends.json() | {"lag": self._planner.lag, "rebalances": self._planner.partitions.rebalances}

    def partitions(self, start: Json, end: Json) -> list[ReadTask]:
        before, until = SourceOffset.parse(start), SourceOffset.parse(end)
        check_checkpoint(
            until, self._options
        )  # Spark begins with a batch that was under way, before it asks for another
        ranges = until.ranges(before)
        if until != self._planned:
            ranges = self._again(until, ranges)
        if self._options.is_exactly_once:
            reader, planner = self._open()
            reader.run(planner.claim(until, ranges), "the claim for the sink")
        return plan(_offset_ranges(until, ranges), self._options, self._columns)

    def _again(self, end: SourceOffset, ranges: PartitionRanges) -> PartitionRanges:
        """What is read again of a batch that was under way when the query ended."""
        self._check_topics(end)
        if self._options.is_exactly_once:
            reader, planner = self._open()
            ranges = reader.run(planner.hold_again(ranges), "what is still to be read of the last batch")
        told = ", ".join(map(str, _offset_ranges(end, ranges))) or "nothing"
        log.warning("batch %d was under way when the query ended, and is read again: %s", end.batch, told)
        return ranges

    def _check_topics(self, end: SourceOffset) -> None:
        """Offsets of a batch that is read again mean nothing in a topic that was recreated since."""
        if not end.ids:
            return
        from equipoise.spark.source.offset_reader import OffsetReader
        from equipoise.spark.source.truncation import loss_of_topics

        reader = OffsetReader(self._options.consumer)
        try:
            reader.run(reader.learn_topics(end.ids), "the topics of the batch that was under way")
            anew = reader.recreated(end.ids)
        finally:
            reader.close()
        if anew and self._options.fail_on_data_loss:
            raise UsageError(f"{loss_of_topics(anew)}; set failOnDataLoss to false to go on with what is there")
        if anew:
            log.warning("%s; going on with what stands at these offsets now", loss_of_topics(anew))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with without_collection():
            from equipoise.spark.executor.reading import read

        assert isinstance(partition, ReadTask)
        return read(partition)

    def commit(self, end: Json) -> None:
        """Comes one batch late, and never for the last: `latestOffset` knows earlier."""

    def stop(self) -> None:
        """Out of the group. Spark closes its connection, which calls this, and sends SIGTERM, which must not interrupt
        it. A SIGTERM that comes before it has begun is followed by another call, at the end of the process."""
        reader, planner = self._reader, self._planner
        if reader is None:
            return
        _ignore_sigterm()
        self._reader = self._planner = None
        atexit.unregister(self.stop)
        try:
            if planner is not None:
                reader.thread.run(planner.close(), _STOP_SECONDS)
        except TimeoutError:
            log.warning("the source could not be closed within %g s", _STOP_SECONDS)
        finally:
            reader.close()


_STOP_SECONDS = 15.0


def _offset_ranges(end: SourceOffset, ranges: PartitionRanges) -> list[OffsetRange]:
    return [OffsetRange(*one, *bounds, end.epochs.get(one, -1)) for one, bounds in ranges.items()]


def _unwind_on_sigterm() -> None:
    """Spark ends this process by SIGTERM, twice, without stop(): SystemExit runs its `finally`, which calls it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _exit)


def _ignore_sigterm() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _exit(signum: int, frame: FrameType | None) -> None:
    _ignore_sigterm()
    sys.exit(0)
