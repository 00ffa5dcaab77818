"""Scenarios with real clients, each written once, played on Equipoise and on Apache Kafka: the outcome must be equal.

python -m proving scenarios [--write docs/compatibility.md]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from proving.brokers import SOON_BACK, EquipoiseBroker, KafkaBroker
from proving.scenarios.clients import ALL_CLIENTS
from proving.scenarios.consumer_plays import ALL_SCENARIOS
from proving.scenarios.matrix import Outcome, play_all
from proving.scenarios.page import is_all_equal, page, table
from proving.scenarios.stage import SETTINGS


def play_on_both(
    clients: Sequence[str] = tuple(ALL_CLIENTS),
    scenarios: Sequence[str] = tuple(ALL_SCENARIOS),
    told: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Unavailable: there is no Apache Kafka to be had."""
    return play_all([EquipoiseBroker(SETTINGS), KafkaBroker({**SETTINGS, **SOON_BACK})], clients, scenarios, told)


def run(
    write: Path | None = None,
    clients: Sequence[str] = tuple(ALL_CLIENTS),
    scenarios: Sequence[str] = tuple(ALL_SCENARIOS),
) -> bool:
    """Plays, prints the table and writes the page; whether all went well, and alike on both brokers."""
    outcomes = play_on_both(clients, scenarios, _tell)
    click.echo("\n" + table(outcomes))
    if write is not None:
        write.write_text(page(outcomes))
    return is_all_equal(outcomes)


def _tell(outcome: Outcome) -> None:
    end = f"not played: {outcome.lacks}" if outcome.lacks else outcome.failure or f"{outcome.seconds:.1f} s"
    click.echo(f"{outcome.scenario}, {outcome.client} on {outcome.broker}: {end}", err=True)
