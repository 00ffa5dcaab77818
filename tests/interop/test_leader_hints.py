"""KIP-951 with librdkafka over sockets: the broker that leads no more names the new leader in its refusal. Answers to
Metadata are late meanwhile, so the producer has no other way to learn of it."""

from __future__ import annotations

import confluent_kafka

from equipoise.broker import Broker
from equipoise.testing import Delay
from tests.client.group_of_readers import until

LATE_S = 50


def end_of_log(broker: Broker) -> int:
    return broker.call(lambda server: server.topics.partition("t", 0).log.high_watermark)


def test_a_producer_follows_the_hint() -> None:
    """What is looked at is the new leader's log: the answer of a Produce may stand behind that of a Metadata."""
    with Broker(brokers=3, topics={"t": 1}) as broker:
        broker.move_leader("t", 0, to=1)
        failures: list[object] = []
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        producer.produce("t", b"before", partition=0, on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(LATE_S) == 0
        with broker.control(Delay(apis=["Metadata"], ms=LATE_S * 1000)):
            broker.move_leader("t", 0, to=2)
            producer.produce("t", b"after", partition=0, on_delivery=lambda error, _: failures.append(error))
            until(lambda: end_of_log(broker) == 2, LATE_S - 5)
        assert producer.flush(2 * LATE_S) == 0
        assert failures == [None, None]
        assert end_of_log(broker) == 2
