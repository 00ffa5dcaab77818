"""In place of a pipeline on Spark: a member that writes in transactions, ready in half a second.

python demo_query.py NAME HOST:PORT
"""

from __future__ import annotations

import signal
import sys

from equipoise.client import Consumer, Producer
from equipoise.console.demo.members import GROUP, SESSION_MS
from equipoise.console.demo.orders import SHIPPED, TOPIC
from equipoise.errors import TransactionAbortableError


def main(name: str, bootstrap_servers: str) -> None:
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": GROUP,
        "client.id": name,
        "session.timeout.ms": SESSION_MS,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "partition.assignment.strategy": "cooperative-sticky",
    }
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": name})
    producer.init_transactions()
    with producer, Consumer(settings) as consumer:
        consumer.subscribe(TOPIC)
        while True:
            ship(name, producer, consumer)


def ship(name: str, producer: Producer, consumer: Consumer) -> None:
    records = consumer.poll(0.2)
    if not records:
        return
    try:
        with producer.transaction():
            for record in records:
                producer.send(SHIPPED, record.value, key=name)
            producer.send_offsets(consumer.positions(), consumer.group_metadata())
    except TransactionAbortableError:
        consumer.seek_to_committed()


if __name__ == "__main__":
    main(*sys.argv[1:])
