"""Nothing is lost, and nothing is read twice that must not be, whatever happens to whom and when."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from proving.brokers import KafkaBroker
from tests.proving.needed import needed
from tests.spark.hunting import SETTINGS, hunt


def hunt_here(seed: int, steps: int) -> None:
    with Broker(SETTINGS) as broker:
        hunt(seed, steps, broker)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hunt(seed: int) -> None:
    hunt_here(seed, 150)


@pytest.mark.kafka
def test_hunt_on_kafka() -> None:
    with needed(lambda: KafkaBroker(SETTINGS)) as kafka:
        hunt(4, 250, kafka)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("first", range(1_000, 1_400, 10))
def test_long_hunt(first: int) -> None:
    for seed in range(first, first + 10):
        hunt_here(seed, 300)
