"""What commands print: for people, or as one JSON object under the name of its schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import wraps
from typing import Any, NamedTuple

import click

from equipoise.console.options import ClusterOptions, Duration, cluster_options
from equipoise.views.model import Ms, Source
from equipoise.wire.text import printable

UNKNOWN = "–"
SOURCES = {
    Source.JOURNAL: "the journal of this broker",
    Source.OFFSETS_TOPIC: "group metadata records of __consumer_offsets; causes are concluded from members",
    Source.POLLING: "questions alone; what happened between two looks is not known",
}
_TIMEOUT_MS = 10_000


class Output(NamedTuple):
    """How a command prints."""

    json: bool = False
    utc: bool = False

    @property
    def zone(self) -> tzinfo:
        """The zone in which times are shown."""
        return UTC if self.utc else datetime.now().astimezone().tzinfo or UTC

    def time(self, at: Ms | None) -> str:
        """A time to the second; the zone is named once, in a heading."""
        return UNKNOWN if at is None else f"{datetime.fromtimestamp(at / 1000, self.zone):%Y-%m-%d %H:%M:%S}"


def print_json(schema: str, **values: Any) -> None:
    """One object on stdout: `{"schema": "equipoise.groups/1", ...}`."""
    print(json.dumps({"schema": f"equipoise.{schema}/1", **values}, ensure_ascii=not _has_unicode()))


def print_event(kind: str, **values: Any) -> None:
    """One object of a stream, in a line, flushed at once."""
    print(json.dumps({"type": kind, **values}, ensure_ascii=not _has_unicode()), flush=True)


def _has_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def number(value: int | None) -> str:
    """With separators of thousands; unknown is a dash."""
    return UNKNOWN if value is None else f"{value:,}"


def age(ms: int | None) -> str:
    """A span of time in two figures; unknown is a dash."""
    from equipoise.console.words import duration

    if ms is None:
        return UNKNOWN
    return duration(ms) if ms else "0 s"


def confirmed(question: str, *, yes: bool) -> bool:
    """Asks at a terminal. Without one nobody can answer, and --yes is needed."""
    if yes:
        return True
    if not sys.stdin.isatty():
        print(f"equipoise: {printable(question)} Nobody can be asked here: give --yes", file=sys.stderr)
        return False
    return click.confirm(printable(question), default=False, err=True)


def output_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that shows something: cluster, --timeout, --json, --utc. The command gets a
    `cluster` and an `out`."""

    @wraps(function)
    def command(*, cluster: ClusterOptions, timeout: int, json: bool, utc: bool, **given: Any) -> None:
        function(cluster=cluster._replace(timeout=timeout / 1000), out=Output(json, utc), **given)

    option = click.option(
        "--timeout", metavar="TIME", type=Duration(), default=f"{_TIMEOUT_MS // 1000}s", show_default=True,
        help="Longest wait for one answer.",
    )  # fmt: skip
    as_json = click.option("--json", is_flag=True, help="One JSON object instead of words.")
    in_utc = click.option("--utc", is_flag=True, help="Times in UTC instead of local time.")
    return cluster_options(option(as_json(in_utc(command))))
