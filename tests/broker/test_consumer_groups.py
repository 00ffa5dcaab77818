"""`consumer` groups (KIP-848) by raw requests over sockets."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.coordinator.shard_state import Status
from equipoise.security.acls import Acl
from equipoise.security.acls import AclOperation as Op
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from equipoise.wire.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import create_topic
from tests.broker.conftest import Connect, Start
from tests.broker.principals import ADMIN, GUARDED, As, add_acls, as_principal
from tests.broker.rawclient import RawClient
from tests.security.acl_sets import GROUP, acl

__all__ = ["as_principal"]

INTERVAL_0 = {"group.consumer.assignment.interval.ms": 0}


def beat(client: RawClient, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
    answer = client.call(request, 1)
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    return answer


def join(client: RawClient, member_id: str, *names: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    known: dict[str, Any] = {"rebalance_timeout_ms": 5_000, "topic_partitions": []}
    return beat(client, member_id, 0, subscribed_topic_names=list(names), **known, **fields)


def partitions(answer: ConsumerGroupHeartbeatResponse) -> list[int] | None:
    if answer.assignment is None:
        return None
    return sorted(number for row in answer.assignment.topic_partitions for number in row.partitions)


def describe(client: RawClient) -> DescribedConsumerGroup:
    answer = client.call(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
    assert isinstance(answer, ConsumerGroupDescribeResponse)
    return answer.groups[0]


def test_two_members_share_a_topic_without_a_stop() -> None:
    """The trace of rule A8: states are read between the steps."""
    with Broker(INTERVAL_0, topics={"t": 6}, strict=True) as broker, RawClient(broker.bootstrap_servers) as client:
        first = join(client, "m1", "t")
        assert (first.error_code, first.member_id, first.member_epoch) == (ErrorCode.NONE, "m1", 2)
        assert (partitions(first), first.heartbeat_interval_ms) == ([0, 1, 2, 3, 4, 5], 5_000)
        assert describe(client).group_state == "Stable"
        second = join(client, "m2", "t")
        assert (second.member_epoch, partitions(second), describe(client).group_state) == (3, [], "Reconciling")
        asked = beat(client, "m1", 2)
        kept = partitions(asked)
        assert (asked.member_epoch, len(kept or [])) == (2, 3)
        assert partitions(beat(client, "m1", 2)) is None
        assert partitions(beat(client, "m2", 3)) is None
        topic_id = broker.call(lambda server: server.topics.require("t").topic_id)
        rows = [HeartbeatTopicPartitions(topic_id=topic_id, partitions=kept or [])]
        done = beat(client, "m1", 2, topic_partitions=rows)
        assert (done.member_epoch, partitions(done)) == (3, None)
        got = beat(client, "m2", 3)
        assert (got.member_epoch, sorted((partitions(got) or []) + (kept or []))) == (3, [0, 1, 2, 3, 4, 5])
        found = describe(client)
        assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
            *("Stable", 3, 3),
            "uniform",
        )
        assert [(one.member_id, one.member_epoch, one.member_type) for one in found.members] == [
            ("m1", 3, 1),
            ("m2", 3, 1),
        ]
        listed = client.call(ListGroupsRequest(types_filter=["Consumer"]), 5)
        assert isinstance(listed, ListGroupsResponse)
        assert [(one.group_id, one.group_type, one.group_state) for one in listed.groups] == [
            ("g", "consumer", "Stable")
        ]
        assert beat(client, "m2", -1).member_epoch == -1
        assert describe(client).group_state == "Assigning"
        assert partitions(beat(client, "m1", 3)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("protocols", ["classic", "classic,consumer"])
def test_the_apis_are_named_where_they_are_served(protocols: str) -> None:
    """Rules A1.1 and A1.2."""
    is_served = "consumer" in protocols.split(",")
    with (
        Broker({"group.coordinator.rebalance.protocols": protocols}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        for version in (3, 4):
            request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
            answer = client.call(request, version)
            assert isinstance(answer, ApiVersionsResponse)
            assert ({68, 69} <= {row.api_key for row in answer.api_keys}) is is_served
            features = [(one.name, one.min_version, one.max_version) for one in answer.supported_features]
            assert (("group.version", 0, 1) in features) is (is_served and version == 4)
            assert ("group.version" in [one.name for one in answer.finalized_features]) is is_served
        if not is_served:
            assert join(client, "m", "t").error_code == ErrorCode.UNSUPPORTED_VERSION
            assert describe(client).error_code == ErrorCode.UNSUPPORTED_VERSION


# -- row 15 of the plan of tests: access control


def test_access_to_a_consumer_group_over_sockets(start: Start, as_principal: As) -> None:
    """READ on the group (30), DESCRIBE on every topic (29 for the whole request); describe needs both for all that it
    would show. Rules A1.5, A3.2 and A3.3."""
    broker = start(GUARDED)
    admin, bob = as_principal(broker, ADMIN), as_principal(broker, "User:bob")
    create_topic(admin, "t", 2)
    create_topic(admin, "u", 2)

    def allow(*acls: Acl) -> None:
        assert add_acls(admin, *acls) == [ErrorCode.NONE] * len(acls)

    refused = join(bob, "m", "t")
    assert (refused.error_code, refused.error_message) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
    allow(acl("g", Op.READ, kind=GROUP, principal="User:bob"))
    assert join(bob, "m", "t").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allow(acl("t", Op.DESCRIBE, principal="User:bob"))
    for names in (("t", "u"), ("u", "t"), ("t", "nowhere")):
        refused = join(bob, "m", *names)
        assert (refused.error_code, refused.error_message) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    assert describe(admin).error_code == ErrorCode.GROUP_ID_NOT_FOUND, "nobody has become a member"
    joined = join(bob, "m", "t")
    assert (joined.error_code, partitions(joined)) == (ErrorCode.NONE, [0, 1])
    assert beat(bob, "m", joined.member_epoch, subscribed_topic_names=["t", "u"]).error_code == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    assert beat(bob, "m", joined.member_epoch).error_code == ErrorCode.NONE


def test_a_described_group_hides_what_its_topics_hide(start: Start, as_principal: As) -> None:
    """Rule A1.5: 30 without DESCRIBE on the group, 29 and no members if one topic of an assignment is hidden."""
    broker = start(GUARDED)
    admin, bob = as_principal(broker, ADMIN), as_principal(broker, "User:bob")
    create_topic(admin, "t", 1)
    create_topic(admin, "u", 1)
    assert join(admin, "m", "t", "u").error_code == ErrorCode.NONE
    assert describe(bob).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    add_acls(admin, acl("g", Op.DESCRIBE, kind=GROUP, principal="User:bob"))
    add_acls(admin, acl("t", Op.DESCRIBE, principal="User:bob"))
    found = describe(bob)
    assert (found.error_code, found.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    assert "not authorized to describe" in (found.error_message or "")
    add_acls(admin, acl("u", Op.DESCRIBE, principal="User:bob"))
    assert [one.member_id for one in describe(bob).members] == ["m"]


# -- row 16 of the plan of tests: a coordinator that cannot answer


def test_a_shard_that_is_loading_or_elsewhere_says_so(start: Start, connect: Connect) -> None:
    broker = start({"group.consumer.assignment.interval.ms": 0})
    client = connect(broker)
    create_topic(client, "t", 1)
    assert join(client, "m", "t").error_code == ErrorCode.NONE

    def become(status: Status) -> None:
        broker.call(lambda server: setattr(server.group_coordinator.shard_of("g").core, "status", status))

    for status, error in (
        (Status.LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (Status.CLOSED, ErrorCode.NOT_COORDINATOR),
    ):
        become(status)
        assert beat(client, "m", 2).error_code == error
        assert describe(client).error_code == error
    become(Status.ACTIVE)
    assert beat(client, "m", 2).error_code == ErrorCode.NONE
