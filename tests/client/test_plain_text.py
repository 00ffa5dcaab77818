"""Whoever says security.protocol=PLAINTEXT gets what is the default: plain text, from every client."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer, Producer
from equipoise.client.security.parsing import parse_security
from equipoise.spark.options import SourceOptions
from equipoise.spark.sink.options import SinkOptions

WORDS = ["PLAINTEXT", "plaintext"]


@pytest.mark.parametrize("word", WORDS)
def test_records_go_to_and_fro(broker: Broker, word: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": word}
    with Admin(broker.bootstrap_servers, security=parse_security({"security.protocol": word})) as admin:
        admin.create_topic("orders", 1)
    with Producer(settings) as producer:
        producer.send("orders", b"value").result(60)
    with Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe("orders")
        found: list[bytes | None] = []
        while not found:
            found += [record.value for record in consumer.poll(1)]
    assert found == [b"value"]


@pytest.mark.parametrize("word", WORDS)
def test_sparks_options_take_it(word: str) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:9092", "kafka.security.protocol": word}
    source = SourceOptions.parse(options | {"subscribe": "t"}, streaming=True)
    sink = SinkOptions.parse(options | {"topic": "t"})
    assert source.consumer.security.protocol == sink.producer.security.protocol == "PLAINTEXT"
