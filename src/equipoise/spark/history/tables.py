"""The job: two topics in, Parquet tables out, one directory each.

Commits are by far the most, so they are read once and written as they come; records of groups, and the journal, are
few, and become the rest.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type

from equipoise.client import Admin
from equipoise.spark.history.decode import COMMIT, GROUP, ROWS
from equipoise.spark.history.lag import lag_over_time
from equipoise.spark.history.source import ONLY_GROUP, OffsetsSource
from equipoise.spark.history.timeline import Row, tell
from equipoise.wire.errors import UsageError

OFFSETS_TOPIC, JOURNAL_TOPIC = "__consumer_offsets", "__rebalances"
TABLES = ("rebalances", "memberships", "ownership", "commits", "lag", "flapping", "causes")
_TIME = pa.timestamp("us", tz="UTC")
_MS_IN_HOUR = 3_600_000
_SHORTEST_SPAN_MS = 60_000  # what is seen for less is not counted up to an hour

_CLIENT = [("client_id", pa.string()), ("client_host", pa.string())]
_SPAN = [("began", _TIME), ("ended", _TIME)]
_REBALANCE = pa.struct(
    [
        ("group", pa.string()),
        ("generation", pa.int32()),
        *_SPAN,
        *((name, pa.int64()) for name in ("duration_ms", "detect_ms", "join_ms", "assign_ms", "sync_ms")),
        ("reason", pa.string()),
        ("said", pa.string()),
        ("limit_ms", pa.int64()),
        *((f"cause_{name}", pa.string()) for name in ("member", "client", "host", "instance")),
        ("waited_for", pa.string()),
        ("waited_ms", pa.int64()),
        ("members", pa.int32()),
        ("protocol", pa.string()),
        *((name, pa.int32()) for name in ("moved", "kept", "revoked")),
        ("overtaken", pa.bool_()),
        ("source", pa.string()),
    ]
)
_MEMBERSHIP = pa.struct(
    [
        ("group", pa.string()),
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        *_CLIENT,
        ("session_timeout_ms", pa.int32()),
        ("rebalance_timeout_ms", pa.int32()),
        *_SPAN,
        ("why_left", pa.string()),
        ("said", pa.string()),
    ]
)
_OWNERSHIP = pa.struct(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("member_id", pa.string()),
        *_CLIENT,
        ("generation", pa.int32()),
        *_SPAN,
        ("is_empty", pa.bool_()),
    ]
)
_TOLD = pa.struct(
    [
        ("rebalances", pa.list_(_REBALANCE)),
        ("memberships", pa.list_(_MEMBERSHIP)),
        ("ownership", pa.list_(_OWNERSHIP)),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    bootstrap_servers: str
    group: str | None = None  # all groups
    since: int | None = None  # ms; from the beginning of the topics


def write_tables(spark: SparkSession, request: Request, out: Path) -> None:
    """Writes `TABLES` under `out`. UsageError where there are no groups, or not the one asked for."""
    known = _topics(request)
    if OFFSETS_TOPIC not in known:
        raise UsageError(f"{request.bootstrap_servers} has no {OFFSETS_TOPIC}: no group has ever been there")
    spark.dataSource.register(OffsetsSource)
    staged = out / ".staged"
    try:
        records = _write_commits(spark, request, staged, out)
        entries = records.unionByName(_journal(spark, request)) if JOURNAL_TOPIC in known else records
        _write_told(entries, out)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    _check_found(spark, request, out)
    _write(_flapping(_read(spark, out, "ownership")), out, "flapping")
    _write(_causes(_read(spark, out, "rebalances")), out, "causes")
    _write(lag_over_time(spark, request.bootstrap_servers, _read(spark, out, "commits")), out, "lag")


def _topics(request: Request) -> set[str]:
    with Admin(request.bootstrap_servers) as admin:
        return {topic.name for topic in admin.topics()}


def _check_found(spark: SparkSession, request: Request, out: Path) -> None:
    if request.group is None:
        return
    if not any(_read(spark, out, name).limit(1).count() for name in ("rebalances", "memberships", "commits")):
        when = "" if request.since is None else " since then"
        raise UsageError(
            f"group {request.group!r} has left no trace at {request.bootstrap_servers}{when}: "
            "check its name; without --group all are shown"
        )


# -- in


def _load(spark: SparkSession, source: str, topic: str, request: Request) -> Any:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", request.bootstrap_servers)
    reader = reader.option("subscribe", topic).option("failOnDataLoss", "false")  # compaction goes on as we read
    if request.since is not None:
        reader = reader.option("startingTimestamp", str(request.since))
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    return reader


def _write_commits(spark: SparkSession, request: Request, staged: Path, out: Path) -> DataFrame:
    """Commits to their table; returns the records of groups, from where they wait for it."""
    reader = _load(spark, OffsetsSource.name(), OFFSETS_TOPIC, request)
    rows = reader.option(ONLY_GROUP, request.group).load() if request.group is not None else reader.load()
    # With two files open at a time Spark need not sort by what tells them apart.
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", "2")
    rows.write.partitionBy("record").mode("overwrite").parquet(str(staged))
    _settle(spark, staged / f"record={COMMIT}", out / "commits")
    groups = spark.read.schema(_schema_of(ROWS)).parquet(str(staged)).where(f.col("record") == GROUP)
    return groups.select("group", "position", f.lit(False).alias("is_journal"), f.col("metadata").alias("entry"))


def _settle(spark: SparkSession, written: Path, table: Path) -> None:
    """By renaming what was written; a table without rows has to be made."""
    shutil.rmtree(table, ignore_errors=True)
    if written.exists():
        written.rename(table)
    else:
        spark.createDataFrame([], _schema_of(ROWS)).drop("record").write.parquet(str(table))


def _journal(spark: SparkSession, request: Request) -> DataFrame:
    reader = _load(spark, "equipoise", JOURNAL_TOPIC, request)
    rows: DataFrame = reader.schema("key binary, value binary, offset long").load()
    group, entry = f.col("key").cast("string"), f.col("value").cast("string")
    if request.group is not None:
        rows = rows.where(group == request.group)
    return rows.select(
        group.alias("group"), f.col("offset").alias("position"), f.lit(True).alias("is_journal"), entry.alias("entry")
    )


# -- what groups did


def _write_told(entries: DataFrame, out: Path) -> None:
    every = f.collect_list(f.struct("position", "is_journal", "entry"))
    told = entries.groupBy("group").agg(f.sort_array(every).alias("entries"))
    told = told.select(_told()("group", "entries").alias("told")).persist()
    try:
        for name in _TOLD.names:
            _write(told.select(f.explode(f"told.{name}").alias("row")).select("row.*"), out, name)
    finally:
        told.unpersist()


def _told() -> Any:
    arrow_udf = f.arrow_udf  # type: ignore[attr-defined]  # its stubs do not have it
    return arrow_udf(_tell, from_arrow_type(_TOLD, prefer_timestamp_ntz=False))


def _tell(groups: pa.Array, entries: pa.Array) -> pa.Array:
    """For each group, from all that is written of it, its rows of the three tables."""
    rows = []
    for group, found in zip(groups.to_pylist(), entries.to_pylist(), strict=True):
        journal = [json.loads(one["entry"]) for one in found if one["is_journal"]]
        records = [json.loads(one["entry"]) for one in found if not one["is_journal"]]
        told = tell(group, journal, records)
        rows.append({name: list(map(_with_times, getattr(told, name))) for name in _TOLD.names})
    return pa.array(rows, _TOLD)


def _with_times(row: Row) -> Row:
    """Milliseconds to what an Arrow timestamp counts in."""
    return row | {name: row[name] * 1000 for name in ("began", "ended") if row.get(name) is not None}


# -- what follows from it


def _flapping(ownership: DataFrame) -> DataFrame:
    """How restless each partition is: owners that changed, and how often one came back after another had it."""
    place = ["group", "topic", "partition"]
    in_time = Window.partitionBy(*place).orderBy("began")
    owned = ownership.where(f.col("member_id").isNotNull()).withColumn("before", f.lag("member_id").over(in_time))
    # Equal neighbours are one owner, who only stood still for a while.
    owners = owned.where(f.col("before").isNull() | (f.col("before") != f.col("member_id")))
    owners = owners.withColumn("before_that", f.lag("member_id", 2).over(in_time))
    returned = f.col("before_that") == f.col("member_id")
    counted = owners.groupBy(*place).agg(
        (f.count("*") - 1).alias("changes"), f.coalesce(f.sum(returned.cast("long")), f.lit(0)).alias("returns")
    )
    hours = f.greatest(f.lit(_SHORTEST_SPAN_MS), _ms(f.max(_end())) - _ms(f.min("began"))) / _MS_IN_HOUR
    spans = ownership.groupBy("group").agg(hours.alias("hours"))
    found = counted.join(_gaps(ownership), place, "left").join(spans, "group").fillna(0, ["gaps", "dark_ms"])
    found = found.withColumn("owners_per_hour", f.col("changes") / f.col("hours"))
    return found.withColumn("score", (f.col("changes") + f.col("returns")) / f.col("hours")).drop("hours")


def _gaps(ownership: DataFrame) -> DataFrame:
    """Time without an owner while the group had members."""
    is_gap = f.col("member_id").isNull() & ~f.col("is_empty") & f.col("ended").isNotNull()
    dark = f.sum(_ms(f.col("ended")) - _ms(f.col("began")))
    return (
        ownership.where(is_gap)
        .groupBy("group", "topic", "partition")
        .agg(f.count("*").alias("gaps"), dark.alias("dark_ms"))
    )


def _causes(rebalances: DataFrame) -> DataFrame:
    by = rebalances.groupBy("group", "reason", "cause_client", "cause_host")
    return by.agg(
        f.count("*").alias("count"),
        f.sum("duration_ms").alias("duration_ms"),
        f.max("ended").alias("last"),
    )


def _ms(time: Column) -> Column:
    return f.unix_millis(time)


def _end() -> Column:
    return f.coalesce(f.col("ended"), f.col("began"))


# -- out


def _write(rows: DataFrame, out: Path, name: str) -> None:
    rows.coalesce(1).write.mode("overwrite").parquet(str(out / name))


def _read(spark: SparkSession, out: Path, name: str) -> DataFrame:
    return spark.read.parquet(str(out / name))


def _schema_of(columns: Iterable[pa.Field]) -> Any:
    return from_arrow_type(pa.struct(list(columns)), prefer_timestamp_ntz=False)
