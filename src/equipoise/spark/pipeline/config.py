"""A pipeline: a TOML file, or `module:function`, with single values overridden by `--set`.

Option names are Spark's. A dotted name in TOML is a table within a table; it is read as the name it looks like.
docs/pipelines.md lists the keys.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from equipoise.settings import nearest, render
from equipoise.spark.pipeline.formats import FILES, OURS, SINKS, SOURCES, TOPIC, check_format, named
from equipoise.wire.errors import UsageError

__all__ = ["OURS", "TOPIC", "Pipeline"]
DOCUMENT = "docs/pipelines.md"
BROKERS = "kafka.bootstrap.servers"
GROUP_ID = "group.id"
DELIVERY, EXACTLY_ONCE = "delivery", "exactly-once"
_TABLES = "source", "sink", "spark"
_VALUES = "group", "sql", "function", "checkpoint", "trigger"
# The options that a pipeline itself looks at. Spark's options have no case.
_READ_HERE = BROKERS, GROUP_ID, DELIVERY, "format", "group.mode", "outputMode", "path", "topic"
_SPELLING = {name.lower(): name for name in _READ_HERE}
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
Options = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A checked pipeline; `read` makes it. Without `sql` and `function`, records pass through unchanged."""

    name: str
    source: Options = field(default_factory=dict, repr=False)  # secrets may be among options
    sink: Options = field(default_factory=dict, repr=False)
    spark: Options = field(default_factory=dict)
    group: str | None = None
    sql: str | None = None
    function: str | None = None
    checkpoint: str | None = None  # None: a temporary one
    trigger: str | None = None  # None: each batch as soon as there is something to read

    @classmethod
    def read(cls, what: str, settings: Options | None = None) -> Self:
        """Reads the pipeline `what`, a path or `module:function`. `settings`, by dotted names, override its values."""
        if _FUNCTION.fullmatch(what):
            document: dict[str, Any] = {"function": what}
        else:
            document = _parsed(Path(what))
        given = dict(_flat(document)) | dict(settings or {})
        pipeline = cls(name=_name(what), **_sorted_out(given))._checked()
        return pipeline if pipeline.brokers is None else pipeline._reached(pipeline.brokers, instead=False)

    def _checked(self) -> Self:
        check_format("source", self.source_format, SOURCES, self.spark)
        check_format("sink", self.sink_format, SINKS, self.spark)
        if self.sql is not None and self.function is not None:
            raise UsageError("sql and function are both given: a pipeline has one of them")
        if self.function is not None and not _FUNCTION.fullmatch(self.function):
            raise UsageError(f"function = {self.function!r}: write module:function, for instance shop.orders:totals")
        if self.is_files and not self.sink.get("path"):
            raise UsageError(f'the sink has the format {self.sink_format}, but no path: say where, as path = "out"')
        if self.group is not None and self.source_format != OURS:
            raise UsageError(f"group = {self.group!r} is for topics: a source of format {self.source_format} has none")
        if self.is_exactly_once and self.checkpoint is None:
            raise UsageError(
                'delivery = "exactly-once" needs a checkpoint that stays: with a temporary one nobody could finish a '
                'batch after a crash, and its rows would be lost; name a directory, as checkpoint = "out.progress"'
            )
        return self

    # -- what it is

    @property
    def source_format(self) -> str:
        """Spark's name of the source; ours by default."""
        return named(self.source.get("format", OURS), SOURCES)

    @property
    def sink_format(self) -> str:
        """Spark's name of the sink; the console by default."""
        return named(self.sink.get("format", "console"), SINKS)

    @property
    def is_files(self) -> bool:
        """Whether each member writes its files into a directory of its own."""
        return self.sink_format in FILES

    @property
    def source_options(self) -> dict[str, str]:
        """The options that Spark passes to the source, with the pipeline's group unless they name another."""
        options = {name: value for name, value in self.source.items() if name != "format"}
        if self.group is not None:
            options = {GROUP_ID: self.group} | options
        is_left_to_sink = self.is_exactly_once and self.source_format == OURS and GROUP_ID in options
        return {DELIVERY: EXACTLY_ONCE} | options if is_left_to_sink else options

    @property
    def sink_options(self) -> dict[str, str]:
        """The options that Spark passes to the sink. If it writes exactly once, the group's offsets count with the
        rows."""
        options = {name: value for name, value in self.sink.items() if name not in ("format", "outputMode")}
        group = self.source_options.get(GROUP_ID) if self.is_exactly_once and self.source_format == OURS else None
        return options if group is None else {GROUP_ID: group} | options

    @property
    def is_exactly_once(self) -> bool:
        """Whether the sink writes in transactions."""
        return self.sink_format in (OURS, TOPIC) and self.sink.get(DELIVERY) == EXACTLY_ONCE

    @property
    def is_shared(self) -> bool:
        """Whether the queries of the pipeline share the partitions as members of a group."""
        return GROUP_ID in self.source_options and self.source.get("group.mode", "member") == "member"

    # -- brokers

    @property
    def brokers(self) -> str | None:
        """The servers of the source, or else of the sink."""
        return self.source.get(BROKERS) or self.sink.get(BROKERS)

    @property
    def needs_brokers(self) -> bool:
        """Whether a broker must answer before Spark starts."""
        return OURS in (self.source_format, self.sink_format) or self.sink_format == TOPIC

    def at(self, brokers: str) -> Self:
        """A copy of the pipeline in which source and sink use these brokers."""
        return self._reached(brokers, instead=True)

    def secured(self, options: Options) -> Self:
        """A copy of the pipeline in which source and sink have these options too, unless they name them."""
        return self._with_topics(lambda given: {**options, **given})

    def _reached(self, brokers: str, *, instead: bool) -> Self:
        """Completes the brokers: a sink without brokers takes the source's, and a source the sink's."""
        return self._with_topics(
            lambda given: {**given, BROKERS: brokers} if instead or BROKERS not in given else given
        )

    def _with_topics(self, change: Callable[[Options], Options]) -> Self:
        """A copy in which the options of source and sink are changed, where they are topics."""
        return dataclasses.replace(
            self,
            source=change(self.source) if self.source_format == OURS else self.source,
            sink=change(self.sink) if self.sink_format in (OURS, TOPIC) else self.sink,
        )


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist: a pipeline is a file of TOML, or module:function") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from None


def _name(what: str) -> str:
    """The name for Spark, for the group's tools and for temporary directories."""
    stem = what.replace(":", ".") if _FUNCTION.fullmatch(what) else Path(what).stem
    return re.sub(r"[^\w.-]", "-", stem)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, list):
            if not all(isinstance(one, str) for one in value):
                raise UsageError(f"{name}: a list holds names; {DOCUMENT} shows how a pipeline is written")
            yield name, ",".join(value)
        else:
            yield name, render(value)


def _sorted_out(given: Options) -> dict[str, Any]:
    """Sorts settings by table. Settings of Spark keep their prefix, which belongs to their names."""
    found: dict[str, Any] = {table: {} for table in _TABLES}
    for key, value in given.items():
        table, dot, name = key.partition(".")
        if dot and table in _TABLES:
            found[table][key if table == "spark" else _SPELLING.get(name.lower(), name)] = value
        elif key in _VALUES:
            found[key] = value
        elif key in _TABLES:
            raise UsageError(f"{key} = {value!r}: this is a table of options: write [{key}] and the options below it")
        elif dot:
            near = nearest(table, _TABLES, DOCUMENT)
            raise UsageError(f"unknown table [{table}] in the pipeline (it holds {name!r}){near}")
        else:
            raise UsageError(f"unknown key {key!r} in the pipeline{nearest(table, [*_VALUES, *_TABLES], DOCUMENT)}")
    return found
