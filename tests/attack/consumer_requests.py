"""Requests to `consumer` groups in every state that ask for as much as fits into a hundred kilobytes.

`requests.py` draws values field by field, and such heartbeats are refused before they do any work. Here a request comes
from a member that there is, with its epoch, or joins; one of its fields is as long as it can be.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, HeartbeatTopicPartitions
from equipoise.wire.apis.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from equipoise.wire.consumer_protocol import Subscription, encode_subscription
from equipoise.wire.schema import Message
from tests.attack.requests import LARGEST, Attack, short_name
from tests.broker.rawclient import request_frame

_ROOM = LARGEST - 200
_LONGEST = 32_767
_ELEMENTS = 12_500  # as many as the partitions of the broker allow
REGEXES = (
    "a" * _LONGEST,
    "|".join(f"t{number}" for number in range(5_000))[:_LONGEST],
    "(" * 100 + "t" + ")*" * 100,
    "(t{0,9}){0,9}" * 100,
    "(.*.*.*.*=.*){50}",
    ".*" * 5_000,
    "^" * 10_000,
    "a?" * 10_000,
    ".*" * 16_000,
    "[" + "".join(chr(code) for code in range(0x4E00, 0x4E00 + 10_000)) + "]*",
    "(" * _LONGEST,
    "\\p{L}*" * 5_000,
    "(?i)" + "é" * 9_990,
)


class Known(NamedTuple):
    """A member that there is."""

    group_id: str
    member_id: str
    epoch: int


class Furnished(NamedTuple):
    """What there is on the broker."""

    topics: Sequence[str]
    topic_ids: Sequence[bytes]
    partitions: int  # of the largest topic, which is the first
    groups: Sequence[str]
    described: Sequence[str]  # these groups and others
    members: Sequence[Known]


class ConsumerDrawing:
    """Draws the requests of one seed."""

    def __init__(self, world: Furnished, seed: int) -> None:
        self._world = world
        self._random = random.Random(seed)
        self._joined = 0

    def all_of(self, version: int) -> Iterator[Attack]:
        """Every group and member with every long field."""
        for group in self._world.groups:
            yield from self._joins(group, version)
        for member in self._world.members:
            yield from self._heartbeats(member, version)
        yield from self._descriptions(version)

    def some_of(self, version: int) -> Iterator[Attack]:
        """Every long field, of some group and of some member; every long regular expression."""
        for joins in zip(*(self._joins(group, version) for group in self._world.groups), strict=True):
            yield self._random.choice(joins)
        for beats in zip(*(self._heartbeats(member, version) for member in self._world.members), strict=True):
            yield self._random.choice(beats)
        yield from self._descriptions(version)

    # -- members that come

    def _joins(self, group: str, version: int) -> Iterator[Attack]:
        for what, names in self._name_lists():
            yield self._attack(version, f"{group} join, {what}", self._join(group, names))
        yield self._attack(version, f"{group} join, long ids", self._long_join(group))
        if version >= 1:
            for regex in REGEXES:
                request = self._join(group, [])
                request.subscribed_topic_regex = regex
                yield self._attack(version, f"{group} join, regex {regex[:20]}", request)
        for what, metadata in self._subscriptions():
            yield self._guest(group, what, [("range", metadata)])
        yield self._guest(group, "protocols", [(short_name(number), b"") for number in range(8_000)])

    def _join(self, group: str, names: Sequence[str]) -> ConsumerGroupHeartbeatRequest:
        self._joined += 1
        return ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=f"attacker-{self._joined}",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=list(names),
            topic_partitions=[],
        )

    def _long_join(self, group: str) -> ConsumerGroupHeartbeatRequest:
        request = self._join(group, self._world.topics)
        request.member_id = "m" * _LONGEST
        request.instance_id = f"{self._joined}" + "i" * (_LONGEST - 10)
        request.rack_id = "r" * (_LONGEST - 1000 - sum(map(len, self._world.topics)))
        return request

    def _guest(self, group: str, what: str, protocols: Sequence[tuple[str, bytes]]) -> Attack:
        """A classic member, of a version in which it needs no member id before."""
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        return self._attack(3, f"{group} guest, {what}", request)

    # -- members that are there

    def _heartbeats(self, member: Known, version: int) -> Iterator[Attack]:
        who = f"{member.group_id} {member.member_id}"
        for what, names in self._name_lists():
            yield self._attack(version, f"{who}, {what}", self._beat(member, subscribed_topic_names=list(names)))
        for what, rows in self._owned_lists():
            yield self._attack(version, f"{who}, {what}", self._beat(member, topic_partitions=rows))
        if version >= 1:
            regex = self._random.choice(REGEXES)
            yield self._attack(version, f"{who}, regex", self._beat(member, subscribed_topic_regex=regex))
        yield self._attack(9, f"{who}, commits", self._commit(member))

    def _beat(self, member: Known, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=member.group_id, member_id=member.member_id, member_epoch=member.epoch, **fields
        )

    def _commit(self, member: Known) -> OffsetCommitRequest:
        rows = [
            OffsetCommitRequestPartition(partition_index=number % self._world.partitions, committed_offset=number)
            for number in range(_ROOM // 20)
        ]
        return OffsetCommitRequest(
            group_id=member.group_id,
            member_id=member.member_id,
            generation_id_or_member_epoch=member.epoch,
            topics=[OffsetCommitRequestTopic(name=self._world.topics[0], partitions=rows)],
        )

    # -- what is long

    def _name_lists(self) -> Iterator[tuple[str, list[str]]]:
        topics = self._world.topics
        yield "names that are there", list(topics)
        yield "names that are not", _filled(short_name(number) for number in range(_ELEMENTS))
        yield "more names than may be", _filled(short_name(number) for number in range(_ROOM))
        yield "one name again and again", [topics[0]] * _ELEMENTS
        yield "empty names", [""] * _ELEMENTS
        yield "long names", ["x" * _LONGEST, "y" * _LONGEST, "z" * (_LONGEST - 500)]

    def _owned_lists(self) -> Iterator[tuple[str, list[HeartbeatTopicPartitions]]]:
        ids, partitions = self._world.topic_ids, self._world.partitions
        many = [number % partitions for number in range(_ELEMENTS)]
        yield "owned partitions", [HeartbeatTopicPartitions(topic_id=ids[0], partitions=many)]
        strange = list(range(1 << 20, (1 << 20) + _ELEMENTS))
        yield "owned that are not there", [HeartbeatTopicPartitions(topic_id=bytes(16), partitions=strange)]
        count = _ROOM // 18
        rows = [HeartbeatTopicPartitions(topic_id=ids[number % len(ids)], partitions=[]) for number in range(count)]
        yield "owned topics", rows

    def _subscriptions(self) -> Iterator[tuple[str, bytes]]:
        for what, names in self._name_lists():
            if max(map(len, names)) < _LONGEST:
                yield what, encode_subscription(Subscription(topics=names[: len(names) // 2]))
        owned = {name: list(range(100)) for name in self._world.topics}
        yield "owned", encode_subscription(Subscription(topics=[self._world.topics[0]], owned_partitions=owned))[:_ROOM]

    def _descriptions(self, version: int) -> Iterator[Attack]:
        groups = list(self._world.described)
        names = _filled(short_name(number) for number in range(_ROOM))
        for what, asked in (("groups", groups), ("one again and again", groups[:1] * 10_000), ("unknown", names)):
            request = ConsumerGroupDescribeRequest(group_ids=asked, include_authorized_operations=True)
            yield self._attack(version, f"describe {what}", request)
            yield self._attack(5, f"describe {what}", DescribeGroupsRequest(groups=asked))

    def _attack(self, version: int, what: str, request: Message) -> Attack:
        frame = request_frame(request, version)
        assert len(frame) <= LARGEST + 10, what
        return Attack(request.api_key, version, what, frame)


def _filled(names: Iterator[str]) -> list[str]:
    found, size = [], 0
    for name in names:
        size += len(name) + 1
        if size > _ROOM:
            break
        found.append(name)
    return found
