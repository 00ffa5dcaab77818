"""`range`, as Kafka's RangeAssignor.assign, racks included (KIP-881)."""

from __future__ import annotations

from equipoise.assignors import Cluster, GroupMember, Members, RangeAssignor, Topic
from equipoise.wire.consumer_protocol import Partitions, Subscription
from tests.assignors.cases import cluster, member, partitions_of


def assign(topics: Cluster, members: Members) -> dict[str, Partitions]:
    return partitions_of(RangeAssignor().assign(topics, members))


def racks(*of_partitions: str) -> Topic:
    """Each word a partition, each letter a rack."""
    return Topic(len(of_partitions), tuple(frozenset(word) for word in of_partitions))


def test_the_first_members_have_one_more() -> None:
    given = assign(cluster(t=8), {name: member("t") for name in "abc"})
    assert given == {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 4, 5]}, "c": {"t": [6, 7]}}


def test_topics_of_equal_size_go_together() -> None:
    given = assign(cluster(t=3, u=3), {name: member("t", "u") for name in "ab"})
    assert given == {"a": {"t": [0, 1], "u": [0, 1]}, "b": {"t": [2], "u": [2]}}


def test_only_subscribers_count() -> None:
    given = assign(cluster(t=2, u=2), {"a": member("t"), "b": member("t", "u")})
    assert given == {"a": {"t": [0]}, "b": {"t": [1], "u": [0, 1]}}


def test_more_members_than_partitions() -> None:
    assert assign(cluster(t=1), {"b": member("t"), "a": member("t")}) == {"a": {"t": [0]}, "b": {}}


def test_topics_without_metadata_or_partitions_are_skipped() -> None:
    assert assign(cluster(t=0), {"a": member("t", "unknown")}) == {"a": {}}


def test_no_members() -> None:
    assert assign(cluster(t=1), {}) == {}


def test_static_members_come_first_by_their_instance() -> None:
    members = {"a": member("t"), "z": member("t", instance="1"), "y": member("t", instance="2")}
    assert assign(cluster(t=3), members) == {"z": {"t": [0]}, "y": {"t": [1]}, "a": {"t": [2]}}


def test_order_is_that_of_utf_16() -> None:
    """U+10000 is two surrogates, which come before U+FFFD; by code point it would be the other way round."""
    given = assign(cluster(t=1), {"\U00010000": member("t"), "�": member("t")})
    assert given["\U00010000"] == {"t": [0]}


def test_a_topic_that_is_subscribed_to_twice_counts_once() -> None:
    assert assign(cluster(t=2), {"a": member("t", "t"), "b": member("t")}) == {"a": {"t": [0]}, "b": {"t": [1]}}


class TestRacks:
    def test_members_get_what_has_a_replica_in_their_rack(self) -> None:
        members = {"a": member("t", rack="y"), "b": member("t", rack="x")}
        assert assign({"t": racks("x", "y")}, members) == {"a": {"t": [1]}, "b": {"t": [0]}}

    def test_balance_comes_before_racks(self) -> None:
        members = {"a": member("t", rack="x"), "b": member("t", rack="y")}
        assert assign({"t": racks("x", "x", "x", "x")}, members) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}

    def test_racks_do_not_count_where_each_partition_is_in_all(self) -> None:
        members = {"a": member("t", rack="y"), "b": member("t", rack="x")}
        assert assign({"t": racks("xy", "xy")}, members) == {"a": {"t": [0]}, "b": {"t": [1]}}

    def test_nor_where_members_are_elsewhere(self) -> None:
        members = {"a": member("t", rack="z"), "b": member("t", rack="w")}
        assert assign({"t": racks("x", "y")}, members) == {"a": {"t": [0]}, "b": {"t": [1]}}

    def test_a_member_without_rack_takes_any(self) -> None:
        members = {"a": member("t"), "b": member("t", rack="y")}
        assert assign({"t": racks("y", "x")}, members) == {"a": {"t": [0]}, "b": {"t": [1]}}

    def test_co_partitioned_topics_stay_together(self) -> None:
        """Partition 0 of both is in x only for b; what matches in one topic alone does not count."""
        members = {"a": member("t", "u", rack="y"), "b": member("t", "u", rack="x")}
        topics = {"t": racks("x", "y"), "u": racks("xy", "y")}
        assert assign(topics, members) == {"a": {"t": [1], "u": [1]}, "b": {"t": [0], "u": [0]}}

    def test_an_empty_rack_is_none(self) -> None:
        members = {"a": GroupMember(Subscription(topics=["t"], rack_id="")), "b": member("t", rack="y")}
        assert assign({"t": racks("y", "x")}, members) == {"a": {"t": [0]}, "b": {"t": [1]}}
