"""The blocking consumer on our broker: misuse, its end, and what goes one at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.handlers import HANDLERS
from equipoise.broker.net.connection import Call
from equipoise.broker.server import Server
from equipoise.client import (
    Admin,
    Consumer,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
)
from equipoise.client.group.membership import Membership
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest
from equipoise.wire.consumer_protocol import NO_GENERATION
from equipoise.wire.errors import UsageError
from tests.client.consumer.consuming import PATIENCE_S, SETTINGS, Told, read, wait
from tests.client.writing import produce

# -- misuse


def test_misuse_is_refused_with_words(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    one = consumer()
    with pytest.raises(UsageError, match=r"subscribe\(\) to topics or assign\(\) partitions first"):
        one.poll(0)
    with pytest.raises(UsageError, match="name topics or a pattern"):
        one.subscribe([])
    with pytest.raises(UsageError, match="not both"):
        one.subscribe([topic, "^other"])
    with pytest.raises(UsageError, match="no regular expression"):
        one.subscribe(pattern="(")
    one.subscribe(topic)
    with pytest.raises(UsageError, match=r"unsubscribe\(\) before assign"):
        one.assign([(topic, 0)])
    one.close()
    with pytest.raises(UsageError, match="closed"):
        one.poll(0)


def test_without_a_group_there_is_nothing_to_join_or_to_commit(broker: Broker, topic: str) -> None:
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as one:
        with pytest.raises(UsageError, match=r"group\.id"):
            one.subscribe(topic)
        one.assign([(topic, 0)])
        with pytest.raises(UsageError, match=r"group\.id"):
            one.commit()


def test_two_threads_at_a_time_are_refused(topic: str, consumer: Callable[..., Consumer]) -> None:
    one = consumer()
    one.subscribe(topic)
    wait(one, one.assignment)
    inside, refused = threading.Event(), threading.Event()

    class Slow(RebalanceListener):
        def on_revoked(self, consumer: Consumer, removed: Any) -> None:
            inside.set()
            assert refused.wait(PATIENCE_S)

    one.unsubscribe()
    one.subscribe(topic, Slow())
    wait(one, one.assignment)
    one.enforce_rebalance()
    thread = threading.Thread(target=wait, args=(one, lambda: inside.is_set() and one.assignment()))
    thread.start()
    assert inside.wait(PATIENCE_S)
    with pytest.raises(UsageError, match="another thread"):
        one.poll(0)
    refused.set()
    thread.join()


def test_unsubscribing_leaves_and_another_subscription_comes_back(
    topic: str, consumer: Callable[..., Consumer]
) -> None:
    told = Told()
    one = consumer()
    one.subscribe(topic, told)
    wait(one, one.assignment)
    one.unsubscribe()
    assert told.events[-1] == ("revoked", {0, 1, 2})
    assert one.assignment() == frozenset()
    one.subscribe(topic, told)
    wait(one, one.assignment)


@pytest.mark.parametrize("by_hand", [False, True])
def test_closing_takes_no_longer_than_it_may_though_nobody_takes_the_commit(by_hand: bool) -> None:
    """Else it would be tried for default.api.timeout.ms, which is longer than this test may take."""
    settings = {"group_id": "g", "auto_offset_reset": "earliest", "default_api_timeout_ms": 3_600_000}
    with Broker(SETTINGS) as gone:
        with Admin(gone.bootstrap_servers) as admin:
            admin.create_topic("t", 1)
        produce(gone, "t", 10, partitions=1)
        consumer = Consumer(bootstrap_servers=gone.bootstrap_servers, **settings)
        consumer.assign([("t", 0)]) if by_hand else consumer.subscribe("t")
        read(consumer, 10)
    consumer.close(timeout=0.2)


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_committed_offsets_are_waited_for_as_java_does(isolation_level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """require_stable: an offset that a transaction is about to replace is no place to read on from (KIP-447)."""
    asked: list[bool] = []
    handler = HANDLERS[OffsetFetchRequest.api_key]
    handle = handler.handle

    def noting(server: Server, request: OffsetFetchRequest, call: Call) -> Any:
        asked.append(request.require_stable)
        return handle(server, request, call)

    monkeypatch.setattr(handler, "handle", noting)
    with Broker(SETTINGS) as broker:
        address = broker.bootstrap_servers
        with Consumer(bootstrap_servers=address, group_id="g", isolation_level=isolation_level) as consumer:
            assert consumer.committed(TopicPartition("t", 0)) == {}
    assert asked == [True]


def test_partitions_are_named_one_by_one_or_in_lists(
    consumer: Callable[..., Consumer], broker: Broker, topic: str
) -> None:
    produce(broker, topic, 9)
    mine = consumer(enable_auto_commit=False)
    places = [TopicPartition(topic, number) for number in range(3)]
    mine.assign(places)
    read(mine, 9)
    mine.commit()
    first, second, third = places
    ways: list[Any] = [
        [first, second],
        (first, second),
        {first, second},
        [tuple(first), tuple(second)],
        iter((first, second)),
    ]
    for named in ways:
        assert mine.committed(named).keys() == {first, second}
    assert mine.committed(first, [third]).keys() == {first, third}
    assert mine.committed((topic, 0)).keys() == {first}
    assert mine.committed([]) == {}
    assert mine.end_offsets([second]) == {second: 3}
    mine.pause([first, second])
    assert mine.paused() == {first, second}
    mine.resume([])
    assert mine.paused() == {first, second}
    mine.resume()
    mine.seek_to_beginning([third])
    assert [one.partition for one in read(mine, 3)] == [2, 2, 2]
    with pytest.raises(UsageError, match="'orders' is no partition: give TopicPartition"):
        mine.committed("orders")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"\('orders', '0'\) is no partition"):
        mine.pause([("orders", "0")])  # type: ignore[list-item]


def test_positions_are_committed_with_their_leader_epoch(
    consumer: Callable[..., Consumer], broker: Broker, topic: str
) -> None:
    produce(broker, topic, 9)
    mine = consumer(enable_auto_commit=False)
    mine.assign([(topic, 0), (topic, 1)])
    read(mine, 6)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    mine.commit({first: 3, second: 1})
    assert mine.committed() == {first: OffsetAndMetadata(3, "", 0), second: OffsetAndMetadata(1, "", -1)}
    mine.commit()
    assert mine.committed() == {first: OffsetAndMetadata(3, "", 0), second: OffsetAndMetadata(3, "", 0)}


def test_an_automatic_commit_that_came_too_late_promises_nothing(
    consumer: Callable[..., Consumer], broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    produce(broker, topic, 3)
    mine = consumer(
        auto_commit_interval_ms=0, max_poll_interval_ms=1000, session_timeout_ms=1000, heartbeat_interval_ms=300
    )
    mine.subscribe(topic)
    read(mine, 3)
    member = mine._engine.member
    end = time.monotonic() + PATIENCE_S
    while member.generation_id != NO_GENERATION and time.monotonic() < end:
        time.sleep(0.01)
    mine.poll(0.1)
    assert "offsets were not committed, and will not be: poll() was not called for max.poll.interval.ms" in caplog.text
    assert "will try again" not in caplog.text


def test_automatic_commits_go_one_at_a_time(
    consumer: Callable[..., Consumer],
    broker: Broker,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While no coordinator answers they would pile up, and each would warn when its time is up."""
    produce(broker, topic, 3)
    mine = consumer(auto_commit_interval_ms=0, default_api_timeout_ms=1500)
    mine.subscribe(topic)
    read(mine, 3)
    wait(mine, lambda: len(mine.committed()) == 3)
    ask = Membership.ask

    async def unanswered(self: Membership, request: Any, coordinator: Any, timeout: float) -> Any:
        if isinstance(request, OffsetCommitRequest):
            await asyncio.sleep(3600)
        return await ask(self, request, coordinator, timeout)

    monkeypatch.setattr(Membership, "ask", unanswered)
    for number in range(30):
        mine.seek((topic, 0), number % 2)
        mine.poll(0.0)
    wait(mine, lambda: "default.api.timeout.ms" in caplog.text)
    monkeypatch.undo()
    assert caplog.text.count("default.api.timeout.ms") == 1
