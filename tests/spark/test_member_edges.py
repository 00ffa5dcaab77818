"""A query as a member when things go wrong: refused commits, expulsion, a broker that is away, other protocols."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer
from equipoise.server_process import free_port
from equipoise.wire.errors import ErrorCode, KafkaError
from tests.client.writing import produce
from tests.spark.engine import Engine, until
from tests.spark.members import (
    ALL,
    DEATH_S,
    MEMBER,
    MORTAL,
    PARTITIONS,
    SETTINGS,
    broker,
    commit_as_other,
    committed,
    fill,
    offsets,
    planning_held,
    share_of,
)

__all__ = ["broker"]


def refuse_commits(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is not committed any more."""
    refused: list[Any] = []

    async def commit(given: Any) -> KafkaError:
        refused.append(given)
        return KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "no")

    monkeypatch.setattr(engine.offset_commits, "_commit", commit)
    return refused


# -- planning and the group at the same time


def test_what_is_given_up_while_a_batch_is_planned_is_not_in_it(broker: Broker) -> None:
    first = Engine(broker.bootstrap_servers, **MEMBER)
    until("it has all", lambda: len(first.owned) == PARTITIONS, first.batch)
    fill(broker)
    with planning_held(first) as (planning, may_go):
        second = Engine(broker.bootstrap_servers, **MEMBER)
        until("they share", lambda: len(second.owned) == len(first.owned) == 2, second.batch)
        may_go.set()
        assert planning.result()
    assert {partition for _, partition, _, _ in first.run()} == first.owned
    until("all is read", lambda: len(set(first.records() + second.records())) == 40, second.batch)
    assert len(first.records() + second.records()) == 40
    first.stop()
    second.stop()


def test_no_batch_is_planned_before_the_last_is_known_to_the_group(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash would repeat two of them."""
    monkeypatch.setattr("equipoise.spark.source.batch_planner._JOIN_SECONDS", 0.0)
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **MEMBER)
    until("there is a batch", engine.batch)
    fill(broker)
    commit, may_go = engine.offset_commits._commit, threading.Event()

    async def slow(given: Any) -> Any:
        while not may_go.is_set():
            await asyncio.sleep(0.01)
        return await commit(given)

    monkeypatch.setattr(engine.offset_commits, "_commit", slow)
    assert not engine.plan()
    assert not engine.plan()
    may_go.set()
    until("there is a batch", engine.plan)
    assert offsets(broker) == dict.fromkeys(ALL, 10)
    engine.stop()


def test_the_first_answer_waits_until_the_group_is_joined() -> None:
    """Spark may ask again only at its next trigger, and by then the member may be out again."""
    with Broker({"group.initial.rebalance.delay.ms": 1_000}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", PARTITIONS)
        fill(broker)
        engine = Engine(broker.bootstrap_servers, **MEMBER)
        assert engine.plan()
        engine.stop()


# -- commits that are refused


def test_refused_commits_are_logged_and_the_query_goes_on(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **MORTAL)
    until("there is a batch", engine.plan)
    # a group's offsets are committed by its members: from now on the coordinator takes this one for nobody
    monkeypatch.setattr(engine.group.member, "member_id", "nobody")
    engine.run()
    with caplog.at_level(logging.WARNING):
        until("it is told", lambda: "are not committed: " in caplog.text, engine.batch)
    assert "has put this member out of group g" in caplog.text
    fill(broker)
    until("it goes on", lambda: len(set(engine.records())) == 80, engine.batch)
    engine.stop()


def test_what_was_refused_goes_with_the_next_commit(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **MEMBER)
    until("there is a batch", engine.batch)
    refused = refuse_commits(engine, monkeypatch)
    assert not engine.plan()
    assert len(refused) == 1
    assert offsets(broker) == dict.fromkeys(ALL, 0)
    monkeypatch.undo()
    produce(broker, "t", 1, partitions=1)
    until("there is a batch", engine.batch)
    until("all is committed", lambda: offsets(broker) == {0: 11, 1: 10, 2: 10, 3: 10}, engine.batch)
    engine.stop()


def test_what_was_refused_is_not_committed_once_others_have_the_partition(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MORTAL)
    until("there is a batch", first.batch)
    refuse_commits(first, monkeypatch)
    fill(broker)
    assert first.plan()
    monkeypatch.undo()
    first.pause(DEATH_S)
    second = Engine(broker.bootstrap_servers, **MEMBER)
    until("the other has read all", lambda: len(second.records()) == 80, second.batch)
    until("it is committed", lambda: offsets(broker) == dict.fromkeys(ALL, 20), second.batch)
    until("they share", lambda: len(first.owned) == len(second.owned) == 2, second.batch)
    first.run()
    first.plan()
    assert offsets(broker) == dict.fromkeys(ALL, 20)
    first.stop()
    second.stop()


# -- whose commit it is


def test_a_partition_is_claimed_so_that_a_crash_repeats_nothing(broker: Broker) -> None:
    """It was another's before, whose commit would rule otherwise."""
    commit_as_other(broker, dict.fromkeys(ALL, 4))
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MORTAL)
    until("there is a batch", first.batch)
    assert sorted(first.read) == [("t", partition, 4, 10) for partition in ALL]
    first.kill()
    assert {(at.offset, at.metadata.split()[0]) for at in committed(broker).values()} == {(4, "equipoise")}
    again = Engine(broker.bootstrap_servers, first, **MEMBER)
    until("the group knows", lambda: offsets(broker) == dict.fromkeys(ALL, 10), again.batch)
    assert again.records() == []
    again.stop()


def test_a_reset_survives_a_crash_between_claim_and_batch(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MORTAL)
    until("there is a batch", first.batch)
    first.plan()
    first.stop()
    commit_as_other(broker, dict.fromkeys(ALL, 7))
    second = Engine(broker.bootstrap_servers, first, **MORTAL)
    until("it has all", second.plan)
    second.log.pop()  # planned, but not in the log when it was killed
    second.kill()
    third = Engine(broker.bootstrap_servers, second, **MEMBER)
    until("there is a batch", third.batch)
    assert sorted(third.read) == [("t", partition, 7, 10) for partition in ALL]
    third.stop()


# -- expulsion


def test_a_query_that_is_put_out_loses_its_partitions_and_goes_on(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MORTAL)
    until("there is a batch", first.plan)
    first.pause(DEATH_S)
    second = Engine(broker.bootstrap_servers, **MEMBER)
    with caplog.at_level(logging.WARNING):
        until("the other has all", lambda: len(second.owned) == PARTITIONS, second.batch)
        until("it is told", lambda: "group g has gone on without this query, which loses t-0, t-1" in caplog.text)
    first.run()
    share_of(first, second)
    fill(broker)
    until(
        "all is read",
        lambda: len(set(first.records() + second.records())) == 80,
        lambda: [first.batch(), second.batch()],
    )
    seen = first.records() + second.records()
    assert {one for one in seen if seen.count(one) > 1} <= {(partition, at) for partition in ALL for at in range(10)}
    first.stop()
    second.stop()


def test_a_broker_that_is_away_for_a_while(tmp_path: Any) -> None:
    address = f"127.0.0.1:{free_port()}"
    with Broker(SETTINGS, data=tmp_path, listen=address) as running:
        with Admin(address) as admin:
            admin.create_topic("t", PARTITIONS)
        fill(running)
        engine = Engine(address, **MEMBER)
        until("there is a batch", engine.plan)
    engine.run()
    with ThreadPoolExecutor(1) as pool:
        planning = pool.submit(engine.batch)
        with Broker(SETTINGS, data=tmp_path, listen=address) as running:
            planning.result()
            until("it is committed", lambda: offsets(running) == dict.fromkeys(ALL, 10), engine.batch)
            fill(running)
            until("all is read", lambda: len(engine.records()) >= 80, engine.batch)
            assert sorted(engine.records()) == [(partition, at) for partition in ALL for at in range(20)]
            engine.stop()


# -- static members, eager ones, patterns


def test_a_static_member_is_back_before_the_others_notice(broker: Broker) -> None:
    fill(broker)
    static = {**MEMBER, "kafka__group__instance__id": "one"}
    first = Engine(broker.bootstrap_servers, **static)
    second = Engine(broker.bootstrap_servers, **MEMBER)
    share_of(first, second)
    until(
        "all is read",
        lambda: len(first.records()) + len(second.records()) == 40,
        lambda: [first.batch(), second.batch()],
    )
    first.plan()
    owned, rebalances = first.owned, second.planner.partitions.rebalances
    first.stop()
    again = Engine(broker.bootstrap_servers, first, **static)
    until("it has its own again", lambda: again.owned == owned, again.batch)
    fill(broker)
    until(
        "all is read",
        lambda: len(again.records()) + len(first.records()) + len(second.records()) == 80,
        lambda: [again.batch(), second.batch()],
    )
    assert second.planner.partitions.rebalances == rebalances
    again.stop()
    second.stop()


def test_a_static_member_whose_place_is_taken_says_so(broker: Broker) -> None:
    static = {**MEMBER, "kafka__group__instance__id": "one"}
    first = Engine(broker.bootstrap_servers, **static)
    until("it has all", lambda: len(first.owned) == PARTITIONS, first.batch)
    second = Engine(broker.bootstrap_servers, **static)
    until("the other has all", lambda: len(second.owned) == PARTITIONS, second.batch)
    with pytest.raises(KafkaError, match=r"group.instance.id 'one', and this one is out"):
        until("it hears of it", lambda: False, first.plan)
    until("it has let go of all", lambda: not first.owned)  # the loop may not have come to that yet
    first.stop()
    second.stop()


def test_an_eager_group_with_a_plain_consumer(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.spark.source.batch_planner._JOIN_SECONDS", 0.0)  # both wait in this thread
    fill(broker)
    eager = {**MEMBER, "kafka__partition__assignment__strategy": "range"}
    engine = Engine(broker.bootstrap_servers, **eager)
    until("it has all", lambda: len(engine.owned) == PARTITIONS, engine.batch)
    read: list[tuple[int, int]] = []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        partition_assignment_strategy="range",
    ) as plain:

        def step() -> None:
            engine.batch()
            read.extend((one.partition, one.offset) for one in plain.poll(0.05))

        plain.subscribe("t")
        until("they share", lambda: engine.owned == {0, 1} or engine.owned == {2, 3}, step)
        fill(broker)
        until("all is read", lambda: len(set(engine.records() + read)) == 80, step)
        assert sorted(engine.records() + read) == [(partition, at) for partition in ALL for at in range(20)]
    until("it has all", lambda: len(engine.owned) == PARTITIONS, engine.batch)
    fill(broker)
    until("all is read", lambda: len(engine.records() + read) >= 120, engine.batch)
    assert sorted(engine.records() + read) == [(partition, at) for partition in ALL for at in range(30)]
    engine.stop()


def test_topics_by_pattern_come_and_are_read_from_their_first_record(broker: Broker) -> None:
    fill(broker)
    settings = {**MEMBER, "startingOffsets": "latest", "kafka__metadata__max__age__ms": "200"}
    engine = Engine(broker.bootstrap_servers, subscribePattern="t|later-.*", **settings)
    until("it has all", lambda: len(offsets(broker)) == PARTITIONS, engine.batch)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("later-1", 2)
    produce(broker, "later-1", 10, partitions=2)
    produce(broker, "t", 4, partitions=4)
    until("all is read", lambda: len(engine.records()) == 14, engine.batch)
    assert sorted({one for one in engine.read if one[0] == "later-1"})[0][2] == 0
    assert {one[0] for one in engine.read} == {"later-1", "t"}
    engine.plan()
    engine.stop()
    again = Engine(broker.bootstrap_servers, engine, subscribePattern="t|later-.*", **settings)
    produce(broker, "later-1", 2, partitions=2)
    until("all is read", lambda: len(again.records()) == 2, again.batch)
    again.stop()


def test_a_topic_recreated(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    fill(broker)
    settings = {**MEMBER, "failOnDataLoss": "false"}
    first = Engine(broker.bootstrap_servers, **settings)
    until("there is a batch", first.batch)
    first.plan()
    first.stop()
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("t")
        admin.create_topic("t", PARTITIONS)
    produce(broker, "t", 12, partitions=PARTITIONS)
    commit_as_other(broker, dict.fromkeys(ALL, 10))  # where it stood: the broker has forgotten, others may not have
    again = Engine(broker.bootstrap_servers, first, **settings)
    with caplog.at_level(logging.WARNING):
        until("it is known", lambda: offsets(broker) == dict.fromkeys(ALL, 3), again.batch)
    assert caplog.text.count("t-0 ends at 3, before offset 10 where the query stands") == 1
    produce(broker, "t", 4, partitions=PARTITIONS)
    until("it goes on", lambda: len(again.records()) == 4, again.batch)
    assert sorted(again.read) == [("t", partition, 3, 4) for partition in ALL]
    again.stop()
