"""`equipoise transactions`, and the calls of Admin behind it."""

from __future__ import annotations

import json
import time

import pytest

from equipoise import Admin, Broker, Producer, TopicPartition
from equipoise.errors import KafkaError, UsageError
from proving.brokers import KafkaBroker
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.broker.transactional import TV1, TransactionalProducer
from tests.client.transactions.stage import consumer
from tests.client.writing import Reachable
from tests.commands import Command
from tests.console.schemas import all_schemas, check
from tests.proving.needed import needed

NAME, TOPIC = "billing-1", "bills"


def opened(broker: Reachable) -> Producer:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(TOPIC, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": NAME})
    producer.begin_transaction()
    producer.send(TOPIC, b"1", partition=1).result(60)
    return producer


def the_calls_of_an_administrator(broker: Reachable) -> None:
    place = TopicPartition(TOPIC, 1)
    with Admin(broker.bootstrap_servers) as admin, opened(broker) as producer:
        (listed,) = [one for one in admin.list_transactions() if one.transactional_id == NAME]
        assert listed.transaction_state == "Ongoing"
        assert listed in admin.list_transactions(["Ongoing"], [listed.producer_id])
        assert listed not in admin.list_transactions(["Empty"])
        found = admin.describe_transactions([NAME, "nobody"])
        assert isinstance(found["nobody"], KafkaError)
        described = found[NAME]
        assert not isinstance(described, KafkaError)
        assert (described.transaction_state, described.partitions) == ("Ongoing", [place])
        assert (described.transaction_timeout_ms, described.producer_id) == (60_000, listed.producer_id)
        assert 0 <= time.time() * 1000 - described.transaction_start_time_ms < 600_000
        (remembered,) = admin.describe_producers(place)
        assert (remembered.producer_id, remembered.current_txn_start_offset) == (listed.producer_id, 0)
        assert admin.describe_producers(TopicPartition(TOPIC, 0)) == []
        with pytest.raises(UsageError, match="begins at offset 7 is open in bills-1"):
            admin.abort_transaction(place, 7)
        producer.commit_transaction()
        with pytest.raises(KafkaError):
            admin.describe_producers(TopicPartition("nowhere", 0))


def test_the_calls_of_an_administrator(broker: Broker) -> None:
    the_calls_of_an_administrator(broker)


@pytest.mark.kafka
def test_the_calls_of_an_administrator_on_apache_kafka(kafka: KafkaBroker) -> None:
    the_calls_of_an_administrator(kafka)


def what_hangs_is_found_and_ended(broker: Reachable) -> None:
    """One transaction has an id, the other has none: the coordinator was never told of its partition."""
    place = TopicPartition(TOPIC, 0)
    with Admin(broker.bootstrap_servers) as admin, opened(broker) as producer:
        with RawClient(broker.bootstrap_servers) as client:
            lost = TransactionalProducer(client, "lost", version=TV1)
            eventually(lambda: lost.init() == 0, "the coordinator is loaded")
            assert lost.produce((TOPIC, 0)) == [0]
        known, hanging = sorted(admin.open_transactions([TOPIC]), key=lambda one: one.transactional_id is None)
        assert (known.partition, known.start_offset, known.transactional_id) == (TopicPartition(TOPIC, 1), 0, NAME)
        assert known.transaction_timeout_ms == 60_000
        assert (hanging.partition, hanging.start_offset, hanging.transactional_id) == (place, 0, None)
        assert {known, hanging} <= set(admin.open_transactions())
        assert admin.hanging_transactions([TOPIC], 10**13) == []  # not for so long
        assert admin.hanging_transactions(older_than_ms=-60_000) == [hanging]
        admin.abort_transaction(place, 0)
        assert admin.hanging_transactions([TOPIC], -60_000) == []
        producer.commit_transaction()
        with consumer(broker, TOPIC) as reader:
            eventually(lambda: sum(reader.end_offsets().values()) == 4, "nobody waits")
        assert admin.open_transactions([TOPIC]) == []
        with pytest.raises(KafkaError, match="nowhere"):
            admin.open_transactions(["nowhere"])


UNVERIFIED = {"transaction.partition.verification.enable": "false"}


def test_what_hangs_is_found_and_ended() -> None:
    with Broker(UNVERIFIED) as broker:
        what_hangs_is_found_and_ended(broker)


@pytest.mark.kafka
def test_what_hangs_is_found_and_ended_on_apache_kafka() -> None:
    with needed(lambda: KafkaBroker(UNVERIFIED)) as kafka:
        with Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "first"}) as first:
            first.init_transactions()  # makes __transaction_state
        what_hangs_is_found_and_ended(kafka)


def test_what_is_open_is_shown_and_ended(command: Command, broker: Broker) -> None:
    def transactions(*arguments: str) -> str:
        ended = command("transactions", *arguments, "-b", broker.bootstrap_servers)
        assert ended.status == 0, ended.err
        return ended.out

    assert transactions("list").startswith("no transactions on 127.0.0.1:")
    assert transactions("open") == "no transaction is open: readers of committed records read to the end\n"
    assert command("transactions", "list", "--state", "Odd", "-b", broker.bootstrap_servers).status == 2
    producer = opened(broker)
    try:
        assert [line.split()[:2] for line in transactions("list").splitlines()[1:]] == [[NAME, "Ongoing"]]
        assert "bills-1" in transactions("describe", NAME)
        assert "no producers in bills-0" in transactions("producers", TOPIC, "0")
        assert transactions("open", TOPIC).splitlines()[1].split()[:3] == ["bills-1", "0", NAME]
        assert transactions("find-hanging", "--max-transaction-timeout", "0") == "no transaction hangs\n"
        for arguments in (["list"], ["describe", NAME], ["producers", TOPIC, "1"], ["open"], ["find-hanging", TOPIC]):
            check(json.loads(transactions(*arguments, "--json")), all_schemas()["transactions"])
        told = transactions("abort", TOPIC, "1", "--start-offset", "0")
        assert told == "the transaction that began at offset 0 of bills-1 is aborted\n"
    finally:
        producer.abandon()
    with consumer(broker, TOPIC) as reader:
        assert reader.end_offsets()[TopicPartition(TOPIC, 1)] == 2  # nobody waits for it any more
