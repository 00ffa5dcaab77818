"""Killed while it compacts, and while topics come and go: the same promise, and nothing old comes back."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from equipoise.wire.apis.k03_metadata import MetadataRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import batch_of, create_topic, delete_topic, produce, read_partition
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.crash.test_kill import LONGEST_LIFE
from tests.crash.warm import WarmBroker
from tests.crash.workload import Ledger

ROUNDS = [4, pytest.param(300, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]


class Life(threading.Thread):
    """Calls `work(client)` again and again until the broker dies under it."""

    def __init__(self, address: str, work: Callable[[RawClient], None]) -> None:
        super().__init__(name="life")
        self.times = 0
        self.failure: BaseException | None = None
        self._address = address
        self._work = work

    def run(self) -> None:
        try:
            with RawClient(self._address) as client:
                while True:
                    self._work(client)
                    self.times += 1
        except ConnectionError:
            pass
        except BaseException as failure:  # noqa: BLE001  it is raised by `live_and_die`, in the test's thread
            self.failure = failure


def live_and_die(broker: WarmBroker, moments: random.Random, work: Callable[[RawClient], None]) -> None:
    """One life of the broker: some work, then SIGKILL at a random moment, then a new start."""
    life = Life(broker.address, work)
    life.start()
    eventually(lambda: life.times > 20 or not life.is_alive(), "the broker works")
    time.sleep(moments.uniform(0, LONGEST_LIFE))
    broker.kill()
    life.join()
    if life.failure is not None:
        raise life.failure
    broker.start()


class Compacted:
    """Values under a few keys, sent one by one; the newest acknowledged of each key."""

    def __init__(self, moments: random.Random) -> None:
        self.ledger = Ledger()
        self.newest: dict[bytes, tuple[int, bytes]] = {}
        self._keys = moments
        self._numbers = itertools.count()

    def append(self, client: RawClient) -> None:
        key = b"key-%d" % self._keys.randrange(10)
        value = b"%0100d" % next(self._numbers)
        answer = produce(client, batch_of(value, key=key), topic="compacted")
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self.ledger.note(("compacted", 0, answer.base_offset), value)
        self.newest[key] = answer.base_offset, value

    def check(self, client: RawClient) -> int:
        """How many records are left of all that were sent."""
        records = read_partition(client, "compacted")
        for record in records:
            self.ledger.note(("compacted", 0, record.offset), record.value or b"")
        left = {record.key: (record.offset, record.value) for record in records}
        for key, (offset, value) in self.newest.items():
            assert key in left, f"{key!r} is lost"
            assert left[key] == (offset, value) or left[key][0] > offset, f"{key!r} went back from {offset}"
        return len(records)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_killed_while_it_compacts(tmp_path: Path, moments: random.Random, rounds: int) -> None:
    work = Compacted(moments)
    settings = {"log.cleaner.backoff.ms": 5, "log.cleaner.min.cleanable.ratio": 0}
    with WarmBroker(tmp_path / "data", tmp_path / "log", settings) as broker:
        with RawClient(broker.address) as client:
            create_topic(client, "compacted", configs={"cleanup.policy": "compact", "internal.segment.bytes": "1000"})
        for _ in range(rounds):
            live_and_die(broker, moments, work.append)
            with RawClient(broker.address) as client:
                work.check(client)
        with RawClient(broker.address) as client:
            eventually(lambda: work.check(client) < 100, "the log is compacted")
    assert "Traceback" not in broker.log.read_text()


class Topics:
    """Topics that come and go. Of each name we know its topic's id, or that there is none, or nothing for sure."""

    def __init__(self, moments: random.Random) -> None:
        self.known: dict[str, bytes | None] = {}
        self._moments = moments

    def come_or_go(self, client: RawClient) -> None:
        name = f"topic-{self._moments.randrange(6)}"
        topic_id = self.known.pop(name, None)
        if topic_id is None:
            topic_id = create_topic(client, name)
            answer = produce(client, batch_of(topic_id), topic=name)
            assert answer.error_code == ErrorCode.NONE, answer.error_message
            self.known[name] = topic_id
        else:
            assert delete_topic(client, name) == ErrorCode.NONE
            self.known[name] = None

    def check(self, client: RawClient) -> None:
        found = {topic.name: topic.topic_id for topic in client.call(MetadataRequest(topics=None)).topics}
        for name, topic_id in self.known.items():
            assert found.get(name) == topic_id, f"{name} is another topic than promised"
        for name, topic_id in found.items():
            values = [record.value for record in read_partition(client, name)]
            assert values in ([], [topic_id]), f"{name} holds records of an older topic"
            assert values or name not in self.known, f"{name} lost its record"
        for name in {f"topic-{number}" for number in range(6)} - set(self.known):
            if name in found:
                delete_topic(client, name)
            self.known[name] = None


@pytest.mark.parametrize("rounds", ROUNDS)
def test_killed_while_topics_come_and_go(tmp_path: Path, moments: random.Random, rounds: int) -> None:
    work = Topics(moments)
    data = tmp_path / "data"
    with WarmBroker(data, tmp_path / "log", {"internal.log.segment.bytes": 100}) as broker:
        for _ in range(rounds):
            live_and_die(broker, moments, work.come_or_go)
            with RawClient(broker.address) as client:
                work.check(client)
        there = {name for name, topic_id in work.known.items() if topic_id is not None}
        eventually(
            lambda: {path.name.rpartition("-")[0] for path in data.iterdir() if path.is_dir()} == there,
            "no directory of a deleted topic is left",
        )
    assert "Traceback" not in broker.log.read_text()
