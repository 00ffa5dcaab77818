"""The source of a batch query: what lies between two places, looked up once, when the query is planned."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from equipoise.member.partitions import TopicPartition
from equipoise.spark.executor.reading import read
from equipoise.spark.options import GROUP, SourceOptions
from equipoise.spark.source.group import Group
from equipoise.spark.source.ranges import OffsetRange, ReadTask, plan
from equipoise.spark.source.session import Offsets, Session
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[ReadTask]:
        session = Session(self._options.consumer)
        try:
            ranges = self._ranges(session)
        finally:
            session.close()
        # For no task at all Spark would make one of its own kind.
        return plan(ranges, self._options, self._columns) or [ReadTask((), self._options, self._columns)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReadTask)
        return read(partition)

    def _ranges(self, session: Session) -> list[OffsetRange]:
        starting, ending = self._options.starting, self._options.ending
        partitions = session.partitions(self._options.choice)
        for place in (starting, ending):
            place.check_names(partitions)
        committed: Offsets = {}
        if GROUP in (starting.default, ending.default):
            committed = session.run(_committed(session, partitions), "what the group has committed")
        starts = session.resolve(starting, partitions, committed)
        ends = session.resolve(ending, partitions, committed)
        if ending.offsets and not ending.is_time:
            ends = self._within(ends, session.latest(partitions))
        return [OffsetRange(*one, starts[one], ends[one]) for one in partitions]

    def _within(self, ends: Offsets, latest: Offsets) -> Offsets:
        """Without what nobody has written: to wait for it is not what a batch query is for."""
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


async def _committed(session: Session, partitions: list[TopicPartition]) -> Offsets:
    """Without joining the group."""
    group = Group(session)
    try:
        return {one: at.offset for one, at in (await group.fetch(partitions)).items()}
    finally:
        await group.leave()
