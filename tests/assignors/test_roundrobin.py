"""`roundrobin`, as Kafka's RoundRobinAssignor.assign."""

from __future__ import annotations

from equipoise.assignors import Cluster, Members, RoundRobinAssignor
from equipoise.wire.consumer_protocol import Partitions
from tests.assignors.cases import cluster, member, partitions_of


def assign(topics: Cluster, members: Members) -> dict[str, Partitions]:
    return partitions_of(RoundRobinAssignor().assign(topics, members))


def test_the_ring_goes_on_from_topic_to_topic() -> None:
    given = assign(cluster(t=3, u=3), {name: member("t", "u") for name in "ab"})
    assert given == {"a": {"t": [0, 2], "u": [1]}, "b": {"t": [1], "u": [0, 2]}}


def test_members_pass_what_they_do_not_subscribe_to() -> None:
    members = {"a": member("t"), "b": member("t", "u"), "c": member("t", "u", "v")}
    given = assign(cluster(t=1, u=2, v=3), members)
    assert given == {"a": {"t": [0]}, "b": {"u": [0]}, "c": {"u": [1], "v": [0, 1, 2]}}


def test_topics_go_by_name_and_static_members_first() -> None:
    given = assign(cluster(b=1, a=1), {"m": member("a", "b"), "z": member("a", "b", instance="i")})
    assert given == {"z": {"a": [0]}, "m": {"b": [0]}}


def test_no_members_and_unknown_topics() -> None:
    assert assign(cluster(t=1), {}) == {}
    assert assign(cluster(t=0), {"a": member("t", "unknown")}) == {"a": {}}
