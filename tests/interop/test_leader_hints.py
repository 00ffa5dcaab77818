"""KIP-951 with librdkafka over sockets: the broker that leads no more names the new leader in its refusal. No answer to
Metadata leaves meanwhile, so the producer has no other way to learn of it."""

from __future__ import annotations

import confluent_kafka

from equipoise.broker import Broker
from equipoise.testing import Lose

SEND_S = 60


def send(producer: confluent_kafka.Producer, value: bytes) -> None:
    failures: list[object] = []
    producer.produce("t", value, partition=0, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(SEND_S) == 0
    assert failures == [None]


def test_a_producer_follows_the_hint() -> None:
    with Broker(brokers=3, topics={"t": 1}) as broker:
        broker.move_leader("t", 0, to=1)
        # Idempotent: a connection that ends with the answer to a Metadata takes that to a Produce along.
        settings = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "enable.idempotence": True}
        producer = confluent_kafka.Producer(settings)
        send(producer, b"before")
        with broker.control(Lose(apis=["Metadata"])):
            broker.move_leader("t", 0, to=2)
            send(producer, b"after")
        end = broker.call(lambda server: server.topics.partition("t", 0).log.high_watermark)
        assert end == 2
