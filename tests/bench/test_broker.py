"""`python -m bench broker`: a very short run, and what becomes of the numbers."""

from __future__ import annotations

import json
import sys

import pytest

from bench.broker import run as broker
from bench.broker.figures import DISK, FIGURES, MEMORY, MOCK, TARGETS, Measurements, print_figures
from bench.figures import Figure
from proving.brokers import EquipoiseBroker
from tests.commands import Command

ONLY_OURS = {"writing_alone_cpu": (DISK,), "resident_emptied": (DISK, MEMORY)}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bench reads process clocks of Linux")


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "STARTS", 1)
    monkeypatch.setattr(broker, "ROUNDS", 1)
    monkeypatch.setattr(broker, "LOAD_SECONDS", 0.05)


@pytest.mark.usefixtures("in_a_hurry")
def test_json_has_every_figure_of_every_target(command: Command) -> None:
    ended = command("broker", "--json")
    document = json.loads(ended.out)
    expected = []
    for figure in FIGURES:
        expected += [f"{figure.key}_{target.key}" for target in ONLY_OURS.get(figure.key, TARGETS)]
        expected += [] if figure.key in ONLY_OURS else [f"{figure.key}_ratio"]
    assert list(document["figures"]) == expected
    for key, values in document["figures"].items():
        assert values["best"] > 0, key
        assert values["rounds"], key
    assert document["machine"]["cores"] >= 1
    assert set(document["versions"]) == {"equipoise", "python", "confluent-kafka", "librdkafka"}


def test_without_confluent_kafka_it_says_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    ended = command("broker")
    message = "bench: broker needs confluent-kafka: `make setup` installs it\n"
    assert ended == (2, "", message)


def test_the_best_round_counts_and_is_held_against_the_aim() -> None:
    cost, speed = Figure("cost", "cost", "ms/MB", aim=1.0), Figure("speed", "speed", "MB/s")
    measured = Measurements()
    for ours, theirs in ((3.0, 1.0), (2.0, 0.5)):
        for figure in (cost, speed):
            measured.add(figure.key, DISK, ours)
            measured.add(figure.key, MOCK, theirs)
    assert (measured.best(cost, DISK), measured.best(speed, DISK)) == (2.0, 3.0)
    assert (measured.ratio(cost), measured.ratio(speed)) == (4.0, 3.0)
    assert (measured.meets_aim(cost), measured.meets_aim(speed)) == (False, None)
    measured.add("cost", DISK, 1.0)
    assert measured.meets_aim(cost) is True
    assert measured.best(cost, MEMORY) is None


def test_the_table_marks_what_falls_short(capsys: pytest.CaptureFixture[str]) -> None:
    measured = Measurements()
    measured.add("ready_process", DISK, 0.5)
    measured.add("ready_in_process", DISK, 0.01)
    print_figures(measured, 1.0)
    lines = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["ready, as a process"].split()[-2:] == ["MISSED", "0.5"]
    assert lines["ready, in process"].split()[-2:] == ["met", "0.01"]


class BrokenBroker(EquipoiseBroker):
    def command(self) -> list[str]:
        return [*super().command(), "--set", "nonsense"]


def test_a_broker_that_does_not_start_is_an_error_not_a_wait(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "TARGETS", (DISK._replace(kind=BrokenBroker),))
    ended = command("broker")
    assert (ended.status, ended.out) == (2, "")
    assert "equipoise has ended with status 2: equipoise: --set nonsense: write NAME=VALUE" in ended.err
