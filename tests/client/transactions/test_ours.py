"""Transactions of our clients on our broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise import Broker
from tests.client.transactions.killing import copies_are_killed, the_broker_is_killed
from tests.client.transactions.reading import READING
from tests.client.transactions.scenarios import SCENARIOS, Scenario
from tests.crash.warm import WarmBroker

QUICK = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "log.cleaner.backoff.ms": 100,
}


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[Broker]:
    with Broker(QUICK) as broker:
        yield broker


@pytest.mark.parametrize("scenario", [*SCENARIOS, *READING], ids=lambda one: one.__name__)
def test_the_scenario(scenario: Scenario, quick_broker: Broker) -> None:
    scenario(quick_broker)


def test_killed_copies_bill_each_order_once(quick_broker: Broker) -> None:
    copies_are_killed(quick_broker, kills=3)


@pytest.fixture
def quick_process(tmp_path: Path) -> Iterator[WarmBroker]:
    with WarmBroker(tmp_path / "data", tmp_path / "log", QUICK) as broker:
        yield broker


def test_a_killed_broker_bills_each_order_once(quick_process: WarmBroker) -> None:
    the_broker_is_killed(quick_process, kills=5)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_broker_killed_many_times_bills_each_order_once(quick_process: WarmBroker) -> None:
    the_broker_is_killed(quick_process, kills=500)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_killed_copies_bill_each_order_once(quick_broker: Broker) -> None:
    copies_are_killed(quick_broker, kills=100)
