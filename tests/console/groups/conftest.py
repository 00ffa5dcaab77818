from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from equipoise.broker import Broker
from equipoise.client import Consumer
from proving.brokers import KafkaBroker
from tests.commands import Command, Ended
from tests.console.groups.golden import compare, until
from tests.console.groups.kafka_scene import Golden, Scene
from tests.watching.conftest import join as join
from tests.watching.conftest import produce as produce
from tests.watching.conftest import topic as topic


@pytest.fixture
def groups(command: Command, broker: Broker) -> Command:
    def call(*arguments: str) -> Ended:
        return command("groups", *arguments, "--utc", "-b", broker.bootstrap_servers)

    return call


# -- on Apache Kafka


@pytest.fixture
def kafka_groups(command: Command, kafka: KafkaBroker) -> Command:
    def call(*arguments: str) -> Ended:
        return command("groups", *arguments, "--utc", "-b", kafka.bootstrap_servers, "--timeout", "30s")

    return call


@pytest.fixture
def scene(kafka: KafkaBroker) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(kafka, stack)


@pytest.fixture
def kafka_golden(kafka_groups: Command, scene: Scene, pytestconfig: pytest.Config) -> Golden:
    """Compares the next rebalance after a generation with its transcript; its own generation."""

    def check(name: str, after: int, *polled: Consumer) -> int:
        def there() -> bool:
            for one in polled:
                one.poll(0.05)
            return scene.newest(kafka_groups) > after

        until(there)
        at = scene.next(kafka_groups, after)
        ended = kafka_groups("explain", scene.group, str(at))
        assert ended.status == 0, ended.err
        text = ended.out.replace(scene.topic, "orders").replace(scene.group, "billing")
        compare(f"kafka/{name}", text, pytestconfig)
        return at

    return check
