"""What an application may pass to a consumer, and what is refused before anything begins."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from equipoise.assignors import RangeAssignor
from equipoise.broker import Broker
from equipoise.client import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from equipoise.client.metadata.cluster import Cluster
from equipoise.wire.errors import KafkaError, UsageError
from tests.client.consumer.consuming import read, wait
from tests.client.writing import produce

# -- offsets

NO_OFFSETS = [
    "5",
    1.5,
    5.0,
    None,
    True,
    -1,
    -1001,  # librdkafka's OFFSET_INVALID
    2**63,
    (4, "x"),
    OffsetAndMetadata("5"),  # type: ignore[arg-type]
    OffsetAndMetadata(-1),
    OffsetAndMetadata(4, b"x"),  # type: ignore[arg-type]
    OffsetAndMetadata(4, "x" * 2**15),
    OffsetAndMetadata(4, "\ud800"),
    OffsetAndMetadata(4, "", "x"),  # type: ignore[arg-type]
    OffsetAndMetadata(4, "", -2),
    OffsetAndMetadata(4, "", 2**31),
]


@pytest.mark.parametrize("offset", NO_OFFSETS, ids=range(len(NO_OFFSETS)))
def test_what_is_no_offset_is_neither_committed_nor_sought(
    broker: Broker, topic: str, consumer: Callable[..., Consumer], offset: Any
) -> None:
    one, place = consumer(enable_auto_commit=False), TopicPartition(topic, 0)
    one.assign([place])
    one.commit({place: 7})
    refused: list[Callable[[], object]] = [
        lambda: one.commit({place: offset}),
        lambda: one.commit_async({place: offset}),
        lambda: one.seek(place, offset),
    ]
    with Admin(broker.bootstrap_servers) as admin:
        refused.append(lambda: admin.commit_offsets(topic, {place: offset}))
        for attempt in refused:
            with pytest.raises(UsageError, match=rf"the offset of {topic}-0 "):
                attempt()
    assert one.committed(place) == {place: OffsetAndMetadata(7)}
    one.commit({place: 8})  # nothing stands in its way


def test_offsets_of_no_partition_are_refused(topic: str, consumer: Callable[..., Consumer]) -> None:
    one = consumer()
    for number in (-1, 2**31, True):
        with pytest.raises(UsageError, match="number of a partition"):
            one.commit({TopicPartition(topic, number): 1})
    with pytest.raises(UsageError, match="takes a mapping with partitions as keys, not list"):
        one.commit([(topic, 0)])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot be called"):
        one.commit_async({TopicPartition(topic, 0): 1}, "x")  # type: ignore[arg-type]


def test_the_bounds_of_offsets_can_be_committed_and_metadata_left_out(
    topic: str, consumer: Callable[..., Consumer]
) -> None:
    one = consumer(enable_auto_commit=False)
    first, last = TopicPartition(topic, 0), TopicPartition(topic, 1)
    one.commit({first: 0, last: OffsetAndMetadata(2**63 - 1, None, 2**31 - 1)})  # type: ignore[arg-type]
    assert one.committed(first, last) == {
        first: OffsetAndMetadata(0),
        last: OffsetAndMetadata(2**63 - 1, "", 2**31 - 1),
    }


def test_the_asynchronous_consumer_refuses_the_same(broker: Broker, topic: str) -> None:
    async def commit() -> None:
        async with AsyncConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=topic) as one:
            with pytest.raises(UsageError, match="give an integer"):
                await one.commit({TopicPartition(topic, 0): "5"})  # type: ignore[dict-item]

    asyncio.run(commit())


# -- times


@pytest.mark.parametrize("time", [1_000.5, "2026-01-01", None, True, -1, -5, 2**63])
def test_what_is_no_time_is_not_looked_for(topic: str, consumer: Callable[..., Consumer], time: Any) -> None:
    one, place = consumer(), TopicPartition(topic, 0)
    one.assign([place])
    for attempt in (lambda: one.seek_to_time(time, place), lambda: one.offsets_for_times({place: time})):
        with pytest.raises(UsageError, match="the time is"):
            attempt()


def test_years_without_a_timestamp_are_refused(topic: str, consumer: Callable[..., Consumer]) -> None:
    one = consumer()
    one.assign([(topic, 0)])
    for year in (1, 1960):
        with pytest.raises(UsageError, match="the time is -"):
            one.seek_to_time(datetime(year, 1, 2, tzinfo=UTC))
    with pytest.raises(UsageError, match="takes a mapping"):
        one.offsets_for_times([(topic, 0)])  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["earliest", "latest", "none"])
@pytest.mark.parametrize("zero", [0, datetime(1970, 1, 1, tzinfo=UTC)], ids=["number", "datetime"])
def test_the_beginning_of_time_is_a_time_too(
    broker: Broker, topic: str, consumer: Callable[..., Consumer], zero: int | datetime, policy: str
) -> None:
    """Not "as auto.offset.reset says"."""
    produce(broker, topic, 3, partitions=1)
    one = consumer(auto_offset_reset=policy)
    one.assign([(topic, 0)])
    one.seek_to_time(zero)
    assert [row.offset for row in read(one, 3)] == [0, 1, 2]


def test_a_request_that_cannot_be_made_is_no_silence(
    topic: str, consumer: Callable[..., Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As to a broker that does not serve ListOffsets: neither time nor newer metadata mends it."""

    async def refuse(*_: object) -> None:
        raise UsageError("this broker does not serve it")

    one, place = consumer(), TopicPartition(topic, 0)
    monkeypatch.setattr(Cluster, "leader_answer", refuse)
    one.assign([place])
    for attempt in (lambda: one.end_offsets(place), lambda: wait(one, lambda: False)):
        with pytest.raises(UsageError, match="does not serve it"):
            attempt()
    monkeypatch.undo()
    wait(one, lambda: one.positions())


# -- time limits

ENDLESS = [float("inf"), 1e10, 1e300]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("timeout", ["5", float("nan"), b"", (1,)], ids=repr)
def test_what_is_no_timeout_ends_nothing_half_way(topic: str, consumer: Callable[..., Consumer], timeout: Any) -> None:
    one, place = consumer(), TopicPartition(topic, 0)
    one.subscribe(topic)
    wait(one, one.assignment)
    waiting: list[Callable[[], object]] = [
        lambda: one.poll(timeout),
        lambda: one.close(timeout),
        lambda: one.committed(timeout=timeout),
        lambda: one.position(place, timeout=timeout),
    ]
    for call in waiting:
        with pytest.raises(UsageError, match="timeout is"):
            call()
    for call in (one.poll, one.close):
        with pytest.raises(UsageError, match="timeout is None: give seconds"):
            call(None)  # type: ignore[arg-type]
    assert one.poll(-1) == []
    assert one.assignment()


@pytest.mark.parametrize("endless", ENDLESS)
def test_a_timeout_may_be_as_good_as_endless(
    broker: Broker, topic: str, consumer: Callable[..., Consumer], endless: float
) -> None:
    produce(broker, topic, 3, partitions=1)
    one, place = consumer(), TopicPartition(topic, 0)
    one.subscribe(topic)
    assert [row.offset for row in one.poll(endless)] == [0, 1, 2]
    assert one.position(place, timeout=endless) == 3
    one.close(endless)
    assert not broker.groups[topic].members
    with consumer(default_api_timeout_ms=2**63 - 1) as other:
        assert other.committed(place)[place].offset == 3
        other.unsubscribe()


def test_the_asynchronous_consumer_takes_the_same_timeouts(broker: Broker, topic: str) -> None:
    async def read_on() -> None:
        settings = {"group_id": topic, "auto_offset_reset": "earliest"}
        one = AsyncConsumer(bootstrap_servers=broker.bootstrap_servers, **settings)
        one.subscribe(topic)
        assert len(await one.poll(1e300)) == 3
        for wrong in (None, "5", float("nan")):
            for call in (one.poll, one.close):
                with pytest.raises(UsageError, match="timeout is"):
                    await call(wrong)  # type: ignore[arg-type]
        await one.close(float("inf"))

    produce(broker, topic, 3, partitions=1)
    asyncio.run(read_on())
    assert not broker.groups[topic].members


# -- subscriptions

NO_TOPICS = [
    5,
    [5],
    [None],
    b"orders",
    [b"orders"],
    re.compile("ord"),
    [re.compile("ord")],
    [""],
    "",
    ["orders", ""],
    ["\udcff"],
]
NO_PATTERNS = [4, b"ord", re.compile(b"ord"), "", re.compile(""), "(", ["orders"]]
NO_LISTENERS = [lambda *_: None, RebalanceListener, 5, object()]


@pytest.mark.parametrize("topics", NO_TOPICS, ids=repr)
def test_what_is_no_name_of_a_topic_is_not_subscribed_to(consumer: Callable[..., Consumer], topics: Any) -> None:
    with pytest.raises(UsageError, match=r"subscribe\(\)"):
        consumer().subscribe(topics)


@pytest.mark.parametrize("pattern", NO_PATTERNS, ids=repr)
def test_what_is_no_pattern_is_not_subscribed_to(consumer: Callable[..., Consumer], pattern: Any) -> None:
    """An empty one would match every topic, one of bytes none, in an endless attempt to join."""
    with pytest.raises(UsageError, match=r"pattern|regular expression"):
        consumer().subscribe(pattern=pattern)


@pytest.mark.parametrize("listener", NO_LISTENERS, ids=["function", "class", "number", "object"])
def test_what_is_no_listener_is_refused_before_poll_calls_it(
    topic: str, consumer: Callable[..., Consumer], listener: Any
) -> None:
    one = consumer()
    with pytest.raises(UsageError, match=r"is no listener: give an object of a subclass of RebalanceListener"):
        one.subscribe(topic, listener)
    assert one.subscription() == frozenset()


def test_a_listener_may_be_any_object_with_its_methods(topic: str, consumer: Callable[..., Consumer]) -> None:
    class Mine:
        heard: frozenset[TopicPartition] = frozenset()

        def on_assigned(self, consumer: Consumer, added: frozenset[TopicPartition]) -> None:
            self.heard = added

        on_revoked = on_lost = on_assigned

    one, mine = consumer(), Mine()
    one.subscribe({topic: 3}, mine)  # type: ignore[arg-type]
    wait(one, one.assignment)
    assert len(mine.heard) == 3


class NamedOnly:
    name = "mine"


@pytest.mark.parametrize(
    "strategy",
    [RangeAssignor, [RangeAssignor], NamedOnly(), ["range", 5], 5, [RangeAssignor(), object()]],
    ids=["class", "classes", "name alone", "name and number", "number", "assignor and object"],
)
def test_what_is_no_assignor_is_refused_at_once(consumer: Callable[..., Consumer], strategy: Any) -> None:
    with pytest.raises(UsageError, match=r"partition\.assignment\.strategy: .* is no assignor"):
        consumer(partition_assignment_strategy=strategy)


# -- after the end


def calls(one: Any, place: TopicPartition) -> list[Callable[[], Any]]:
    """Whatever can be asked of a consumer, but its end."""
    return [
        *(lambda: one.poll(0.1), lambda: one.poll_arrow(0.1), one.unsubscribe),
        *(lambda: one.subscribe([place.topic]), lambda: one.assign([place]), one.assignment, one.subscription),
        *(one.commit, lambda: one.commit({place: 1}), one.commit_async, lambda: one.commit_async({place: 1})),
        *(lambda: one.seek(place, 1), lambda: one.seek_to_beginning(place), one.seek_to_end, one.seek_to_committed),
        *(lambda: one.seek_to_time(1), one.pause, one.resume, one.paused, one.lag, one.positions),
        *(lambda: one.position(place), lambda: one.committed(place), one.committed, one.enforce_rebalance),
        *(lambda: one.end_offsets(place), lambda: one.beginning_offsets(place)),
        *(lambda: one.offsets_for_times({place: 1}), one.group_metadata, lambda: one.member_id),
    ]


@pytest.mark.filterwarnings("error")  # of coroutines that were never awaited
@pytest.mark.parametrize("way", ["subscribed", "assigned", "new"])
def test_a_closed_consumer_says_so(topic: str, consumer: Callable[..., Consumer], way: str) -> None:
    one, place = consumer(), TopicPartition(topic, 0)
    if way == "assigned":
        one.assign([place])
    elif way == "subscribed":
        one.subscribe(topic)
        wait(one, one.assignment)
    rows = iter(one)
    one.close()
    one.close()
    for call in calls(one, place):
        with pytest.raises(UsageError, match="this consumer is closed"):
            call()
    with pytest.raises(UsageError, match="this consumer is closed"):
        next(rows)


@pytest.mark.filterwarnings("error")
def test_a_closed_asynchronous_consumer_says_so(broker: Broker, topic: str) -> None:
    async def close() -> None:
        one = AsyncConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=topic)
        one.subscribe(topic)
        while not one.assignment():
            await one.poll(0.05)
        await one.close()
        await one.close()
        for call in calls(one, TopicPartition(topic, 0)):
            with pytest.raises(UsageError, match="this consumer is closed"):
                await call()

    asyncio.run(close())


# -- after a fork

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def in_child(work: Callable[[], None]) -> None:
    """What it asserts holds in a child of this process, which has this thread alone."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@FORKS
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_cannot_use_the_consumer_of_its_parent(
    broker: Broker, topic: str, consumer: Callable[..., Consumer]
) -> None:
    produce(broker, topic, 3, partitions=1)
    one, place = consumer(), TopicPartition(topic, 0)
    one.subscribe(topic)
    read(one, 3)

    def refused() -> None:
        for call in [*calls(one, place), one.close]:
            with pytest.raises(UsageError, match="made in another process"):
                call()

    in_child(refused)
    one.commit()
    assert one.committed(place)[place].offset == 3
    assert one.poll(0) == []


@FORKS
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_cannot_use_the_producer_of_its_parent(broker: Broker, topic: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"0", partition=0).result()

        def refused() -> None:
            calls: list[Callable[[], object]] = [
                lambda: producer.send(topic, b"lost", partition=0),
                lambda: producer.send("a topic that is not known yet"),
                lambda: producer.send_arrow(pa.record_batch({"value": [b"lost"]}), topic),
                producer.flush,
                producer.close,
            ]
            for call in calls:
                with pytest.raises(UsageError, match="made in another process"):
                    call()

        in_child(refused)
        assert producer.send(topic, b"1", partition=0).result().offset == 1


@FORKS
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_what_its_parent_has_sent(broker: Broker, topic: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=600_000) as producer:
        reports: list[object] = []
        sent = producer.send(topic, b"0", partition=0)
        sent.report(lambda *told: reports.append(told))

        def refused() -> None:
            with pytest.raises(UsageError, match="sent by another process"):
                sent.result()
            assert (sent.done(), reports) == (True, [])

        assert not sent.done()
        in_child(refused)
        producer.flush()
        assert (sent.result().offset, len(reports)) == (0, 1)


@FORKS
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_a_lock_of_a_thread_that_it_does_not_have(broker: Broker, topic: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"0").result()
        is_held, is_over = threading.Event(), threading.Event()

        def hold() -> None:
            with producer._engine.accumulator._room, producer._finding:
                is_held.set()
                assert is_over.wait(60)

        def refused() -> None:
            for name in (topic, "another"):
                with pytest.raises(UsageError, match="made in another process"):
                    producer.send(name)

        with ThreadPoolExecutor() as pool:
            holding = pool.submit(hold)
            assert is_held.wait(60)
            try:
                in_child(refused)
            finally:
                is_over.set()
            holding.result()


@FORKS
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_cannot_use_the_async_producer_of_its_parent(broker: Broker, topic: str) -> None:
    async def use() -> None:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait(topic, b"0")

            def refused() -> None:
                with pytest.raises(UsageError, match="made in another process"):
                    producer.send(topic, b"lost").send(None)

            in_child(refused)
            await producer.send_and_wait(topic, b"1")

    asyncio.run(use())


# -- partitions that are not there


@pytest.mark.parametrize("name", ["a b", "", ".", "x" * 250, "Größe"])
def test_what_is_no_name_of_a_topic_has_no_partitions(consumer: Callable[..., Consumer], name: str) -> None:
    one = consumer()
    asked: list[Callable[[], object]] = [
        lambda: one.end_offsets((name, 0)),
        lambda: one.assign([(name, 0)]),
        lambda: one.commit({TopicPartition(name, 0): 1}),
    ]
    for attempt in asked:
        with pytest.raises(UsageError, match="is no topic: names have"):
            attempt()


def test_what_is_missing_is_named_when_the_time_is_up(
    broker: Broker, topic: str, consumer: Callable[..., Consumer]
) -> None:
    one = consumer(allow_auto_create_topics=False)
    known, missing, beyond = (TopicPartition(*place) for place in ((topic, 0), (f"{topic}-2", 0), (topic, 9)))
    with pytest.raises(KafkaError, match=f"topic '{missing.topic}' does not exist at {broker.bootstrap_servers}$"):
        one.end_offsets(known, missing, timeout=2)
    with pytest.raises(KafkaError, match=f"topic '{topic}' has no partition 9: it has 3$"):
        one.offsets_for_times({known: 0, beyond: 0}, timeout=2)
    one.assign([beyond])
    with pytest.raises(KafkaError, match="has no partition 9"):
        one.position(beyond, timeout=2)


def test_the_asynchronous_consumer_names_it_too(broker: Broker, topic: str) -> None:
    async def ask() -> None:
        async with AsyncConsumer(bootstrap_servers=broker.bootstrap_servers) as one:
            for call in (one.beginning_offsets, one.end_offsets):
                with pytest.raises(KafkaError, match="has no partition 9"):
                    await call((topic, 9), timeout=2)

    asyncio.run(ask())
