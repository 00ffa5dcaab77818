"""Regular expressions of `consumer` groups on a broker: resolved between turns, by what the member may describe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.security.session import Session
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatTopicPartitions,
)
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import SOMEBODY, create_topic, delete_topic
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient

QUICK: dict[str, object] = {"group.consumer.assignment.interval.ms": 0, "offsets.topic.num.partitions": 1}


class Member:
    """One member of the group g, which confirms what it is given."""

    def __init__(self, broker: Broker, client: RawClient, name: str = "m1") -> None:
        self.broker = broker
        self.client = client
        self.name = name
        self.epoch = 0
        self.held: dict[bytes, list[int]] = {}

    def send(self, **fields: Any) -> Any:
        rows = [HeartbeatTopicPartitions(topic_id=one, partitions=numbers) for one, numbers in self.held.items()]
        fields = {"subscribed_topic_names": None, "topic_partitions": rows} | fields
        if self.epoch == 0:
            fields = {"rebalance_timeout_ms": 5_000} | fields
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=self.name, member_epoch=self.epoch, **({"rebalance_timeout_ms": -1} | fields)
        )
        answer = self.client.call(request, 1)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.held = {row.topic_id: list(row.partitions) for row in answer.assignment.topic_partitions}
        return answer

    def topics(self) -> set[str]:
        """The names of what it holds, after one more heartbeat."""
        self.send()
        return self.broker.call(lambda server: {str(server.topics.name_of(one)) for one in self.held})

    def waits_for(self, *names: str) -> None:
        eventually(lambda: self.topics() == set(names), f"the topics {names}")


def group_of(broker: Broker) -> ConsumerGroup:
    return broker.call(lambda server: server.group_coordinator.shard_of("g").core.consumer_groups["g"])


@pytest.fixture
def broker(start: Start) -> Broker:
    return start(QUICK)


def test_a_member_gets_what_its_regex_matches(broker: Broker, client: RawClient) -> None:
    """Whole names; internal topics are not left out; new topics come, deleted ones go. Rules A14.4 and A14.13."""
    for name in ("foo", "foobar", "bar"):
        create_topic(client, name)
    member = Member(broker, client)
    answer = member.send(subscribed_topic_regex="foo.*|__consumer_offsets", topic_partitions=[])
    assert (answer.error_code, answer.assignment.topic_partitions) == (ErrorCode.NONE, [])
    member.waits_for("foo", "foobar", "__consumer_offsets")
    create_topic(client, "foo-new")
    member.waits_for("foo", "foobar", "foo-new", "__consumer_offsets")
    assert delete_topic(client, "foobar") == ErrorCode.NONE
    member.waits_for("foo", "foo-new", "__consumer_offsets")
    member.send(subscribed_topic_regex="foo")
    member.waits_for("foo")
    member.send(subscribed_topic_regex="", subscribed_topic_names=["bar"])
    member.waits_for("bar")
    assert group_of(broker).resolved == {}


def test_an_invalid_regex_says_what_and_where(broker: Broker, client: RawClient) -> None:
    answer = Member(broker, client).send(subscribed_topic_regex="a[b", topic_partitions=[])
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message == (
        "SubscribedTopicRegex `a[b` is not a valid regular expression: missing closing ] at 1: `[b`."
    )


def test_topics_that_the_member_may_not_describe_are_left_out(start: Start, connect: Connect) -> None:
    """Rule A14.4: for the whole group, by the rights of the member whose heartbeat asked."""

    def allows(session: Session, operation: AclOperation, resource: Resource) -> bool:
        return (operation, resource) != (AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, "foo-secret"))

    broker = start(QUICK, authorizer=allows)
    client = connect(broker)
    for name in ("foo-open", "foo-secret"):
        create_topic(client, name)
    member = Member(broker, client)
    member.send(subscribed_topic_regex="foo.*", topic_partitions=[])
    member.waits_for("foo-open")
    assert group_of(broker).resolved["foo.*"].topics == {"foo-open"}


@pytest.fixture
def _fair_threads() -> Iterator[None]:
    """The broker's thread lets go of the interpreter between its slices, and on a quiet machine has it back before this
    one wakes up. It is made to wait only if it was asked to, which a slice is too short for."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.001)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_fair_threads")
def test_a_costly_regex_does_not_keep_others_waiting(broker: Broker, client: RawClient, connect: Connect) -> None:
    """Rule A14.13: others are served while it is resolved."""
    for number in range(4):
        create_topic(client, f"{number}" + "abcd"[number] * 200)
    member, other = Member(broker, client), connect(broker)
    member.send(subscribed_topic_regex=r"\d(?:a?b?c?d?){1000}", topic_partitions=[])
    served = 0
    while group_of(broker).resolution.is_under_way:
        assert other.call(SOMEBODY).error_code == ErrorCode.NONE
        served += 1
    assert served > 10
    eventually(lambda: len(member.topics()) == 4, "all four topics")


def test_a_regex_outlives_the_broker(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(QUICK, data=tmp_path)
    client = connect(broker)
    create_topic(client, "foo")
    member = Member(broker, client)
    member.send(subscribed_topic_regex="foo.*", topic_partitions=[])
    member.waits_for("foo")
    broker.stop()
    again = start(QUICK, data=tmp_path)
    back = Member(again, connect(again))
    back.epoch, back.held = member.epoch, member.held
    eventually(lambda: back.send().error_code == ErrorCode.NONE, "the shard is loaded")
    assert group_of(again).resolved["foo.*"].topics == {"foo"}
    create_topic(back.client, "foo-2")
    back.waits_for("foo", "foo-2")


def test_a_stored_regex_that_cannot_be_read_is_passed_over(
    broker: Broker, client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Another version may have taken it."""
    create_topic(client, "foo")
    member = Member(broker, client)
    member.send(subscribed_topic_regex="foo", topic_partitions=[])
    member.waits_for("foo")

    def ask(server: Any) -> None:
        shard = server.group_coordinator.shard_of("g")
        core = shard.core
        group = core.consumer_groups["g"]
        from equipoise.coordinator.step import Caller, Resolve

        asked = Resolve("g", ("[", "foo"), core.image.version, group.resolution.begun_at, Caller(None, 1))
        server.group_coordinator.regexes.resolve(shard, asked)

    broker.call(ask)
    assert "a stored regular expression is passed over: missing closing ] at 0: `[`" in caplog.text
    assert group_of(broker).resolved.keys() == {"foo"}
