"""Transactions that move with their logs: our broker goes on from Kafka's files, and Kafka from ours.

Committed and aborted transactions lie in the log, with offsets, and one is open when the broker is stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from equipoise.client import Admin
from equipoise.wire.errors import ErrorCode
from proving.brokers import SOON_BACK, BrokerProcess, EquipoiseBroker, KafkaBroker
from proving.moving import COORDINATORS, adopt_logs, give_logs
from tests.broker.rawclient import RawClient
from tests.broker.txn_calls import committed
from tests.proving.needed import needed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SETTINGS = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}
SECONDS = 60.0


def producer(address: str, transactional_id: str) -> Producer:
    made = Producer(
        {"bootstrap.servers": address, "transactional.id": transactional_id, "log_level": 0, "linger.ms": 0}
    )
    made.init_transactions(SECONDS)
    return made


def transact(made: Producer, *values: str, group: tuple[Any, int] | None = None) -> None:
    """Begins a transaction, and sends; the caller ends it."""
    made.begin_transaction()
    for value in values:
        made.produce("t", value, partition=0)
    made.flush(SECONDS)
    if group is not None:
        metadata, offset = group
        made.send_offsets_to_transaction([TopicPartition("t", 0, offset)], metadata, SECONDS)


def play(address: str) -> list[Any]:
    """Leaves one transaction open; what is returned must live until the broker is gone."""
    with Admin(address) as admin:
        admin.create_topic("t", 1)
    groups = {name: Consumer({"bootstrap.servers": address, "group.id": name, "log_level": 0}) for name in "gh"}
    metadata = {name: group.consumer_group_metadata() for name, group in groups.items()}
    one, two, left = (producer(address, name) for name in ("one", "two", "left"))
    transact(one, "a1", "a2")
    one.commit_transaction(SECONDS)
    transact(one, "b1")
    one.abort_transaction(SECONDS)
    transact(two, "c1", group=(metadata["g"], 7))
    two.commit_transaction(SECONDS)
    transact(two, "d1", group=(metadata["g"], 9))
    two.abort_transaction(SECONDS)
    transact(left, "e1", group=(metadata["h"], 11))
    return [one, two, left, groups]


def read_committed(address: str) -> list[str]:
    """All values below the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    values: list[str] = []
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return values
        values.append((message.value() or b"").decode())
    raise AssertionError(f"no end of the partition within {SECONDS:.0f} s, after {values}")


def eventually(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS:.0f} s: {what}"
        time.sleep(0.1)


def check(broker: BrokerProcess) -> None:
    """What the log holds, on a broker that has not written it; and it goes on from there."""
    address = broker.bootstrap_servers
    with RawClient(address) as client:
        eventually("the groups are loaded", lambda: committed(client, "g") == (ErrorCode.NONE, 7))
        assert read_committed(address) == ["a1", "a2", "c1"]
        assert committed(client, "h") == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        again = producer(address, "left")  # aborts what its former self has left
        eventually("the transaction is over", lambda: committed(client, "h") == (ErrorCode.NONE, -1))
        transact(again, "f1")
        again.commit_transaction(SECONDS)
        one = producer(address, "one")
        transact(one, "g1")
        one.abort_transaction(SECONDS)
        eventually("the last one is visible", lambda: read_committed(address) == ["a1", "a2", "c1", "f1"])


def test_our_broker_reads_what_kafka_has_written() -> None:
    with needed(lambda: KafkaBroker(SETTINGS)) as kafka:
        alive = play(kafka.bootstrap_servers)
        kafka.kill()
        ours = EquipoiseBroker(SETTINGS)
        assert set(adopt_logs(kafka.logs, ours.data)) == {*COORDINATORS, "t"}
        with ours:
            check(ours)
    del alive


def test_kafka_reads_what_our_broker_has_written() -> None:
    """Kafka makes the topics; their records are ours."""
    with needed(lambda: KafkaBroker({**SETTINGS, **SOON_BACK})) as kafka, EquipoiseBroker(SETTINGS) as ours:
        alive = [play(ours.bootstrap_servers), play(kafka.bootstrap_servers)]
        ours.kill()
        kafka.kill()
        give_logs(ours.data, kafka.logs, *COORDINATORS, "t")
        kafka.start()
        check(kafka)
    del alive
