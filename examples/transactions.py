"""Reads orders, prices them, and writes bills: each order is billed exactly once, whatever crashes.

    python examples/transactions.py HOST:PORT orders bills billing billing-1 [SETTING=VALUE ...]

A transaction has the bills of one poll and the offsets behind its orders. Both count, or neither does. Readers of the
bills set isolation.level=read_committed. Each running copy needs a name of its own, which it keeps over restarts.
Settings are those of the consumer.
"""

from __future__ import annotations

import sys

from equipoise import Consumer, ConsumerRecord, Producer
from equipoise.errors import TransactionAbortableError


def bill(order: ConsumerRecord) -> bytes:
    """The work. It may be done several times for an order; its result counts once."""
    return b"bill for " + (order.value or b"nothing")


def main(bootstrap_servers: str, orders: str, bills: str, group: str, *more: str) -> None:
    """Runs until it is killed. Another error than TransactionAbortableError ends it: start it again."""
    name, *settings = more
    shared = {"bootstrap.servers": bootstrap_servers}
    reading = {
        "group.id": group,
        "enable.auto.commit": "false",
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        **dict(one.split("=", 1) for one in settings),
    }
    with Producer(shared | {"transactional.id": name}) as producer, Consumer(shared | reading) as consumer:
        producer.init_transactions()  # what a killed copy of this name has left open is aborted before we read
        consumer.subscribe([orders])
        while True:
            records = consumer.poll()
            if not records:
                continue
            try:
                with producer.transaction():
                    for record in records:
                        producer.send(bills, bill(record), key=record.key)
                    producer.send_offsets(consumer.positions(), consumer.group_metadata())
            except TransactionAbortableError as error:  # aborted already: read the same orders again
                print(error, file=sys.stderr)
                consumer.seek_to_committed()


if __name__ == "__main__":
    main(*sys.argv[1:])
