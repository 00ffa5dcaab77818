"""Consumers with group.protocol=consumer on our broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from equipoise import Broker
from tests.client.consumer_protocol import SCENARIOS
from tests.client.test_consumer_protocol_kafka import QUICK
from tests.client.writing import Reachable


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[Broker]:
    """Ours, with the short intervals of the tests on Apache Kafka."""
    with Broker(QUICK) as broker:
        yield broker


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_the_scenario(scenario: Callable[[Reachable], None], quick_broker: Broker) -> None:
    scenario(quick_broker)
