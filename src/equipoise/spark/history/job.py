"""From a broker to a directory: Spark is started, tables are written, the report is made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from equipoise.spark.history.report import write_report
from equipoise.spark.history.summary import Summary, summarise
from equipoise.spark.history.tables import Request, find_topics, write_tables
from equipoise.spark.pipeline.errors import explained
from equipoise.spark.pipeline.starting import spark_session
from equipoise.wire.errors import UsageError

__all__ = ["Request", "run"]
log = logging.getLogger(__name__)


def run(
    request: Request, out: Path, master: str, progress: Callable[[str], None], settings: Mapping[str, str] | None = None
) -> list[Summary]:
    """The groups found, the one with the most rebalances first. EquipoiseError in one sentence, whatever fails.

    `settings`: of Spark."""
    find_topics(request)  # before Spark's JVM takes its seconds
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out} cannot be written to ({error.strerror}): name another directory with --out") from None
    progress("starting Spark")
    with spark_session("equipoise history", master, settings or {}, log.debug) as spark, explained():
        progress(f"reading {request.bootstrap_servers}")
        tables = write_tables(spark, request, out)
    progress("drawing")
    write_report(tables, out, request.bootstrap_servers)
    return summarise(tables)
