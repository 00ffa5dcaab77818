"""Lag over time: where a group had committed, against where the log ended.

A cluster knows where its logs end now. Where they ended at a time in the past is known from the times of their
records: behind all that are older. That is as right as those times are, and only as far back as records are kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from equipoise.client import Admin
from equipoise.client.config import ConsumerConfig
from equipoise.member.partitions import TopicPartition
from equipoise.spark.session import Session

_MOST_TIMES = 120
_MOST_QUESTIONS = 200_000  # partitions times times
_ENDS = "topic string, partition int, step int, at timestamp, log_end long, is_estimate boolean"
_PLACE = ["topic", "partition"]
_AT = "committed_at"


class _LogEnd(NamedTuple):
    topic: str
    partition: int
    step: int  # the how manieth time
    at: datetime
    log_end: int | None
    is_estimate: bool


def lag_over_time(spark: SparkSession, bootstrap_servers: str, commits: DataFrame) -> DataFrame:
    """A row for each group, partition and time: committed, log_end, lag; is_estimate but for the last time, now."""
    first, last = f.unix_millis(f.min(_AT)), f.unix_millis(f.max(_AT))
    spans = [row for row in commits.groupBy(*_PLACE).agg(first, last).collect() if row[2] is not None]
    used = [TopicPartition(*row[:2]) for row in spans]
    now = round(time.time() * 1000)
    times = _times(min(row[2] for row in spans), max(now, *(row[3] for row in spans)), len(used)) if spans else []
    ends = spark.createDataFrame(_log_ends(bootstrap_servers, used, times) if times else [], _ENDS)
    return _against(commits, ends, times)


def _times(first: int, end: int, partitions: int) -> list[int]:
    """From the first commit to now, evenly; fewer where there are many partitions to ask for."""
    count = max(2, min(_MOST_TIMES, _MOST_QUESTIONS // max(1, partitions)))
    return [first + (end - first) * turn // (count - 1) for turn in range(count)]


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


# -- log ends


def _log_ends(bootstrap_servers: str, used: Iterable[TopicPartition], times: list[int]) -> list[_LogEnd]:
    session = Session(ConsumerConfig.parse({"bootstrap.servers": bootstrap_servers}))
    try:
        partitions = _existing(session, used)
        first, now = session.earliest(partitions), session.latest(partitions)
        last = len(times) - 1
        found = [_LogEnd(*one, last, _time(times[last]), now[one], is_estimate=False) for one in partitions]
        for step, at in enumerate(times[:last]):
            then = session.run(session.lookup.list_offsets(dict.fromkeys(partitions, at)), "the offsets by time")
            for one in partitions:
                end = now[one] if then[one].offset < 0 else then[one].offset
                is_known = end > first[one] or first[one] == 0  # else: what was there then has been deleted
                found.append(_LogEnd(*one, step, _time(at), end if is_known else None, is_estimate=True))
        return found
    finally:
        session.close()


def _existing(session: Session, used: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Topics may have been deleted since."""
    with Admin(session.config.bootstrap_servers) as admin:
        sizes = {topic.name: len(topic.partitions) for topic in admin.topics()}
    return sorted(one for one in used if one.partition < sizes.get(one.topic, 0))


# -- commits


def _against(commits: DataFrame, ends: DataFrame, times: list[int]) -> DataFrame:
    """To each time the last commit before it. Only one commit of each step is looked at twice."""
    start, width = (times[0], (times[-1] - times[0]) / (len(times) - 1)) if len(times) > 1 else (0, 1)
    step = f.ceil((f.unix_millis(_AT) - start) / f.lit(width)).cast("int")
    last = f.max_by("offset", "position").alias("committed")
    stepped = commits.groupBy("group", *_PLACE, step.alias("step")).agg(last)
    every = stepped.select("group", *_PLACE).distinct().join(ends, _PLACE)
    joined = every.join(stepped, ["group", *_PLACE, "step"], "left")
    before = Window.partitionBy("group", *_PLACE).orderBy("step")
    committed = f.last("committed", ignorenulls=True).over(before)
    behind = f.col("log_end") - f.col("committed")
    lag = f.when(behind > 0, behind).when(behind <= 0, 0).alias("lag")  # a commit may be younger than the estimate
    return joined.withColumn("committed", committed).select(
        "group", *_PLACE, "at", "committed", "log_end", lag, "is_estimate"
    )
