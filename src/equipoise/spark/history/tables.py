"""The tables: two topics in, Parquet out, a directory for each.

Commits are by far the most, so Spark reads them once and writes them as they come. The executors compute the history of
each group; it is small, and the driver writes it, which needs it for the report.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type

from equipoise.client import Admin
from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.security.properties import as_spark_options
from equipoise.spark.history.decode import COMMIT, GROUP
from equipoise.spark.history.lag import lag_over_time
from equipoise.spark.history.schemas import ROWS, TOLD, schemas
from equipoise.spark.history.source import ONLY_GROUP, OffsetsSource
from equipoise.views.flapping import causes, flapping
from equipoise.views.timeline import Row, tell
from equipoise.wire.errors import UsageError

OFFSETS_TOPIC, JOURNAL_TOPIC = "__consumer_offsets", "__rebalances"
COMMITS = "commits"
_TIMES = ("began", "ended", "last")

Tables = dict[str, pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which records of the two topics are read."""

    bootstrap_servers: str
    group: str | None = None  # all groups
    since: int | None = None  # ms; from the beginning of the topics
    settings: Mapping[str, object] = field(default_factory=dict)  # of TLS and SASL

    @property
    def consumer(self) -> ConsumerConfig:
        """How the driver itself reaches the cluster."""
        return ConsumerConfig.parse({"bootstrap.servers": self.bootstrap_servers, **self.settings})


def write_tables(spark: SparkSession, request: Request, out: Path) -> Tables:
    """Writes all tables under `out`, and returns all but the commits. UsageError: the requested group has left no
    trace."""
    known, out = find_topics(request), out.absolute()
    spark.dataSource.register(OffsetsSource)
    staged = out / ".staged"
    try:
        records = _write_commits(spark, request, staged, out)
        entries = records.unionByName(_journal(spark, request)) if JOURNAL_TOPIC in known else records
        tables = _tables(entries)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    commits = _stored(spark, out / COMMITS).load()
    _check_found(request, tables, commits)
    tables["lag"] = lag_over_time(request.consumer, commits, out / COMMITS)
    for name, table in tables.items():
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).mkdir()
        pq.write_table(table, out / name / "part-0.parquet")
    return tables


def find_topics(request: Request) -> set[str]:
    """All topics of the cluster. UsageError: it has no `__consumer_offsets`, and so no history."""
    with Admin(request.bootstrap_servers, security=request.consumer.security) as admin:
        known = {topic.name for topic in admin.topics()}
    if OFFSETS_TOPIC not in known:
        raise UsageError(f"{request.bootstrap_servers} has no {OFFSETS_TOPIC}: no group has ever been there")
    return known


def _check_found(request: Request, tables: Tables, commits: DataFrame) -> None:
    if request.group is None or any(table.num_rows for table in tables.values()) or not commits.isEmpty():
        return
    when = "" if request.since is None else " since then"
    raise UsageError(
        f"group {request.group!r} has left no trace at {request.bootstrap_servers}{when}: "
        "check its name; without --group all are shown"
    )


# -- in


def _load(spark: SparkSession, source: str, topic: str, request: Request) -> Any:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", request.bootstrap_servers)
    reader = reader.options(**as_spark_options(request.settings))
    reader = reader.option("subscribe", topic).option("failOnDataLoss", "false")  # compaction goes on as we read
    if request.since is not None:
        reader = reader.option("startingTimestamp", str(request.since))
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    return reader


def _write_commits(spark: SparkSession, request: Request, staged: Path, out: Path) -> DataFrame:
    """Writes the commits' table. Returns the records of groups, which wait in a directory of their own."""
    reader = _load(spark, OffsetsSource.name(), OFFSETS_TOPIC, request)
    rows = reader.option(ONLY_GROUP, request.group).load() if request.group is not None else reader.load()
    # With two files open at a time Spark need not sort by what tells them apart.
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", "2")
    # Its own old way of writing times keeps no statistics.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows.write.partitionBy("record").mode("overwrite").parquet(_address(staged))
    _settle(spark, staged / f"record={COMMIT}", out / COMMITS)
    groups: DataFrame = _stored(spark, staged).schema(_schema_of(ROWS)).load().where(f.col("record") == GROUP)
    return groups.select("group", "position", f.lit(False).alias("is_journal"), f.col("metadata").alias("entry"))


def _settle(spark: SparkSession, written: Path, table: Path) -> None:
    """Moves the written files to the table's directory. A table without rows gets an empty file."""
    shutil.rmtree(table, ignore_errors=True)
    if written.exists():
        written.rename(table)
    else:
        spark.createDataFrame([], _schema_of(ROWS)).drop("record").write.parquet(_address(table))


def _address(directory: Path) -> str:
    """For Spark, which takes what stands before the first colon for a scheme."""
    return f"file:{directory}"


def _stored(spark: SparkSession, directory: Path) -> Any:
    """A reader of this very directory: by default Spark takes brackets, stars and the like for a pattern."""
    return spark.read.option("__globPaths__", "false").format("parquet").option("path", _address(directory))


def _journal(spark: SparkSession, request: Request) -> DataFrame:
    reader = _load(spark, "equipoise", JOURNAL_TOPIC, request)
    rows: DataFrame = reader.schema("key binary, value binary, offset long").load()
    group, entry = f.col("key").cast("string"), f.col("value").cast("string")
    rows = rows.where(group.isNotNull())
    if request.group is not None:
        rows = rows.where(group == request.group)
    return rows.select(
        group.alias("group"), f.col("offset").alias("position"), f.lit(True).alias("is_journal"), entry.alias("entry")
    )


# -- what groups did


def _tables(entries: DataFrame) -> Tables:
    every = f.collect_list(f.struct("position", "is_journal", "entry"))
    told = entries.groupBy("group").agg(f.sort_array(every).alias("entries"))
    arrow_udf = f.arrow_udf  # type: ignore[attr-defined]  # its stubs do not have it
    columns = arrow_udf(_tell, _spark_type(TOLD))("group", "entries")
    found = told.select(columns.alias("told")).select("told.*").toArrow().combine_chunks()
    return {field.name: _flat(found.column(field.name), schemas()[field.name]) for field in TOLD}


def _flat(lists: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    rows = lists.combine_chunks().flatten().cast(pa.struct(list(schema)))
    return pa.Table.from_arrays(rows.flatten(), schema=schema)


def _tell(groups: pa.Array, entries: pa.Array) -> pa.Array:
    """The rows of each table for one group, from all its records."""
    rows = []
    for group, found in zip(groups.to_pylist(), entries.to_pylist(), strict=True):
        journal = [row for one in found if one["is_journal"] and (row := _row_of(one["entry"])) is not None]
        records = [json.loads(one["entry"]) for one in found if not one["is_journal"]]
        told = tell(group, journal, records)
        derived = {"flapping": flapping(told.ownership), "causes": causes(told.rebalances)}
        rows.append({name: [*map(_with_times, found)] for name, found in (told._asdict() | derived).items()})
    return pa.array(rows, TOLD)


def _row_of(entry: str | None) -> Row | None:
    """A row of the journal. None: on another cluster anybody may write to a topic of its name."""
    try:
        found = json.loads(entry or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) and "type" in found else None


def _with_times(row: Row) -> Row:
    """Milliseconds as the microseconds of an Arrow timestamp."""
    return row | {name: row[name] * 1000 for name in _TIMES if row.get(name) is not None}


def _schema_of(columns: Iterable[pa.Field]) -> Any:
    return _spark_type(pa.struct(list(columns)))


def _spark_type(arrow: pa.DataType) -> Any:
    return from_arrow_type(arrow, prefer_timestamp_ntz=False)
