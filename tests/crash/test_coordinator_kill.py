"""The broker is killed by SIGKILL at every step of a transaction, and at random moments: what was committed is whole,
what was not is not seen, and nothing stays open."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from equipoise.wire.apis.k26_end_txn import EndTxnRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import create_topic
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.broker.transactional import TV1, TV2, TransactionalProducer
from tests.crash.warm import WarmBroker
from tests.interop.transacting import COMMITTED, ConfluentTransactor

PLACES = [("t", 0), ("t", 1)]
RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,  # what Produce hears of a coordinator that is loaded
}
OK = ErrorCode.NONE


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WarmBroker]:
    settings = {"transaction.state.log.num.partitions": 3, "offsets.topic.num.partitions": 3}
    with WarmBroker(tmp_path / "data", tmp_path / "log", settings) as served:
        with RawClient(served.address) as client:
            create_topic(client, partitions=len(PLACES))
        yield served


class Client:
    """A producer that connects again after each kill, and asks again while the coordinator is loaded."""

    def __init__(self, broker: WarmBroker, version: int) -> None:
        self.broker = broker
        self.producer = TransactionalProducer(RawClient(broker.address), f"id-{version}", version)
        self.value = 0

    def kill(self) -> None:
        self.broker.kill()
        self.producer.client.close()
        self.broker.start()
        self.producer.client = RawClient(self.broker.address)

    def again(self, ask: Callable[[], int]) -> int:
        return int(eventually(lambda: code + 1 if (code := ask()) not in RETRIABLE else 0, "an answer")) - 1

    def init(self) -> None:
        assert self.again(self.producer.init) == OK

    def add(self) -> None:
        if self.producer.version < TV2:
            assert self.again(lambda: max(self.producer.add(*PLACES).values())) == OK

    def produce(self) -> None:
        assert self.again(lambda: max(self.producer.produce(*PLACES))) == OK

    def end(self) -> int:
        return self.again(self.producer.end)

    def send_end(self) -> None:
        """Nobody waits for the answer."""
        one = self.producer
        request = EndTxnRequest(
            transactional_id=one.name, producer_id=one.producer_id, producer_epoch=one.epoch, committed=True
        )
        one.client.send(request, 5 if one.version >= TV2 else 4)


def read(broker: WarmBroker) -> list[list[bytes]]:
    return [ConfluentTransactor.read(broker.address, *place, COMMITTED) for place in PLACES]


def transact(client: Client, until: str) -> None:
    """A transaction up to a step, then the kill."""
    client.init()
    if until == "init":
        return client.kill()
    client.add()
    if until == "add":
        return client.kill()
    if until == "produce not heard":
        client.producer.client.send(client.producer.request(*PLACES), client.producer.version)
        return client.kill()
    client.produce()
    if until == "produce":
        return client.kill()
    if until == "end not heard":
        client.send_end()
        return client.kill()
    assert client.end() == OK
    return client.kill()


@pytest.mark.parametrize("version", [TV1, TV2])
def test_killed_at_every_step(broker: WarmBroker, version: int) -> None:
    """Rule T.77: what follows is what the client would do."""
    client = Client(broker, version)
    committed = 0
    for step in ("init", "add", "produce", "produce not heard", "end not heard", "end"):
        transact(client, step)
        if step in ("init", "add"):
            client.add()
            client.produce()
        if step == "produce not heard":
            client.init()  # aborts whatever has arrived
        elif step != "end":
            assert client.end() == OK
        committed += step != "produce not heard"
        client.init()  # answered when the transaction before is over
        assert [len(values) for values in read(broker)] == [committed, committed], step
    client.producer.client.close()


class Ledger:
    """What a client of another making was told about its transactions, by number."""

    def __init__(self) -> None:
        self.committed: set[int] = set()
        self.aborted: set[int] = set()


def transact_for_ever(broker: WarmBroker, ledger: Ledger, stopping: threading.Event) -> None:
    """confluent-kafka, which asks again by itself; after a fatal error it begins anew."""
    number = 0
    while not stopping.is_set():
        with suppress(KafkaException):
            one = ConfluentTransactor(broker.address, "random")
            while not stopping.is_set():
                number += 1
                one.begin()
                for topic, partition in PLACES:
                    one.send(topic, partition, b"%d" % number)
                if number % 5 == 0:
                    one.abort()
                    ledger.aborted.add(number)
                else:
                    one.commit()
                    ledger.committed.add(number)


def has_more(ledger: Ledger, than: int) -> bool:
    return len(ledger.committed) > than


def hunt(broker: WarmBroker, moments: random.Random, kills: int) -> None:
    ledger, stopping = Ledger(), threading.Event()
    thread = threading.Thread(target=transact_for_ever, args=(broker, ledger, stopping), daemon=True)
    thread.start()
    for kill in range(kills):
        eventually(partial(has_more, ledger, kill), "one more transaction is committed")
        stopping.wait(moments.uniform(0, 0.1))
        broker.kill()
        broker.start()
    stopping.set()
    thread.join(120)
    assert not thread.is_alive()
    ConfluentTransactor(broker.address, "random").close()  # what was open is aborted
    found = [[int(value) for value in values] for values in read(broker)]
    assert found[0] == found[1], "a transaction is not whole"
    assert found[0] == sorted(set(found[0])), "a record twice, or out of order"
    assert ledger.committed <= set(found[0])
    assert not ledger.aborted & set(found[0])


def test_killed_at_random_moments(broker: WarmBroker, moments: random.Random) -> None:
    """Rule T.77."""
    hunt(broker, moments, 6)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_killed_500_times(broker: WarmBroker, moments: random.Random) -> None:
    """Rule T.77."""
    hunt(broker, moments, 500)
