"""Unclean elections (KIP-320): a query notices that its leader lacks what it has read, wherever offsets lead it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.spark.source.offset_ranges import OffsetRange
from equipoise.wire.apis.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse
from equipoise.wire.errors import KafkaError, UsageError
from tests.client.fakes import RECORDS, TOPIC, FakeCluster
from tests.client.writing import produce
from tests.spark.brokers import aside
from tests.spark.engine import Engine, until
from tests.spark.reads import places, table


class Electing(FakeCluster):
    """Leaders tell their epoch with the ends of logs, as Kafka's do."""

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        answer = super()._list_offsets(request)
        for one in answer.topics[0].partitions:
            one.leader_epoch = self.leaders[one.partition_index][1]
        return answer

    def elect(self, log: list[int]) -> None:
        """The other broker, in the next epoch, with this log."""
        node, epoch = self.leaders[0]
        self.logs[0], self.leaders[0] = log, (3 - node, epoch + 1)


@pytest.fixture
def fake() -> Iterator[Electing]:
    with aside(Electing()) as fake:
        assert isinstance(fake, Electing)
        yield fake


def begun(fake: Electing, **options: str) -> Engine:
    engine = Engine(fake.bootstrap_servers, startingOffsets="earliest", **options)
    engine.batch()
    assert engine.read == [(TOPIC, 0, 0, RECORDS)]
    engine.read.clear()
    return engine


def test_offsets_carry_epochs_and_ids(fake: Electing) -> None:
    engine = begun(fake)
    engine.stop()
    offset = json.loads(engine.log[-1])
    assert offset["epochs"] == {TOPIC: {"0": 0}}
    assert offset["ids"] == {TOPIC: fake.topic_id.hex()}


@pytest.mark.parametrize("new", [2, 30])  # the new log ends before the place, or behind it
def test_an_unclean_election_between_batches(fake: Electing, caplog: pytest.LogCaptureFixture, new: int) -> None:
    engine = begun(fake, failOnDataLoss="false")
    fake.elect([0] * 5 + [1] * new)
    with caplog.at_level(logging.WARNING):
        until("all is read", lambda: sum(end - start for *_, start, end in engine.read) >= new, engine.batch)
    assert engine.read == [(TOPIC, 0, 5, 5 + new)]
    assert f"t-0 has lost records before offset {RECORDS}, from offset 5 on, which were read already" in caplog.text
    assert caplog.text.count("has lost records") == 1
    fake.logs[0] += [1]
    until("it goes on", lambda: len(engine.read) == 2, engine.batch)
    assert engine.read[1] == (TOPIC, 0, 5 + new, 6 + new)
    engine.stop()


def test_by_default_it_ends_the_query_and_a_restart_too(fake: Electing) -> None:
    engine = begun(fake)
    fake.elect([0] * 5 + [1] * 30)
    sentence = "from offset 5 on.* set failOnDataLoss to false to go on from 5, with what stands there now"
    with pytest.raises(UsageError, match=sentence):
        until("never", lambda: False, engine.batch)
    engine.stop()
    again = Engine(fake.bootstrap_servers, engine)
    with pytest.raises(UsageError, match=sentence):
        again.batch()
    again.stop()
    last = Engine(fake.bootstrap_servers, engine, failOnDataLoss="false")
    last.batch()
    assert last.read == [(TOPIC, 0, 5, 35)]
    last.stop()


def test_a_clean_election_is_asked_about_once(fake: Electing) -> None:
    engine = begun(fake)
    fake.elect([0] * RECORDS + [1])
    until("it goes on", lambda: len(engine.read) == 1, engine.batch)
    for count in range(3):
        fake.logs[0] += [1]
        until("it goes on", lambda count=count: len(engine.read) == count + 2, engine.batch)  # type: ignore[misc]
    engine.stop()
    assert [node for node, _ in fake.epoch_requests].count(2) == 1  # the old leader may have been asked before


def test_brokers_that_cannot_be_asked(fake: Electing) -> None:
    fake.epoch_versions = None
    engine = begun(fake)
    fake.elect([0] * RECORDS + [1])
    until("it goes on", lambda: len(engine.read) == 1, engine.batch)
    engine.stop()


def test_a_batch_that_was_planned_before_an_election(fake: Electing, caplog: pytest.LogCaptureFixture) -> None:
    """Its records were replaced before a task has read them."""
    fake.elect([0] * 5 + [1] * 30)
    planned = OffsetRange(TOPIC, 0, 0, RECORDS, 0)
    with pytest.raises(KafkaError, match="a leader of epoch 1 has written over records of epoch 0"):
        table(fake.bootstrap_servers, [planned])
    with caplog.at_level(logging.WARNING):
        found = places(table(fake.bootstrap_servers, [planned], failOnDataLoss="false"))
    assert found == [(TOPIC, 0, offset) for offset in range(RECORDS)]
    assert "so what stands there now is read" in caplog.text
    table(fake.bootstrap_servers, [planned._replace(epoch=1)])
    table(fake.bootstrap_servers, [planned._replace(epoch=-1)])


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_member_knows_a_topic_recreated(fails: str) -> None:
    """Also where the group still has its old commits, as a broker may keep them."""
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1)
        produce(broker, "t", 10, partitions=1)
        engine = Engine(broker.bootstrap_servers, group__id="g", startingOffsets="earliest")
        until("all is read", lambda: len(engine.records()) == 10, engine.batch)
        engine.stop()
        admin.delete_topic("t")
        admin.create_topic("t", 1)
        produce(broker, "t", 30, partitions=1)
        again = Engine(broker.bootstrap_servers, engine, group__id="g", failOnDataLoss=fails)
        if fails == "true":
            with pytest.raises(UsageError, match="topic t was deleted and created anew since the query has read it"):
                until("never", lambda: False, again.batch)
        else:
            until("all is read", lambda: len(again.records()) >= 30, again.batch)
            assert sorted(again.records()) == [(0, at) for at in range(30)]
        again.stop()
