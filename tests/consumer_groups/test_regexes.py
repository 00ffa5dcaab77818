"""Regular expressions in `consumer` groups: asked for, resolved, refreshed, forgotten. Rules A14.1 to A14.14."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from equipoise.coordinator.consumer.regex import compile_regex
from equipoise.coordinator.metadata import TopicImage
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.step import Caller, Resolve, Step
from equipoise.coordinator.wall_time import WallTime
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.consumer_protocol import Subscription, encode_subscription
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    CoordinatorRecord,
    decode_record,
    encode_key,
    encode_value,
)

WALL = 1_700_000_000_000


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


class World:
    """One shard, whose writes are durable at once. Resolutions wait until `resolve`."""

    def __init__(self, **config: Any) -> None:
        numbers = count(1)
        self.config = GroupConfig(group_consumer_assignment_interval_ms=0, **config)
        self.shard = Shard(self.config, lambda: f"id-{next(numbers)}", lambda now: WallTime(now + WALL))
        self.shard.activate(0)
        self.now = 1_000
        self.log: list[CoordinatorRecord] = []
        self.asked: list[Resolve] = []
        self._replies: list[Any] = []

    @property
    def group(self) -> ConsumerGroup:
        return self.shard.consumer_groups["g"]

    def topics(self, *names: str, gone: tuple[str, ...] = (), partitions: int = 2) -> None:
        image = self.shard.image.with_changes([TopicImage(topic_id(one), one, partitions) for one in names], gone)
        self.shard.metadata_changed(image, [*names, *gone], self.now)

    def heartbeat(self, member_id: str = "m1", epoch: int | None = None, **fields: Any) -> Any:
        """Epoch None: the one that the member has."""
        known = self.group.members.get(member_id) if "g" in self.shard.consumer_groups else None
        said = epoch if epoch is not None else known.member_epoch if known is not None else 0
        if said == 0:
            fields = {"rebalance_timeout_ms": 5_000, "topic_partitions": []} | fields
        fields = {"subscribed_topic_names": None, "topic_partitions": None, "rebalance_timeout_ms": -1} | fields
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=said, **fields)
        self.run(self.shard.consumer_group_heartbeat(request, Caller(member_id, 1, "c", "/h"), self.now))
        response = self._replies.pop()
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def run(self, step: Step) -> None:
        self._replies += [response for _, response in step.replies]
        self.asked += step.resolutions
        for write in step.writes:
            self.log += write.records
            self.run(self.shard.written(write, ErrorCode.NONE, self.now))

    def resolve(self, *, hidden: str = "") -> list[CoordinatorRecord]:
        """Answers the oldest question; the records that follow."""
        asked = self.asked.pop(0)
        names = [name for name in self.shard.image.topics if name != hidden]
        found = {regex: list(filter(compile_regex(regex).matches, names)) for regex in asked.regexes}
        written = len(self.log)
        self.run(self.shard.regexes_resolved(asked, found, self.now))
        return self.log[written:]

    def records(self, since: int) -> list[str]:
        return [_name(record) for record in self.log[since:]]

    def settle(self, *members: str) -> dict[str, set[str]]:
        """Heartbeats until nothing moves; the topics of each member."""
        for _ in range(4):
            for one in members:
                held = self.group.members[one].assigned
                self.heartbeat(one, topic_partitions=_rows(held))
        assert self.group.state_word == "Stable"
        return {one: {topic.rstrip(b"\0").decode() for topic, _ in self.group.members[one].assigned} for one in members}


def _rows(held: Any) -> list[Any]:
    from equipoise.wire.apis.k68_consumer_group_heartbeat import HeartbeatTopicPartitions

    ids = sorted({topic for topic, _ in held})
    return [
        HeartbeatTopicPartitions(topic_id=one, partitions=sorted(n for topic, n in held if topic == one)) for one in ids
    ]


def _name(record: CoordinatorRecord) -> str:
    return type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key") + "t" * (record.value is None)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    world.topics("foo-1", "foo-2", "bar")
    yield world
    reloaded = Shard(world.config, lambda: "", lambda now: WallTime(now + WALL))
    for record in world.log:  # what is in the log and what is in memory is one thing
        found = decode_record(encode_key(record.key), None if record.value is None else encode_value(record.value))
        assert isinstance(found, CoordinatorRecord)
        reloaded.apply(found, world.now)
    assert reloaded.consumer_groups == world.shard.consumer_groups


def test_a14_3_an_unresolved_regex_matches_nothing(world: World) -> None:
    """Rule A14.3: no bump, an empty assignment at the epoch of the target; and a question."""
    answer = world.heartbeat(subscribed_topic_regex="foo.*")
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 1)
    assert answer.assignment.topic_partitions == []
    assert world.records(0) == ["MemberMetadata", "CurrentMemberAssignment"]
    (asked,) = world.asked
    assert (asked.group_id, asked.regexes, asked.caller.token) == ("g", ("foo.*",), "m1")


def test_a_member_with_an_unresolved_regex_comes_again_soon(world: World) -> None:
    """Rule A23.7: a join by a regular expression need not cost a whole interval."""
    assert world.heartbeat(subscribed_topic_regex="foo.*").heartbeat_interval_ms == 250
    world.resolve()
    world.heartbeat()
    assert world.heartbeat().heartbeat_interval_ms == 5_000


def test_a14_5_the_resolution_bumps_the_epoch(world: World) -> None:
    """Rules A14.5 and A14.7."""
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.now += 50
    first, second = world.resolve()
    assert first.key == ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="foo.*")
    assert first.value == ConsumerGroupRegularExpressionValue(
        topics=["foo-1", "foo-2"], version=world.shard.image.version, timestamp=WALL + 1_000
    )
    assert isinstance(second.key, ConsumerGroupMetadataKey)
    assert world.group.group_epoch == 2
    answer = world.heartbeat()
    assert answer.member_epoch == 2
    assert [row.topic_id for row in answer.assignment.topic_partitions] == [topic_id("foo-1"), topic_id("foo-2")]


def test_a_regex_that_matches_nothing_does_not_bump(world: World) -> None:
    world.heartbeat(subscribed_topic_regex="none.*")
    assert [_name(record) for record in world.resolve()] == ["RegularExpression"]
    assert world.group.group_epoch == 1
    world.heartbeat()
    assert world.group.state_word == "Stable"


def test_a14_2_a_second_member_with_the_same_regex_bumps_at_once(world: World) -> None:
    """Rule A14.2: what it matches is known, and nobody is asked again."""
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.resolve()
    world.heartbeat()
    world.heartbeat("m2", subscribed_topic_regex="foo.*")
    assert (world.group.group_epoch, world.asked) == (3, [])
    assert world.group.is_homogeneous
    assert world.settle("m1", "m2") == {"m1": {"foo-1"}, "m2": {"foo-2"}}


@pytest.mark.parametrize("regex", ["[", "(?=a)", r"(a)\1", "a{1001}"])
def test_a14_11_an_invalid_regex_is_refused(world: World, regex: str) -> None:
    """Rule A14.11: what and where; nothing is written."""
    answer = world.heartbeat(subscribed_topic_regex=regex)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message.startswith(f"SubscribedTopicRegex `{regex}` is not a valid regular expression: ")
    assert (world.log, world.asked, world.shard.consumer_groups) == ([], [], {})


def test_a14_1_names_and_a_regex_are_one_subscription(world: World) -> None:
    """Rule A14.1."""
    world.heartbeat(subscribed_topic_regex="foo.*", subscribed_topic_names=["bar", "foo-1"])
    assert world.settle("m1") == {"m1": {"bar", "foo-1"}}
    world.resolve()
    assert world.settle("m1") == {"m1": {"bar", "foo-1", "foo-2"}}
    epoch, written = world.group.group_epoch, len(world.log)
    world.heartbeat(subscribed_topic_regex="", subscribed_topic_names=["bar", "foo-1"])
    assert world.group.group_epoch == epoch + 1
    assert world.records(written)[:3] == ["MemberMetadata", "RegularExpressiont", "Metadata"]
    assert world.settle("m1") == {"m1": {"bar", "foo-1"}}


def test_a14_8_the_last_subscriber_takes_the_regex_along(world: World) -> None:
    """Rule A14.8: it leaves, or has another one; also before it was resolved."""
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.heartbeat("m2", subscribed_topic_regex="foo.*")
    world.resolve()
    world.heartbeat("m1", epoch=-1)
    assert "RegularExpressiont" not in world.records(0)
    world.heartbeat("m2", subscribed_topic_regex="bar")
    assert world.records(0).count("RegularExpressiont") == 1
    written = len(world.log)
    world.heartbeat("m2", epoch=-1)
    assert "RegularExpressiont" in world.records(written)
    assert world.group.resolved == {}


def test_what_nobody_has_any_more_is_passed_over(world: World) -> None:
    """Rule A14.5."""
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.heartbeat(subscribed_topic_regex="bar")
    assert world.resolve() == []
    assert world.group.resolved == {}
    world.now += 1_001
    world.heartbeat()
    world.resolve()
    assert world.settle("m1") == {"m1": {"bar"}}


def test_a_group_that_is_gone_is_passed_over(world: World) -> None:
    world.heartbeat(subscribed_topic_regex="foo.*")
    (asked,) = world.asked
    world.run(world.shard.regexes_resolved(asked._replace(group_id="gone"), {"foo.*": ["foo-1"]}, world.now))
    assert world.group.resolution.is_under_way


@pytest.mark.parametrize(("strict", "pause"), [(False, 1_000), (True, 10_000)])
def test_a14_14_resolutions_pause(strict: bool, pause: int) -> None:
    """Rules A14.6 and A14.14: one at a time; another one after a pause, at a heartbeat."""
    world = World(strict=strict)
    world.topics("foo", "bar")
    world.heartbeat(subscribed_topic_regex="foo")
    world.heartbeat("m2", subscribed_topic_regex="bar")
    assert [one.regexes for one in world.asked] == [("foo",)], "one is under way"
    world.resolve()
    world.now += pause
    world.heartbeat("m2")
    assert world.asked == []
    world.now += 1
    world.heartbeat("m1")
    assert [one.regexes for one in world.asked] == [("bar", "foo")], "all of the group together"
    world.resolve()
    assert world.group.resolved.keys() == {"foo", "bar"}


def test_a14_6_new_topics_are_looked_at(world: World) -> None:
    """Rules A13.7 and A14.6: also topics that nobody subscribes to. Deleted ones start nothing."""
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.resolve()
    world.settle("m1")
    world.now += 2_000
    world.heartbeat()
    assert world.asked == []
    world.topics(gone=("bar",))
    world.heartbeat()
    assert world.asked == []
    world.topics("foo-3", "other")
    world.heartbeat()
    world.resolve()
    assert world.settle("m1") == {"m1": {"foo-1", "foo-2", "foo-3"}}


def test_a_classic_join_asks_too(world: World) -> None:
    """Rule A14.6."""
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.resolve()
    world.settle("m1")
    world.now += 2_000
    world.topics("foo-3")
    metadata = encode_subscription(Subscription(topics=["bar"]), 1)
    request = JoinGroupRequest(
        group_id="g",
        member_id="guest",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
    )
    world.run(world.shard.join_group(request, Caller("guest", 9, "c", "/h"), world.now))
    assert [(one.regexes, one.caller.token) for one in world.asked] == [(("foo.*",), "guest")]
    world.resolve()
    assert world.group.resolved["foo.*"].topics == {"foo-1", "foo-2", "foo-3"}


def test_a13_1_a_matched_topic_that_is_deleted_is_noticed(world: World) -> None:
    """Rule A13.1: the group reads it, though nobody has named it (KAFKA-18916)."""
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.resolve()
    world.settle("m1")
    epoch = world.group.group_epoch
    world.topics(gone=("foo-2",))
    assert world.settle("m1") == {"m1": {"foo-1"}}
    assert world.group.group_epoch == epoch + 1


def test_an_old_resolution_is_refreshed(world: World) -> None:
    """Rule A14.6: ACLs may have changed (KAFKA-18961)."""
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.resolve(hidden="foo-2")
    world.settle("m1")
    world.now += 600_000
    world.heartbeat()
    assert world.asked == []
    world.now += 1
    world.heartbeat()
    world.resolve()
    assert world.settle("m1") == {"m1": {"foo-1", "foo-2"}}


def test_an_unchanged_resolution_is_noted_without_a_bump(world: World) -> None:
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.resolve()
    world.settle("m1")
    epoch = world.group.group_epoch
    world.now += 600_001
    world.heartbeat()
    assert [_name(record) for record in world.resolve()] == ["RegularExpression"]
    assert world.group.group_epoch == epoch
    assert world.group.resolved["foo.*"] == ResolvedRegex(
        frozenset({"foo-1", "foo-2"}), world.shard.image.version, WALL + world.now
    )


def test_a_failed_resolution_is_asked_for_again(world: World) -> None:
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.run(world.shard.regexes_resolved(world.asked.pop(), {}, world.now))
    world.now += 1_001
    world.heartbeat()
    world.resolve()
    assert world.settle("m1") == {"m1": {"foo-1", "foo-2"}}


def test_a_loaded_group_resolves_anew_at_its_first_heartbeat(world: World) -> None:
    """The versions of images begin anew with the broker."""
    world.heartbeat(subscribed_topic_regex="foo.*")
    world.resolve()
    world.settle("m1")
    image = world.shard.image
    world.shard = Shard(world.config, lambda: "", lambda now: WallTime(now + WALL))
    for record in world.log:
        world.shard.apply(record, world.now)
    world.shard.metadata_changed(image, image.topics, world.now)
    world.shard.activate(world.now)
    epoch = world.group.group_epoch
    world.heartbeat()
    assert [one.regexes for one in world.asked] == [("foo.*",)]
    world.resolve()
    assert world.group.group_epoch == epoch


def test_overlapping_regexes_are_different_subscriptions(world: World) -> None:
    """Rule A12.4."""
    world.heartbeat("m1", subscribed_topic_regex="foo.*")
    world.heartbeat("m2", subscribed_topic_regex="foo-1|bar")
    world.resolve()
    world.now += 1_001
    world.heartbeat("m2")
    world.resolve()
    assert not world.group.is_homogeneous
    held = world.settle("m1", "m2")
    assert held["m1"] | held["m2"] == {"foo-1", "foo-2", "bar"}
    assert "foo-2" in held["m1"]
    assert "bar" in held["m2"]


def test_a_failed_write_of_a_resolution_is_undone(world: World) -> None:
    """Rule A21.2."""
    world.heartbeat(subscribed_topic_regex="foo.*")
    asked = world.asked.pop()
    step = world.shard.regexes_resolved(asked, {"foo.*": ["foo-1"]}, world.now)
    assert world.group.group_epoch == 2
    for write in step.writes:
        world.shard.written(write, ErrorCode.NOT_ENOUGH_REPLICAS, world.now)
    assert (world.group.group_epoch, world.group.resolved) == (1, {})
    world.now += 1_001
    world.heartbeat()
    world.resolve()
    assert world.settle("m1") == {"m1": {"foo-1", "foo-2"}}
