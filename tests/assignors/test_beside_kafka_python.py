"""The same groups given to kafka-python's assignors and to ours; and its members in a group that we lead."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as TheirCooperativeSticky
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
from kafka.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import TopicPartition

from equipoise.assignors import Cluster, GroupMember, Members, assignor_named
from equipoise.wire.consumer_protocol import Partitions, decode_subscription, encode_assignment
from tests.assignors.cases import cluster, owning, partitions_of, random_cases, random_groups


class TheirCluster(NamedTuple):
    known: Cluster

    def topics(self) -> set[str]:
        return set(self.known)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self.known[topic].partitions)) if topic in self.known else None


class TheirMember(NamedTuple):
    member_id: str
    metadata: Any
    group_instance_id: str | None = None


def their_assign(assignor: Any, known: Cluster, metadata: dict[str, Any]) -> dict[str, Partitions]:
    members = [TheirMember(name, one) for name, one in metadata.items()]
    assigned = assignor.assign(TheirCluster(known), members)
    return {
        name: {topic: sorted(numbers) for topic, numbers in assignment.assigned_partitions if numbers}
        for name, assignment in assigned.items()
    }


def dynamic(members: Members) -> Members:
    """Without instance ids: kafka-python 3.0 loses members where static and dynamic ones alternate."""
    return {name: GroupMember(member.subscription) for name, member in members.items()}


@pytest.mark.parametrize(
    ("name", "theirs"), [("range", RangePartitionAssignor), ("roundrobin", RoundRobinPartitionAssignor)]
)
def test_identical(name: str, theirs: Any) -> None:
    """Its roundrobin (3.0) fails where subscriptions differ."""
    for known, given in random_cases(300, seed=5)[::2]:
        members = dynamic(given)
        if name == "roundrobin" and len({frozenset(one.subscription.topics) for one in members.values()}) > 1:
            continue
        metadata = {
            member_id: ConsumerProtocolSubscription(0, member.subscription.topics, b"")
            for member_id, member in members.items()
        }
        ours = partitions_of(assignor_named(name).assign(known, members))
        assert ours == their_assign(theirs(), known, metadata), (known, members)


def test_sticky_is_as_balanced_with_no_more_moves() -> None:
    for group in random_groups(100, seed=6):
        ours = partitions_of(assignor_named("sticky").assign(group.cluster, group.sticky()))
        metadata = {
            name: ConsumerProtocolSubscription(
                0, topics, StickyAssignorUserData(list(group.owned_by(name).items()), generation=1)
            )
            for name, topics in group.topics.items()
        }
        theirs = their_assign(StickyPartitionAssignor(), group.cluster, metadata)
        assert group.score(ours) <= group.score(theirs), group


class TestPayloads:
    def test_what_its_sticky_members_remember_is_kept(self) -> None:
        theirs = StickyPartitionAssignor()
        theirs.on_assignment(ConsumerProtocolAssignment(0, [("t", [1])], b""), 7)
        payload = theirs.metadata(["t"]).encode()
        members = {"a": owning(["t"], {}), "b": GroupMember(decode_subscription(payload))}
        ours = partitions_of(assignor_named("sticky").assign(cluster(t=2), members))
        assert ours == {"a": {"t": [0]}, "b": {"t": [1]}}

    def test_what_its_cooperative_members_own_is_kept(self) -> None:
        theirs = TheirCooperativeSticky()
        theirs.on_assignment(ConsumerProtocolAssignment(0, [("t", [1])], b""), 7)
        members = {"a": owning(["t"], {}), "b": GroupMember(decode_subscription(theirs.metadata(["t"]).encode()))}
        ours = assignor_named("cooperative-sticky").assign(cluster(t=2), members)
        assert partitions_of(ours) == {"a": {"t": [0]}, "b": {"t": [1]}}
        told = ConsumerProtocolAssignment.decode(encode_assignment(ours["b"]))
        assert told.partitions() == [TopicPartition("t", 1)]
