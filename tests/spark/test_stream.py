"""Streaming queries with real Spark: what its engine makes of the source, and what is left after a crash."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.spark.schema import spark_schema
from tests.client.writing import produce
from tests.spark.streams import (
    Sink,
    committed,
    departures,
    everything,
    kill_workers,
    members,
    processes,
    stream,
    until,
)

PARTITIONS = 2
RUNNER = "python_streaming_source_runner"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}) as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic("t", PARTITIONS)
        yield running


def fill(broker: Broker, each: int) -> None:
    produce(broker, "t", each * PARTITIONS, partitions=PARTITIONS)


def test_available_now_within_its_limits_and_the_last_batch_is_committed(
    spark: Any, broker: Broker, checkpoint: str
) -> None:
    fill(broker, 100)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "60", "group__id": "g", "group__mode": "commit"}
    frame = stream(spark, broker.bootstrap_servers, **options)
    assert frame.isStreaming
    assert frame.schema == spark_schema(include_headers=False)
    sink = Sink()
    query = sink.start(frame, checkpoint, availableNow=True)
    query.awaitTermination()
    assert sink.places == everything(PARTITIONS, 100)
    assert sink.sizes == [60, 60, 60, 20]
    assert committed(broker.bootstrap_servers) == {("t", 0): 100, ("t", 1): 100}
    assert members(broker.bootstrap_servers) == []  # nor has anybody ever been one


def test_a_member_with_topics_that_grow_and_come_and_its_leave(spark: Any, broker: Broker, checkpoint: str) -> None:
    fill(broker, 10)
    options = {"subscribePattern": "t|late.*", "startingOffsets": "earliest", "group__id": "g"}
    options |= {"kafka__metadata__max__age__ms": "500", "kafka__session__timeout__ms": "600000"}
    frame = stream(spark, broker.bootstrap_servers, **options)
    first = Sink()
    query = first.start(frame, checkpoint)
    until("all is read", lambda: first.places == everything(2, 10), query)
    until("it is committed", lambda: committed(broker.bootstrap_servers) == {("t", 0): 10, ("t", 1): 10}, query)
    (member,) = members(broker.bootstrap_servers)
    assert member["member_assignment"]["assigned_partitions"] == [{"topic": "t", "partitions": [0, 1]}]

    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("t", 3)
        admin.create_topic("later", 1)
    produce(broker, "t", 30, partitions=3)
    produce(broker, "later", 5, partitions=1)
    wanted = everything(2, 20) + everything(3, 10) + everything(1, 5, "later")
    until("all is read", lambda: first.places.keys() == wanted.keys(), query)
    assert max(first.places.values()) == 1
    until("it is committed", lambda: committed(broker.bootstrap_servers).get(("later", 0)) == 5, query)

    began = time.time_ns() // 1_000_000
    query.stop()
    until("it is gone", lambda: departures(broker.bootstrap_servers))
    ((why, at),) = departures(broker.bootstrap_servers)
    print(f"out of the group {at - began} ms after stop() was called")
    assert why == "left"

    produce(broker, "t", 3, partitions=3)
    second = Sink()
    query = second.start(frame, checkpoint)
    until("it goes on", lambda: len(second.places) == 3, query)
    assert set(second.places) == {("t", 0, 20), ("t", 1, 20), ("t", 2, 10)}
    query.stop()


def test_a_batch_waits_until_there_is_enough(spark: Any, broker: Broker, checkpoint: str) -> None:
    fill(broker, 5)
    frame = stream(spark, broker.bootstrap_servers, startingOffsets="earliest", minOffsetsPerTrigger="60")
    sink = Sink()
    query = sink.start(frame, checkpoint)
    until("the first does not", lambda: sink.sizes == [10], query)
    fill(broker, 10)
    fill(broker, 20)
    until("there is enough", lambda: len(sink.sizes) > 1, query)
    assert sink.sizes == [10, 60]
    query.stop()


def test_a_failing_sink_gets_the_same_batch_again(spark: Any, broker: Broker, checkpoint: str) -> None:
    """After the write-ahead log."""
    fill(broker, 10)
    options = {"startingOffsets": "earliest", "group__id": "g", "maxOffsetsPerTrigger": "10"}
    frame = stream(spark, broker.bootstrap_servers, **options)
    failing = Sink()
    failing.fail_at = 1
    query = failing.start(frame, checkpoint)
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.awaitTermination()
    fill(broker, 10)
    healthy = Sink()
    query = healthy.start(frame, checkpoint)
    until("all is read", lambda: len(healthy.places + failing.places) == 40, query)
    assert healthy.calls[0] == failing.calls[1]
    failing.calls.pop()
    assert healthy.places + failing.places == everything(PARTITIONS, 20)
    query.stop()


def test_the_source_process_is_killed(spark: Any, broker: Broker, checkpoint: str) -> None:
    """Before the write-ahead log, as it plans without end: nothing is under way, so nothing comes again."""
    fill(broker, 10)
    options = {"startingOffsets": "earliest", "group__id": "g"}
    options |= {"kafka__session__timeout__ms": "3000", "kafka__heartbeat__interval__ms": "300"}
    frame = stream(spark, broker.bootstrap_servers, **options)
    sink = Sink()
    query = sink.start(frame, checkpoint)
    until("it is committed", lambda: committed(broker.bootstrap_servers) == {("t", 0): 10, ("t", 1): 10}, query)
    until("those of other tests are gone", lambda: len(processes(RUNNER)) == 1, query)
    processes(RUNNER)[0].kill()
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    fill(broker, 10)
    query = sink.start(frame, checkpoint)
    until("all is read", lambda: sink.places.keys() == everything(PARTITIONS, 20).keys(), query)
    assert sink.places == everything(PARTITIONS, 20)
    query.stop()


def test_workers_of_executors_are_killed(spark: Any, broker: Broker, checkpoint: str) -> None:
    """A task has one attempt here, so the query fails; from its checkpoint it goes on until all is read."""
    fill(broker, 200)
    frame = stream(spark, broker.bootstrap_servers, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    sink, kills = Sink(), 0

    def all_is_read() -> bool:
        return sink.places.keys() == everything(PARTITIONS, 200).keys()

    while not all_is_read():
        query = sink.start(frame, checkpoint)
        while query.isActive and not all_is_read():
            kills += kill_workers() if kills < 3 else 0
            time.sleep(0.05)
        if all_is_read():
            query.stop()
    assert kills
    by_batch = dict(sink.calls)
    assert all(by_batch[batch] == places for batch, places in sink.calls)  # what came again came as it was
    assert len([place for places in by_batch.values() for place in places]) == 2 * 200
