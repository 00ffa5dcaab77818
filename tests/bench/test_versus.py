"""`python -m bench versus-kafka`: a very small run, and what becomes of the numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.versus import rebalances
from bench.versus import run as versus
from bench.versus.figures import (
    CASES,
    KAFKA,
    LOAD_FIGURES,
    MACHINE_FIGURES,
    NOT_FLUSHED,
    OURS,
    PARTITIONS,
    REQUEST_FIGURES,
    Case,
    Comparison,
    Results,
    Sizes,
    figures_of,
)
from bench.versus.page import print_tables, write_page
from bench.versus.rebalances import Rebalance, measure_cases, measure_rebalance
from bench.versus.run import of_cases
from equipoise.wire.errors import UsageError
from proving.brokers import QUICK_JVM, EquipoiseBroker
from proving.members.events import Event, Ledger
from proving.members.hosts import CONSUMER, Membership
from tests.commands import Command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bench reads process clocks of Linux")

TINY = Sizes(1, 0.05, 0, 1, 20, 0.05, 0.05, 1, (), 1, 1)


# -- a run


@pytest.mark.soak
@pytest.mark.kafka
def test_a_run_has_every_figure_of_both_brokers(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(versus, "QUICK", TINY)
    monkeypatch.setattr(versus, "STOCK_JVM", QUICK_JVM)
    page = tmp_path / "benchmarks.md"
    ended = command("versus-kafka", "--json", "--quick", "--write", str(page))
    assert (ended.status, ended.err) == (0, "")
    document = json.loads(ended.out)
    figures = document["figures"]
    expected = []
    for figure in (*MACHINE_FIGURES, *LOAD_FIGURES, *REQUEST_FIGURES):
        sides = (KAFKA, OURS) if figure.key in ("start", "resident_idle") else (KAFKA, OURS, NOT_FLUSHED)
        expected += [f"{figure.key}_{side}" for side in (*sides, "ratio")]
    assert list(figures) == expected
    for key, values in figures.items():
        assert values["median"] > 0, key
    assert document["skipped"] == []
    assert document["versions"]["kafka"] in page.read_text()


SETTINGS = {
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}
CONSUMERS = Case("confluent-kafka", "consumer", CONSUMER)


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members with short intervals and sessions."""

    def stock(group: str, topics: tuple[str, ...], assignor: str) -> Membership:
        return Membership(group, topics, assignor=assignor)

    monkeypatch.setattr(Membership, "stock", stock)
    monkeypatch.setattr(rebalances, "_HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(rebalances, "_CONSUMER_HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(rebalances, "_VICTIM", {"session_ms": 1_000})


@pytest.mark.usefixtures("in_a_hurry")
def test_stock_members_are_measured_on_both_sides(tmp_path: Path) -> None:
    """Two cases, whose members crash together, and one that cannot be measured."""
    cases = (CASES[0], CONSUMERS, Case("confluent-kafka", "odd", "no such assignor"))
    results = Results(TINY._replace(cases=cases))
    with EquipoiseBroker(SETTINGS) as one, EquipoiseBroker(SETTINGS) as other:
        for broker in (one, other):
            versus.create_topic(broker, "topic", PARTITIONS)
        addresses = {KAFKA: one.bootstrap_servers, OURS: other.bootstrap_servers}
        measure_cases(results, cases, addresses, "topic", log=tmp_path / "log")
    assert results.figures == [*figures_of(CASES[0]), *figures_of(CONSUMERS)]
    for figure in results.figures:
        for side in (KAFKA, OURS):
            assert (results.median(figure, side) or 0) > 0, figure
    assert [line.partition(":")[0] for line in results.skipped] == ["confluent-kafka, odd"]


@pytest.mark.usefixtures("in_a_hurry")
def test_our_broker_is_measured_alone(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versus, "FULL", TINY)
    monkeypatch.setattr(versus, "EquipoiseBroker", lambda more=None: EquipoiseBroker({**SETTINGS, **(more or {})}))
    ended = command("versus-kafka", "--json", "--alone", "--only", "confluent-kafka, eager")
    assert (ended.status, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert set(document["figures"]) == {f"{figure.key}_{OURS}" for figure in figures_of(CASES[0])}
    assert "kafka" not in document["versions"]
    ended = command("versus-kafka", "--alone", "--write", "page.md")
    assert (ended.status, ended.out) == (2, "")
    assert "--write" in ended.err


def test_cases_are_measured_some_at_a_time() -> None:
    assert [len(cases) for cases in versus.batched(CASES[:9], 4)] == [4, 4, 1]


# -- one rebalance


def places(*partitions: int) -> frozenset[tuple[str, int]]:
    return frozenset(("topic", partition) for partition in partitions)


def test_a_rebalance_is_timed_from_its_cause_and_from_the_first_callback() -> None:
    ledger = Ledger()
    for event in (
        Event(0.0, "old", "assigned", places(0, 1)),
        Event(3.0, "old", "revoked", places(0, 1)),
        Event(3.5, "new", "assigned", places(1)),
        Event(4.0, "old", "assigned", places(0)),
    ):
        ledger.note(event)
    # Nobody had partition 0 for 1 s, partition 1 for half a second.
    assert measure_rebalance(ledger, 1, began=1.0) == Rebalance(rebalance=1.0, whole=3.0, unowned=0.75)
    assert measure_rebalance(ledger, 1, began=None) == Rebalance(rebalance=1.0, whole=1.0, unowned=0.75)


def test_what_the_killed_one_had_is_without_owner_from_then_on() -> None:
    ledger = Ledger()
    for event in (
        Event(0.0, "victim", "assigned", places(0)),
        Event(0.0, "other", "assigned", places(1)),
        Event(1.0, "victim", "killed"),
        Event(7.0, "other", "assigned", places(0)),
    ):
        ledger.note(event)
    assert measure_rebalance(ledger, 2, began=1.0) == Rebalance(rebalance=0.0, whole=6.0, unowned=3.0)


# -- figures


def results_of(*values: tuple[str, float, float]) -> Results:
    results = Results(TINY._replace(cases=CASES[:1]))
    for key, kafka, ours in values:
        results.add(key, KAFKA, kafka)
        results.add(key, OURS, ours)
    return results


def test_above_one_is_in_our_favour_whether_less_or_more_is_better() -> None:
    results = results_of(("cost", 6.0, 2.0), ("rate", 2.0, 6.0))
    cost, rate = Comparison("cost", "cost", "s", 3.0), Comparison("rate", "rate", "1/s", 4.0)
    assert (results.ratio(cost), results.ratio(rate)) == (3.0, 3.0)
    assert (results.meets_aim(cost), results.meets_aim(rate)) == (True, False)


def test_the_median_of_the_rounds_counts() -> None:
    results = results_of(("cost", 6.0, 2.0), ("cost", 9.0, 1.0), ("cost", 100.0, 1.5))
    assert results.ratio(Comparison("cost", "cost", "s")) == 6.0


def test_aims_are_of_the_time_from_the_cause_and_of_some_clients_only() -> None:
    aims = {case.title: [figure.aim for figure in figures_of(case) if figure.aim] for case in CASES}
    assert aims["java, consumer"] == [10.0] * 4
    assert aims["equipoise, cooperative"] == [10.0, 30.0, 10.0, 10.0]
    assert aims["franz-go, consumer"] == aims["kafkajs, eager"] == []


def test_single_cases_are_chosen_by_words_of_their_title() -> None:
    assert [case.title for case in versus.of_cases(("java",)).cases] == [
        "java, eager",
        "java, cooperative",
        "java, consumer",
    ]
    assert versus.of_cases(("consumer",)).load_rounds == 0
    with pytest.raises(UsageError, match="--only nobody"):
        versus.of_cases(("nobody",))


def test_the_page_says_what_falls_short_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kafka_version", "_java_version"):
        monkeypatch.setattr(f"bench.versus.page.{name}", lambda: "1.2.3")
    case = CASES[0]
    keys = [figure.key for figure in figures_of(case)]
    results = results_of(("start", 6.0, 0.5), ("resident_idle", 400.0, 100.0), *((key, 3.0, 1.0) for key in keys))
    results.skipped.append("java, eager: no Java here")
    page = tmp_path / "benchmarks.md"
    write_page(page, results, 60.0)
    lines = page.read_text().splitlines()
    assert "1 of 6 aims are met. Missed:" in lines
    assert "- resident, idle: 4 times, aim 5" in lines
    assert "Not measured: java, eager: no Java here" in lines
    assert "| start to ready | s | 6 | 0.5 |  | 12 | >= 12 | met |" in lines
    assert "| confluent-kafka, eager | 3 | 1 | 3 |  | 3 | 1 | 3 | MISSED | 3 | 1 | 3 |  |" in lines  # join and crash
    assert "| confluent-kafka, eager | 3 | 1 | 3 | MISSED | 3 | 1 | 3 |  | 3 | 1 | 3 |  |" in lines  # leave
    print_tables(results, 60.0)
    shown = capsys.readouterr().out
    assert "Crash of a member, seconds" in shown
    assert "Not measured: java, eager: no Java here" in shown


def test_a_run_in_parts_goes_on_with_what_was_kept(tmp_path: Path) -> None:
    """A case that was finished is not measured again; one that was not begins anew; the page has all of them."""
    kept = tmp_path / "kept.json"
    whole, half = CASES[0], CASES[1]
    first = Results(of_cases((whole.title, half.title)))
    for figure in figures_of(whole):
        first.add(figure.key, KAFKA, 2.0)
        first.add(figure.key, OURS, 1.0)
    first.add(figures_of(half)[0].key, KAFKA, 2.0)
    first.skipped.append("something")
    first.save(kept)
    second = Results(of_cases((half.title,)))
    second.load(kept)
    assert (second.has_case(whole), second.has_case(half), second.skipped) == (True, False, [])
    second.forget(half)
    assert second.median(figures_of(half)[0], KAFKA) is None
    assert {figure.key for figure in second.figures} == {figure.key for figure in figures_of(whole)}
    nothing = Results(of_cases((half.title,)))
    nothing.load(tmp_path / "nowhere.json")
    assert nothing.figures == []
