"""The shortest schedule that fails as a long one does.

First whole runs of commands are left out, then single ones; then times become shorter and settings plain. What is left
cannot lose a command without losing the failure, or the number of attempts is used up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from equipoise.simulate.hunt.run import Run, run

MOST_RUNS = 600
_TIME = re.compile(r"\b(\d+)ms\b")
_PLAIN = (
    (r" jitter=\d+ms", " jitter=0ms"),
    (r" loss=\d+%", " loss=0%"),
    (r" takes=\d+ms", " takes=0ms"),
    (r" commits=yes", " commits=no"),
    (r" loading=\d+ms", ""),
    (r" keeps=\d+", ""),
    (r" ahead=\w+", ""),
    (r" group\.\S+", ""),
    (r" t u$", " t"),
)
_NUMBER = re.compile(r"\d+")


def shrink(lines: Sequence[str], failure: str, most_runs: int = MOST_RUNS) -> list[str]:
    """A part of the schedule that fails in the same way; the last command is the one that fails."""
    return _Shrinking(failure, most_runs).run(list(lines))


def shape(failure: str) -> str:
    """Two failures are the same if they differ in numbers alone."""
    return _NUMBER.sub("#", failure)


class _Shrinking:
    def __init__(self, failure: str, most_runs: int) -> None:
        self._shape = shape(failure)
        self._runs_left = most_runs

    def run(self, lines: list[str]) -> list[str]:
        """Again and again, until nothing more can be left out."""
        found = self._failing(lines) or lines
        while True:
            before = found
            found = self._shorter(found)
            found = self._plainer(found)
            if found == before or self._runs_left <= 0:
                return found

    def _failing(self, lines: list[str]) -> list[str] | None:
        """The commands up to the failure, if it is the same; None: it is not, or there is no attempt left."""
        if self._runs_left <= 0:
            return None
        self._runs_left -= 1
        outcome: Run = run(lines)
        if outcome.failure is None or shape(outcome.failure) != self._shape:
            return None
        return lines[: outcome.length]

    def _shorter(self, lines: list[str]) -> list[str]:
        size = max(len(lines) // 2, 1)
        while True:
            at = max(len(lines) - size, 0)
            while at >= 0:
                shorter = self._failing(lines[:at] + lines[at + size :])
                lines = lines if shorter is None else shorter
                at = min(at, len(lines)) - size
            if size == 1:
                return lines
            size //= 2

    def _plainer(self, lines: list[str]) -> list[str]:
        for at in range(len(lines)):
            for plain in _plainer(lines[at]) if at < len(lines) else ():
                found = self._failing([*lines[:at], plain, *lines[at + 1 :]])
                if found is not None:
                    lines = found
                    break
        return lines


def _plainer(line: str) -> Iterator[str]:
    """Simpler forms of a command: without an option, or with less time."""
    for pattern, plain in _PLAIN:
        found = re.sub(pattern, plain, line, count=1)
        if found != line:
            yield found
    time = _TIME.search(line) if line.startswith(("advance", "freeze", "stall", "late", "pause")) else None
    if time is not None and int(time[1]) > 1:
        for ms in (1, int(time[1]) // 2):
            yield f"{line[: time.start()]}{ms}ms{line[time.end() :]}"
