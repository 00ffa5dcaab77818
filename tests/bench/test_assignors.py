"""`python -m bench assignors`: a very short run, and what becomes of the numbers."""

from __future__ import annotations

import json
import sys

import pytest

from bench.assignors import run as assignors
from bench.assignors.figures import EVENTS, FULL, Results, Size
from tests.commands import Command

TINY = (Size(20, 10, 2, 1, 1, tuple(EVENTS)), Size(20, 10, 1000, 1, 1, ()))


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignors, "QUICK", TINY)


@pytest.mark.usefixtures("in_a_hurry")
def test_json_has_every_figure(command: Command) -> None:
    ended = command("assignors", "--quick", "--json")
    figures = json.loads(ended.out)["figures"]
    forms = ("numbers", "names", "payloads")
    beside = {"20_x_20": (*forms, "kafka_python", "factor", "moves"), "20_x_10000": (*forms, "moves")}
    assert list(figures) == [
        f"{size}_{event}_{row}" for size, rows in beside.items() for event in EVENTS for row in rows
    ]
    assert all(figure["best"] >= 0 for figure in figures.values())
    assert figures["20_x_10000_uniform_scratch_moves"]["best"] == 10_000
    assert figures["20_x_10000_uniform_leave_moves"]["best"] == 500
    assert figures["20_x_10000_uniform_join_moves"]["best"] == 476


@pytest.mark.usefixtures("in_a_hurry")
def test_the_table_has_a_line_for_each(command: Command) -> None:
    lines = command("assignors", "--quick").out.splitlines()
    assert sum(line.startswith(("20 x 20, ", "20 x 10,000, ")) for line in lines) == 2 * len(EVENTS)


def test_the_best_round_is_held_against_the_aim() -> None:
    row = Results(FULL).row(FULL[-1], "uniform_leave")
    row.values["numbers"] = [31.0, 29.0]
    assert (row.meets_aim, row.aim_text) == (True, "<= 30 ms")
    row.values["numbers"] = [31.0]
    assert row.cells()[-1] == "MISSED"


def test_the_factor_is_between_names_and_names() -> None:
    row = Results(FULL).row(FULL[1], "uniform_join")
    assert row.meets_aim is None
    row.values |= {"numbers": [0.1], "names": [2.0], "kafka_python": [1900.0]}
    assert (row.factor, row.meets_aim, row.aim_text) == (950.0, False, ">= 1,000 times")


def test_without_kafka_python_it_says_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafka", None)
    ended = command("assignors")
    assert (ended.status, ended.out) == (2, "")
    assert "needs kafka-python: `make setup`" in ended.err
