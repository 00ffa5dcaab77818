"""A shard to test `consumer` groups on, under virtual time, in the few words that the rules need.

    stage = Stage(t=6)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")                       # the answer is kept in `a.last`
    assert a.partitions == {0, 1, 2, 3, 4, 5}
    b.join("t")
    stage.settle()                    # heartbeats until nothing moves

Members do what clients do: they take what an answer says, and give up what is no longer in it when told to `ack`. After
every step the invariants I1 to I3 and I10 are checked: one owner for each partition, indexes that follow, and a log
that says what memory has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import count
from typing import Any

from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.consumer.describe import describe_consumer_group, describe_members
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.heartbeat import owned_partitions
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.events import Event
from equipoise.coordinator.metadata import EMPTY_IMAGE, TopicImage
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.step import Caller, Step, Write
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from equipoise.wire.apis.k69_consumer_group_describe import DescribedConsumerGroup
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord, decode_record, encode_key, encode_value
from equipoise.wire.schema import Message

START = 1_700_000_000_000
SESSION = 45_000
QUICK = {"group_consumer_assignment_interval_ms": 0}
STRICT = {**QUICK, "group_consumer_assignment_timer": False, "group_consumer_heartbeat_interval_reconciling_ms": 0}


def topic_id(name: str, generation: int = 1) -> bytes:
    return name.encode().ljust(15, b"-")[:15] + bytes([generation])


class Stage:
    """One shard, its log, and the topics; writes are durable at once unless `holds_writes`."""

    def __init__(self, config: dict[str, Any] | None = None, **topics: int) -> None:
        self.now = START
        self.config = GroupConfig(**{**STRICT, **(config or {})})
        self.image = EMPTY_IMAGE
        self.log: list[CoordinatorRecord] = []
        self.under_way: deque[Write] = deque()
        self.holds_writes = False
        self.events: list[Event] = []
        self.replies: dict[int, Message] = {}
        self._tokens = count()
        self.last_token = -1  # of a request: its answer may come later
        self._ids = count(1)
        self.shard = Shard(self.config, lambda: f"id-{next(self._ids)}")
        self.shard.activate(self.now)
        self.set_topics(**topics)

    # -- topics and time

    def set_topics(self, **topics: int) -> None:
        """Created, or grown; 0 deletes. A topic that was deleted comes back with another id."""
        put = []
        for name, number in topics.items():
            old = self.image.topic(name)
            made = old.topic_id if old is not None else topic_id(name, self.image.version + 1)
            if number:
                put.append(TopicImage(made, name, number))
        gone = [name for name, number in topics.items() if not number]
        self.image = self.image.with_changes(put, gone)
        self.run(self.shard.metadata_changed(self.image, topics, self.now))

    def id_of(self, name: str) -> bytes:
        topic = self.image.topic(name)
        assert topic is not None
        return topic.topic_id

    def advance(self, ms: int) -> None:
        until = self.now + ms
        while (at := self.shard.next_deadline()) is not None and at <= until:
            self.now = max(at, self.now)
            self.run(self.shard.tick(self.now))
        self.now = until

    # -- steps

    def ask(self, request: Message, version: int, client: str = "c", *, host: str = "/h", hold_ms: int = 0) -> Any:
        """The answer; None: it waits."""
        caller = Caller(next(self._tokens), version, client, host)
        self.last_token = caller.token
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            step = self.shard.consumer_group_heartbeat(_on_the_wire(request, version), caller, self.now, hold_ms)
        else:
            assert isinstance(request, OffsetCommitRequest)
            ids = {name: topic.topic_id for name, topic in self.image.topics.items()}
            step = self.shard.commit_offsets(request, ids, caller, self.now)
        self.run(step)
        return self.replies.get(caller.token)

    def run(self, step: Step) -> None:
        for caller, response in step.replies:
            self.replies[caller.token] = response
        self.events += step.events
        self.under_way += step.writes
        if not self.holds_writes:
            self.durable()
        self.check()

    def durable(self) -> None:
        while self.under_way:
            self._end(self.under_way.popleft(), ErrorCode.NONE)

    def fail(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS, *, writes: int = 1) -> None:
        """The oldest writes fail, and with them what was built on them."""
        for _ in range(writes):
            self._end(self.under_way.popleft(), error)
        self.check()

    def _end(self, write: Write, error: ErrorCode) -> None:
        is_void = write.early is not None and write.early.number in self.shard.voided
        if error is ErrorCode.NONE and not is_void:
            self.log += write.records
        step = self.shard.written(write, error, self.now)
        for caller, response in step.replies:
            self.replies[caller.token] = response
        self.under_way += step.writes

    # -- what there is

    @property
    def group(self) -> ConsumerGroup:
        return self.shard.consumer_groups["g"]

    @property
    def state(self) -> str:
        return self.group.state_word

    @property
    def epochs(self) -> tuple[int, int]:
        return self.group.group_epoch, self.group.target_epoch

    def describe(self) -> DescribedConsumerGroup:
        group = describe_consumer_group(self.shard, "g")
        group.members = list(describe_members(self.shard, "g"))
        return group

    def types(self, since: int = 0) -> list[str]:
        """The records after the first `since`, by type; t: a tombstone."""
        return [f"{key.versions.last}{'t' if value is None else ''}" for key, value in self.log[since:]]

    def member(self, name: str, **settings: Any) -> Member:
        return Member(self, name, **settings)

    def loaded(self, records: Iterable[CoordinatorRecord] | None = None) -> Shard:
        """Another shard that has read the log."""
        shard = Shard(self.config, lambda: "x")
        shard.image = self.image
        for key, value in self.log if records is None else records:
            read = decode_record(encode_key(key), None if value is None else encode_value(value))
            assert isinstance(read, CoordinatorRecord)
            shard.apply(read, self.now)
        return shard

    def restart(self) -> None:
        """What was not durable is lost."""
        self.under_way.clear()
        self.shard = self.loaded()
        self.run(self.shard.activate(self.now))

    def check(self) -> None:
        for group in self.shard.consumer_groups.values():
            check_group(group)
        if not self.under_way and self.shard.status is Status.ACTIVE:
            assert self.loaded().consumer_groups == self.shard.consumer_groups, "replay is not memory"
            assert (list(self.shard.unwritten), self.shard.unwritten_groups, self.shard.voided) == ([], {}, {})


def check_group(group: ConsumerGroup) -> None:
    """I1: a partition has one owner. The indexes say what the members say."""
    owners: dict[tuple[bytes, int], str] = {}
    for member in group.members.values():
        for partition in (*member.assigned, *member.revoking):
            assert partition not in owners, f"{partition} has two owners: {owners[partition]}, {member.member_id}"
            owners[partition] = member.member_id
    assert owners == group.owners
    assert group.targets.keys() <= group.members.keys()
    assert group.target_epoch <= group.group_epoch
    assert all(member.member_epoch <= group.target_epoch for member in group.members.values())
    targets = [partition for target in group.targets.values() for partition in target]
    assert len(targets) == len(set(targets)), "a target gives a partition twice"
    fresh = ConsumerGroup("g")
    for member in group.members.values():
        fresh.put_member(member)
    assert (fresh.static_members, fresh.names, fresh.regexes) == (group.static_members, group.names, group.regexes)
    assert (fresh.assignors, fresh.classic_members) == (group.assignors, group.classic_members)


def _on_the_wire(request: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest.decode(request.encode(version), version)


class Member:
    """A client of one member. It owns what it was given until it says otherwise (`ack`)."""

    def __init__(self, stage: Stage, name: str, *, instance: str | None = None, version: int = 1) -> None:
        self.stage = stage
        self.member_id = name
        self.client_id = name
        self.instance = instance
        self.version = version
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.wanted: set[tuple[bytes, int]] = set()  # as the last answer says
        self.last: ConsumerGroupHeartbeatResponse | None = None

    def send(self, epoch: int | None = None, *, hold_ms: int = 0, host: str = "/h", **fields: Any) -> Any:
        said = self.epoch if epoch is None else epoch
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", "g"),
            member_id=fields.pop("member_id", self.member_id),
            member_epoch=said,
            instance_id=fields.pop("instance_id", self.instance),
            **fields,
        )
        answer = self.stage.ask(request, self.version, self.client_id, host=host, hold_ms=hold_ms)
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            self.take(answer)
        return answer

    def take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.last = answer
        if answer.error_code == ErrorCode.NONE and answer.member_epoch >= 0:
            self.epoch = answer.member_epoch
            self.member_id = answer.member_id or self.member_id
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self.wanted = {(row.topic_id, number) for row in rows for number in row.partitions}

    def join(self, *names: str, **fields: Any) -> Any:
        known: dict[str, Any] = {"rebalance_timeout_ms": 5_000, "topic_partitions": []}
        if "subscribed_topic_regex" not in fields:
            known["subscribed_topic_names"] = list(names)
        self.owned = set()
        return self.send(0, **{**known, **fields})

    def beat(self, **fields: Any) -> Any:
        """As most heartbeats are: nothing but the epoch."""
        return self.send(**fields)

    def ack(self, **fields: Any) -> Any:
        """It has done what the last answer says, and says so."""
        self.owned = set(self.wanted)
        return self.send(topic_partitions=self.rows(self.owned), **fields)

    def rows(self, partitions: Iterable[tuple[bytes, int]]) -> list[HeartbeatTopicPartitions]:
        by_topic: dict[bytes, list[int]] = {}
        for found, number in sorted(partitions):
            by_topic.setdefault(found, []).append(number)
        return [HeartbeatTopicPartitions(topic_id=found, partitions=numbers) for found, numbers in by_topic.items()]

    def leave(self, epoch: int = -1) -> Any:
        return self.send(epoch)

    def commit(
        self,
        *partitions: int,
        epoch: int | None = None,
        topic: str = "t",
        version: int = 9,
        member_id: str | None = None,
    ) -> int:
        """The error of the first partition."""
        rows = [OffsetCommitRequestPartition(partition_index=one, committed_offset=1) for one in partitions]
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=self.epoch if epoch is None else epoch,
            member_id=self.member_id if member_id is None else member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
        )
        return int(self.stage.ask(request, version, self.client_id).topics[0].partitions[0].error_code)

    @property
    def partitions(self) -> set[int]:
        """The numbers of what the last assignment gave it."""
        return {number for _, number in self.wanted}

    @property
    def known(self) -> ConsumerGroupMember:
        """As the coordinator knows it."""
        return self.stage.group.members[self.member_id]


def settle(stage: Stage, *members: Member, rounds: int = 20) -> None:
    """All send and do what they are told until nothing changes."""
    for _ in range(rounds):
        before = len(stage.log)
        for member in members:
            member.ack()
        stage.advance(1_000)
        if len(stage.log) == before and stage.state == "Stable":
            return
    raise AssertionError(f"the group does not settle: {stage.group}")


__all__ = ["SESSION", "START", "Member", "Stage", "owned_partitions", "settle", "topic_id"]
