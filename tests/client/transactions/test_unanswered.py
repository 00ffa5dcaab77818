"""Calls of a transactional producer that are not answered in time: made again, they finish what they began."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from equipoise import AsyncProducer, Broker, Producer, TopicPartition
from equipoise.broker.control import Cut
from equipoise.broker.server import Server
from equipoise.errors import TransactionTimeoutError, UsageError
from tests.client.transactions.scenarios import _committed
from tests.client.transactions.stage import new_topic, producer, read, settings, values


@pytest.fixture(params=["true", "false"], ids=["verified", "not verified"])
def explicit_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Of version 1, in which the producer adds partitions and groups itself."""
    with Broker({"transaction.version": 1, "transaction.partition.verification.enable": request.param}) as broker:
        yield broker


def _send_offsets_in_vain(one: Producer, broker: Broker, topic: str) -> None:
    fault = broker.control(Cut(apis=["AddOffsetsToTxn"]))
    with pytest.raises(TransactionTimeoutError, match="call it again"):
        one.send_offsets({TopicPartition(topic, 0): 1}, f"{topic}-group")
    fault.end()


def test_offsets_that_are_sent_again_are_committed(explicit_broker: Broker) -> None:
    """The group is added again: the coordinator may not have heard of it."""
    topic = new_topic(explicit_broker, 1)
    with producer(explicit_broker, topic, max_block_ms=1000) as one:
        one.begin_transaction()
        one.send(topic, b"x").result(60)
        _send_offsets_in_vain(one, explicit_broker, topic)
        one.send_offsets({TopicPartition(topic, 0): 1}, f"{topic}-group")
        one.commit_transaction()
    assert _committed(explicit_broker, topic, 0) == 1
    assert explicit_broker.call(_open_in_offsets) == []


def test_a_commit_takes_no_more_records_while_it_waits() -> None:
    """One from another thread would go out behind it, outside any transaction; nobody would end it."""
    with Broker() as broker:
        topic = new_topic(broker, 1)
        with producer(broker, topic, max_block_ms=1000) as one, ThreadPoolExecutor() as other:
            one.begin_transaction()
            one.send(topic, b"before").result(60)
            fault = broker.control(Cut(apis=["Produce"]))
            waiting = one.send(topic, b"waits")
            commit = other.submit(one.commit_transaction)
            while not one._engine.transactions.transaction._takes_no_more:
                time.sleep(0.01)
            with pytest.raises(UsageError, match="the transaction is being committed: send before"):
                one.send(topic, b"too late")
            with pytest.raises(TransactionTimeoutError):
                commit.result(60)
            one.send(topic, b"the commit has not begun")
            fault.end()
            one.commit_transaction()
            assert waiting.done()
        assert values(read(broker, topic)) == sorted([b"before", b"waits", b"the commit has not begun"])


def test_close_gives_an_open_transaction_no_more_than_its_own_time(caplog: pytest.LogCaptureFixture) -> None:
    """Not max.block.ms. A coordinator that cannot be reached ends the transaction by itself."""
    with Broker() as broker:
        topic = new_topic(broker, 1)
        one = producer(broker, topic)
        one.begin_transaction()
        one.send(topic, b"open").result(60)
        fault = broker.control(Cut(apis=["EndTxn"]))
        one.close(timeout=0.5)
        fault.end()
    assert "the open transaction could not be aborted within 0.5 s" in caplog.text


def test_close_for_asyncio_keeps_its_time_too(caplog: pytest.LogCaptureFixture) -> None:
    async def main(broker: Broker) -> None:
        topic = new_topic(broker, 1)
        one = await AsyncProducer(settings(broker, topic)).start()
        await one.begin_transaction()
        await one.send_and_wait(topic, b"open")
        broker.control(Cut(apis=["EndTxn"]))
        await one.close(timeout=0.5)

    with Broker() as broker:
        asyncio.run(main(broker))
    assert "the open transaction could not be aborted within 0.5 s" in caplog.text


def _open_in_offsets(server: Server) -> list[int]:
    shards = server.group_coordinator.shards
    return [number for number, one in enumerate(shards) if one.partition.log.producers.open_transactions]


@pytest.mark.parametrize("call", ["abort_transaction", "commit_transaction"])
def test_a_transaction_ends_whose_only_group_was_not_added(explicit_broker: Broker, call: str) -> None:
    """The coordinator knows of no transaction, and would refuse its end for good."""
    topic = new_topic(explicit_broker, 1)
    with producer(explicit_broker, topic, max_block_ms=1000) as one:
        one.begin_transaction()
        _send_offsets_in_vain(one, explicit_broker, topic)
        getattr(one, call)()
        with one.transaction() as transaction:
            transaction.send_offsets({TopicPartition(topic, 0): 2}, f"{topic}-group")
    assert _committed(explicit_broker, topic, 0) == 2
