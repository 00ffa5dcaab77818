"""Pairs of brokers, Apache Kafka and ours, with the same settings: one pair for each kind of script."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from equipoise.client import Admin
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from proving.brokers import BrokerProcess, EquipoiseBroker, KafkaBroker
from proving.conformance.line import Line

_POLL_S = 0.05
TOPICS = {"t": 4, "u": 2}
_BOTH = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": 3,
    "group.max.session.timeout.ms": 1_800_000,
}
# The order of requests is the order of their effects, on Kafka too.
_KAFKA = {
    "num.network.threads": 1,
    "num.io.threads": 1,
    "group.coordinator.threads": 1,
    "group.coordinator.append.linger.ms": 0,
    "log.cleaner.enable": "false",
    # It believes sooner that it is itself that comes back.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 300,
}
# Our additions change the timing, which is compared.
_OURS = {"group.initial.rebalance.delay.early": "false", "group.heartbeat.hold.max.ms": 0, "flush": "never"}

SETTINGS: dict[str, Mapping[str, object]] = {
    # The sweep that forgets offsets and empty groups; it would disturb all others. First, beside those that are busy,
    # for it waits a minute.
    "expiry": {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.retention.check.interval.ms": 300,
        "offsets.retention.minutes": 1,
    },
    # Everything in which time plays no part. The limit of members is for random scripts to run into.
    "main": {"group.initial.rebalance.delay.ms": 0, "group.max.size": 4},
    # Timers and limits.
    "timed": {
        "group.initial.rebalance.delay.ms": 2000,
        "group.min.session.timeout.ms": 100,
        "group.max.session.timeout.ms": 1_000_000,
        "group.max.size": 2,
        "offset.metadata.max.bytes": 10,
    },
    # Killed once, in the middle of every script.
    "restart": {"group.initial.rebalance.delay.ms": 0},
}


@dataclass(frozen=True)
class Place:
    """A broker as scripts see it."""

    name: str
    port: int
    topic_ids: Mapping[str, bytes]


@dataclass(frozen=True)
class World:
    name: str
    kafka: Place
    ours: Place
    brokers: Sequence[BrokerProcess] = ()

    def restart(self) -> None:
        """Both are killed; it returns when their groups are loaded again."""
        for broker in self.brokers:
            broker.kill()
            broker.start()
            _await_groups(broker.port)

    @property
    def wait_s(self) -> float:
        """How long a script waits for something that has to come: longer than the longest timer."""
        return 100.0 if self.name == "expiry" else 30.0

    @property
    def is_busy(self) -> bool:
        """Whether its scripts compute rather than wait."""
        return self.name == "main"

    @property
    def is_quick(self) -> bool:
        """Whether the initial delay is so short that it is always waited for."""
        return SETTINGS[self.name]["group.initial.rebalance.delay.ms"] == 0


@contextlib.contextmanager
def open_world(name: str) -> Iterator[World]:
    settings = {**_BOTH, **SETTINGS[name]}
    with KafkaBroker({**settings, **_KAFKA}) as kafka, EquipoiseBroker({**settings, **_OURS}) as ours:
        yield World(name, prepare(kafka.name, kafka.port), prepare(ours.name, ours.port), (kafka, ours))


def prepare(name: str, port: int) -> Place:
    """With the topics of the scripts, and `__consumer_offsets` made and loaded."""
    with Admin(f"127.0.0.1:{port}") as admin:
        for topic, partitions in TOPICS.items():
            admin.create_topic(topic, partitions)
        while not (topic_ids := {topic.name: topic.topic_id for topic in admin.topics()}).keys() >= TOPICS.keys():
            time.sleep(_POLL_S)
    _await_groups(port)
    return Place(name, port, topic_ids)


def _await_groups(port: int) -> None:
    with Line(port, "preparing") as line:
        while _is_starting(line):
            time.sleep(_POLL_S)


def _is_starting(line: Line) -> bool:
    """Asks for groups on every partition of `__consumer_offsets`."""
    found = line.call(FindCoordinatorRequest(key="any"), 1)
    described = line.call(DescribeGroupsRequest(groups=[chr(ord("a") + n) for n in range(10)]), 5)
    assert isinstance(found, FindCoordinatorResponse)
    assert isinstance(described, DescribeGroupsResponse)
    return found.error_code != 0 or any(group.error_code for group in described.groups)
