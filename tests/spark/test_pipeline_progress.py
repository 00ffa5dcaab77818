"""The figures of the live table, from reports as Spark writes them."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from rich.console import Console

from equipoise.spark.pipeline.progress import MemberProgress, ProgressTable


def report(second: int, rows: int, latest: Any = None, **more: Any) -> dict[str, Any]:
    source = {"description": "equipoise", "latestOffset": latest}
    timestamp = f"2026-01-01T00:00:{second:02}.000Z"
    found = {"timestamp": timestamp, "numInputRows": rows, "batchDuration": 45, "stateOperators": []}
    return found | {"sources": [source]} | more


def latest(**more: Any) -> str:
    return json.dumps({"v": 1, "to": {"orders": {"0": 5, "3": 7}}, "lag": 4, "rebalances": 2} | more)


def test_each_report_counts_once() -> None:
    figures = MemberProgress("orders-0")
    first, second = report(1, 100, latest()), report(2, 50, latest(lag=0))
    figures.take([first], now=10.0)
    figures.take([first, second], now=11.0)
    assert (figures.rows, figures.batch_ms, figures.partitions, figures.lag, figures.rebalances) == (150, 45, 2, 0, 2)
    assert figures.rate(now=12.0) == 75.0


def test_rows_per_second_forget_what_is_old() -> None:
    figures = MemberProgress("orders-0")
    figures.take([report(1, 1000)], now=10.0)
    figures.take([], now=20.0)
    assert figures.rate(now=20.0) == 0
    assert figures.rows == 1000


def test_an_empty_batch_leaves_the_last_batch_time() -> None:
    figures = MemberProgress("orders-0")
    figures.take([report(1, 10), report(2, 0, batchDuration=1)], now=10.0)
    assert figures.batch_ms == 45


def test_other_sources_say_less() -> None:
    figures = MemberProgress("rate-0")
    for offset in (None, "12", 12, "no JSON", {"orders": {"0": 5}}):
        figures.take([report(1, 10, offset)], now=10.0)
    assert figures.cells(10.0) == ["rate-0", "10", "-", "45 ms", "-", "-", "10"]


def test_state_is_noticed() -> None:
    figures = MemberProgress("orders-0")
    figures.take([report(1, 10, stateOperators=[{"operatorName": "stateStoreSave"}])], now=10.0)
    assert figures.has_state


def shown(console: Console, seconds: float) -> str:
    figures = MemberProgress("orders-0")
    with ProgressTable(console, [figures]) as display:
        begun = display._spoke
        figures.take([report(1, 12_345, latest())], now=begun)
        display.show(begun + seconds)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_where_there_is_no_terminal_a_line_now_and_then() -> None:
    lines = shown(Console(file=io.StringIO(), width=100), 10.0).splitlines()
    assert lines[0] == "orders-0: rows/s 1,234, lag 4, batch 45 ms, partitions 2, rebalances 2, rows 12,345"
    assert "orders-0: " not in shown(Console(file=io.StringIO(), width=100), 9.0)


def test_on_a_terminal_a_table() -> None:
    text = shown(Console(file=io.StringIO(), width=100, force_terminal=True), 10.0)
    assert "12,345" in text
    assert "orders-0: " not in text


@pytest.mark.parametrize("is_terminal", [False, True])
def test_what_comes_after_the_table_begins_on_a_line_of_its_own(is_terminal: bool) -> None:
    text = shown(Console(file=io.StringIO(), width=100, force_terminal=is_terminal), 1.0)
    assert re.sub(r"\x1b\[\??\d*[a-zA-Z]", "", text).endswith("\n")
