"""What guests say and hear in the consumer protocol's own bytes: subscriptions and assignments, by topic name. Inside
the group topics have ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.records.build import by_topic
from equipoise.coordinator.metadata import MetadataImage, Partitions, TopicPartition
from equipoise.wire.consumer_protocol import MOST_ELEMENTS, Assignment, decode_subscription, encode_assignment
from equipoise.wire.consumer_protocol import Partitions as NamedPartitions
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError

_NEWEST_ASSIGNMENT = 3


class Claim(NamedTuple):
    """The subscription of a guest, and what it says that it has: all of it, as far as it is told. Rule A15.10."""

    topics: frozenset[str]
    owned: Partitions
    rack_id: str | None = None


def read_subscription(metadata: bytes, image: MetadataImage, refusal: ErrorCode) -> Claim:
    """Raises KafkaError with `refusal` where it cannot be read. That is also where it is too long: a request of 100 MB
    has room for 25 million owned partitions, which would hold the loop for as long as they are read."""
    try:
        found = decode_subscription(metadata, budget=MOST_ELEMENTS)
    except ProtocolError as error:
        raise KafkaError(refusal, str(error)) from None
    return Claim(frozenset(found.topics), with_ids(found.owned_partitions, image), found.rack_id)


def with_ids(partitions: NamedPartitions, image: MetadataImage) -> Partitions:
    """Topics that do not exist are left out. Rule A16.6."""
    found = ((image.topic(name), numbers) for name, numbers in partitions.items())
    return frozenset((topic.topic_id, number) for topic, numbers in found if topic is not None for number in numbers)


def assignment_bytes(member: ConsumerGroupMember, partitions: Iterable[TopicPartition], image: MetadataImage) -> bytes:
    """Partitions as a guest reads them, in the version of its own subscription. Rules A15.13 and A16.9."""
    assert member.classic is not None
    metadata = member.classic.protocols[0][1] if member.classic.protocols else b""
    return encoded_assignment(partitions, image, version_of(metadata))


def encoded_assignment(partitions: Iterable[TopicPartition], image: MetadataImage, version: int) -> bytes:
    """Topics that are gone are left out."""
    named = ((image.name_of(topic_id), numbers) for topic_id, numbers in by_topic(partitions))
    known = sorted((name, numbers) for name, numbers in named if name is not None)
    return encode_assignment(Assignment(assigned_partitions=dict(known)), version)


def version_of(metadata: bytes) -> int:
    """The version in which a subscription is written; the newest that is known for a newer one."""
    version = int.from_bytes(metadata[:2], "big", signed=True) if len(metadata) > 1 else 0
    return min(max(version, 0), _NEWEST_ASSIGNMENT)
