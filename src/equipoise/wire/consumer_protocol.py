"""The payloads that consumers exchange through the coordinator: Subscription in JoinGroup, Assignment in SyncGroup.

Both begin with an int16 version and are never flexible. New versions only append fields. An unknown newer version is
therefore read as the newest known version, and bytes after the last known field are ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TypeVar

from equipoise.wire.compiler import decoder
from equipoise.wire.errors import ProtocolError
from equipoise.wire.schema import TRUSTED, Message, Struct, field

PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = 3
NO_GENERATION = -1
MOST_ELEMENTS = 1 << 16  # of all arrays, where a coordinator reads what a client has sent: a request has no more

Partitions = dict[str, list[int]]  # by topic
Wire = TypeVar("Wire", bound=Message)


class TopicAndPartitions(Struct):
    topic: str = field("string")
    partitions: list[int] = field(["int32"])


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = field(["string"])
    user_data: bytes | None = field("bytes", nullable=True)
    owned_partitions: list[TopicAndPartitions] = field([TopicAndPartitions], "1+")
    generation_id: int = field("int32", "2+", default=NO_GENERATION)
    rack_id: str | None = field("string", "3+", nullable=True, default=None)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicAndPartitions] = field([TopicAndPartitions])
    user_data: bytes | None = field("bytes", nullable=True)


class StickyAssignorUserData(Message, versions="0-1"):
    previous_assignment: list[TopicAndPartitions] = field([TopicAndPartitions])
    generation: int = field("int32", "1+", default=NO_GENERATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member tells the leader in JoinGroup, in any version."""

    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: Partitions = dataclass_field(default_factory=dict)
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the leader tells a member by SyncGroup, in any version."""

    assigned_partitions: Partitions
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyUserData:
    """The last assignment of a member, for the `sticky` assignor."""

    owned_partitions: Partitions
    generation_id: int = NO_GENERATION


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """Sorts topics and partitions: the coordinator rebalances when the bytes of a member change."""
    owned = subscription.owned_partitions
    body = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_topic_partitions({topic: sorted(owned[topic]) for topic in sorted(owned)}),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return _encode(body, version)


def decode_subscription(
    buf: bytes | memoryview, newest: int = NEWEST_VERSION, *, budget: int = TRUSTED
) -> Subscription:
    """`newest` is the newest layout to read. The coordinator needs only the topics, and reads all as v0: the later
    fields of some clients do not keep to the version they claim. `budget` bounds the elements of all arrays. Raises
    ProtocolError."""
    body = _decode(ConsumerProtocolSubscription, buf, newest, budget)
    return Subscription(
        topics=body.topics,
        user_data=body.user_data,
        owned_partitions=_by_topic(body.owned_partitions),
        generation_id=body.generation_id,
        rack_id=body.rack_id,
    )


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """A member's assignment, as SyncGroup carries it."""
    partitions = _topic_partitions(assignment.assigned_partitions)
    body = ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=assignment.user_data)
    return _encode(body, version)


def decode_assignment(buf: bytes | memoryview, *, budget: int = TRUSTED) -> Assignment:
    """A member's assignment, as SyncGroup carries it. Raises ProtocolError."""
    body = _decode(ConsumerProtocolAssignment, buf, NEWEST_VERSION, budget)
    return Assignment(assigned_partitions=_by_topic(body.assigned_partitions), user_data=body.user_data)


def encode_sticky_user_data(data: StickyUserData) -> bytes:
    """Always v1."""
    partitions = _topic_partitions(data.owned_partitions)
    return StickyAssignorUserData(previous_assignment=partitions, generation=data.generation_id).encode(1)


def decode_sticky_user_data(buf: bytes | memoryview) -> StickyUserData | None:
    """Tries v1, then v0, else returns None: the bytes carry no version, and other assignors' data is ignored."""
    for version in (1, 0):
        try:
            body: StickyAssignorUserData = decoder(StickyAssignorUserData, version, exact=False)(bytes(buf), 0, TRUSTED)
        except ProtocolError:
            continue
        return StickyUserData(owned_partitions=_by_topic(body.previous_assignment), generation_id=body.generation)
    return None


def _encode(body: Message, version: int) -> bytes:
    return struct.pack(">h", version) + body.encode(version)


def _decode(cls: type[Wire], buf: bytes | memoryview, newest: int, budget: int) -> Wire:
    if len(buf) < 2:
        raise ProtocolError(f"{cls.__name__} has {len(buf)} bytes; its version alone takes 2")
    version = int.from_bytes(buf[:2], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"{cls.__name__} has version {version}; versions begin at 0")
    body: Wire = decoder(cls, min(version, newest), exact=False)(bytes(buf), 2, budget)
    return body


def _topic_partitions(partitions: Mapping[str, Sequence[int]]) -> list[TopicAndPartitions]:
    return [TopicAndPartitions(topic=topic, partitions=list(numbers)) for topic, numbers in partitions.items()]


def _by_topic(found: list[TopicAndPartitions]) -> Partitions:
    """A topic that is named twice has the partitions of both places."""
    partitions: Partitions = {}
    for one in found:
        partitions.setdefault(one.topic, []).extend(one.partitions)
    return partitions
