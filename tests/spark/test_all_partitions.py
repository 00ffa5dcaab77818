"""A query that reads all partitions, with and without commits to a group; on a real broker, without a JVM."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.wire.errors import KafkaError, UsageError
from tests.client.writing import produce
from tests.spark.engine import Engine, Range, until
from tests.spark.members import MEMBER, PARTITIONS, commit_as_other, committed, fill, offsets, share_of
from tests.spark.test_member_edges import refuse_commits

ALL = range(PARTITIONS)
COMMIT = {"group__id": "g", "group__mode": "commit", "startingOffsets": "earliest"}


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    """With a new topic, and without groups."""
    with Admin(running.bootstrap_servers) as admin:
        if "t" in {topic.name for topic in admin.topics()}:
            admin.delete_topic("t")  # and what was committed for it
        admin.create_topic("t", PARTITIONS)
    return running


def to_the_end(broker: Broker, checkpoint: Engine | None = None, /, **options: str) -> list[Range]:
    """What a query reads of what is there, from the start or from a checkpoint."""
    engine = Engine(broker.bootstrap_servers, checkpoint, **options)
    try:
        engine.reader.run(engine.planner.prepare_for_available_now(), "the goal")
        while engine.plan():
            engine.run()
    finally:
        engine.stop()  # out of the group, which other tests have too
    return sorted(engine.read)


def whole(begin: int, end: int) -> list[Range]:
    return [("t", partition, begin, end) for partition in ALL]


# -- where it begins


def test_from_the_earliest(broker: Broker) -> None:
    fill(broker)
    assert to_the_end(broker, startingOffsets="earliest") == whole(0, 10)


def test_latest_is_the_default_and_survives_a_crash_before_there_are_records(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers)
    assert first.plan()  # a batch without records, to write down where it begins
    first.kill()
    fill(broker)
    again = Engine(broker.bootstrap_servers, first)
    assert again.run() == []
    assert sorted(again.batch()) == whole(10, 20)
    again.stop()


def test_at_given_offsets(broker: Broker) -> None:
    fill(broker)
    places = json.dumps({"t": {"0": 3, "1": -2, "2": -1, "3": 10}})
    assert to_the_end(broker, startingOffsets=places) == [("t", 0, 3, 10), ("t", 1, 0, 10)]


@pytest.mark.parametrize(
    ("places", "told"),
    [({"t": {"0": 3}}, "leaves out t-1, t-2, t-3"), ({"t": {str(n): 0 for n in range(5)}}, "names t-4, which")],
)
def test_offsets_for_other_partitions_than_there_are(broker: Broker, places: Any, told: str) -> None:
    engine = Engine(broker.bootstrap_servers, startingOffsets=json.dumps(places))
    with pytest.raises(UsageError, match=told):
        engine.plan()
    engine.stop()


def test_at_a_time(broker: Broker) -> None:
    produce(broker, "t", 40, partitions=PARTITIONS, first_timestamp=1_000)
    assert to_the_end(broker, startingTimestamp="1020") == whole(5, 10)
    places = json.dumps({"t": {"0": 1_004, "1": 0, "2": 1_038, "3": 1_000}})
    assert to_the_end(broker, startingOffsetsByTimestamp=places) == [
        ("t", 0, 1, 10),
        ("t", 1, 0, 10),
        ("t", 2, 9, 10),
        ("t", 3, 0, 10),
    ]


def test_at_a_time_that_is_still_to_come(broker: Broker) -> None:
    produce(broker, "t", 40, partitions=PARTITIONS, first_timestamp=1_000)
    with pytest.raises(UsageError, match="no record of that time or later: set startingOffsetsByTimestampStrategy"):
        to_the_end(broker, startingTimestamp="5000")
    assert to_the_end(broker, startingTimestamp="5000", startingOffsetsByTimestampStrategy="latest") == []


def test_where_the_group_stands(broker: Broker) -> None:
    fill(broker)
    commit_as_other(broker, {0: 4, 2: 10})
    assert to_the_end(broker, **{**COMMIT, "startingOffsets": "group"}) == [
        ("t", 0, 4, 10),
        ("t", 1, 0, 10),
        ("t", 3, 0, 10),
    ]


def test_partitions_by_name(broker: Broker) -> None:
    fill(broker)
    found = to_the_end(broker, assign='{"t": [1, 3]}', startingOffsets="earliest")
    assert found == [("t", 1, 0, 10), ("t", 3, 0, 10)]


# -- commits


def test_finished_batches_are_committed_and_lag_can_be_seen(broker: Broker) -> None:
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **COMMIT)
    assert sorted(engine.batch()) == whole(0, 10)
    assert offsets(broker) == {}
    assert not engine.plan()
    until("it is committed", lambda: offsets(broker) == dict.fromkeys(ALL, 10))
    assert {at.metadata for at in committed(broker).values()} == {f"equipoise query={engine.start.query} batch=0"}
    engine.stop()


def test_the_checkpoint_rules_whatever_the_group_says(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, **COMMIT)
    first.batch()
    first.stop()
    commit_as_other(broker, dict.fromkeys(ALL, 3))
    fill(broker)
    assert to_the_end(broker, first, **COMMIT) == whole(10, 20)
    assert offsets(broker) == dict.fromkeys(ALL, 20)  # the last batch too


def test_two_queries_read_everything_each(broker: Broker) -> None:
    fill(broker)
    assert to_the_end(broker, **COMMIT) == to_the_end(broker, **COMMIT) == whole(0, 10)


def test_refused_commits_are_tried_again_with_the_next_batch(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **COMMIT)
    refused = refuse_commits(engine, monkeypatch)
    engine.batch()
    engine.plan()
    engine.plan()
    assert len(refused) == 1  # not with each call
    monkeypatch.undo()
    produce(broker, "t", 1, partitions=1)
    engine.batch()
    engine.plan()
    until("all is committed", lambda: offsets(broker) == {0: 11, 1: 10, 2: 10, 3: 10})
    engine.stop()


def test_a_group_with_members_is_left_alone(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    member = Engine(broker.bootstrap_servers, group__id="g", startingOffsets="earliest")
    until("it has all", lambda: len(member.owned) == PARTITIONS, member.batch)
    fill(broker)
    with caplog.at_level(logging.WARNING):
        assert to_the_end(broker, **COMMIT) == whole(0, 10)
    assert "are not committed: group g has members, and this consumer is none of them" in caplog.text
    assert offsets(broker) == dict.fromkeys(ALL, 0)
    member.stop()


def test_a_deleted_topic_does_not_hold_up_the_commits_of_others(broker: Broker) -> None:
    """The group waits for a topic that it does not know, and commits come in their order."""
    given = {**COMMIT, "subscribe": "t,gone", "failOnDataLoss": "false", "kafka__default__api__timeout__ms": "600000"}
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("gone", 1)
    fill(broker)
    produce(broker, "gone", 1, partitions=1)
    first = Engine(broker.bootstrap_servers, **given)
    until("all is read", lambda: len(first.records()) == 41, first.batch)
    first.stop()
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("gone")
    again = Engine(broker.bootstrap_servers, first, **given)
    again.batch()
    fill(broker)
    until("all is read", lambda: len(again.records()) == 40, again.batch)
    until("it is committed", lambda: offsets(broker) == dict.fromkeys(ALL, 20), again.batch)
    again.stop()


# -- restart


def test_a_batch_under_way_is_read_again_as_it_was(broker: Broker) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, startingOffsets="earliest", maxOffsetsPerTrigger="8")
    assert first.plan()
    first.kill()
    fill(broker)
    again = Engine(broker.bootstrap_servers, first, startingOffsets="earliest")
    assert sorted(again.run()) == whole(0, 2)
    assert sorted(again.batch()) == whole(2, 20)
    again.stop()


def test_a_checkpoint_of_the_official_connector_goes_on(broker: Broker) -> None:
    fill(broker)
    old = Engine(broker.bootstrap_servers)
    old.log, old.commits = ['{"t":{"0":4,"1":5,"2":6,"3":7}}'], 1
    old.stop()
    assert to_the_end(broker, old) == [("t", number, number + 4, 10) for number in ALL]


def test_a_member_that_goes_on_alone_leaves_out_what_others_have_read(broker: Broker) -> None:
    fill(broker)
    first, other = (Engine(broker.bootstrap_servers, **MEMBER) for _ in range(2))
    until("all is read", lambda: len(first.records() + other.records()) == 40, lambda: (first.batch(), other.batch()))
    share_of(first, other)
    produce(broker, "t", PARTITIONS, partitions=PARTITIONS)
    until("all is read", lambda: len(first.records() + other.records()) == 44, lambda: (first.batch(), other.batch()))
    until("it is committed", lambda: offsets(broker) == dict.fromkeys(ALL, 11), lambda: (first.plan(), other.plan()))
    first.stop()
    other.stop()
    assert {number for _, number, *_ in first.read[-2:]} == set(ALL) - {number for _, number, *_ in other.read[-2:]}
    fill(broker)
    assert to_the_end(broker, first, **COMMIT) == whole(11, 21)


# -- topics that change


def test_new_partitions_are_read_from_their_first_record(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.spark.source.all_partitions._REFRESH_SECONDS", 0.05)
    engine = Engine(broker.bootstrap_servers, startingOffsets="latest")
    engine.batch()
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("t", 5)
    produce(broker, "t", 5, partitions=5)
    until("all is read", lambda: len(engine.records()) == 5, engine.batch)
    assert sorted(engine.records()) == [(partition, 0) for partition in range(5)]
    engine.stop()


def test_topics_by_pattern(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.spark.source.all_partitions._REFRESH_SECONDS", 0.05)
    fill(broker)
    engine = Engine(broker.bootstrap_servers, subscribePattern="t|new-.*", startingOffsets="latest")
    engine.batch()
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("new-1", 1)
        admin.create_topic("a-new-1", 1)
    produce(broker, "new-1", 3, partitions=1)
    produce(broker, "a-new-1", 3, partitions=1)
    until("all is read", lambda: len(engine.records()) == 3, engine.batch)
    assert {topic for topic, *_ in engine.read} == {"new-1"}
    engine.stop()
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("new-1")
        admin.delete_topic("a-new-1")


def renew(broker: Broker, partitions: int) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("t")
        admin.create_topic("t", partitions)


def aged(engine: Engine) -> Engine:
    """With a checkpoint as an older release wrote it: nothing in it tells the group, epochs or ids of topics."""
    known = [json.loads(one) for one in engine.log]
    assert all({"group", "epochs", "ids"} <= one.keys() for one in known)
    engine.log = [json.dumps({k: v for k, v in one.items() if k not in ("group", "epochs", "ids")}) for one in known]
    return engine


def test_partitions_that_are_gone(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    first = Engine(broker.bootstrap_servers, startingOffsets="earliest")
    first.batch()
    aged(first).stop()
    renew(broker, 2)
    with pytest.raises(UsageError, match=r"t-2, t-3 is not there any more.*set failOnDataLoss to false"):
        to_the_end(broker, first)
    again = Engine(broker.bootstrap_servers, first, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        again.batch()
        again.batch()
    assert caplog.text.count("t-2, t-3 is not there any more") == 1
    produce(broker, "t", 4, partitions=2)
    until("all is read", lambda: len(again.records()) == 4, again.batch)
    again.stop()


@pytest.mark.parametrize("count", [4, 400])
def test_a_topic_recreated_is_known_by_its_id(broker: Broker, caplog: pytest.LogCaptureFixture, count: int) -> None:
    """However far it reaches: records up to the old place would be passed over in silence."""
    fill(broker)
    first = Engine(broker.bootstrap_servers, startingOffsets="latest")
    first.batch()
    first.stop()
    renew(broker, PARTITIONS)
    produce(broker, "t", count, partitions=PARTITIONS)
    with pytest.raises(UsageError, match="topic t was deleted and created anew since the query has read it"):
        to_the_end(broker, first)
    again = Engine(broker.bootstrap_servers, first, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        until("all is read", lambda: len(again.records()) == count, again.batch)
        again.batch()
    assert caplog.text.count("created anew") == 1
    assert sorted(again.read) == whole(0, count // PARTITIONS)
    again.stop()
    caplog.clear()
    later = Engine(broker.bootstrap_servers, again)
    later.batch()
    assert "created anew" not in caplog.text
    later.stop()


def test_a_topic_recreated_while_it_is_read(broker: Broker) -> None:
    """Nothing of it is left out; what is read before the metadata tells of it comes twice."""
    fill(broker)
    engine = Engine(broker.bootstrap_servers, startingOffsets="earliest", failOnDataLoss="false")
    engine.batch()
    engine.read.clear()
    renew(broker, PARTITIONS)
    produce(broker, "t", 400, partitions=PARTITIONS)
    until("all is read", lambda: len(set(engine.records())) == 400, engine.batch)
    engine.stop()


def test_a_topic_recreated_by_a_checkpoint_without_ids(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    fill(broker)
    first = Engine(broker.bootstrap_servers, startingOffsets="earliest")
    first.batch()
    aged(first).stop()
    renew(broker, PARTITIONS)
    produce(broker, "t", 12, partitions=PARTITIONS)
    with pytest.raises(UsageError, match="t-0 ends at 3, before offset 10 where the query stands"):
        to_the_end(broker, first)
    again = Engine(broker.bootstrap_servers, first, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        again.batch()
    assert "going on from 3" in caplog.text
    produce(broker, "t", 4, partitions=PARTITIONS)
    until("it goes on", lambda: len(again.records()) == 4, again.batch)
    assert sorted(again.read) == whole(3, 4)
    again.stop()


def test_a_topic_that_does_not_exist(broker: Broker) -> None:
    engine = Engine(broker.bootstrap_servers, subscribe="nowhere")
    with pytest.raises(UsageError, match="topic 'nowhere' does not exist"):
        engine.plan()
    engine.stop()


def test_nobody_answers() -> None:
    engine = Engine("127.0.0.1:1", kafka__default__api__timeout__ms="300", kafka__request__timeout__ms="200")
    with pytest.raises(KafkaError, match=r"the latest offsets|the next batch had no answer within 0.3 s"):
        engine.plan()
    engine.stop()


# -- how much


def test_no_more_than_the_limit_and_each_its_share(broker: Broker) -> None:
    produce(broker, "t", 60, partitions=2)  # thirty in each of two
    produce(broker, "t", 3, partitions=3)
    engine = Engine(broker.bootstrap_servers, startingOffsets="earliest", maxOffsetsPerTrigger="12")
    assert sorted(engine.batch()) == [("t", 0, 0, 5), ("t", 1, 0, 5), ("t", 2, 0, 1)]
    until("all is read", lambda: len(engine.records()) == 63, engine.batch)
    engine.stop()


def test_a_batch_waits_for_enough(broker: Broker) -> None:
    produce(broker, "t", 4, partitions=PARTITIONS)
    engine = Engine(broker.bootstrap_servers, startingOffsets="earliest", minOffsetsPerTrigger="40")
    assert len(engine.batch()) == PARTITIONS  # the first does not
    produce(broker, "t", 20, partitions=PARTITIONS)
    assert not engine.plan()
    produce(broker, "t", 20, partitions=PARTITIONS)
    assert sorted(engine.batch()) == whole(1, 11)
    engine.stop()


def test_a_batch_does_not_wait_for_ever(broker: Broker) -> None:
    produce(broker, "t", 4, partitions=PARTITIONS)
    limits = {"minOffsetsPerTrigger": "40", "maxTriggerDelay": "1h"}
    engine = Engine(broker.bootstrap_servers, startingOffsets="earliest", **limits)
    engine.batch()
    produce(broker, "t", 4, partitions=PARTITIONS)
    assert not engine.plan()
    began = engine.planner._delay._last_batch_ms
    assert began is not None
    engine.planner._delay._last_batch_ms = began - 3_600_000  # an hour has passed
    assert engine.plan()
    engine.stop()


def test_what_is_there_and_no_more(broker: Broker) -> None:
    fill(broker)
    engine = Engine(broker.bootstrap_servers, startingOffsets="earliest", minOffsetsPerTrigger="1000")
    engine.reader.run(engine.planner.prepare_for_available_now(), "the goal")
    fill(broker)
    assert sorted(engine.batch()) == whole(0, 10)
    assert not engine.plan()
    engine.stop()


MODES = pytest.mark.parametrize("mode", [{}, COMMIT, {"group__id": "g"}], ids=["alone", "commit", "member"])


@MODES
def test_what_is_there_without_a_topic_that_is_gone(broker: Broker, mode: dict[str, str]) -> None:
    given = {"subscribe": "t,gone", "startingOffsets": "earliest", "failOnDataLoss": "false", **mode}
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("gone", 1)
    fill(broker)
    produce(broker, "gone", 3, partitions=1)
    engine = Engine(broker.bootstrap_servers, **given)
    until("all is read", lambda: len(engine.records()) == 43, engine.batch)
    engine.batch()
    engine.stop()
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("gone")
    fill(broker)
    with pytest.raises(UsageError, match=r"topic 'gone' does not exist|gone-0 is not there any more"):
        to_the_end(broker, engine, **{**given, "failOnDataLoss": "true"})
    assert to_the_end(broker, engine, **given) == whole(10, 20)
    with pytest.raises(UsageError, match="topic 'gone' does not exist"):
        to_the_end(broker, **given)


@MODES
def test_what_is_there_without_partitions_that_come_later(
    broker: Broker, mode: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("equipoise.spark.source.all_partitions._REFRESH_SECONDS", 0.05)
    given = {"startingOffsets": "earliest", "kafka__metadata__max__age__ms": "50", **mode}
    fill(broker)
    engine = Engine(broker.bootstrap_servers, **given, maxOffsetsPerTrigger="20")
    engine.reader.run(engine.planner.prepare_for_available_now(), "the goal")
    until("it has begun", engine.batch)
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("t", PARTITIONS + 1)
    produce(broker, "t", 5 * (PARTITIONS + 1), partitions=PARTITIONS + 1)

    def is_over() -> bool:
        if engine.plan():
            engine.run()
            return False
        return any(one.partition == PARTITIONS for one in engine.planner.ends)

    until("it knows of the new partition, and ends", is_over)
    assert sorted(engine.records()) == [(number, at) for number in ALL for at in range(10)]
    engine.stop()
    assert sorted(to_the_end(broker, engine, **given)) == [*whole(10, 15), ("t", PARTITIONS, 0, 5)]
