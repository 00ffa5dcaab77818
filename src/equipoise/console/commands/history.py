"""`equipoise history`: the rebalances of groups as Parquet tables and a report, by a Spark job."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from equipoise.console.options import ClusterOptions, NamedPath, cluster_options, parse_pairs
from equipoise.wire.errors import UsageError
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.views.summary import Summary

log = logging.getLogger(__name__)

_LISTED = 20  # groups on the terminal; the report has all


@click.command(short_help="What groups have been through: tables and a report.")
@click.option("--group", metavar="GROUP", help="Only this one.")
@click.option("--since", metavar="TIME", help="From then on: a date, a time as ISO 8601 has it, or an age such as 7d.")
@click.option(
    "--out",
    metavar="DIR",
    type=NamedPath(path_type=Path, file_okay=False),
    default=Path("history"),
    show_default=True,
    help="Where to write; what the last run wrote there is replaced.",
)
@cluster_options
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="A setting of Spark; repeatable.")
def history(
    group: str | None, since: str | None, out: Path, cluster: ClusterOptions, master: str, settings: tuple[str, ...]
) -> None:
    """Read rebalances and commits back from the broker: who, when, why, and which setting would help.

    Works on Equipoise, whose journal knows every reason, and on Apache Kafka, where reasons are concluded from who
    came and went.
    """
    from rich.console import Console
    from rich.text import Text

    try:
        from equipoise.spark.history.job import Request, run
        from equipoise.spark.pipeline.spark_session import SparkApplication
    except ImportError as missing:
        raise UsageError(f"equipoise history needs {missing.name}: pip install 'equipoise[spark,plots]'") from None
    if find_spec("matplotlib") is None:  # it draws at the end, after minutes
        raise UsageError("equipoise history needs matplotlib: pip install 'equipoise[spark,plots]'")
    spark = SparkApplication(name="equipoise history", master=master, settings=parse_settings(settings))
    request = Request(
        bootstrap_servers=cluster.bootstrap_servers,
        group=group,
        since=parse_since(since, time.time()),
        settings=cluster.settings,
    )
    with Console(stderr=True).status("") as status:
        found = run(request, out, spark, lambda what: status.update(Text(f"{what} ...")))
    _print(found, out)


def parse_settings(given: tuple[str, ...]) -> dict[str, str]:
    """The settings of Spark from `--set NAME=VALUE`. UsageError names one that Spark has not."""
    example = "spark.executor.memory=2g"
    found = parse_pairs("--set", given, example)
    for name in found:
        if not name.startswith("spark."):
            raise UsageError(f"--set {name}: a setting of Spark begins with spark., for instance {example}")
    return found


def parse_since(text: str | None, now: float) -> int | None:
    """Milliseconds of a date, a time, or an age counted back from `now`."""
    from equipoise.spark.options import duration_ms

    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    try:
        return round(now * 1000) - duration_ms("--since", text)
    except UsageError:
        raise UsageError(f"--since {text}: write a date (2026-01-31), a time, or an age (7d, 2h)") from None


def _print(groups: list[Summary], out: Path) -> None:
    from equipoise.console.tables import print_table
    from equipoise.spark.history.report import OVERVIEW, PAGE, figures

    columns = (
        "group",
        "rebalances",
        "how often",
        "in them",
        "longest",
        "no owner",
        "reason",
        "cause",
        "protocol",
        "lag",
    )
    print_table(columns, [(one.group, *figures(one)) for one in groups[:_LISTED]])
    if len(groups) > _LISTED:
        print(f"and {len(groups) - _LISTED} more")
    print(printable(f"report: {out / PAGE}, picture: {out / OVERVIEW}, tables: Parquet in {out}"))


COMMAND = history
