"""What commands print: for people, or as one JSON object under the name of its schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from equipoise.console.options import timed_cluster_options
from equipoise.views.model import Ms, Source
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.client import Admin

UNKNOWN = "–"
SOURCES = {
    Source.JOURNAL: "the journal of this broker",
    Source.OFFSETS_TOPIC: "group metadata records of __consumer_offsets; causes are concluded from members",
    Source.POLLING: "questions alone; what happened between two looks is not known",
}


class Output(NamedTuple):
    """How a command prints."""

    json: bool = False
    utc: bool = False

    @property
    def zone(self) -> tzinfo:
        """The zone in which times are shown."""
        return UTC if self.utc else datetime.now().astimezone().tzinfo or UTC

    @property
    def zone_name(self) -> str:
        """As people write it."""
        return f"{datetime.now(self.zone):%Z}"

    @property
    def zone_told(self) -> str:
        """The zone of all times, which is named once."""
        return f"Times in {self.zone_name}."

    def time(self, at: Ms | None) -> str:
        """A time to the second, without its zone."""
        return UNKNOWN if at is None else f"{datetime.fromtimestamp(at / 1000, self.zone):%Y-%m-%d %H:%M:%S}"


def print_json(schema: str, **values: Any) -> None:
    """One object on stdout: `{"schema": "equipoise.groups/1", ...}`."""
    print(_encoded({"schema": f"equipoise.{schema}/1", **values}))


def head_of(admin: Admin) -> dict[str, Any]:
    """What every object begins with, for commands that ask one question: the cluster, and when."""
    from equipoise.views.plain import iso
    from equipoise.watching.watcher import wall_time

    return {"cluster_id": admin.cluster().cluster_id, "at": iso(wall_time())}


def print_event(kind: str, **values: Any) -> None:
    """One object of a stream, in a line, flushed at once."""
    print(_encoded({"type": kind, **values}), flush=True)


def _encoded(values: Mapping[str, Any]) -> str:
    """JSON lets most characters stand in a text. One that could move the cursor, or turn the direction of writing, is
    written by its number."""
    text = json.dumps(values, ensure_ascii=not _has_unicode())
    return text if text.isprintable() else "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


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
    def command(*, json: bool, utc: bool, **given: Any) -> None:
        function(out=Output(json, utc), **given)

    as_json = click.option("--json", is_flag=True, help="One JSON object instead of words.")
    in_utc = click.option("--utc", is_flag=True, help="Times in UTC instead of local time.")
    return timed_cluster_options(as_json(in_utc(command)))
