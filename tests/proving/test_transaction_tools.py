"""The Java producer transacts on our broker, in transaction versions 1 and 2, and Kafka's tool for transactions looks
at it: list, describe, describe-producers, abort of one that hangs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from equipoise.client import Admin
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.records.batch import BatchHeader, iter_headers
from proving.brokers import BrokerProcess, EquipoiseBroker, KafkaBroker
from proving.tools import Tools
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.broker.transactional import TV1, TransactionalProducer
from tests.proving.needed import needed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

RECORDS = 2000
SETTINGS = {"transaction.state.log.num.partitions": 2, "offsets.topic.num.partitions": 2}


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with needed(Tools) as running:
        yield running


def headers(broker: BrokerProcess) -> list[BatchHeader]:
    return [h for path in (broker.data / "t-0").glob("*.log") for _, h in iter_headers(path.read_bytes())]


@pytest.mark.parametrize("level", [1, 2])
def test_the_java_producer_transacts(tools: Tools, level: int) -> None:
    """By level 2 each transaction has an epoch of its own, and its partition is added by producing."""
    with EquipoiseBroker({**SETTINGS, "transaction.version": level}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 1)
        given = f"--topic t --num-records {RECORDS} --record-size 20 --throughput 4000"
        options = f"{given} --transactional-id java --transaction-duration-ms 20".split()
        produced = tools.run("kafka-producer-perf-test", *options, broker=broker)
        assert produced.status == 0, produced.stderr
        reading = f"--topic t --partition 0 --offset earliest --max-messages {RECORDS} --isolation-level read_committed"
        read = tools.run("kafka-console-consumer", *reading.split(), broker=broker)
        assert len(read.stdout.splitlines()) == RECORDS
        found = headers(broker)
    markers = [header for header in found if header.is_control]
    assert len(markers) > 3
    epochs = {header.producer_epoch for header in found if not header.is_control}
    assert len(epochs) == (len(markers) if level == 2 else 1)


def shown(tools: Tools, broker: BrokerProcess, command: str) -> list[list[str]]:
    """The table that the tool prints, without the columns of ids and times that differ."""
    output = tools.run("kafka-transactions", *command.split(), broker=broker)
    assert output.status == 0, output.stderr
    return [line.split() for line in output.stdout.splitlines() if line.strip()]


def test_the_tool_for_transactions_says_the_same(tools: Tools) -> None:
    """Rules T.89 and T.90; an operator ends a transaction that nobody will end."""
    with needed(lambda: KafkaBroker(SETTINGS)) as kafka, EquipoiseBroker(SETTINGS) as ours:
        said = [_look_at(tools, kafka), _look_at(tools, ours)]
    assert said[0] == said[1]


def _look_at(tools: Tools, broker: BrokerProcess) -> list[object]:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1)
    with RawClient(broker.bootstrap_servers) as client:
        _find_coordinator(client)
        producer = TransactionalProducer(client, "hangs", version=TV1)
        _until_served(producer)
        producer.add(("t", 0))
        assert producer.produce(("t", 0)) == [0]
        listed = shown(tools, broker, "list")
        described = shown(tools, broker, "describe --transactional-id hangs")
        producers = shown(tools, broker, "describe-producers --topic t --partition 0")
        shown(tools, broker, "abort --topic t --partition 0 --start-offset 0")
        ended = shown(tools, broker, "describe-producers --topic t --partition 0")
    open_at = [row[-1] for row in producers[1:]], [row[-1] for row in ended[1:]]
    head = [listed[0], described[0], producers[0]]
    states = (
        [row[-1] for row in listed[1:]],
        [row[0] for row in described[1:]],
        [row[4] for row in described[1:]],
    )
    return [head, states, open_at]


def _find_coordinator(client: RawClient) -> None:
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["hangs"])
    eventually(lambda: client.call(request, 4).coordinators[0].error_code == 0, "there is a coordinator")


def _until_served(producer: TransactionalProducer) -> None:
    eventually(lambda: producer.init() == 0, "the coordinator is loaded")
