"""Lag over time: a group's commits against the end of the log.

A cluster knows only the current end offsets. The end offset at a past time T is the offset of the first record with a
timestamp of T or later. That is as right as the timestamps, and reaches only as far back as records are kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from equipoise.client import Admin
from equipoise.client.consumer.config import ConsumerConfig
from equipoise.member.partitions import TopicPartition
from equipoise.spark.history.schemas import LAG
from equipoise.spark.source.offset_reader import OffsetReader

TIMES = 120
_MOST_QUESTIONS = 200_000  # partitions times times
_AT = "committed_at"
_UNKNOWN: Mapping[int, int | None] = {}
LogEnds = dict[TopicPartition, dict[int, int | None]]  # by the number of the time
Committed = dict[int, int | None]  # by the number of the time; None: deleted


def lag_over_time(cluster: ConsumerConfig, commits: DataFrame, written: Path) -> pa.Table:
    """A row for each group, partition and time: committed, log_end, lag. `is_estimate` is False for the last time, now.

    `written` is the directory of `commits`: the statistics in its files spare a pass over all rows.
    """
    first = _first_commit(written)
    if first is None:
        return LAG.empty_table()
    now = round(time.time() * 1000)
    times = [first + (now - first) * turn // (TIMES - 1) for turn in range(TIMES)]
    committed = _committed(commits, first, max(1.0, (now - first) / (TIMES - 1)))
    ends = _log_ends(cluster, {TopicPartition(*place[1:]) for place in committed}, times)
    rows = [row for place, found in committed.items() for row in _rows(place, found, ends, times)]
    return pa.Table.from_pylist(rows, schema=LAG)


# -- commits


def _first_commit(written: Path) -> int | None:
    found = []
    for file in written.glob("*.parquet"):
        metadata = pq.read_metadata(file)
        column = metadata.schema.to_arrow_schema().get_field_index(_AT)
        groups = [metadata.row_group(number).column(column) for number in range(metadata.num_row_groups)]
        found += [one.statistics.min for one in groups if one.statistics is not None and one.statistics.has_min_max]
    return round(min(found).timestamp() * 1000) if found else None


def _committed(commits: DataFrame, first: int, width: float) -> dict[tuple[str, str, int], Committed]:
    """The last commit before each time, by group, topic and partition."""
    at = f.unix_millis(f.coalesce(_AT, "written_at"))  # a deletion has the second only
    step = f.ceil((at - first) / f.lit(width)).cast("int")
    step = f.greatest(f.lit(0), f.least(f.lit(TIMES - 1), step)).alias("step")
    last = f.max_by("offset", "position")
    rows = commits.groupBy("group", "topic", "partition", step).agg(last).toArrow()
    found: dict[tuple[str, str, int], Committed] = {}
    for group, topic, partition, number, offset in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        found.setdefault((group, topic, partition), {})[number] = offset
    return dict(sorted(found.items()))


# -- log ends


def _log_ends(cluster: ConsumerConfig, used: set[TopicPartition], times: list[int]) -> LogEnds:
    """The end offsets at all times, or at fewer times if there are many partitions to ask about."""
    reader = OffsetReader(cluster)
    try:
        partitions = _existing(cluster, used)
        first, now = reader.earliest(partitions), reader.latest(partitions)
        ends: LogEnds = {one: {TIMES - 1: now[one]} for one in partitions}
        every = max(1, -(-TIMES * len(partitions) // _MOST_QUESTIONS))
        for number in range(0, TIMES - 1, every):
            wanted = dict.fromkeys(partitions, times[number])
            then = reader.run(reader.lookup.list_offsets(wanted), "the offsets by time")
            for one in partitions:
                end = now[one] if then[one].offset < 0 else then[one].offset
                is_known = end > first[one] or first[one] == 0  # else: what was there then has been deleted
                ends[one][number] = end if is_known else None
        return ends
    finally:
        reader.close()


def _existing(cluster: ConsumerConfig, used: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The partitions that still exist: topics may have been deleted since."""
    with Admin(cluster.bootstrap_servers, security=cluster.security) as admin:
        sizes = {topic.name: len(topic.partitions) for topic in admin.topics()}
    return sorted(one for one in used if one.partition < sizes.get(one.topic, 0))


# -- both


def _rows(place: tuple[str, str, int], commits: Committed, ends: LogEnds, times: list[int]) -> Iterator[dict[str, Any]]:
    """Rows from the first commit on, and none while the offset is deleted. A commit can be newer than the estimated end
    of the log: the lag is 0 then."""
    group, topic, partition = place
    of_log = ends.get(TopicPartition(topic, partition), _UNKNOWN)
    committed: int | None = None
    for number, at in enumerate(times):
        committed = commits.get(number, committed)
        if committed is None or number not in of_log:
            continue
        log_end = of_log[number]
        yield {
            "group": group,
            "topic": topic,
            "partition": partition,
            "at": datetime.fromtimestamp(at / 1000, UTC),
            "committed": committed,
            "log_end": log_end,
            "lag": None if log_end is None else max(0, log_end - committed),
            "is_estimate": number < len(times) - 1,
        }
