"""No request of under a hundred kilobytes to a `consumer` group holds the loop for more than 100 ms of CPU time, or
takes more than 50 MB, whatever state the group is in (`consumer_requests.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from equipoise.wire.apis.k44_incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.apis.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from equipoise.wire.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from equipoise.wire.errors import ErrorCode
from tests.attack.consumer_requests import ConsumerDrawing, Furnished, Known
from tests.attack.requests import Attack, World
from tests.attack.test_work_per_request import LONGEST_S, PARTITIONS, Target
from tests.broker.calls import create_topic
from tests.broker.rawclient import RawClient, request_frame
from tests.crash.served import ServedBroker

HOUR_MS = 3_600_000
SETTINGS = {
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.max.assignment.interval.ms": HOUR_MS,
    "group.consumer.max.session.timeout.ms": HOUR_MS,
    "group.consumer.session.timeout.ms": HOUR_MS,
    "group.initial.rebalance.delay.quiet.ms": 0,  # a group stays in Assigning
    "group.max.session.timeout.ms": HOUR_MS,
}
STATES = {
    "empty": "Empty",
    "stable": "Stable",
    "reconciling": "Reconciling",
    "assigning": "Assigning",
    "guests": "Reconciling",
    "large": "Reconciling",
    "diverse": "Reconciling",
}
_OF_GROUPS = 32


class ConsumerTarget(Target):
    """A broker with `consumer` groups in every state."""

    def _furnish(self) -> World:
        topics = ["many", *(f"t{number}" for number in range(200))]
        self.client = client = RawClient(self.served.address)  # a member whose connection ends is soon gone
        ids = [create_topic(client, "many", PARTITIONS)]
        rows = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in topics[1:]]
        ids += [topic.topic_id for topic in client.call(CreateTopicsRequest(topics=rows)).topics]
        members = [*self._join_all(topics)]
        crowd = [f"g{number}" for number in range(200)]
        for group in crowd:
            self._join(group, "one", ["many"])
        groups = [*STATES, "regexes", "classic"]
        self.furnished = Furnished(topics, ids, PARTITIONS, groups, [*groups, *crowd], members)
        answer = client.call(ConsumerGroupDescribeRequest(group_ids=list(STATES)), 1)
        assert {one.group_id: one.group_state for one in answer.groups} == STATES
        return World(topics, ids, PARTITIONS, groups)

    def _join_all(self, topics: Sequence[str]) -> Iterator[Known]:
        self._leave(self._join("empty", "one", ["many"]))
        yield self._join("stable", "one", ["many"])
        yield self._join("reconciling", "one", ["many"])
        yield self._join("reconciling", "two", ["many"])
        self._slow_down("assigning")
        yield self._join("assigning", "one", ["many"])
        yield self._join("assigning", "two", ["many"])
        yield self._join("guests", "one", ["many"])
        self._join_classic("guests")
        self._join_classic("classic")
        for number in range(300):
            member = self._join("large", f"m{number}", [f"t{number % 3}"])
        yield member
        for number in range(100):
            member = self._join("diverse", f"m{number}", ["many", *topics[number : number + 50]])
        yield member
        yield self._join("regexes", "one", [], "t1.*")

    def _join(self, group: str, member: str, names: Sequence[str], regex: str | None = None) -> Known:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=HOUR_MS,
            subscribed_topic_names=list(names),
            subscribed_topic_regex=regex,
            topic_partitions=[],
        )
        answer = self.client.call(request, 1)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        return Known(group, member, answer.member_epoch)

    def _leave(self, member: Known) -> None:
        leaving = ConsumerGroupHeartbeatRequest(group_id=member.group_id, member_id=member.member_id, member_epoch=-1)
        assert self.client.call(leaving, 1).error_code == ErrorCode.NONE

    def _join_classic(self, group: str) -> None:
        metadata = encode_subscription(Subscription(topics=["many"]))
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=HOUR_MS,
            rebalance_timeout_ms=HOUR_MS,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        assert self.client.call(request, 3).error_code == ErrorCode.NONE

    def _slow_down(self, group: str) -> None:
        """Its next target comes in an hour."""
        config = IncrementalAlterableConfig(
            name="consumer.assignment.interval.ms", config_operation=0, value=str(HOUR_MS)
        )
        resource = IncrementalAlterConfigsResource(resource_type=_OF_GROUPS, resource_name=group, configs=[config])
        (row,) = self.client.call(IncrementalAlterConfigsRequest(resources=[resource])).responses
        assert row.error_code == ErrorCode.NONE, row.error_message


@pytest.fixture
def target(tmp_path: Path) -> Iterator[ConsumerTarget]:
    with ServedBroker(tmp_path / "data", tmp_path / "log", SETTINGS) as served:
        target = ConsumerTarget(served)
        yield target
        target.client.close()
        target.probe.close()


def test_groups_in_every_state_are_asked_for_much(target: ConsumerTarget) -> None:
    assert target.check(ConsumerDrawing(target.furnished, 1).some_of(1)) == []


@pytest.mark.soak
@pytest.mark.parametrize("version", [0, 1])
def test_every_group_is_asked_for_everything(target: ConsumerTarget, version: int) -> None:
    assert target.check(ConsumerDrawing(target.furnished, 2).all_of(version)) == []


def test_a_join_that_owns_two_million_partitions_is_not_read(tmp_path: Path) -> None:
    """8 MB in an incremental group: the limit of 100 KB does not bound what a JoinGroup carries."""
    with ServedBroker(tmp_path / "data", tmp_path / "log", {"group.initial.rebalance.delay.ms": 0}) as served:
        target = Target(served)
        with RawClient(served.address) as client:
            member_id = _keep(client, "kept")
            owning = _joining("kept", member_id, range(2_000_000))
            held, _ = target.measure(Attack(11, 9, "two million partitions", request_frame(owning, 9)))
        target.probe.close()
    assert held < LONGEST_S


def _keep(client: RawClient, group: str) -> str:
    """A group of one member, which is incremental."""
    first = client.call(_joining(group, ""), 9)
    answer = client.call(_joining(group, first.member_id), 9)
    given = encode_assignment(Assignment(assigned_partitions={"many": list(range(PARTITIONS))}))
    request = SyncGroupRequest(
        group_id=group,
        generation_id=answer.generation_id,
        member_id=first.member_id,
        protocol_type="consumer",
        protocol_name="cooperative-sticky",
        assignments=[SyncGroupRequestAssignment(member_id=first.member_id, assignment=given)],
    )
    assert client.call(request, 5).error_code == ErrorCode.NONE
    rows = client.call(ListGroupsRequest(states_filter=["Stable"], types_filter=[]), 5).groups
    assert [row.group_id for row in rows] == [group]
    member_id: str = first.member_id
    return member_id


def _joining(group: str, member_id: str, owned: Sequence[int] = ()) -> JoinGroupRequest:
    metadata = encode_subscription(Subscription(topics=["many"], owned_partitions={"many": list(owned)}))
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="cooperative-sticky", metadata=metadata)],
    )
