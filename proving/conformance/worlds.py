"""Pairs of brokers, Apache Kafka and ours, with the same settings: one pair for each kind of script."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from equipoise.client import Admin
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from proving.brokers import SOON_BACK, BrokerProcess, EquipoiseBroker, KafkaBroker
from proving.conformance.line import Line

_POLL_S = 0.05
TOPICS = {"t": 4, "u": 2}
OFFSETS_PARTITIONS = 3
_BOTH = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
    "group.max.session.timeout.ms": 1_800_000,
}
# The order of requests is the order of their effects, on Kafka too.
_KAFKA = {
    "num.network.threads": 1,
    "num.io.threads": 1,
    "group.coordinator.threads": 1,
    "group.coordinator.append.linger.ms": 0,
    "log.cleaner.enable": "false",
    **SOON_BACK,
}
# Our additions change the timing, which is compared.
_OURS = {"strict": "true", "flush": "never"}

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

_LONG = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.max.session.timeout.ms": 1_800_000,
    "group.consumer.session.timeout.ms": 600_000,
    "group.consumer.assignors": "range,uniform",
    "group.consumer.assignment.interval.ms": 0,
}
# The same for `consumer` groups. `range` is the first assignor: it leaves nothing to the order of a hash map.
CONSUMER_SETTINGS: dict[str, Mapping[str, object]] = {
    "consumer": {**_LONG, "group.consumer.max.size": 6},
    # Timers, as short as they may be; classic members come in, but no group goes back.
    "consumer timers": {
        **_LONG,
        "group.consumer.min.session.timeout.ms": 100,
        "group.consumer.session.timeout.ms": 2500,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 500,
        "group.min.session.timeout.ms": 100,
        "group.consumer.migration.policy": "upgrade",
    },
    # Kafka's own default assignor and interval, a small limit, and groups that only go back.
    "consumer limits": {
        **_LONG,
        "group.consumer.assignors": "uniform,range",
        "group.consumer.assignment.interval.ms": 1500,
        "group.consumer.max.size": 2,
        "group.consumer.migration.policy": "downgrade",
    },
    "consumer apart": {**_LONG, "group.consumer.migration.policy": "disabled"},
    "consumer delay": {**_LONG, "group.initial.rebalance.delay.ms": 3000},
    "consumer restart": {**_LONG},
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
            await_groups(broker.port)

    @property
    def wait_s(self) -> float:
        """How long a script waits for something that has to come: longer than the longest timer."""
        return 100.0 if self.name == "expiry" else 30.0

    @property
    def is_busy(self) -> bool:
        """Whether its scripts compute rather than wait."""
        return self.name in ("main", "consumer")

    @property
    def is_restarted(self) -> bool:
        """Whether it is killed in the middle of its scripts."""
        return self.name.endswith("restart")

    @property
    def has_consumer_groups(self) -> bool:
        return self.name in CONSUMER_SETTINGS

    @property
    def is_quick(self) -> bool:
        """Whether the initial delay is so short that it is always waited for."""
        return settings_of(self.name)["group.initial.rebalance.delay.ms"] == 0


def settings_of(world: str) -> Mapping[str, object]:
    return {**SETTINGS, **CONSUMER_SETTINGS}[world]


def kafka_settings(world: str) -> Mapping[str, object]:
    return {**_BOTH, **settings_of(world), **_KAFKA}


def our_settings(world: str) -> Mapping[str, object]:
    return {**_BOTH, **settings_of(world), **_OURS}


@contextlib.contextmanager
def open_world(name: str) -> Iterator[World]:
    with KafkaBroker(kafka_settings(name)) as kafka, EquipoiseBroker(our_settings(name)) as ours:
        yield World(name, prepare(kafka.name, kafka.port), prepare(ours.name, ours.port), (kafka, ours))


@contextlib.contextmanager
def open_alone(name: str) -> Iterator[World]:
    """Apache Kafka beside itself: what differs then is chance."""
    with KafkaBroker(kafka_settings(name)) as kafka:
        place = prepare(kafka.name, kafka.port)
        yield World(name, place, place, (kafka,))


def prepare(name: str, port: int) -> Place:
    """With the topics of the scripts, and `__consumer_offsets` made and loaded."""
    with Admin(f"127.0.0.1:{port}") as admin:
        for topic, partitions in TOPICS.items():
            admin.create_topic(topic, partitions)
    place = find_place(name, port)
    await_groups(port)
    return place


def find_place(name: str, port: int) -> Place:
    """A broker that has the topics of the scripts, or will have them soon."""
    with Admin(f"127.0.0.1:{port}") as admin:
        while not (topic_ids := {topic.name: topic.topic_id for topic in admin.topics()}).keys() >= TOPICS.keys():
            time.sleep(_POLL_S)
    return Place(name, port, topic_ids)


def await_groups(port: int) -> None:
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
