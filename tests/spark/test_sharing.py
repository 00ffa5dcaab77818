"""Two Spark applications and a consumer of another make share a group, and are killed and stopped under load."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from equipoise.client import Admin, Connection
from equipoise.process_guard import GuardedProcess
from equipoise.wire.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from proving.brokers import EquipoiseBroker, KafkaBroker
from tests.proving.needed import needed
from tests.spark.applications import ROOT, Application
from tests.spark.streams import PATIENCE_S, Place, committed, departures, members, until

PARTITIONS = 12
SESSION_MS = 10_000
OF_PROTOCOL: dict[str, dict[str, str]] = {
    "classic": {"kafka__session__timeout__ms": str(SESSION_MS), "kafka__heartbeat__interval__ms": "300"},
    "consumer": {"kafka__group__protocol": "consumer"},
}
CONSUMER_GROUPS = {
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}


class Plain:
    """The consumer of another make."""

    def __init__(self, home: Path, servers: str, *session_ms: str) -> None:
        self._session_ms = session_ms
        self.windows: Counter[Place] = Counter()
        self._home = home
        self._servers = servers
        self._runs = 0
        self._process: subprocess.Popen[str] | None = None
        home.mkdir()

    def start(self) -> None:
        self._runs += 1
        with self._log(self._runs).open("w") as log:
            self._process = GuardedProcess(
                [sys.executable, "-m", "tests.spark.plain_reader", self._servers, "g", *self._session_ms],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=log,
                text=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def stop(self) -> None:
        self._end(is_killed=False)

    def kill(self) -> None:
        self._end(is_killed=True)

    def _end(self, *, is_killed: bool) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        if is_killed:
            self._process.kill()
        self._process.stdin.close()
        assert self._process.wait(PATIENCE_S) in (0, -9)
        self._process = None
        self._open_windows()

    def _open_windows(self) -> None:
        """For what was not committed before it was lost, or before the end."""
        pending: list[Place] = []
        for line in [*self._lines(self._runs), "lost"]:
            if line.startswith("["):
                pending += _places(line)
                continue
            if line == "lost":
                self.windows.update(pending)
            pending.clear()

    def _log(self, run: int) -> Path:
        return self._home / f"log-{run}"

    def _lines(self, run: int) -> list[str]:
        """Whole ones."""
        return self._log(run).read_text().split("\n")[:-1]

    @property
    def places(self) -> Counter[Place]:
        runs = range(1, self._runs + 1)
        return Counter(place for run in runs for line in self._lines(run) if line[0] == "[" for place in _places(line))


def _places(line: str) -> list[Place]:
    return [(topic, partition, at) for topic, partition, at in json.loads(line)]


def members_of_848(servers: str) -> list[str]:
    """The members of a consumer group, which DescribeGroups does not show."""
    host, _, port = servers.rpartition(":")
    with Connection(host, int(port)) as connection:
        answer = connection.send(ConsumerGroupDescribeRequest(group_ids=["g"]), ConsumerGroupDescribeResponse)
    return [member.member_id for member in answer.groups[0].members]


class Flow:
    """A steady flow of records, in a thread of its own."""

    def __init__(self, servers: str, per_second: int) -> None:
        self.written: Counter[int] = Counter()
        self._pause = 1 / per_second
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 0})
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        turn = 0
        while not self._is_ending.wait(self._pause * 10):
            for _ in range(10):
                partition = turn % PARTITIONS
                self._producer.produce("t", str(turn).encode(), partition=partition, on_delivery=self._delivered)
                turn += 1
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.written[message.partition()] += 1

    def end(self) -> set[Place]:
        """All that was written."""
        self._is_ending.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        return {("t", partition, at) for partition, count in self.written.items() for at in range(count)}


class Sharing:
    """`applications`: the names of those of Spark."""

    def __init__(
        self,
        servers: str,
        home: Path,
        seed: int,
        *,
        protocol: str = "classic",
        applications: Sequence[str] = ("a", "b"),
        per_second: int = 60,
    ) -> None:
        self.random = random.Random(seed)
        self._servers, self._protocol = servers, protocol
        with Admin(servers) as admin:
            admin.create_topic("t", PARTITIONS)
        options = {"startingOffsets": "earliest", "group__id": "g", **OF_PROTOCOL[protocol]}
        self.applications = [Application(home / name, servers, **options) for name in applications]
        self.plain = Plain(home / "plain", servers, *([str(SESSION_MS)] if protocol == "classic" else []))
        self.all: list[Application | Plain] = [*self.applications, self.plain]
        self.flow = Flow(servers, per_second)

    def seen(self) -> Counter[Place]:
        return sum((one.places for one in self.all), Counter[Place]())

    def until_all_read(self, *those: Application | Plain) -> None:
        """Something that is new to each of them."""
        before = {id(one): len(one.places) for one in those}

        def have_read() -> bool:
            return all(len(one.places) > before[id(one)] for one in those)

        try:
            until("all read", lambda: have_read() or not self._are_running(those))
            assert self._are_running(those), "one has ended"
        except AssertionError as error:
            raise AssertionError("\n".join(one.log[-4_000:] for one in self.applications)) from error

    def _are_running(self, those: tuple[Application | Plain, ...]) -> bool:
        return all(one.is_running for one in those)

    def step(self) -> None:
        one = self.random.choice(self.all)
        if not one.is_running:
            one.start()
        elif len([each for each in self.all if each.is_running]) > 1:
            ends: list[Callable[[], None]] = [one.stop, one.kill]
            if isinstance(one, Application):
                ends.append(partial(self.stand_still, one))
            self.random.choice(ends)()
        self.until_all_read(self.random.choice([each for each in self.all if each.is_running]))

    def stand_still(self, one: Application) -> None:
        """Until it is put out of the group."""

        def expired() -> int:
            return [why for why, _ in departures(self._servers)].count("session_expired")

        before = expired()
        with one.standing_still():
            until("it is put out", lambda: expired() > before)

    def finish(self) -> None:
        wanted = self.flow.end()
        if not any(one.is_running for one in self.all):
            self.plain.start()
        until("all is read", lambda: self.seen().keys() >= wanted)
        until("all is committed", lambda: sum(committed(self._servers).values()) == len(wanted))
        assert members(self._servers) if self._protocol == "classic" else members_of_848(self._servers)
        self.close()
        seen = self.seen()
        windows = sum((one.windows for one in self.all), Counter[Place]())
        assert seen.keys() == wanted
        windows += sum((one.put_out_with for one in self.applications), Counter[Place]())
        too_often = {one: count for one, count in seen.items() if count > 1 + windows[one]}
        assert not too_often, f"read more often than allowed: {sorted(too_often.items())[:20]}"

    def close(self) -> None:
        if self.flow._thread.is_alive():
            self.flow.end()
        for one in self.all:
            if one.is_running:
                one.stop()


@pytest.fixture
def sharing(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sharing]:
    with EquipoiseBroker({"group.initial.rebalance.delay.ms": 0}) as broker:
        seed, per_second = request.param
        shared = Sharing(broker.bootstrap_servers, tmp_path, seed, per_second=per_second)
        yield shared
        shared.close()


def run_briefly(sharing: Sharing) -> None:
    """All of them, then one is killed, then others leave, which leaves one."""
    for one in sharing.all:
        one.start()
    sharing.until_all_read(*sharing.all)
    victim, *others = sharing.random.sample(sharing.all, len(sharing.all))
    victim.kill()
    sharing.until_all_read(*others)
    for leaver in others[:-1]:
        leaver.stop()
        sharing.until_all_read(others[-1])
    sharing.finish()


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("sharing", [(1, 60)], indirect=True, ids=["1"])
def test_sharing(sharing: Sharing) -> None:
    run_briefly(sharing)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("sharing", [(seed, 300) for seed in (1, 2, 3)], indirect=True)
def test_sharing_for_two_minutes(sharing: Sharing) -> None:
    for one in sharing.all:
        one.start()
    sharing.until_all_read(*sharing.all)
    ends = time.monotonic() + 120
    while time.monotonic() < ends:
        sharing.step()
    sharing.finish()


@pytest.mark.kafka
@pytest.mark.timeout(1_800)
def test_sharing_on_kafka(tmp_path: Path) -> None:
    with needed(lambda: KafkaBroker({"group.initial.rebalance.delay.ms": 0})) as kafka:
        shared = Sharing(kafka.bootstrap_servers, tmp_path, seed=4)
        try:
            run_briefly(shared)
        finally:
            shared.close()


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("applications", [["a"], pytest.param(["a", "b"], marks=pytest.mark.soak)])
def test_sharing_with_the_consumer_protocol(tmp_path: Path, applications: list[str]) -> None:
    with EquipoiseBroker(CONSUMER_GROUPS) as broker:
        share_with_the_consumer_protocol(broker.bootstrap_servers, tmp_path, applications)


@pytest.mark.kafka
@pytest.mark.timeout(1_800)
def test_sharing_with_the_consumer_protocol_on_kafka(tmp_path: Path) -> None:
    with needed(lambda: KafkaBroker(CONSUMER_GROUPS)) as kafka:
        share_with_the_consumer_protocol(kafka.bootstrap_servers, tmp_path, ["a", "b"])


def share_with_the_consumer_protocol(servers: str, home: Path, applications: list[str]) -> None:
    shared = Sharing(servers, home, seed=5, protocol="consumer", applications=applications)
    try:
        run_briefly(shared)
    finally:
        shared.close()
