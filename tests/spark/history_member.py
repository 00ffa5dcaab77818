"""A member of a group as a process of its own, to be killed: reads, commits, and prints what it is assigned."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition


def main(settings: str, topic: str) -> None:
    consumer = Consumer({"enable.auto.commit": False, "auto.offset.reset": "earliest", **json.loads(settings)})

    def tell(_: Any, partitions: list[TopicPartition]) -> None:
        print(json.dumps(sorted(one.partition for one in partitions)), flush=True)

    running = [True]
    signal.signal(signal.SIGTERM, lambda *_: running.clear())
    consumer.subscribe([topic], on_assign=tell)
    while running:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            with contextlib.suppress(KafkaException):  # in a rebalance; the next one will do
                consumer.commit(message=message, asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
