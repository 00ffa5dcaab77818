"""Topics that are missing, deleted or grow under a query; checkpoints that were copied; an engine that is too slow."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.wire.errors import KafkaError, UsageError
from tests.client.writing import produce
from tests.spark.engine import Engine, until
from tests.spark.members import ALL, MEMBER, PARTITIONS, broker, committed, fill, offsets, planning_held, share_of

__all__ = ["broker"]
MODES = pytest.mark.parametrize("mode", ["member", "commit"])


# -- what is not there


def test_a_topic_that_does_not_exist(broker: Broker) -> None:
    engine = Engine(broker.bootstrap_servers, subscribe="t,nowhere", **MEMBER)
    with pytest.raises(UsageError, match=r"topic 'nowhere' does not exist at .*: create it, or check its name"):
        engine.plan()
    engine.stop()


def test_starting_offsets_must_name_every_partition(broker: Broker) -> None:
    """Of one that is left out, the records that are there would not be read, and nobody would know."""
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **MEMBER | {"startingOffsets": '{"t": {"0": 3, "1": 3}}'})
    with pytest.raises(UsageError, match="startingOffsets leaves out t-2, t-3"):
        engine.plan()
    engine.stop()


@pytest.mark.parametrize(
    "places",
    [
        {"startingOffsets": '{"t": {"0": 3, "1": -2, "2": -1, "3": 10}}'},
        {"startingOffsetsByTimestamp": '{"t": {"0": 1012, "1": 1000, "2": 1039, "3": 1039}}'}
        | {"startingOffsetsByTimestampStrategy": "latest"},
    ],
    ids=["offsets", "times"],
)
def test_starting_offsets_for_each_partition(broker: Broker, places: dict[str, str]) -> None:
    produce(broker, "t", 10 * PARTITIONS, partitions=PARTITIONS, first_timestamp=1_000)
    given = {name: value for name, value in MEMBER.items() if name != "startingOffsets"}
    first, second = (Engine(broker.bootstrap_servers, **given, **places) for _ in range(2))
    wanted = [(0, at) for at in range(3, 10)] + [(1, at) for at in range(10)]
    until("they read", lambda: len(first.records() + second.records()) >= 17, lambda: (first.batch(), second.batch()))
    found = {one for one in first.records() + second.records() if one[0] < 2}
    assert sorted(found) == wanted
    first.stop()
    second.stop()


def with_two_topics(broker: Broker, mode: str, fail: str, *, is_idle: bool = False) -> Engine:
    """A query that has read all of `t` and `gone`."""
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("gone", 2)
    fill(broker)
    produce(broker, "gone", 20, partitions=2)
    settings = MEMBER | {"group__mode": mode, "failOnDataLoss": fail}
    engine = Engine(broker.bootstrap_servers, subscribe="gone,t", **settings)
    until("all is read", lambda: len(engine.records()) == 60, engine.batch)
    if is_idle:
        until("all is finished", lambda: not engine.group.busy, engine.plan)
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("gone")
    return engine


def test_a_topic_that_was_deleted_while_the_query_was_away(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """The group does not assign it, so that nobody would miss it."""
    first = with_two_topics(broker, "member", "true")
    first.stop()
    again = Engine(broker.bootstrap_servers, first, subscribe="gone,t", **MEMBER)
    with pytest.raises(UsageError, match="gone-0, gone-1 is not there any more: what was not read yet is lost"):
        until("it ends", lambda: False, again.batch)
    again.stop()
    careless = Engine(broker.bootstrap_servers, first, subscribe="gone,t", **MEMBER, failOnDataLoss="false")
    fill(broker)
    until("all is read", lambda: len(careless.records()) == 40, careless.batch)
    assert caplog.text.count("gone-0, gone-1 is not there any more") == 1
    careless.stop()
    later = Engine(broker.bootstrap_servers, careless, subscribe="gone,t", **MEMBER)
    fill(broker)
    until("all is read", lambda: len(later.records()) == 40, later.batch)
    later.stop()


@pytest.fixture
def _quick_to_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits for a topic that is gone are tried again for a while, here not for long."""
    patience = {
        "batch_planner": ("_ABSENT_SECONDS", "_JOIN_SECONDS"),
        "group_partitions": ("_HAND_OVER_SECONDS", "_LAST_COMMIT_SECONDS"),
        "all_partitions": ("_LAST_COMMIT_SECONDS",),
        "group_member": ("_LEAVE_SECONDS",),
    }
    for module, names in patience.items():
        for name in names:
            monkeypatch.setattr(f"equipoise.spark.source.{module}.{name}", 1.0)


@MODES
@pytest.mark.usefixtures("_quick_to_notice")
def test_a_topic_that_is_deleted_ends_the_query(broker: Broker, mode: str) -> None:
    engine = with_two_topics(broker, mode, "true")
    with pytest.raises(UsageError, match=r"gone-0, gone-1 is not there any more.*set failOnDataLoss to false to go on"):
        until("it is noticed", lambda: False, engine.batch)
    parts = engine.planner.partitions
    engine.stop()
    assert parts._commits is not None
    assert not parts._commits.under_way, "what can never be committed is not waited for"


@MODES
@pytest.mark.usefixtures("_quick_to_notice")
def test_without_fail_on_data_loss_the_others_go_on(
    broker: Broker, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        engine = with_two_topics(broker, mode, "false")
        fill(broker)
        until("the others go on", lambda: len(engine.records()) == 100, engine.batch)
    assert "gone-0, gone-1 is not there any more: what was not read yet is lost" in caplog.text
    assert {one.topic for one in engine.planner.ends} == {"t"}
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("gone", 2)
    produce(broker, "gone", 4, partitions=2)
    until("and those that are back", lambda: len(engine.records()) > 100, engine.batch)
    engine.stop()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_the_group_takes_back_as_it_is_deleted(
    broker: Broker, fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two calls of Spark: nothing is asked of it any more, and its end is not looked up in vain."""
    engine = with_two_topics(broker, "member", fail, is_idle=True)
    until("it is taken back", lambda: {one.topic for one in engine.group.owned} == {"t"})
    told = "gone-0, gone-1 is not there any more: what was not read yet is lost"
    if fail == "true":
        with pytest.raises(UsageError, match=told):
            engine.plan()
    else:
        fill(broker)
        until("the others go on", lambda: len(engine.records()) == 100, engine.batch)
        assert caplog.text.count(told) == 1
    engine.stop()


# -- partitions that come while others are handed over


def test_partitions_that_are_added_during_a_rebalance(broker: Broker) -> None:
    fill(broker)
    settings = MEMBER | {"kafka__metadata__max__age__ms": "200", "startingOffsets": "latest"}
    first = Engine(broker.bootstrap_servers, **settings)
    until("it has begun", lambda: len(offsets(broker)) == PARTITIONS, first.batch)
    fill(broker)
    until("there is a batch", first.plan)
    second = Engine(broker.bootstrap_servers, **settings)
    until("one waits for the other's batch", lambda: first.group.is_giving_up, second.batch)
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("t", PARTITIONS + 2)
    produce(broker, "t", 6, partitions=PARTITIONS + 2)
    first.run()
    until(
        "all is read",
        lambda: len(first.records() + second.records()) >= 46,
        lambda: [first.batch(), second.batch()],
    )
    assert sorted(first.records() + second.records()) == sorted(
        [(partition, at) for partition in ALL for at in range(10, 21)] + [(4, 0), (5, 0)]
    )
    first.stop()
    second.stop()


# -- checkpoints


def test_two_queries_with_copies_of_one_checkpoint_are_told_of(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MEMBER)
    until("there is a batch", first.batch)
    copy = Engine(broker.bootstrap_servers, **MEMBER)
    copy.log, copy.commits = list(first.log), first.commits
    fill(broker)
    until("all is read", lambda: len(first.records()) == 80, first.batch)
    until("it is committed", lambda: offsets(broker) == dict.fromkeys(ALL, 20), first.batch)
    with caplog.at_level(logging.WARNING):
        share_of(first, copy)
        until("the copy reads", lambda: copy.read, copy.batch)
    assert "commits of this query after batch 1, its checkpoint ends with batch 0: it is an old copy" in caplog.text
    assert "read again: t-" in caplog.text
    first.stop()
    copy.stop()


def test_another_group_with_an_old_checkpoint_goes_on_from_there(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MEMBER)
    until("there is a batch", first.batch)
    first.stop()
    fill(broker)
    other = Engine(broker.bootstrap_servers, first, **MEMBER | {"group__id": "another"})
    until("all is read", lambda: len(other.records()) == 40, other.batch)
    assert sorted(other.read) == [("t", partition, 10, 20) for partition in ALL]
    other.stop()


def test_another_checkpoint_goes_on_where_the_group_stands(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **MEMBER)
    until("there is a batch", first.batch)
    assert not first.plan()
    first.stop()
    fill(broker)
    other = Engine(broker.bootstrap_servers, **MEMBER)
    until("all is read", lambda: len(other.records()) == 40, other.batch)
    assert sorted(other.read) == [("t", partition, 10, 20) for partition in ALL]
    tokens = {at.metadata.split()[1] for at in committed(broker).values()}
    assert tokens == {f"query={other.start.query}"} != {f"query={first.start.query}"}
    other.stop()


# -- the engine's time


def test_a_call_that_takes_long_is_no_silence(broker: Broker) -> None:
    """max.poll.interval.ms counts from the end of Spark's call, also if the group changes while it lasts."""
    first = Engine(broker.bootstrap_servers, **MEMBER, kafka__max__poll__interval__ms="1000")
    until("it has all", lambda: len(first.owned) == PARTITIONS, first.batch)
    fill(broker)
    with planning_held(first) as (planning, may_go):
        second = Engine(broker.bootstrap_servers, **MEMBER)
        until("they share", lambda: len(second.owned) == len(first.owned) == 2, second.batch)
        owned, generation = first.owned, first.group.member.generation_id
        assert not threading.Event().wait(1.5)  # longer than it may be silent
        assert (first.owned, first.group.member.generation_id) == (owned, generation)
        may_go.set()
        assert planning.result()
    assert {partition for _, partition, _, _ in first.run()} == owned
    first.stop()
    second.stop()


def test_a_batch_that_keeps_what_others_wait_for_beyond_their_patience(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The rebalance timeout is max.poll.interval.ms: then the group goes on without, and the query joins again."""
    fill(broker)
    slow = Engine(broker.bootstrap_servers, **MEMBER, kafka__max__poll__interval__ms="4000")
    until("there is a batch", slow.plan)
    quick = Engine(broker.bootstrap_servers, **MEMBER)
    until("it is asked to give up", lambda: slow.group.is_giving_up, quick.batch)
    assert len(slow.owned) == PARTITIONS
    until("the other has all", lambda: len(quick.owned) == PARTITIONS, quick.batch)
    until("and reads it", lambda: len(quick.records()) == 40, quick.batch)
    slow.run()
    with caplog.at_level(logging.WARNING):
        share_of(slow, quick)
    assert (
        "which loses t-0, t-1, t-2, t-3; read, or being read, and not committed: t-0 [0, 10), t-1 [0, 10), "
        in caplog.text
    )
    fill(broker)
    until(
        "all is read", lambda: len(set(slow.records() + quick.records())) == 80, lambda: [slow.batch(), quick.batch()]
    )
    seen = slow.records() + quick.records()
    assert {one for one in seen if seen.count(one) > 1} == {(partition, at) for partition in ALL for at in range(10)}
    slow.stop()
    quick.stop()


def test_partitions_that_come_before_the_first_record_does_are_read_after_a_restart(broker: Broker) -> None:
    """With `latest`, what there was when the query first began is in its checkpoint, though it has read nothing."""
    settings = MEMBER | {"startingOffsets": "latest"}
    first = Engine(broker.bootstrap_servers, **settings)
    until("it has begun", lambda: len(offsets(broker)) == PARTITIONS, first.batch)
    first.batch()
    first.stop()
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("t", PARTITIONS + 2)
    produce(broker, "t", 12, partitions=PARTITIONS + 2)
    again = Engine(broker.bootstrap_servers, first, **settings)
    until("all is read", lambda: len(again.records()) == 12, again.batch)
    again.stop()


def test_a_group_that_does_not_settle(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that goes on says that there is nothing yet, in time; one that ends with that must not, and says why."""
    engine = Engine(broker.bootstrap_servers, **MEMBER)
    until("it has begun", lambda: engine.commits and engine.owned, engine.batch)
    impatient = replace(engine.options.consumer, default_api_timeout_ms=1_000)
    monkeypatch.setattr(engine.planner, "_options", replace(engine.options, consumer=impatient))
    monkeypatch.setattr("equipoise.spark.source.group_partitions.GroupPartitions.is_settled", False)
    assert not engine.plan()
    engine.reader.run(engine.planner.prepare_for_available_now(), "the goal")
    with pytest.raises(KafkaError, match=r"group g has not said within 0.5 s what this query is to read"):
        engine.plan()
    engine.stop()


@pytest.mark.usefixtures("_quick_to_notice")
def test_a_broker_that_takes_its_time_has_lost_nothing(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is late is waited for, not asked for again and again."""
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **MEMBER)
    monkeypatch.setattr("equipoise.spark.source.batch_planner._ABSENT_SECONDS", 0.1)
    ends = engine.reader.ends

    async def slow(*given: Any) -> Any:
        await asyncio.sleep(0.5)
        return await ends(*given)

    monkeypatch.setattr(engine.reader, "ends", slow)
    until("all is read", lambda: len(engine.records()) == 40, engine.batch)
    engine.stop()
