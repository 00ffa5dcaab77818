"""Where logs part, by leader epochs: the pure rules of KIP-320."""

from __future__ import annotations

import pytest

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.metadata.leader_epochs import (
    EpochEnd,
    EpochQuestion,
    LogPosition,
    Truncation,
    epoch_ends,
    epochs_request,
    find_truncation,
    is_recreated,
    needs_validation,
)
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from equipoise.wire.errors import ErrorCode, KafkaError

POSITION = LogPosition(200, 5)


@pytest.mark.parametrize(
    ("end", "divergent"),
    [
        (EpochEnd(5, 100), LogPosition(100, 5)),  # the same epoch, but shorter
        (EpochEnd(4, 100), LogPosition(100, 4)),  # nothing of the epoch is left
        (EpochEnd(5, 199), LogPosition(199, 5)),
        (EpochEnd(-1, -1), None),  # the leader knows no such epoch
        (EpochEnd(-1, 300), None),
        (EpochEnd(5, -1), None),
    ],
)
def test_a_log_that_ends_before_the_position_is_truncated(end: EpochEnd, divergent: LogPosition | None) -> None:
    assert find_truncation(POSITION, end) == Truncation(POSITION, divergent)


@pytest.mark.parametrize("end", [EpochEnd(5, 200), EpochEnd(5, 350), EpochEnd(4, 200)])
def test_a_log_that_reaches_the_position_is_whole(end: EpochEnd) -> None:
    assert find_truncation(POSITION, end) is None


def test_a_new_leader_puts_a_position_in_doubt_if_its_epoch_is_known() -> None:
    assert needs_validation(POSITION, validated_epoch=5, leader_epoch=6)
    assert needs_validation(POSITION, validated_epoch=-1, leader_epoch=6)  # begun at a committed offset
    assert not needs_validation(POSITION, validated_epoch=6, leader_epoch=6)
    assert not needs_validation(LogPosition(200), validated_epoch=5, leader_epoch=6)
    assert not needs_validation(POSITION, validated_epoch=5, leader_epoch=-1)  # brokers of before Kafka 2.1 name none


def test_questions_by_topic() -> None:
    request = epochs_request(
        {
            TopicPartition("a", 0): EpochQuestion(6, LogPosition(9, 5)),
            TopicPartition("a", 3): EpochQuestion(2, LogPosition(9, 1)),
        }
    )
    (topic,) = request.topics
    assert (request.replica_id, topic.topic) == (-1, "a")
    assert [(one.partition, one.current_leader_epoch, one.leader_epoch) for one in topic.partitions] == [
        (0, 6, 5),
        (3, 2, 1),
    ]


def test_answers_and_what_is_to_be_asked_again() -> None:
    codes = [0, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR]
    rows = [
        EpochEndOffset(error_code=code, partition=number, leader_epoch=5, end_offset=100)
        for number, code in enumerate(codes)
    ]
    answer = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="a", partitions=rows)])
    found = epoch_ends(answer, ConsumerConfig(bootstrap_servers="a:1"))
    assert found.keys() == {TopicPartition("a", 0), TopicPartition("a", 2)}
    assert found[TopicPartition("a", 0)] == EpochEnd(5, 100)
    assert isinstance(found[TopicPartition("a", 2)], KafkaError)


def test_a_topic_with_another_id_was_recreated_unless_an_id_is_not_known() -> None:
    old, new, none = bytes([1] * 16), bytes([2] * 16), bytes(16)
    assert is_recreated(old, new)
    assert not is_recreated(old, old)
    assert not is_recreated(none, new)
    assert not is_recreated(old, none)
