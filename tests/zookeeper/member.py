"""A member in a process of its own, to be killed: python -m tests.zookeeper.member CONNECT GROUP ID MODE TOPIC.

It prints what happens to it as JSON, one event a line.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping

from equipoise.member.partitions import TopicPartition
from equipoise.zookeeper import ConsumerRebalanceListener, ZooKeeperConsumer
from equipoise.zookeeper.protocol.assignment import consumer_of
from proving.members.events import Event, Row
from tests.zookeeper.town import PATIENT

SESSION_MS = 1500


class Teller(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def before_releasing_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        self.tell("revoked", partitions)

    def before_starting_fetchers(self, consumer_id: str, decision: Mapping[TopicPartition, str]) -> None:
        self.tell("assigned", [one for one, thread in decision.items() if consumer_of(thread) == consumer_id])

    def tell(self, kind: str, places: Iterable[TopicPartition] = (), rows: Iterable[Row] = ()) -> None:
        with self._lock:
            print(json.dumps([time.monotonic(), kind, list(places), list(rows)]), flush=True)


def heard(line: str, name: str) -> Event:
    """What a line says."""
    at, kind, places, rows = json.loads(line)
    owned = frozenset(TopicPartition(*place) for place in places)
    return Event(at, name, kind, owned, tuple((t, p, offset) for t, p, offset in rows), whole=kind == "assigned")


def main() -> None:
    connect, group, name, mode, topic = sys.argv[1:]
    given = {"zookeeper.connect": connect, "group.id": group, "consumer.id": name, "mode": mode, **PATIENT}
    teller = Teller()
    consumer = ZooKeeperConsumer({**given, "zookeeper.session.timeout.ms": SESSION_MS}, listener=teller)
    (stream,) = consumer.create_message_streams({topic: 1})[topic]
    for record in stream:
        teller.tell("records", rows=[(record.topic, record.partition, record.offset)])


if __name__ == "__main__":
    main()
