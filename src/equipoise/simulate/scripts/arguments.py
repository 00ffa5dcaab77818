"""The words behind a command: names, options (`session=10s`), partitions (`orders:0,1`), offsets (`orders:0=41`)."""

from __future__ import annotations

import re
import shlex

from equipoise.wire.consumer_protocol import Partitions
from equipoise.wire.errors import UsageError

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_OPTION = re.compile(r"([\w.-]+)=(.*)", re.DOTALL)


class Arguments:
    """Options are taken by name; what nobody took is a mistake."""

    def __init__(self, text: str) -> None:
        self.words: list[str] = []
        self._options: dict[str, str] = {}
        for token in shlex.split(text):
            option = _OPTION.fullmatch(token)
            if option:
                self._options[option[1]] = option[2]
            else:
                self.words.append(token)

    def word(self) -> str:
        """The next name. UsageError if there is none."""
        if not self.words:
            raise UsageError("a name is missing")
        return self.words.pop(0)

    def option(self, name: str, default: str | None = None) -> str | None:
        """`-` stands for none."""
        value = self._options.pop(name, default)
        return None if value == "-" else value

    def number(self, name: str, default: int) -> int:
        """A whole number."""
        return int(self._options.pop(name, str(default)))

    def duration(self, name: str, default: int) -> int:
        """Milliseconds of a span of time."""
        return milliseconds(self._options.pop(name)) if name in self._options else default

    def names(self, name: str, default: list[str]) -> list[str]:
        """A list with commas."""
        return self._options.pop(name).split(",") if name in self._options else default

    def rest(self) -> dict[str, str]:
        """All options that nobody has taken."""
        options, self._options = self._options, {}
        return options

    def done(self) -> None:
        """UsageError if anything is left."""
        left = self.words + [f"{name}={value}" for name, value in self._options.items()]
        if left:
            raise UsageError(f"nobody knows what to do with {' '.join(left)}")


def milliseconds(text: str) -> int:
    """Of a span of time: 3s, 999ms."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise UsageError(f"{text} is no time; write 3s, 999ms, 2m, 1h or 7d")
    return round(float(found[1]) * _UNITS[found[2]])


def partitions(tokens: list[str]) -> Partitions:
    """`orders:0,1 payments:7`; `-` for none."""
    found: Partitions = {}
    for token in tokens:
        topic, colon, numbers = token.partition(":")
        if token == "-":
            continue
        if not colon:
            raise UsageError(f"{token} names no partitions; write {token}:0,1")
        found.setdefault(topic, []).extend(int(number) for number in numbers.split(","))
    return found


def offsets(tokens: list[str]) -> dict[str, dict[int, int]]:
    """`orders:0=41`, by topic and partition."""
    found: dict[str, dict[int, int]] = {}
    for token in tokens:
        place, _, offset = token.partition("=")
        for topic, numbers in partitions([place]).items():
            found.setdefault(topic, {}).update((number, int(offset)) for number in numbers)
    return found
