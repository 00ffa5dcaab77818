"""A regular expression that the broker evaluates: confluent-kafka with group.protocol=consumer. Also the configs of its
group, by its AdminClient."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from equipoise.broker import Broker
from tests.interop.drivers.base import PATIENCE_S

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.assignment.interval.ms": 0,
}
INTERVAL = "consumer.heartbeat.interval.ms"
Join = Callable[..., Consumer]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


@pytest.fixture
def join(broker: Broker) -> Iterator[Join]:
    """`join("^pattern", group="g")` gives a member."""
    members: list[Consumer] = []

    def join_one(pattern: str, *, group: str) -> Consumer:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "group.protocol": "consumer"}
        member = Consumer(settings | {"auto.offset.reset": "earliest"})
        members.append(member)
        member.subscribe([pattern])
        return member

    yield join_one
    for member in members:
        member.close()


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def create(admin: AdminClient, *names: str) -> None:
    for future in admin.create_topics([NewTopic(name, 2) for name in names]).values():
        future.result(PATIENCE_S)


def wait(members: list[Consumer], is_done: Callable[[list[set[str]]], bool]) -> None:
    """Polls all until the topics of their assignments are as they should be."""
    deadline = time.monotonic() + PATIENCE_S
    topics: list[set[str]] = []
    while not is_done(topics := [{one.topic for one in member.assignment()} for member in members]):
        assert time.monotonic() < deadline, topics
        for member in members:
            member.poll(0.02)


def test_the_broker_finds_the_topics_of_a_pattern(broker: Broker, admin: AdminClient, join: Join) -> None:
    create(admin, "foo-1", "foo-2", "bar", "xfoo-1")
    one = join("^foo-.*", group="found")
    wait([one], lambda topics: topics == [{"foo-1", "foo-2"}])
    two = join("^foo-.*", group="found")
    wait([one, two], lambda topics: all(topics) and set.union(*topics) == {"foo-1", "foo-2"})
    create(admin, "foo-3")
    wait([one, two], lambda topics: set.union(*topics) == {"foo-1", "foo-2", "foo-3"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("foo-3", b"value")
    assert producer.flush(PATIENCE_S) == 0
    deadline = time.monotonic() + PATIENCE_S
    records: list[Message] = []
    while not records:
        assert time.monotonic() < deadline, "nothing was read"
        records = [found for member in (one, two) if (found := member.poll(0.02)) is not None]
    assert [(found.topic(), found.value()) for found in records] == [("foo-3", b"value")]


def test_the_whole_name_must_match(admin: AdminClient, join: Join) -> None:
    """Unlike in librdkafka's own matching, for which `^whole` would be enough."""
    create(admin, "whole", "whole-not")
    wait([join("^whole", group="whole")], lambda topics: topics == [{"whole"}])


def test_an_invalid_pattern_is_told_to_the_application(join: Join) -> None:
    member = join(r"^(a)\1", group="invalid")  # librdkafka's own matching knows back-references
    deadline = time.monotonic() + PATIENCE_S
    while (found := member.poll(0.1)) is None:
        assert time.monotonic() < deadline, "no error came"
    error = found.error()
    assert error is not None
    assert error.code() == KafkaError._FATAL  # librdkafka logs the broker's words, and tells its own
    assert "The regular expression is not valid" in error.str()


def test_configs_of_a_group(admin: AdminClient) -> None:
    def alter(value: str) -> None:
        entry = ConfigEntry(INTERVAL, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, "configured", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    alter("300")
    resource = ConfigResource(ResourceType.GROUP, "configured")
    found = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert found[INTERVAL].value == "300"
    assert found["consumer.session.timeout.ms"].source == ConfigSource.DEFAULT_CONFIG.value
    with pytest.raises(KafkaException) as refused:
        alter("50")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
