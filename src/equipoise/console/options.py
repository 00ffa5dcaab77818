"""Types of options. An error names the option, and what it expects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from equipoise.wire.errors import UsageError

_EXAMPLES = {"--set": "num.partitions=6", "--config": "retention.ms=3600000"}
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
    return click.option(*names, metavar="FILE", type=click.Path(path_type=Path), callback=_new_file, **more)


def parse_pairs(option: str, pairs: tuple[str, ...], example: str | None = None) -> dict[str, str]:
    """Parses NAME=VALUE options. The error names the option."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"{option} {pair}: write NAME=VALUE, for instance {option} {example or _EXAMPLES[option]}")
        settings[name.strip()] = value.strip()
    return settings
