"""Queries as members with kafka.group.protocol=consumer: they share and hand over as in a classic group. The cases are
those of classic members, on a real broker, without a JVM."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.member.consumer.member import ConsumerMember
from tests.spark import test_member_mode as cases
from tests.spark.engine import Engine, until
from tests.spark.members import PARTITIONS, fill, share_of

SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}
MEMBER = {"group__id": "g", "startingOffsets": "earliest", "kafka__group__protocol": "consumer"}
CASES = [
    cases.test_one_query_reads_all_and_commits_each_batch_when_the_next_is_asked_for,
    cases.test_two_queries_share_and_every_record_is_read_once,
    cases.test_a_partition_is_given_up_only_when_the_batch_that_holds_it_is_committed,
    cases.test_partitions_that_stay_are_planned_while_others_are_wanted,
    cases.test_restart_replays_the_batch_under_way_and_goes_on_behind_it,
    cases.test_what_others_have_committed_meanwhile_rules,
    cases.test_new_partitions_are_read_from_their_first_record_even_with_latest,
    cases.test_available_now_ends_at_what_was_there,
]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic("t", PARTITIONS)
        yield running


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.removeprefix("test_"))
def test_as_in_a_classic_group(case: Callable[[Broker], None], broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "MEMBER", MEMBER)
    case(broker)


def test_the_member_is_one_of_a_consumer_group(broker: Broker) -> None:
    engine = Engine(broker.bootstrap_servers, **MEMBER)
    until("it has all", lambda: len(engine.owned) == PARTITIONS, engine.batch)
    assert isinstance(engine.planner.partitions._group.member, ConsumerMember)  # type: ignore[union-attr]
    engine.stop()


def test_spark_that_does_not_call_loses_its_partitions_and_joins_again(broker: Broker) -> None:
    slow = Engine(broker.bootstrap_servers, **MEMBER, kafka__max__poll__interval__ms="1500")
    quick = Engine(broker.bootstrap_servers, **MEMBER)
    share_of(slow, quick)
    until("the other has all", lambda: len(quick.owned) == PARTITIONS, quick.batch)
    share_of(slow, quick)
    fill(broker)
    until(
        "all is read",
        lambda: len({*slow.records(), *quick.records()}) == 10 * PARTITIONS,
        lambda: [slow.batch(), quick.batch()],
    )
    slow.stop()
    quick.stop()


def test_a_query_that_stops_leaves_at_once(broker: Broker) -> None:
    first, second = (Engine(broker.bootstrap_servers, **MEMBER) for _ in range(2))
    share_of(first, second)
    first.stop()
    until("the second has all", lambda: len(second.owned) == PARTITIONS, second.batch)
    second.stop()


def test_a_query_that_is_put_out_tells_of_a_batch_whose_commit_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """It hears of the refusal first, and only by the next heartbeat that it is out: meanwhile the batch is finished."""
    slow = {"group.consumer.heartbeat.interval.ms": 5_000, "group.heartbeat.hold.max.ms": 0}
    with Broker({**SETTINGS, **slow}) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", PARTITIONS)
        fill(broker)
        engine = Engine(broker.bootstrap_servers, **MEMBER)
        until("there is a batch", engine.batch)
        (member,) = admin.describe_group("g").members
        with caplog.at_level(logging.WARNING):
            assert admin.remove_members("g", [(member.member_id, None)]) == [None]
            until("it is told", lambda: "has gone on without this query" in caplog.text, engine.plan)
        assert "are not committed" in caplog.text
        assert "and not committed: t-0 [0, 10), t-1 [0, 10), " in caplog.text
        engine.kill()
