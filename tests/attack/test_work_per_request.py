"""No request of under a hundred kilobytes holds the loop for more than 100 ms of CPU time, or takes more than 50 MB.

Every API is asked, in a process of its own, for as much as its tables let one ask for (`requests.py`). How long the
loop was held is the CPU time it spent between two answers to somebody else (`meter.py`).
"""

from __future__ import annotations

import random
import select
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from equipoise.broker.handlers import HANDLERS
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from tests.attack.meter import MB, Meter, Probe
from tests.attack.requests import Attack, Drawing, World, served_versions
from tests.broker.calls import append, create_topic
from tests.broker.rawclient import RawClient
from tests.crash.served import ServedBroker

LONGEST_S = 0.1
MOST = 50 * MB
_IDLE_S = 0.001  # CPU time of the loop between two answers, when nobody else asks
CREATING = {3, 19, 37}  # what these leave behind would be measured with the next request
PARTITIONS = 1000


class Target:
    """A broker with some topics and groups, and what a request costs it."""

    def __init__(self, served: ServedBroker) -> None:
        self.served = served
        self.meter = Meter(served.pid)
        self.world = self._furnish()
        self.probe = Probe(served.address, self.meter)
        for _ in range(50):
            self.probe.ask()

    def _furnish(self) -> World:
        topics = ["many", *(f"t{number}" for number in range(200))]
        groups = [f"g{number}" for number in range(200)]
        with RawClient(self.served.address) as client:
            ids = [create_topic(client, "many", PARTITIONS)]
            rows = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in topics[1:]]
            ids += [topic.topic_id for topic in client.call(CreateTopicsRequest(topics=rows)).topics]
            create_topic(client, "compacted", configs={"cleanup.policy": "compact"})
            for _ in range(3):
                append(client, b"x" * 100, topic="many")
            for group in groups:
                partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
                topic = OffsetCommitRequestTopic(name="many", partitions=[partition])
                client.send(OffsetCommitRequest(group_id=group, topics=[topic]), 8)
            for _ in groups:
                client.receive()
        return World(topics, ids, PARTITIONS, groups)

    def measure(self, attack: Attack) -> tuple[float, int]:
        """The longest time for which it held the loop, and what it took of memory."""
        with RawClient(self.served.address) as client:
            self.probe.begin()
            self.meter.forget_peak()
            before = self.meter.resident()
            client.send_bytes(attack.frame)
            answered, idle = False, 0
            while not answered or idle < 2:
                readable, _, _ = select.select([client._socket], [], [], 0.001)
                answered = answered or bool(readable) or idle > 20  # a parked request is answered late, or never
                idle = idle + 1 if self.probe.ask() < _IDLE_S else 0
            return self.probe.longest, self.meter.peak() - before

    def check(self, attacks: Iterable[Attack]) -> list[str]:
        """Those that cost too much. What costs much is asked twice: a collection of garbage is nobody's fault."""
        failures = []
        for attack in attacks:
            held, taken = self.measure(attack)
            if held > LONGEST_S or taken > MOST:
                again, taken_again = self.measure(attack)
                held, taken = min(held, again), min(taken, taken_again)
            if held > LONGEST_S or taken > MOST:
                failures.append(f"{attack}: held the loop {held * 1000:.0f} ms, took {taken // MB} MB")
        log = self.served.log.read_text()
        assert "Traceback" not in log, log
        return failures


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    with ServedBroker(tmp_path / "data", tmp_path / "log", {"max.partitions": 30_000}) as served:
        target = Target(served)
        yield target
        target.probe.close()


def attacks(world: World, seed: int, keys: Iterable[int]) -> Iterator[Attack]:
    """The newest version of each API, and an older one, every array once."""
    drawing, chance = Drawing(world, seed), random.Random(seed)
    for key in keys:
        versions = HANDLERS[key].versions
        yield from drawing.some_of(key, versions.last)
        older = list(drawing.some_of(key, chance.randint(versions.first, versions.last)))
        yield chance.choice(older)


@pytest.mark.parametrize("key", sorted(CREATING))
def test_what_creates_topics_costs_little(target: Target, key: int) -> None:
    assert target.check(attacks(target.world, 1, [key])) == []


def test_every_other_api_costs_little(target: Target) -> None:
    assert target.check(attacks(target.world, 1, sorted(HANDLERS.keys() - CREATING))) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_every_version_of_every_api_costs_little(target: Target, seed: int) -> None:
    drawing = Drawing(target.world, seed)
    failures = []
    for key, version in served_versions():
        failures += target.check(drawing.all_of(key, version))
    assert failures == []
