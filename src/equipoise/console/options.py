"""Types of options. An error names the option, and what it expects."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    from equipoise.client import Admin
    from equipoise.watching.access import Access

log = logging.getLogger(__name__)

DEFAULT_BROKER = "127.0.0.1:9092"
_EXAMPLES = {"--set": "num.partitions=6", "--config": "retention.ms=3600000"}
_TIMEOUT_MS = 10_000
_AGE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Whole(click.ParamType):  # type: ignore[type-arg]  # click before 8.4 knows none
    """A whole number, with bounds."""

    name = "number"

    def __init__(self, low: int | None = None, high: int | None = None) -> None:
        self.low, self.high = low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            number = None
        is_low = number is not None and self.low is not None and number < self.low
        is_high = number is not None and self.high is not None and number > self.high
        if number is None or is_low or is_high:
            option = param.opts[0] if param is not None else "a number"
            raise UsageError(f"{option} {value}: write a whole number{self._bounds()}")
        return number

    def _bounds(self) -> str:
        if self.low is None:
            return ""
        return f", {self.low} or more" if self.high is None else f" from {self.low} to {self.high}"


PORT = Whole(0, 65_535)


class NamedPath(click.Path):
    """A path that is not empty, as one from a variable that is not set: that would be the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            raise UsageError(f"{param.opts[0] if param is not None else 'the path'} is empty: give it a name")
        return super().convert(value, param, ctx)


PATH = NamedPath(path_type=Path)


def _new_file(_ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    if path is None:
        return None
    if path.is_dir():
        raise UsageError(f"{param.opts[0]} {path}: this is a directory; name a file")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{param.opts[0]} {path}: there is no directory {path.absolute().parent}; make it first")
    return path


def file_option(*names: str, **more: Any) -> Callable[[Decorated], Decorated]:
    """A file that is written at the end of long work. Its directory is checked at the start."""
    return click.option(*names, metavar="FILE", type=PATH, callback=_new_file, **more)


class Duration(click.ParamType):  # type: ignore[type-arg]  # click before 8.4 knows none
    """A span of time in milliseconds, written as an age: 500ms, 30s, 15m, 2h, 7d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        option = param.opts[0] if param is not None else "a duration"
        return parse_duration(option, str(value))


class ClusterOptions(NamedTuple):
    """A cluster, and the settings of a client for it: those of --command-config. Secrets print as ***."""

    bootstrap_servers: str
    settings: Mapping[str, object] = {}
    timeout: float = 30.0  # s, of one question

    def admin(self) -> Admin:
        """A connected Admin."""
        return self.access().admin()

    def access(self) -> Access:
        """The cluster as a watcher reaches it."""
        from equipoise.watching.access import Access

        return Access(bootstrap_servers=self.bootstrap_servers, settings=self.settings, timeout=self.timeout)

    def client(self, **more: object) -> dict[str, object]:
        """The settings of a consumer or a producer, under Kafka's names."""
        named = {name.replace("_", "."): value for name, value in more.items()}
        return {**self.settings, "bootstrap.servers": self.bootstrap_servers, **named}


def json_option(instead_of: str) -> Callable[[Decorated], Decorated]:
    """`--json`, which the function takes as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=f"One JSON object instead of {instead_of}.")


def command_config(function: Decorated) -> Decorated:
    """The option --command-config, as Kafka's tools have it."""
    return click.option(
        "--command-config",
        metavar="FILE",
        type=PATH,
        help="Settings of TLS and SASL: a Java properties file.",
    )(function)


def cluster_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options --bootstrap-servers and --command-config; the command gets a `cluster`."""

    @wraps(function)
    def command(*, bootstrap_servers: str, command_config: Path | None, **given: Any) -> None:
        function(cluster=cluster_of(bootstrap_servers, command_config), **given)

    servers = click.option(
        "--bootstrap-servers",
        "-b",
        metavar="HOST:PORT",
        default=DEFAULT_BROKER,
        show_default=True,
        envvar="EQUIPOISE_BOOTSTRAP_SERVERS",
        show_envvar=True,
        help="A broker of the cluster, or some, with commas.",
    )
    return servers(command_config(command))


def timed_cluster_options(function: Callable[..., None]) -> Callable[..., None]:
    """The same with --timeout."""

    @wraps(function)
    def command(*, cluster: ClusterOptions, timeout: int, **given: Any) -> None:
        function(cluster=cluster._replace(timeout=timeout / 1000), **given)

    option = click.option(
        "--timeout", metavar="TIME", type=Duration(), default=f"{_TIMEOUT_MS // 1000}s", show_default=True,
        help="Longest wait for one answer.",
    )  # fmt: skip
    return cluster_options(option(command))


def cluster_of(bootstrap_servers: str, file: Path | None) -> ClusterOptions:
    """The cluster of a command. The file's bootstrap.servers count if the command line names none."""
    if file is None:
        return ClusterOptions(bootstrap_servers)
    settings, servers = client_settings(file)
    source = click.get_current_context().get_parameter_source("bootstrap_servers")
    return ClusterOptions(servers if servers and source is ParameterSource.DEFAULT else bootstrap_servers, settings)


def client_settings(file: Path) -> tuple[dict[str, object], str | None]:
    """The settings of TLS and SASL in a properties file, and its servers. Others have no effect on a command."""
    from equipoise.client.security.properties import read_settings
    from equipoise.client.security.settings import split

    settings, others = split(read_settings(file))
    servers = others.pop("bootstrap.servers", None)
    if others:
        log.warning("--command-config %s: no effect on a command: %s", file, ", ".join(sorted(others)))
    return settings, None if servers is None else str(servers)


def read_text(named: str, file: Path) -> str:
    """A file that people write. UsageError: it is no text. `named`: as the command line has it."""
    try:
        return file.read_text(encoding="utf-8-sig")  # some editors begin with a mark
    except UnicodeDecodeError:
        raise UsageError(f"{named}: this is no text in UTF-8") from None


def parse_duration(option: str, text: str) -> int:
    """Milliseconds of an age. UsageError names the option."""
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(f"{option} {text}: write a span of time, for instance 500ms, 30s, 15m, 2h or 7d")
    return round(float(found[1]) * _UNITS_MS[found[2]])


def parse_time(option: str, text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of an age counted back from now, a date or an ISO time; without a zone, local time."""
    if _AGE.fullmatch(text.strip().lower()):
        return max(0, now_ms - parse_duration(option, text))  # below 0 are Kafka's words: -1 is the end
    try:
        return max(0, round(datetime.fromisoformat(text).timestamp() * 1000))
    except ValueError:
        raise UsageError(
            f"{option} {text}: write an age (30m, 7d), a date (2026-01-31) or a time (2026-01-31T08:00)"
        ) from None


def parse_pairs(option: str, pairs: tuple[str, ...], example: str | None = None) -> dict[str, str]:
    """Parses NAME=VALUE options. The error names the option; arguments have none: "" """
    settings: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            good = f"{option} {example or _EXAMPLES[option]}".strip()
            raise UsageError(f"{option} {pair}: write NAME=VALUE, for instance {good}".strip())
        settings[name.strip()] = value.strip()
    return settings


def refuse_secrets(option: str, given: Iterable[str]) -> None:
    """UsageError: a secret stands on the command line, which every user of the machine can see."""
    from equipoise.client.security.settings import is_secret

    for name in given:
        if is_secret(name.lower().partition("kafka.")[2]):
            raise UsageError(f"{option} {name}: every user can see a secret there: put it into --command-config FILE")
