"""The job: starts Spark, writes the tables, and makes the report."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from equipoise.spark.history.report import write_report
from equipoise.spark.history.summary import summarise
from equipoise.spark.history.tables import Request, find_topics, write_tables
from equipoise.spark.pipeline.errors import explained
from equipoise.spark.pipeline.spark_session import SparkApplication, spark_session
from equipoise.views.summary import Summary
from equipoise.wire.errors import UsageError

__all__ = ["Request", "run"]
log = logging.getLogger(__name__)


def run(request: Request, out: Path, application: SparkApplication, progress: Callable[[str], None]) -> list[Summary]:
    """Runs the job. Returns the groups, those with the most rebalances first. EquipoiseError says in one sentence what
    failed."""
    find_topics(request)  # before Spark's JVM takes its seconds
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out} cannot be written to ({error.strerror}): name another directory with --out") from None
    progress("starting Spark")
    # Its source is one of its own, which has processes of its own: those of `format("equipoise")` are not needed.
    with spark_session(replace(application, warms_up=False), log.debug) as spark, explained():
        progress(f"reading {request.bootstrap_servers}")
        tables = write_tables(spark, request, out)
    progress("drawing")
    write_report(tables, out, request.bootstrap_servers)
    return summarise(tables)
