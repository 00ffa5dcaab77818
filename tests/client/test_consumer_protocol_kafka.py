"""Consumers with group.protocol=consumer on Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from proving.brokers import KafkaBroker
from tests.client.consumer_protocol import MIXED, PATTERNS, SCENARIOS
from tests.client.writing import Reachable
from tests.proving.needed import needed

pytestmark = pytest.mark.kafka
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 250,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
}


@pytest.fixture(scope="module")
def quick_kafka() -> Iterator[KafkaBroker]:
    """Apache Kafka with short intervals."""
    with needed(lambda: KafkaBroker(QUICK)) as broker:
        yield broker


@pytest.mark.parametrize("scenario", [*SCENARIOS, *PATTERNS, *MIXED], ids=lambda one: one.__name__)
def test_the_scenario(scenario: Callable[[Reachable], None], quick_kafka: KafkaBroker) -> None:
    scenario(quick_kafka)
