"""A member in a process of its own, to be killed: python -m tests.zookeeper.member CONNECT GROUP ID MODE TOPIC."""

from __future__ import annotations

import sys

from equipoise.zookeeper import ZooKeeperConsumer
from tests.zookeeper.town import PATIENT

SESSION_MS = 1500


def main() -> None:
    connect, group, name, mode, topic = sys.argv[1:]
    given = {"zookeeper.connect": connect, "group.id": group, "consumer.id": name, "mode": mode, **PATIENT}
    consumer = ZooKeeperConsumer({**given, "zookeeper.session.timeout.ms": SESSION_MS})
    (stream,) = consumer.create_message_streams({topic: 1})[topic]
    print("joined", flush=True)
    for _ in stream:
        pass


if __name__ == "__main__":
    main()
