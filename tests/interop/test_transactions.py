"""Transactions of foreign clients on our broker: commit, abort, fencing, time-out; each reads what all have written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from equipoise.broker import Broker
from equipoise.coordinator.transactions.states import AT_REST
from tests.broker.conftest import eventually
from tests.interop.transacting import COMMITTED, TRANSACTORS, UNCOMMITTED, Transactor

Open = Callable[..., Transactor]
CLIENTS = pytest.mark.parametrize("client", TRANSACTORS, ids=lambda one: one.name)
PARTITIONS = 2
_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": PARTITIONS}) as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def transactor(broker: Broker) -> Iterator[Open]:
    """`transactor(client, name)` gives a producer, closed when the test ends."""
    opened: list[Transactor] = []

    def open_one(client: type[Transactor], name: str, **options: int) -> Transactor:
        opened.append(client(broker.bootstrap_servers, name, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def write(one: Transactor, topic: str, value: bytes, *, commit: bool) -> None:
    one.begin()
    for partition in range(PARTITIONS):
        one.send(topic, partition, value)
    (one.commit if commit else one.abort)()


def is_at_rest(broker: Broker) -> bool:
    """Whether every transaction is over: its markers can be read."""
    return broker.call(
        lambda server: all(
            entry.state in AT_REST and entry.pending is None
            for core in server.transaction_coordinator.opened
            for entry in core.entries.values()
        )
    )


@CLIENTS
def test_committed_records_are_read_and_aborted_ones_are_not(
    client: type[Transactor], broker: Broker, transactor: Open, topic: str
) -> None:
    one = transactor(client, f"{topic}-id")
    for number in range(6):
        write(one, topic, b"%d" % number, commit=number % 3 != 2)
    eventually(lambda: is_at_rest(broker), "all transactions are over")
    for partition in range(PARTITIONS):
        for reader in TRANSACTORS:
            read = reader.read(broker.bootstrap_servers, topic, partition, COMMITTED)
            assert read == [b"0", b"1", b"3", b"4"], reader.name
    every = client.read(broker.bootstrap_servers, topic, 0, UNCOMMITTED)
    assert every == [b"%d" % number for number in range(6)]


@CLIENTS
def test_a_second_instance_fences_the_first(
    client: type[Transactor], broker: Broker, transactor: Open, topic: str
) -> None:
    """Scenarios 33 and 34: what the first has open is aborted, and it can commit no more."""
    first = transactor(client, f"{topic}-id")
    first.begin()
    first.send(topic, 0, b"zombie")
    second = transactor(client, f"{topic}-id")
    with pytest.raises(Exception, match=r"(?i)fence|epoch|newer"):
        first.commit()
    write(second, topic, b"new", commit=True)
    eventually(lambda: is_at_rest(broker), "all transactions are over")
    assert client.read(broker.bootstrap_servers, topic, 0, COMMITTED) == [b"new"]


@CLIENTS
def test_a_transaction_that_times_out_is_aborted(
    client: type[Transactor], broker: Broker, transactor: Open, topic: str
) -> None:
    """Scenario 30: a client of today's transaction versions is fenced by it, and its successor goes on."""
    slow = transactor(client, f"{topic}-id", timeout_ms=1000)
    slow.begin()
    slow.send(topic, 0, b"late")
    eventually(lambda: is_at_rest(broker), "the transaction has timed out")
    with pytest.raises(Exception, match=r"(?i)fence|epoch|newer|state"):
        slow.commit()
    write(transactor(client, f"{topic}-id"), topic, b"new", commit=True)
    eventually(lambda: is_at_rest(broker), "all transactions are over")
    assert client.read(broker.bootstrap_servers, topic, 0, COMMITTED) == [b"new"]


def test_transactions_of_all_clients_in_one_partition(broker: Broker, transactor: Open, topic: str) -> None:
    """Scenario 17: who commits first is read when the older ones are over."""
    ones = [transactor(client, f"{topic}-{client.name}") for client in TRANSACTORS]
    for one in ones:
        one.begin()
        one.send(topic, 0, one.name.encode())
    ones[1].commit()
    for reader in TRANSACTORS:
        assert reader.read(broker.bootstrap_servers, topic, 0, COMMITTED) == []
    ones[2].abort()
    ones[0].commit()
    eventually(lambda: is_at_rest(broker), "all transactions are over")
    for reader in TRANSACTORS:
        read = reader.read(broker.bootstrap_servers, topic, 0, COMMITTED)
        assert read == [ones[0].name.encode(), ones[1].name.encode()]
