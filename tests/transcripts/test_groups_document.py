"""docs/groups.md says what runs: the diagram, the settings, the clients that are held, the rows of `__rebalances`."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from equipoise.broker.config import rows
from equipoise.broker.groups.held_heartbeats import PATIENT_CLIENTS
from equipoise.broker.groups.journal import rebalance_row
from equipoise.console.words import state_diagram
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.events import Event
from equipoise.coordinator.journal import Rebalance
from equipoise.coordinator.reasons import Cause, Departure, Refusal, Trigger
from equipoise.settings import render
from tests.consumer_groups.test_journal import EXPLAINED
from tests.transcripts.runner import HERE

DOCUMENT = (Path(__file__).parents[2] / "docs" / "groups.md").read_text(encoding="utf-8")


def _table(first_cell: str) -> list[list[str]]:
    """The rows of the table whose head begins with this cell."""
    lines = DOCUMENT.split(f"\n| {first_cell} |", 1)[1].split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_the_diagram_is_the_transition_table() -> None:
    assert DOCUMENT.split("```mermaid\n", 1)[1].split("\n```", 1)[0] == state_diagram()


def test_every_state_has_its_row() -> None:
    assert [row[0] for row in _table("state")] == [state.value for state in State]


def test_the_additions_are_listed_with_their_defaults() -> None:
    known = rows()
    for name, default, _ in _table("setting"):
        assert default == render(known[name.strip("`")].default)


def test_the_clients_that_are_held_are_listed() -> None:
    sentence = DOCUMENT.split("software name they send with ApiVersions: ", 1)[1].partition(". ")[0]
    assert _quoted(sentence) == sorted(PATIENT_CLIENTS)


@pytest.mark.parametrize(("word", "reasons"), [("trigger", Trigger), ("departure", Departure), ("refusal", Refusal)])
def test_every_reason_is_listed(word: str, reasons: type[Trigger | Departure | Refusal]) -> None:
    sentence = re.split(r"\.\s", DOCUMENT.split(f"`{word}` is one of ", 1)[1], maxsplit=1)[0]
    assert _quoted(sentence) == [reason.name.lower() for reason in reasons]


def test_every_row_of_the_journal_is_listed_with_its_fields() -> None:
    expected = {
        re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): [field.name for field in dataclasses.fields(kind)]
        for kind in Event.__subclasses__()
        if dataclasses.is_dataclass(kind)
    }
    expected["member_joined"] += ["principal", "listener"]  # of the connection, which the broker knows
    expected["rebalance"] = [
        key for key in rebalance_row(Rebalance("g", Cause(Trigger.MEMBER_LEFT), 0, 1, is_target=True)) if key != "type"
    ]
    assert {kind.strip("`"): _quoted(fields) for kind, _, fields in _table("`type`")} == expected


def test_the_scripts_it_names_are_there_and_its_explanation_is_theirs() -> None:
    for name in re.findall(r"[\w/]+\.txt", DOCUMENT):
        assert (HERE / Path(name).name).exists(), name
    explanation, epoch = DOCUMENT.split("```\n")[-4], DOCUMENT.split("```\n")[-2]
    assert epoch.rstrip() == EXPLAINED
    assert explanation in (HERE / "kip429_three_rounds.txt").read_text(encoding="utf-8")
