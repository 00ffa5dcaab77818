"""The two threads of a consumer: the loop's view of an assignment never comes after the application's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer, TopicPartition
from equipoise.client.consumer.engine import ConsumerEngine
from tests.client.consumer.consuming import SETTINGS, Told, read, wait
from tests.client.writing import produce

LONG_ENOUGH_S = 0.5  # for the application's thread to come through, if nothing stops it


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


@pytest.fixture
def consumer(broker: Broker) -> Iterator[Consumer]:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 1)
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as made:
        yield made
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("t")


class SlowLock:
    """A lock after which the one who meant to go on is overtaken."""

    def __init__(self, lock: Any, is_overtaken: Callable[[], bool], until: threading.Event) -> None:
        self._lock = lock
        self._is_overtaken = is_overtaken
        self._until = until

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        is_overtaken = self._is_overtaken()
        self._lock.release()
        if is_overtaken:
            self._until.wait(LONG_ENOUGH_S)


def test_a_loop_that_is_slow_to_tell_of_an_assignment_does_not_take_it_back(
    broker: Broker, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, application, told = consumer._engine, threading.get_ident(), threading.Event()
    following = threading.Event()

    def follow() -> None:
        if threading.get_ident() != application and engine.member.callbacks:
            following.set()
        engine._follow_member()

    def is_overtaken() -> bool:
        return threading.get_ident() != application and following.is_set()

    def done(*, has_failed: bool) -> None:
        ConsumerEngine.callback_done(engine, has_failed=has_failed)
        told.set()

    monkeypatch.setattr(engine.group, "_changed", follow)
    monkeypatch.setattr(engine.group, "lock", SlowLock(engine.group.lock, is_overtaken, told))
    monkeypatch.setattr(engine, "callback_done", done)
    produce(broker, "t", 2, partitions=1)
    consumer.subscribe(["t"])
    assert [record.value for record in read(consumer, 2)] == [b"0", b"1"]
    assert consumer.assignment() == {TopicPartition("t", 0)}
    assert engine._shared == {TopicPartition("t", 0)}


def test_a_seek_of_the_listener_holds_whatever_the_loop_does_meanwhile(
    broker: Broker, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop looks at the member between the callback's end and the member's hearing of it."""
    engine, looked = consumer._engine, threading.Event()

    class Seeking(Told):
        def on_assigned(self, consumer: Consumer, added: Any) -> None:
            super().on_assigned(consumer, added)
            for partition in added:
                consumer.seek(partition, 1)

    act = engine.group.act

    def look_first(what: Any) -> None:
        if engine.member.callbacks and threading.get_ident() == application:
            engine._seen = ()
            looker = threading.Thread(target=engine._follow_member)
            looker.start()
            looker.join()
            looked.set()
        act(what)

    application = threading.get_ident()
    monkeypatch.setattr(engine.group, "act", look_first)
    produce(broker, "t", 3, partitions=1)
    consumer.subscribe(["t"], Seeking())
    assert [record.value for record in read(consumer, 2)] == [b"1", b"2"]
    wait(consumer, looked.is_set)


def test_an_answer_for_an_earlier_assignment_does_not_place_a_later_one(
    broker: Broker, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed then may be behind: others have had the partition meanwhile."""
    place = TopicPartition("t", 0)
    produce(broker, "t", 20, partitions=1)
    consumer.commit({place: 5})
    engine, is_asked, may_go = consumer._engine, threading.Event(), threading.Event()
    assert engine.committed is not None
    fetch = engine.committed.fetch

    async def slow(partitions: Any) -> Any:
        found = await fetch(partitions)
        is_asked.set()
        while not may_go.is_set():
            await asyncio.sleep(0.01)
        return found

    monkeypatch.setattr(engine.committed, "fetch", slow)
    consumer.assign([place])
    assert is_asked.wait(30)
    consumer.assign([])
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as other:
        other.commit({place: 9})
    consumer.assign([place])
    may_go.set()
    assert consumer.position(place) == 9
