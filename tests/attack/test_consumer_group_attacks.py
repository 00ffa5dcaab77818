"""Attacks on access rules by the consumer protocol (KIP-848): which topics and groups are there, by name and regex."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.apis.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import create_topic
from tests.broker.conftest import Start, connect, start
from tests.broker.principals import ADMIN, GUARDED, As, add_acls, as_principal
from tests.broker.rawclient import RawClient
from tests.broker.test_regex_subscriptions import Member
from tests.security.acl_sets import GROUP, acl

__all__ = ["as_principal", "connect", "start"]
Op = AclOperation
MALLORY = "User:mallory"


@pytest.fixture
def broker(start: Start) -> Broker:
    return start(GUARDED)


@pytest.fixture
def admin(broker: Broker, as_principal: As) -> RawClient:
    client = as_principal(broker, ADMIN)
    create_topic(client, "there")
    add_acls(client, acl("g", Op.READ, kind=GROUP, principal=MALLORY))  # which makes __security, too
    return client


@pytest.fixture
def mallory(broker: Broker, admin: RawClient, as_principal: As) -> RawClient:
    """May join the group g, and knows of no topic."""
    return as_principal(broker, MALLORY)


def joining(group: str, *topics: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m1",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
    )


def test_a_subscription_tells_nothing_of_topics_that_may_not_be_described(mallory: RawClient) -> None:
    frames = []
    for names in (["there"], ["absnt"], ["there", "absnt"]):
        mallory.send(joining("g", *names), 1)
        frames.append(mallory.receive_frame()[4:])
        mallory._unanswered.clear()
    assert frames[0] == frames[1] == frames[2]
    assert mallory.call(joining("g", "there"), 1).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert mallory.call(ConsumerGroupDescribeRequest(group_ids=["g"])).groups[0].members == []


def test_groups_of_others_are_hidden(broker: Broker, admin: RawClient, mallory: RawClient) -> None:
    assert admin.call(joining("theirs", "there"), 1).error_code == ErrorCode.NONE
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    for group in ("theirs", "no"):
        assert mallory.call(joining(group), 1).error_code == denied
        (found,) = mallory.call(ConsumerGroupDescribeRequest(group_ids=[group])).groups
        assert (found.error_code, found.group_state, found.members) == (denied, "", [])


def test_a_described_group_does_not_name_hidden_topics(admin: RawClient, mallory: RawClient) -> None:
    assert admin.call(joining("g", "there"), 1).assignment is not None
    (found,) = mallory.call(ConsumerGroupDescribeRequest(group_ids=["g"])).groups
    assert (found.error_code, found.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])


def test_a_regex_finds_the_security_topic_for_nobody(broker: Broker, admin: RawClient) -> None:
    """Not for a super user either."""
    assert broker.call(lambda server: server.topics.get_hidden("__security")) is not None
    member = Member(broker, admin)
    member.send(subscribed_topic_regex=".*", subscribed_topic_names=[])
    member.waits_for("there")
    named = joining("h", "__security")
    assert not (admin.call(named, 1).assignment or named).topic_partitions
