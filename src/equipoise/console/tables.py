"""Tables for a terminal; on a pipe, plain columns that other tools can read."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from equipoise.wire.text import printable

_LONGEST = 300  # letters of a cell: a group id may have 32,767 of them
_WIDEST = 60  # of a column on a pipe: one long name does not widen all lines
Row = Sequence[str | int]


def print_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Aligns numbers to the right. Names come from clients: characters that could move the cursor are shown as text."""
    if sys.stdout.isatty():
        _print_rich(columns, rows)
        return
    cells = [list(columns), *([_text(cell) for cell in row] for row in rows)]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_rich(columns: Sequence[str], rows: Sequence[Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for name, cell in zip(columns, rows[0] if rows else columns, strict=True):
        table.add_column(name, justify="right" if isinstance(cell, int) else "left")
    for row in rows:
        table.add_row(*(Text(_text(cell)) for cell in row))
    Console().print(table)


def counted(number: int, what: str) -> str:
    """A number with its noun: "1 member", "3 members"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _text(cell: str | int) -> str:
    return printable(str(cell), _LONGEST)
