"""Finds where a leader's log diverges from the records that a reader has read (KIP-320).

A leader that was elected uncleanly lacks records that its predecessor had and readers have read. Offsets alone do not
show it: the new leader gives the same offsets to other records. Leader epochs do. A reader knows the epoch of the last
record it has read. OffsetForLeaderEpoch returns the end of that epoch in the leader's log. If that end is before the
reader's position, the logs diverge there. Pure: nothing here touches a socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from equipoise.client.config import ClientConfig
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import ZERO_UUID

NO_EPOCH = -1
FIRST_FOR_READERS = 3  # of OffsetForLeaderEpoch: before, only brokers were allowed to ask
_CONSUMER = -1  # replica_id
# Everything else passes, or newer metadata mends it (OffsetsForLeaderEpochUtils.handleResponse).
_LASTING = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class LogPosition(NamedTuple):
    """A place in a partition's log, and the epoch by which it can be checked."""

    offset: int  # of the next record to read
    leader_epoch: int = NO_EPOCH  # of the last record before it; NO_EPOCH: not known, so that nothing can be checked


class EpochEnd(NamedTuple):
    """The largest epoch of the leader's log that is not above the one asked about, and the offset behind its end."""

    leader_epoch: int
    end_offset: int


class Truncation(NamedTuple):
    """A log that lacks records before `position`. It has `divergent` in common with what was read; None: the leader
    knows no epoch as old, and nobody can tell."""

    position: LogPosition
    divergent: LogPosition | None


class EpochQuestion(NamedTuple):
    """Where does the epoch of `position` end? `leader_epoch` is the leader's by our metadata: it fences old leaders."""

    leader_epoch: int
    position: LogPosition


EpochQuestions = Mapping[TopicPartition, EpochQuestion]
EpochAnswers = dict[TopicPartition, EpochEnd | KafkaError]


def needs_validation(position: LogPosition, validated_epoch: int, leader_epoch: int) -> bool:
    """A position that a leader of `validated_epoch` has confirmed is validated again with one of `leader_epoch`.

    A position without an epoch cannot be (SubscriptionState.maybeValidatePositionForCurrentLeader)."""
    return validated_epoch != leader_epoch and leader_epoch >= 0 and position.leader_epoch >= 0


def is_recreated(known_id: bytes, topic_id: bytes) -> bool:
    """A topic of the same name with another id was deleted and created again: offsets of the old one mean nothing in it
    (KIP-516). Old brokers give no ids, and nothing can be told."""
    return ZERO_UUID not in (known_id, topic_id) and known_id != topic_id


def find_truncation(position: LogPosition, end: EpochEnd) -> Truncation | None:
    """What the leader's answer says of the position; None: it stands (SubscriptionState.maybeCompleteValidation)."""
    if end.leader_epoch < 0 or end.end_offset < 0:
        return Truncation(position, None)
    if end.end_offset < position.offset:
        return Truncation(position, LogPosition(end.end_offset, end.leader_epoch))
    return None


def epochs_request(questions: EpochQuestions) -> OffsetForLeaderEpochRequest:
    """To the leader of these partitions, in version FIRST_FOR_READERS or newer."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (name, number), asked in questions.items():
        topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=number,
                current_leader_epoch=asked.leader_epoch,
                leader_epoch=asked.position.leader_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))


def epoch_ends(response: OffsetForLeaderEpochResponse, config: ClientConfig) -> EpochAnswers:
    """What is not in it is to be asked again, of the leader that newer metadata names. An error is for the user."""
    answers: EpochAnswers = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.topic, one.partition)
            if one.error_code == ErrorCode.NONE:
                answers[partition] = EpochEnd(one.leader_epoch, one.end_offset)
            elif one.error_code in _LASTING:
                what = f"where epochs of {partition} end cannot be asked"
                answers[partition] = config.topic_error(one.error_code, partition.topic, what)
    return answers
