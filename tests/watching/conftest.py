from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer, Producer

Join = Callable[..., Consumer]
Produce = Callable[..., None]


@pytest.fixture
def topic(broker: Broker) -> str:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 4)
    return "orders"


@pytest.fixture
def produce(broker: Broker, topic: str) -> Produce:
    def send(count: int, partition: int = 0) -> None:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(count):
                producer.send(topic, b"%d" % number, partition=partition)
            producer.flush()

    return send


@pytest.fixture
def join(broker: Broker, topic: str) -> Iterator[Join]:
    """A consumer of `orders` that has partitions."""
    with ExitStack() as stack:

        def joined(group: str, client_id: str, **settings: object) -> Consumer:
            given = {"auto_offset_reset": "earliest", "enable_auto_commit": False} | settings
            consumer = Consumer(
                bootstrap_servers=broker.bootstrap_servers, group_id=group, client_id=client_id, **given
            )
            stack.callback(consumer.close)
            consumer.subscribe([topic])
            while not consumer.assignment():
                consumer.poll(0.05)
            return consumer

        yield joined
