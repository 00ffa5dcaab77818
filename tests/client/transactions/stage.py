"""What the scenarios share: topics, producers that transact, and readers of either isolation level."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

from equipoise import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from equipoise.errors import KafkaError
from tests.client.writing import Reachable

QUICK = {"retry.backoff.ms": "10", "retry.backoff.max.ms": "100", "reconnect.backoff.ms": "10"}
_PATIENCE_S = 60.0
_numbers = itertools.count()


def new_topic(broker: Reachable, partitions: int = 3) -> str:
    """A topic of its own for each scenario: a broker serves many of them."""
    name = f"orders-{next(_numbers)}"
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(name, partitions)
    return name


def settings(broker: Reachable | str, transactional_id: str, **more: object) -> dict[str, object]:
    address = broker if isinstance(broker, str) else broker.bootstrap_servers
    given = {name.replace("_", "."): value for name, value in more.items()}
    return {"bootstrap.servers": address, "transactional.id": transactional_id, **QUICK} | given


def producer(broker: Reachable | str, transactional_id: str, **more: object) -> Producer:
    return Producer(settings(broker, transactional_id, **more))


def version_of(broker: Reachable) -> int:
    """Of transactions (KIP-890)."""
    with Admin(broker.bootstrap_servers) as admin:
        return admin.features().get("transaction.version", 0)


def consumer(broker: Reachable, topic: str, level: str = "read_committed") -> Consumer:
    """At the beginning of every partition."""
    with Admin(broker.bootstrap_servers) as admin:
        count = len(admin.topic(topic).partitions)
    reader = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest", "isolation.level": level}
    )
    reader.assign([TopicPartition(topic, number) for number in range(count)])
    return reader


def _until_marked(broker: Reachable) -> None:
    """Kafka answers a commit when it is decided. Its markers come later, and readers see the records only then."""
    deadline = time.monotonic() + _PATIENCE_S
    with Admin(broker.bootstrap_servers) as admin:
        while _is_marking(admin):
            assert time.monotonic() < deadline, "a transaction that is decided does not end"
            time.sleep(0.01)


def _is_marking(admin: Admin) -> bool:
    try:
        return bool(admin.list_transactions(["PrepareCommit", "PrepareAbort"]))
    except KafkaError:
        return True  # its coordinator is being loaded


def read(broker: Reachable, topic: str, level: str = "read_committed") -> list[ConsumerRecord]:
    """All that is there, in the order of each partition."""
    found: list[ConsumerRecord] = []
    _until_marked(broker)
    with consumer(broker, topic, level) as reader:
        ends = reader.end_offsets()
        while any(reader.position(one) < end for one, end in ends.items()):
            found += reader.poll(0.1)
    return found


def read_arrow(broker: Reachable, topic: str) -> list[bytes]:
    """The committed values, by columns."""
    found: list[bytes] = []
    _until_marked(broker)
    with consumer(broker, topic) as reader:
        ends = reader.end_offsets()
        while any(reader.position(one) < end for one, end in ends.items()):
            table = reader.poll_arrow(0.1)
            found += [] if table is None else table["value"].to_pylist()
    return found


def values(records: Iterable[ConsumerRecord]) -> list[bytes]:
    return sorted(one.value or b"" for one in records)
