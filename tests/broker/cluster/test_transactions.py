"""Transactions on several brokers: the coordinator of an id moves, and its producer goes on at another broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k66_list_transactions import ListTransactionsRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.broker.transactional import TV1, TV2, TransactionalProducer

OK = ErrorCode.NONE
TOPIC = "__transaction_state"
SETTINGS = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


def coordinator(client: RawClient) -> int:
    (found,) = client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["orders"])).coordinators
    assert found.error_code == OK
    return int(found.node_id)


def is_stable(server: Server) -> bool:
    log = server.topics.partition("t", 0).log
    return log.last_stable_offset == log.high_watermark


def answered(ask: Callable[[], int]) -> None:
    """The new coordinator loads first."""
    eventually(lambda: ask() == OK, "the coordinator answers")


@pytest.mark.parametrize("version", [TV1, TV2])
def test_the_coordinator_moves_with_an_open_transaction(version: int) -> None:
    with (
        Broker(SETTINGS, brokers=2, topics={"t": 1}) as broker,
        RawClient(broker.brokers[1].address) as one,
        RawClient(broker.brokers[2].address) as two,
    ):
        clients = {1: one, 2: two}
        coordinator(one)
        broker.move_leader(TOPIC, 0, to=1)
        broker.move_leader("t", 0, to=1)
        assert coordinator(one) == coordinator(two) == 1
        producer = TransactionalProducer(one, version=version)
        answered(producer.init)
        if version < TV2:
            assert set(producer.add().values()) == {OK}
        assert producer.produce() == [OK]
        broker.move_leader(TOPIC, 0, to=2)
        assert producer.end() == ErrorCode.NOT_COORDINATOR
        assert producer.describe().error_code == ErrorCode.NOT_COORDINATOR
        producer.client = clients[coordinator(one)]
        answered(producer.end)
        eventually(lambda: broker.call(is_stable), "the marker is durable")
        assert broker.call(lambda server: server.topics.partition("t", 0).log.aborted_transactions(0, 9)) == []
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        listed = {node: len(client.call(request).transaction_states) for node, client in clients.items()}
        assert listed == {1: 0, 2: 1}


def test_a_fence_by_a_producer_at_the_new_coordinator() -> None:
    """What is open is aborted there, with a newer epoch of the coordinator."""
    with (
        Broker(SETTINGS, brokers=2, topics={"t": 1}) as broker,
        RawClient(broker.brokers[1].address) as one,
        RawClient(broker.brokers[2].address) as two,
    ):
        coordinator(one)
        broker.move_leader(TOPIC, 0, to=1)
        broker.move_leader("t", 0, to=1)
        zombie = TransactionalProducer(one)
        answered(zombie.init)
        assert zombie.produce() == [OK]
        broker.move_leader(TOPIC, 0, to=2)
        answered(TransactionalProducer(two).init)
        eventually(lambda: broker.call(is_stable), "the marker is durable")
        assert len(broker.call(lambda s: s.topics.partition("t", 0).log.aborted_transactions(0, 9))) == 1
        assert zombie.produce() == [ErrorCode.INVALID_PRODUCER_EPOCH]
