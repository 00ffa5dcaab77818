"""Transactions beside Apache Kafka: every script, and random ones, answered alike."""

from __future__ import annotations

import os

import pytest

from proving.conformance.transactions.run import STEPS, run
from proving.conformance.transactions.scripts import all_scripts, draw
from tests.proving.needed import needed


def test_there_are_enough_scripts() -> None:
    scripts = all_scripts()
    assert len(scripts) >= 300
    assert len({script.steps for script in scripts}) > 0.9 * len(scripts)


def test_a_random_script_is_made_of_its_seed() -> None:
    assert draw("7") == draw("7") != draw("8")


@pytest.mark.kafka
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("seed", "steps"), [("1", 200), pytest.param(None, STEPS, id="new", marks=pytest.mark.soak)])
def test_every_answer_is_kafkas(seed: str | None, steps: int) -> None:
    summary = needed(lambda: run(os.environ.get("EQUIPOISE_SEED", seed), steps))
    print(summary.text())
    assert summary.is_good, summary.text()
    assert summary.scripts == len(all_scripts())
    assert summary.random_steps >= steps
