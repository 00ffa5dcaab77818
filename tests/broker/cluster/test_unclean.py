"""Elections that cut the log: what producers do then, and what becomes of transactions whose records or markers are
gone. The end of a transaction must always be found, or readers of committed records would wait for ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from equipoise import Consumer, Producer
from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import append
from tests.broker.cluster.test_transactions import TOPIC, coordinator
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.broker.transactional import TV1, TV2, TransactionalProducer

OK, OUT_OF_ORDER = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
SETTINGS = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


@pytest.fixture
def two() -> Iterator[Broker]:
    """Broker 1 leads `t` and coordinates all transactions."""
    with Broker(SETTINGS, brokers=2, topics={"t": 1}) as broker:
        broker.move_leader("t", 0, to=1)
        with RawClient(broker.brokers[1].address) as client:
            coordinator(client)
        broker.move_leader(TOPIC, 0, to=1)
        yield broker


def texts(broker: Broker, isolation: str) -> list[str]:
    """All records up to the end of what such a reader may see."""
    end = broker.call(lambda server: _end(server, isolation))
    with Consumer(bootstrap_servers=broker.bootstrap_servers, isolation_level=isolation) as consumer:
        consumer.assign([("t", 0)])
        consumer.seek_to_beginning(("t", 0))
        found: list[str] = []
        while consumer.position(("t", 0)) < end:
            found += [(one.value or b"").decode() for one in consumer.poll(1.0)]
        return found


def _end(server: Server, isolation: str) -> int:
    log = server.topics.partition("t", 0).log
    return log.high_watermark if isolation == "read_uncommitted" else log.last_stable_offset


def is_stable(broker: Broker) -> bool:
    return broker.call(lambda server: _end(server, "read_committed") == _end(server, "read_uncommitted"))


# -- producers without transactions


def test_our_producer_goes_on_under_new_numbers(two: Broker) -> None:
    """KIP-360: what it has sent and the log has lost is the application's loss; what it sends then is stored, once and
    in order."""
    with Producer(bootstrap_servers=two.bootstrap_servers, linger_ms=0) as producer:
        for number in range(4):
            producer.send("t", b"%d" % number).result(30)
        assert two.elect_unclean("t", 0, to=2, lose=2) == 2
        later = [producer.send("t", b"later %d" % number) for number in range(50)]
        assert [one.result(30).offset for one in later] == list(range(2, 52))
        assert producer.send("t", b"lost").result(30).offset == 52
        assert two.elect_unclean("t", 0, to=1, lose=1) == 52
        assert producer.send("t", b"last").result(30).offset == 52
    assert texts(two, "read_uncommitted") == ["0", "1", *(f"later {number}" for number in range(50)), "last"]


# -- open transactions


def begun(broker: Broker, client: RawClient, version: int, records: int = 3) -> TransactionalProducer:
    """With so many records behind one that is not of a transaction."""
    producer = TransactionalProducer(client, version=version)
    eventually(lambda: producer.init() == OK, "the coordinator answers")
    append(client, b"plain")
    if version < TV2:
        assert set(producer.add().values()) == {OK}
    for _ in range(records):
        assert producer.produce() == [OK]
    assert not is_stable(broker)
    return producer


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("lose", [1, 3])
def test_a_transaction_whose_records_are_cut_ends(two: Broker, version: int, commit: bool, lose: int) -> None:
    """Some of them, or all. The marker is written behind what is left of it, and readers go on."""
    with RawClient(two.brokers[1].address) as client:
        producer = begun(two, client, version)
        assert two.elect_unclean("t", 0, to=2, lose=lose) == 4 - lose
        assert is_stable(two) == (lose == 3)
        assert producer.end(commit) == OK
        eventually(lambda: is_stable(two), "the marker is written")
        kept = [f"orders-{number}" for number in range(3 - lose)]
        assert texts(two, "read_uncommitted") == ["plain", *kept]
        assert texts(two, "read_committed") == ["plain", *(kept if commit else [])]


def commit_another(two: Broker, producer: TransactionalProducer, leader: RawClient) -> None:
    """A transaction with a record on the partition's new leader; the coordinator stays where it is."""
    coordinator = producer.client
    if producer.version < TV2:
        assert set(producer.add().values()) == {OK}
    producer.client = leader
    eventually(lambda: producer.produce() == [OK], "the next transaction begins")
    producer.client = coordinator
    assert producer.end() == OK
    eventually(lambda: is_stable(two), "the marker is written")


@pytest.mark.parametrize("version", [TV1, TV2])
def test_records_behind_those_that_are_gone_are_refused(two: Broker, version: int) -> None:
    """So the producer aborts, and its next transaction is whole."""
    with RawClient(two.brokers[1].address) as client, RawClient(two.brokers[2].address) as other:
        producer = begun(two, client, version)
        two.elect_unclean("t", 0, to=2, lose=1)
        producer.client = other
        assert producer.produce() == [OUT_OF_ORDER]
        producer.client = client
        assert producer.end(commit=False) == OK
        eventually(lambda: is_stable(two), "the marker is written")
        eventually(lambda: producer.init() == OK, "the coordinator answers")
        commit_another(two, producer, other)
    assert texts(two, "read_committed") == ["plain", "orders-0"]


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_marker_that_is_gone_is_made_up_for_by_the_next(two: Broker, version: int) -> None:
    """As on Apache Kafka: to the log the transaction is open again, to the coordinator it is over. The producer's next
    marker ends it."""
    with RawClient(two.brokers[1].address) as client, RawClient(two.brokers[2].address) as other:
        producer = begun(two, client, version, records=1)
        assert producer.end() == OK
        eventually(lambda: is_stable(two), "the marker is written")
        two.elect_unclean("t", 0, to=2, lose=1)
        assert not is_stable(two)
        commit_another(two, producer, other)
    assert len(texts(two, "read_committed")) == 3
