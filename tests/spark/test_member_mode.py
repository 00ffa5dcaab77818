"""A query as a member: who reads what, when it is committed, what is handed over; on a real broker, without a JVM."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer
from tests.client.writing import produce
from tests.spark.engine import Engine, until
from tests.spark.members import (
    MEMBER,
    MORTAL,
    PARTITIONS,
    broker,
    commit_as_other,
    committed,
    fill,
    offsets,
    share_of,
)
from tests.spark.streams import departures

__all__ = ["broker"]


def test_one_query_reads_all_and_commits_each_batch_when_the_next_is_asked_for(broker: Broker) -> None:
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **MEMBER)
    until("there is a batch", engine.plan)
    assert offsets(broker) == dict.fromkeys(range(PARTITIONS), 0)  # where it begins, before anything is read
    engine.run()
    assert offsets(broker) == dict.fromkeys(range(PARTITIONS), 0)  # finished, but the source does not know it yet
    assert not engine.plan()
    until("it is committed", lambda: offsets(broker) == dict.fromkeys(range(PARTITIONS), 10))
    query = engine.start.query
    assert {at.metadata for at in committed(broker).values()} == {f"equipoise query={query} batch=0"}
    engine.stop()


def test_two_queries_share_and_every_record_is_read_once(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MEMBER)
    until("the first has all", lambda: len(first.read) == PARTITIONS, first.batch)
    second = Engine(broker.bootstrap_servers, **MEMBER)
    share_of(first, second)
    fill(broker)
    until(
        "all is read",
        lambda: len(first.records()) + len(second.records()) == 80,
        lambda: [first.batch(), second.batch()],
    )
    assert sorted(first.records() + second.records()) == [(p, at) for p in range(PARTITIONS) for at in range(20)]
    assert not first.plan()  # commits what it has read
    first.stop()
    until("the second has all", lambda: len(second.owned) == PARTITIONS, second.batch)
    fill(broker)
    until("all is read", lambda: len(first.records()) + len(second.records()) == 120, second.batch)
    assert sorted(first.records() + second.records()) == [(p, at) for p in range(PARTITIONS) for at in range(30)]
    second.stop()


def test_a_partition_is_given_up_only_when_the_batch_that_holds_it_is_committed(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MEMBER)
    until("there is a batch", first.plan)  # and it stays under way
    second = Engine(broker.bootstrap_servers, **MEMBER)
    parts = first.planner.partitions
    until("the first is asked to give up", lambda: parts._group.is_giving_up, second.batch)  # type: ignore[union-attr]
    assert second.owned == set()
    first.run()
    first.plan()
    until("the second has its share", lambda: len(second.owned) == PARTITIONS // 2, second.batch)
    fill(broker)
    until(
        "all is read",
        lambda: len(first.records()) + len(second.records()) == 80,
        lambda: [first.batch(), second.batch()],
    )
    assert sorted(first.records() + second.records()) == [(p, at) for p in range(PARTITIONS) for at in range(20)]
    first.stop()
    second.stop()


def test_partitions_that_stay_are_planned_while_others_are_wanted(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MEMBER)
    until("there is a batch", first.plan)
    second = Engine(broker.bootstrap_servers, **MEMBER)
    parts = first.planner.partitions
    until("the first is asked to give up", lambda: parts._group.is_giving_up, second.batch)  # type: ignore[union-attr]
    fill(broker)
    first.run()
    begun = first.batch()
    assert {partition for _, partition, _, _ in begun} <= first.owned
    assert 0 < len(begun) <= PARTITIONS // 2
    first.stop()
    second.stop()


def test_restart_replays_the_batch_under_way_and_goes_on_behind_it(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MEMBER)
    until("there is a batch", first.plan)
    first.stop()  # before it was read
    again = Engine(broker.bootstrap_servers, first, **MEMBER)
    assert len(again.run()) == PARTITIONS
    fill(broker)
    until("all is read", lambda: len(again.records()) >= 80, again.batch)
    assert sorted(again.records()) == [(p, at) for p in range(PARTITIONS) for at in range(20)]
    again.stop()


def test_restart_after_the_sink_before_the_commit_repeats_nothing(broker: Broker) -> None:
    """The checkpoint is ahead of the group, whose commits carry the query's own token."""
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MORTAL)
    until("there is a batch", first.batch)
    first.kill()
    assert offsets(broker) == dict.fromkeys(range(PARTITIONS), 0)
    again = Engine(broker.bootstrap_servers, first, **MEMBER)
    until("the group knows", lambda: offsets(broker) == dict.fromkeys(range(PARTITIONS), 10), again.batch)
    assert again.records() == []
    again.stop()


def test_what_others_have_committed_meanwhile_rules(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MEMBER)
    until("there is a batch", first.batch)
    first.plan()
    first.stop()
    fill(broker)
    commit_as_other(broker, {0: 17, 1: 3})  # one has read on, an administrator has set the other back
    again = Engine(broker.bootstrap_servers, first, **MEMBER)
    until("all is read", lambda: len(again.records()) >= 40, again.batch)
    assert sorted(again.read) == [("t", 0, 17, 20), ("t", 1, 3, 20), ("t", 2, 10, 20), ("t", 3, 10, 20)]
    again.stop()


def test_new_partitions_are_read_from_their_first_record_even_with_latest(broker: Broker) -> None:
    fill(broker)
    settings = {**MEMBER, "startingOffsets": "latest", "kafka__metadata__max__age__ms": "200"}
    engine = Engine(broker.bootstrap_servers, **settings)
    until("it has all", lambda: len(offsets(broker)) == PARTITIONS, engine.batch)
    assert offsets(broker) == dict.fromkeys(range(PARTITIONS), 10)
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("t", PARTITIONS + 2)
    produce(broker, "t", 30, partitions=PARTITIONS + 2)
    until("all is read", lambda: len(engine.records()) == 30, engine.batch)
    assert sorted(engine.records()) == [(p, at) for p in range(4) for at in range(10, 15)] + [
        (p, at) for p in (4, 5) for at in range(5)
    ]
    engine.stop()


def test_spark_that_does_not_call_loses_its_partitions_and_joins_again(broker: Broker) -> None:
    fill(broker)
    slow = Engine(broker.bootstrap_servers, **MEMBER, kafka__max__poll__interval__ms="1500")
    until("there is a batch", slow.plan)
    quick = Engine(broker.bootstrap_servers, **MEMBER)
    until("the other has all", lambda: len(quick.owned) == PARTITIONS, quick.batch)
    slow.run()
    share_of(slow, quick)
    fill(broker)
    until(
        "all is read", lambda: len(set(slow.records() + quick.records())) == 80, lambda: [slow.batch(), quick.batch()]
    )
    slow.stop()
    quick.stop()


def test_a_plain_consumer_in_the_same_group_shares_with_a_query(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("equipoise.spark.source.batch_planner._JOIN_SECONDS", 0.0)  # both wait in this thread
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **MEMBER)
    until("it has all", lambda: len(engine.owned) == PARTITIONS, engine.batch)
    plain = Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        partition_assignment_strategy="cooperative-sticky",
    )
    read: list[tuple[int, int]] = []

    def step() -> None:
        engine.batch()
        read.extend((one.partition, one.offset) for one in plain.poll(0.05))

    plain.subscribe("t")
    until("they share", lambda: len(engine.owned) == 2 and len(plain.assignment()) == 2, step)
    fill(broker)
    until("all is read", lambda: len(engine.records()) + len(read) >= 80, step)
    assert sorted(engine.records() + read) == [(p, at) for p in range(PARTITIONS) for at in range(20)]
    plain.close()
    engine.stop()


def test_available_now_ends_at_what_was_there(broker: Broker) -> None:
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **MEMBER, maxOffsetsPerTrigger="16")
    engine.reader.run(engine.planner.prepare_for_available_now(), "the goal")
    fill(broker)
    batches = []
    while batch := engine.batch():
        batches.append(sum(end - start for _, _, start, end in batch))
    assert sum(batches) == 40
    assert max(batches) <= 16
    until("all is committed", lambda: offsets(broker) == dict.fromkeys(range(PARTITIONS), 10))
    engine.stop()


def test_who_stops_says_goodbye(broker: Broker) -> None:
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **MEMBER)
    until("it has all", lambda: len(engine.owned) == PARTITIONS, engine.batch)
    engine.stop()
    until("it is gone", lambda: departures(broker.bootstrap_servers))
    assert [why for why, _ in departures(broker.bootstrap_servers)] == ["left"]
    second = Engine(broker.bootstrap_servers, **MEMBER)
    until("another has all", lambda: len(second.owned) == PARTITIONS, second.batch)
    second.stop()
