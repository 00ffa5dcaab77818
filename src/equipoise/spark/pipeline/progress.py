"""The live table of a run: rows, lag and partitions of each member."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

_WINDOW_S = 5.0  # over which rows per second are counted
_LINES_S = 10.0  # between two lines where there is no terminal
_COLUMNS = "member", "rows/s", "lag", "batch", "partitions", "rebalances", "rows"
Report = Mapping[str, Any]  # one StreamingQueryProgress


@dataclass(slots=True)
class MemberProgress:
    """The figures of one query, from Spark's reports. None: unknown so far, or unknown to such a source."""

    name: str
    rows: int = 0
    batch_ms: int | None = None
    lag: int | None = None
    partitions: int | None = None
    rebalances: int | None = None
    has_state: bool = False
    _last: str = ""
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def take(self, reports: Iterable[Report], now: float) -> None:
        """Takes the new reports among those that Spark keeps."""
        for report in reports:
            if report["timestamp"] > self._last:
                self._last = report["timestamp"]
                self._take(report, now)
        while self._recent and now - self._recent[0][0] > _WINDOW_S:
            self._recent.popleft()

    def _take(self, report: Report, now: float) -> None:
        rows = int(report["numInputRows"])
        if rows:
            self.rows += rows
            self.batch_ms = int(report["batchDuration"])
            self._recent.append((now, rows))
        self.has_state = self.has_state or bool(report["stateOperators"])
        self._take_source(_json(report["sources"][0]["latestOffset"]))

    def _take_source(self, latest: Any) -> None:
        """Reads the figures that our source adds to its offset report (`StreamReader.reportLatestOffset`)."""
        if isinstance(latest, dict) and "lag" in latest:
            self.partitions = sum(map(len, latest["to"].values()))
            self.lag, self.rebalances = latest["lag"], latest["rebalances"]

    def rate(self, now: float) -> float:
        """Rows a second over the last seconds."""
        if not self._recent:
            return 0.0
        return sum(rows for _, rows in self._recent) / max(now - self._recent[0][0], 1.0)

    def cells(self, now: float) -> list[str]:
        """The member's row of the table, as text."""
        batch = "-" if self.batch_ms is None else f"{self.batch_ms:,} ms"
        counts = [_count(value) for value in (self.partitions, self.rebalances)]
        return [self.name, f"{self.rate(now):,.0f}", _count(self.lag), batch, *counts, _count(self.rows)]


def _json(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


class ProgressTable:
    """A terminal gets a table that redraws itself, anything else a line now and then. The last table stays."""

    def __init__(self, console: Console, members: Sequence[MemberProgress]) -> None:
        self._console = console
        self._members = members
        self._spoke = time.monotonic()
        # Rows that a console sink prints stand above the table, unless they go to a file.
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=console.is_terminal)

    def __enter__(self) -> ProgressTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.show(time.monotonic())
        self._live.stop()
        if not self._console.is_terminal:  # where rich leaves the last line open, and an error would stick to it
            self._console.line()

    def show(self, now: float) -> None:
        """Draws the table as it is now."""
        self._live.update(self._table(now), refresh=True)
        if not self._console.is_terminal and now - self._spoke >= _LINES_S:
            self._spoke = now
            for member in self._members:
                name, *cells = member.cells(now)
                told = ", ".join(f"{title} {cell}" for title, cell in zip(_COLUMNS[1:], cells, strict=True))
                self._console.print(f"{name}: {told}", soft_wrap=True)

    def _table(self, now: float) -> Table:
        table = Table(box=box.SIMPLE_HEAD, header_style="bold")
        for name in _COLUMNS:
            table.add_column(name, justify="left" if name == "member" else "right")
        for member in self._members:
            table.add_row(*member.cells(now))
        return table
