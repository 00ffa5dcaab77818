"""The watcher on our broker: each source, live events, and what cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Producer, TopicPartition
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.server_process import free_port
from equipoise.views.model import ClusterView, GroupType, Guess, GuessKind, HealthKind, Ms, Source
from equipoise.watching import watcher as watcher_module
from equipoise.watching.access import Access
from equipoise.watching.watcher import Watched, Watcher, watching
from equipoise.wire.errors import ErrorCode
from tests.watching.conftest import Join, Produce

ALL = Watched(since=Ms(0), ages=True, starts=True)


def look(broker: Broker, watched: Watched = ALL) -> ClusterView:
    async def once() -> ClusterView:
        async with watching(Access(bootstrap_servers=broker.bootstrap_servers), watched) as watcher:
            return await watcher.look()

    return asyncio.run(once())


@pytest.fixture
def no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Kafka: group records are the source."""
    monkeypatch.setattr(watcher_module, "JOURNAL_TOPIC", "no-such-topic")


@pytest.fixture
def no_topics(no_journal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions are the source."""
    monkeypatch.setattr(watcher_module, "OFFSETS_TOPIC", "no-such-topic")


@asynccontextmanager
async def followed(broker: Broker, interval: float = 3_600) -> AsyncIterator[tuple[Watcher, ClusterView]]:
    """A watcher that follows its source, and its first look."""
    access = Access(bootstrap_servers=broker.bootstrap_servers)
    async with watching(access, Watched(since=Ms(0))) as watcher:
        found = await watcher.look()
        async with watcher.live(interval), asyncio.timeout(30):
            yield watcher, found


def settled(broker: Broker, group: str) -> None:
    """The journal's row is written when the rebalance has ended."""
    assert broker.groups[group].rebalances


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_by_the_journal(broker: Broker, join: Join, produce: Produce, protocol: str) -> None:
    produce(10)
    consumer = join("billing", "worker", group_protocol=protocol)
    consumer.commit({TopicPartition("orders", 0): 4})
    settled(broker, "billing")
    found = look(broker)
    assert (found.source, len(found.brokers), found.problems) == (Source.JOURNAL, 1, ())
    (group,) = found.groups
    assert (group.group_id, group.type, group.state) == ("billing", GroupType(protocol), "Stable")
    (member,) = group.members
    assert (member.client_id, member.lag, len(member.partitions)) == ("worker", 6, 4)
    assert [(one.committed, one.log_start, one.log_end, one.lag) for one in group.partitions] == [
        (4, 0, 10, 6),
        (None, 0, 0, None),
        (None, 0, 0, None),
        (None, 0, 0, None),
    ]
    assert group.lag.lag == 6
    assert group.lag.behind_ms is not None
    cause = group.rebalances[-1].cause
    assert isinstance(cause, Cause)
    assert (cause.trigger, cause.who.client_id) == (Trigger.MEMBER_JOINED, "worker")
    assert group.generation == group.rebalances[-1].generation


@pytest.mark.usefixtures("no_journal")
def test_by_records_of_groups_a_cause_is_a_guess(broker: Broker, join: Join) -> None:
    join("billing", "worker", session_timeout_ms=30_000)
    found = look(broker)
    assert found.source is Source.OFFSETS_TOPIC
    (group,) = found.groups
    last = group.rebalances[-1]
    assert isinstance(last.cause, Guess)
    assert (last.cause.kind, last.dark, last.started) == (GuessKind.MEMBER_JOINED, None, None)
    assert group.members[0].session_timeout_ms == 30_000


@pytest.mark.usefixtures("no_topics")
def test_by_questions_alone_nothing_is_known_of_the_past(broker: Broker, join: Join) -> None:
    join("billing", "worker")
    found = look(broker)
    assert found.source is Source.POLLING
    assert (found.groups[0].rebalances_last_hour, found.groups[0].generation) == (None, None)


@pytest.mark.usefixtures("no_topics")
def test_by_questions_alone_a_change_between_two_looks_is_a_rebalance(broker: Broker, join: Join) -> None:
    first = join("billing", "one", group_protocol="consumer")

    async def two_looks() -> ClusterView:
        async with watching(Access(bootstrap_servers=broker.bootstrap_servers), ALL) as watcher:
            await watcher.look()
            await asyncio.to_thread(first.close)
            await watcher.refresh()
            return watcher.view()

    (group,) = asyncio.run(two_looks()).groups
    last = group.rebalances[-1]
    assert last.cause == Guess(GuessKind.MEMBER_GONE, last.cause.who)
    assert (last.source, last.generation, last.members) == (Source.POLLING, None, 0)


def test_a_group_that_is_none_is_unknown_and_hides_no_other(broker: Broker, join: Join) -> None:
    join("billing", "worker")
    found = look(broker, Watched(("billing", "nothing"), since=Ms(0)))
    billing, nothing = found.groups
    assert (billing.state, nothing.state, nothing.health.kind) == ("Stable", None, HealthKind.UNKNOWN)
    assert nothing.problems[0].code is ErrorCode.GROUP_ID_NOT_FOUND


def test_lag_lives_on_while_nobody_reads(broker: Broker, produce: Produce) -> None:
    produce(3)
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("billing", {TopicPartition("orders", 0): 1})
    (group,) = look(broker).groups
    assert (group.state, group.lag.lag, group.health.kind) == ("Empty", 2, HealthKind.NOBODY_READS)


def test_groups_at_different_places_of_a_partition_have_an_age_each(broker: Broker, produce: Produce) -> None:
    produce(10)
    with Admin(broker.bootstrap_servers) as admin:
        for number in range(5):
            admin.commit_offsets(f"g-{number}", {TopicPartition("orders", 0): 2 * number})
    ages = [one.lag.behind_ms for one in look(broker).groups]
    assert len(ages) == 5
    assert all(age is not None for age in ages)


def test_a_record_without_a_time_has_no_age(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as other_client:  # ours would refuse the time
        other_client.setattr("equipoise.client.producer.engine._milliseconds", int)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send(topic, b"x", partition=0, timestamp=-1)
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("billing", {TopicPartition(topic, 0): 0})
    (group,) = look(broker).groups
    assert (group.lag.lag, group.lag.behind_ms) == (1, None)


def test_a_rebalance_is_heard_of_at_once(broker: Broker, join: Join) -> None:
    join("billing", "one")
    settled(broker, "billing")

    async def heard() -> tuple[int, int]:
        async with followed(broker) as (watcher, found):
            before = len(found.groups[0].rebalances)
            with Admin(broker.bootstrap_servers) as admin:
                member = (await asyncio.to_thread(admin.describe_group, "billing")).members[0]
                await asyncio.to_thread(admin.remove_members, "billing", [(member.member_id, None)])
            seen = -1
            while len(watcher.group("billing").rebalances) <= before:
                seen = await watcher.changed(seen)
            totals = watcher.store.totals("billing")
            return len(watcher.group("billing").rebalances) - before, totals.rebalances.total()

    assert asyncio.run(heard()) == (1, 1)


def test_a_cluster_that_is_away_is_an_error_that_says_so() -> None:
    async def nowhere() -> None:
        async with watching(Access(bootstrap_servers=f"127.0.0.1:{free_port()}", timeout=2.0), ALL) as watcher:
            await watcher.look()

    with pytest.raises(KafkaConnectionError, match="is a broker listening there"):
        asyncio.run(nowhere())


@pytest.mark.usefixtures("no_journal")
def test_by_records_a_consumer_groups_rebalances_are_told(broker: Broker, join: Join) -> None:
    """As on Kafka: begin, target and reconciliation are in the records, the cause is concluded."""
    first = join("billing", "one", group_protocol="consumer")
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("orders", 6)
    while len(first.assignment()) < 6:
        first.poll(0.05)
    found = look(broker)
    assert found.source is Source.OFFSETS_TOPIC
    (group,) = found.groups
    joined, grown = group.rebalances
    assert isinstance(joined.cause, Guess)
    assert joined.cause.kind is GuessKind.MEMBER_JOINED
    assert grown.cause == Guess(GuessKind.TOPICS_CHANGED)
    assert (grown.is_target, grown.generation) == (True, group.generation)
    assert [(one.topic, one.partition) for one in grown.moved] == [("orders", 4), ("orders", 5)]
    assert grown.started is not None
    assert grown.ended is not None
    assert grown.started <= grown.ended
    assert (group.rebalances_last_hour, group.members[0].rebalance_timeout_ms) == (2, 300_000)


def test_beside_the_journal_commits_are_followed(broker: Broker, join: Join) -> None:
    """Who does not hear of commits would take a group for stalled."""
    consumer = join("billing", "one")
    settled(broker, "billing")

    async def heard() -> tuple[int, int]:
        async with followed(broker) as (watcher, found):
            before, version = len(found.groups[0].rebalances), watcher.version
            await asyncio.to_thread(consumer.commit, {TopicPartition("orders", 0): 4})
            while not watcher.store.totals("billing").commits:
                await asyncio.sleep(0.02)
            assert watcher.version == version, "a commit is no news for who looks on"
            return watcher.store.totals("billing").commits, len(watcher.group("billing").rebalances) - before

    assert asyncio.run(heard()) == (1, 0)


def test_who_commits_before_the_first_group_hides_no_journal(broker: Broker, join: Join) -> None:
    """Its commit makes `__consumer_offsets`; the journal comes with the first group."""
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("reports", {TopicPartition("orders", 0): 0})

    async def found() -> tuple[Source, Source]:
        async with followed(broker, interval=0.1) as (watcher, first):
            await asyncio.to_thread(join, "billing", "one")
            while watcher.store.source is not Source.JOURNAL or not watcher.store.totals("billing").rebalances:
                await asyncio.sleep(0.02)
            return first.source, watcher.store.source

    assert asyncio.run(found()) == (Source.OFFSETS_TOPIC, Source.JOURNAL)


def test_topics_are_those_of_now(broker: Broker, join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    join("billing", "one")
    monkeypatch.setattr(watcher_module, "_CLUSTER_MS", 0)

    async def come_and_gone() -> None:
        async with followed(broker, interval=0.1) as (watcher, _), asyncio.timeout(60):
            with Admin(broker.bootstrap_servers) as admin:
                await asyncio.to_thread(admin.create_topic, "late", 3)
                while "late" not in watcher.topics:
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(admin.delete_topic, "late")
                while "late" in watcher.topics:
                    await asyncio.sleep(0.02)

    asyncio.run(come_and_gone())


def test_a_journal_that_is_heard_of_as_a_topic_is_read_all_the_same(
    broker: Broker, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks for a better source the cluster is asked for its topics: the journal may be among them."""
    monkeypatch.setattr(watcher_module, "_CLUSTER_MS", 0)
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("reports", {TopicPartition("orders", 0): 0})

    async def found() -> tuple[Source, Source]:
        async with followed(broker, interval=3600) as (watcher, first):
            await asyncio.to_thread(join, "billing", "one")
            await watcher._look_for_topics()
            assert watcher_module.JOURNAL_TOPIC in watcher.topics
            await watcher.look_around()
            return first.source, watcher.store.source

    assert asyncio.run(found()) == (Source.OFFSETS_TOPIC, Source.JOURNAL)
