"""Transactions of our clients on Apache Kafka, in both versions (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proving.brokers import KafkaBroker
from tests.client.transactions.killing import copies_are_killed
from tests.client.transactions.reading import READING
from tests.client.transactions.scenarios import SCENARIOS, Scenario
from tests.proving.needed import needed

pytestmark = pytest.mark.kafka
QUICK = {
    "group.min.session.timeout.ms": 1_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.backoff.ms": 100,
}


class KafkaOfVersion(KafkaBroker):
    """Apache Kafka that begins with a version of transactions."""

    def __init__(self, version: int) -> None:
        self._version = version
        super().__init__(QUICK)

    def format_log(self) -> list[str]:
        return [*super().format_log(), "--feature", f"transaction.version={self._version}"]


@pytest.fixture(scope="module", params=[2, 1], ids=lambda version: f"version {version}")
def versioned_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    with needed(lambda: KafkaOfVersion(request.param)) as broker:
        yield broker


@pytest.mark.parametrize("scenario", [*SCENARIOS, *READING], ids=lambda one: one.__name__)
def test_the_scenario(scenario: Scenario, versioned_kafka: KafkaBroker) -> None:
    scenario(versioned_kafka)


def test_killed_copies_bill_each_order_once(versioned_kafka: KafkaBroker) -> None:
    copies_are_killed(versioned_kafka, kills=3)
