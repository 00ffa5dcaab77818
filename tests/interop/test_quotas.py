"""Quotas and real clients: they are throttled, and no record is lost or read twice."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Producer

from equipoise.broker import Broker
from equipoise.client import Admin
from tests.broker.rawclient import RawClient
from tests.broker.test_client_quotas import set_quota
from tests.interop.drivers.base import PATIENCE_S

RATE = 20_000  # bytes per second: ten times that may come at once
VALUE = b"x" * 1000
COUNT = 220


def bound(broker: Broker, key: str) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        set_quota(client, key, RATE, {"client-id": "bounded"})


def produce(broker: Broker, topic: str, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 20_000, **settings})
    for _ in range(COUNT):
        producer.produce(topic, VALUE)
    assert producer.flush(PATIENCE_S) == 0


def test_a_producer_is_told_and_all_records_arrive(broker: Broker, topic: str) -> None:
    bound(broker, "producer_byte_rate")
    throttled: list[Any] = []
    produce(broker, topic, **{"client.id": "bounded", "throttle_cb": throttled.append})
    assert any(event.throttle_time > 0 for event in throttled)
    with Admin(broker.bootstrap_servers) as admin:
        assert sum(one.latest for one in admin.offsets(topic).values()) == COUNT


def test_a_consumer_is_throttled_and_reads_each_record_once(broker: Broker, topic: str) -> None:
    produce(broker, topic)
    bound(broker, "consumer_byte_rate")
    throttled: list[Any] = []
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "bounded",
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "throttle_cb": throttled.append,
        }
    )
    consumer.subscribe([topic])
    places: list[tuple[int | None, int | None]] = []
    while len(places) < COUNT:
        found = consumer.consume(COUNT, 1.0)
        places += [(message.partition(), message.offset()) for message in found if not message.error()]
    consumer.close()
    assert len(set(places)) == len(places) == COUNT
    assert any(event.throttle_time > 0 for event in throttled)
