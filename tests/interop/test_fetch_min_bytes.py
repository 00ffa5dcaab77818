"""confluent-kafka with a large fetch.min.bytes: it must not wait for what whole batches cannot reach."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition

from equipoise.broker import Broker

_RECORDS = 10_000


def test_a_large_fetch_min_bytes_does_not_stop_a_reader(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
    for _ in range(_RECORDS):
        producer.produce("t", bytes(1000), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    settings = {"group.id": "g", "enable.auto.commit": False, "fetch.min.bytes": 1 << 20, "socket.timeout.ms": 300_000}
    consumer = Consumer(settings | {"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": 300_000 - 1000})
    consumer.assign([TopicPartition("t", 0, 0)])
    # The last megabyte is less than it asked for: that it does wait for, and so it would on Kafka.
    read = 0
    while read < _RECORDS - 1100:
        messages = consumer.consume(1000, 60)
        assert messages, f"{read} records, and then none for a minute"
        read += len(messages)
    consumer.close()
