"""`python -m proving`: its options, and what it says when something is missing."""

from __future__ import annotations

import pytest

from proving.__main__ import app, run
from tests.commands import Command, check_line, check_words, command_of, run_bare


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return command_of("proving", run, capsys, monkeypatch)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("conformance --steps many", "--steps many: write a whole number, 0 or more"),
        ("clusters --trial x", "--trial x: there are consumers, truncation, queries, pipeline"),
        ("scenarios --client x", "--client x: there are "),
        ("scenarios --scenario x", "--scenario x: there are "),
    ],
)
def test_a_slip_is_one_line(command: Command, arguments: str, told: str) -> None:
    check_line(command(*arguments.split()), told, "proving")


def test_without_its_packages_it_says_what_to_install() -> None:
    check_line(run_bare("proving.__main__", "scenarios"), "pip install 'equipoise[", "proving")


def test_every_option_has_words() -> None:
    check_words(app)
