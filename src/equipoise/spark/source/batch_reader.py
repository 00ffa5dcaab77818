"""The source of a batch query: the records between two offsets, which are looked up when the query is planned."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from equipoise.garbage import without_collection
from equipoise.member.partitions import TopicPartition
from equipoise.spark.options import GROUP, OffsetRangeLimit, SourceOptions
from equipoise.spark.source.offset_ranges import OffsetRange, ReadTask, plan
from equipoise.spark.source.source_offset import PartitionOffsetMap
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from equipoise.spark.source.offset_reader import OffsetReader

log = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """Spark plans it in the driver, and runs `read` on executors."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[ReadTask]:
        with without_collection():
            from equipoise.spark.source.offset_reader import OffsetReader

        reader = OffsetReader(self._options.consumer)
        try:
            ranges = self._ranges(reader)
        finally:
            reader.close()
        # For no task at all Spark would make one of its own kind.
        return plan(ranges, self._options, self._columns) or [ReadTask((), self._options, self._columns)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with without_collection():
            from equipoise.spark.executor.reading import read

        assert isinstance(partition, ReadTask)
        return read(partition)

    def _ranges(self, reader: OffsetReader) -> list[OffsetRange]:
        starting, ending = self._options.starting, self._options.ending
        partitions = reader.partitions(self._options.strategy)
        for limit in (starting, ending):
            limit.check_names(partitions)
        committed: PartitionOffsetMap = {}
        if GROUP in (starting.default, ending.default):
            committed = reader.run(_committed(reader, partitions), "what the group has committed")
        starts = reader.resolve(starting, partitions, committed)
        ends = reader.resolve(ending, partitions, committed)
        if _is_given(starting):
            self._check_starts(starts, reader.run(reader.written(partitions), "the latest offsets"))
        if _is_given(ending):
            ends = self._within(ends, reader.latest(partitions))
        return [OffsetRange(*one, starts[one], ends[one]) for one in partitions]

    def _check_starts(self, starts: PartitionOffsetMap, written: PartitionOffsetMap) -> None:
        """Behind the end of its log nothing can have been read: the offset is of another topic, or records are lost."""
        beyond = {one: at for one, at in starts.items() if at > written[one]}
        if not beyond:
            return
        option = self._options.starting.option
        told = ", ".join(f"{one} from {at} on, where the log ends at {written[one]}" for one, at in beyond.items())
        if self._options.fail_on_data_loss:
            raise UsageError(f"{option} asks for {told}: name offsets that are there, or earliest")
        log.warning("%s asks for %s; failOnDataLoss is false, so nothing of it is read", option, told)

    def _within(self, ends: PartitionOffsetMap, latest: PartitionOffsetMap) -> PartitionOffsetMap:
        """Without offsets that are not written yet: a batch query does not wait for them."""
        beyond = {one: at for one, at in ends.items() if at > latest[one]}
        if not beyond:
            return ends
        told = ", ".join(f"{one} up to {at}, where the log ends at {latest[one]}" for one, at in beyond.items())
        if self._options.fail_on_data_loss:
            raise UsageError(
                f"{self._options.ending.option} asks for {told}: name offsets that are there, or -1 for all"
            )
        log.warning("%s asks for %s; failOnDataLoss is false, so it ends there", self._options.ending.option, told)
        return ends | {one: latest[one] for one in beyond}


def _is_given(limit: OffsetRangeLimit) -> bool:
    """Whether its offsets come from elsewhere than from the logs as they are now."""
    return not limit.is_time and (bool(limit.offsets) or limit.default == GROUP)


async def _committed(reader: OffsetReader, partitions: list[TopicPartition]) -> PartitionOffsetMap:
    """Without joining the group."""
    from equipoise.spark.source.group_member import QueryMember

    group = QueryMember(reader)
    try:
        return {one: at.offset for one, at in (await group.fetch(partitions)).items()}
    finally:
        await group.leave()
