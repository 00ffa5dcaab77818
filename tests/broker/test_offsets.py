"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: questions about offsets, and the log's new start."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.topics.topics import INTERNAL_TOPICS, SECURITY_TOPIC
from equipoise.wire.apis.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from equipoise.wire.apis.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.build import Record, build_batch
from tests.broker.calls import NOW, append, batch_of, create_topic, fetch, list_offsets, produce, read_partition
from tests.broker.rawclient import RawClient

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)


@pytest.fixture
def written(client: RawClient) -> None:
    """Offsets 0 to 4, two and three to a batch; the latest timestamp stands in the first."""
    create_topic(client)
    append(client, b"0", b"1", timestamp=NOW + 500)
    append(client, b"2", b"3", b"4", timestamp=NOW + 100)


def found(client: RawClient, timestamp: int) -> tuple[int, int, int]:
    row = list_offsets(client, timestamp)
    return row.error_code, row.timestamp, row.offset


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [
        (LATEST, (-1, 5)),
        (EARLIEST, (-1, 0)),
        (EARLIEST_LOCAL, (-1, 0)),
        (MAX_TIMESTAMP, (NOW + 500, 0)),
        (LATEST_TIERED, (-1, -1)),
        (EARLIEST_PENDING_UPLOAD, (-1, -1)),
        (0, (NOW + 500, 0)),
        (NOW + 500, (NOW + 500, 0)),
        (NOW + 501, (-1, -1)),
        (2**63 - 1, (-1, -1)),
    ],
)
def test_every_special_timestamp_and_some_real_ones(client: RawClient, timestamp: int, answer: tuple[int, int]) -> None:
    assert found(client, timestamp) == (ErrorCode.NONE, *answer)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("timestamp", [-7, -(2**63)])
def test_other_negative_timestamps_mean_nothing(client: RawClient, timestamp: int) -> None:
    assert found(client, timestamp) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(
    ("timestamp", "since"),
    [
        (LATEST, 1),
        (EARLIEST, 1),
        (MAX_TIMESTAMP, 7),
        (EARLIEST_LOCAL, 8),
        (LATEST_TIERED, 9),
        (EARLIEST_PENDING_UPLOAD, 11),
    ],
)
def test_a_special_timestamp_has_a_meaning_from_its_version_on(client: RawClient, timestamp: int, since: int) -> None:
    for version in range(1, 12):
        expected = ErrorCode.NONE if version >= since else ErrorCode.UNSUPPORTED_VERSION
        assert list_offsets(client, timestamp, version=version).error_code == expected


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(LATEST, 0), (EARLIEST, 0), (EARLIEST_LOCAL, 0), (MAX_TIMESTAMP, -1), (0, -1), (LATEST_TIERED, -1)],
)
def test_an_empty_log_has_answers_too(client: RawClient, timestamp: int, offset: int) -> None:
    create_topic(client)
    assert found(client, timestamp) == (ErrorCode.NONE, -1, offset)


def test_a_timestamp_is_found_within_a_batch(client: RawClient) -> None:
    create_topic(client)
    produce(client, build_batch([Record(offset, NOW + 10 * offset, None, b"x") for offset in range(5)]))
    assert found(client, NOW + 11) == (ErrorCode.NONE, NOW + 20, 2)
    assert found(client, NOW + 20) == (ErrorCode.NONE, NOW + 20, 2)
    assert found(client, MAX_TIMESTAMP) == (ErrorCode.NONE, NOW + 40, 4)


@pytest.mark.usefixtures("written")
def test_list_offsets_has_its_errors(client: RawClient) -> None:
    assert list_offsets(client, LATEST, topic="absent").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offsets(client, LATEST, partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offsets(client, LATEST, leader_epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert list_offsets(client, LATEST, leader_epoch=0).leader_epoch == 0


# -- OffsetForLeaderEpoch


def epoch_end(client: RawClient, leader_epoch: int, *, current: int = -1, topic: str = "t", version: int = 4) -> Any:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=leader_epoch, current_leader_epoch=current)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    (answer,) = client.call(request, version).topics
    (row,) = answer.partitions
    return row.error_code, row.leader_epoch, row.end_offset


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_only_epoch_ends_where_the_log_does(client: RawClient, version: int) -> None:
    assert epoch_end(client, 0, version=version) == (ErrorCode.NONE, 0, 5)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("epoch", [1, 99])
def test_an_epoch_that_never_was_has_no_end(client: RawClient, epoch: int) -> None:
    assert epoch_end(client, epoch) == (ErrorCode.NONE, -1, -1)


@pytest.mark.usefixtures("written")
def test_offset_for_leader_epoch_has_its_errors(client: RawClient) -> None:
    assert epoch_end(client, 0, topic="absent") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert epoch_end(client, 0, current=1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


# -- DeleteRecords


def delete_records(client: RawClient, offset: int, *, topic: str = "t", version: int = 2) -> tuple[int, int]:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=1000)
    (answer,) = client.call(request, version).topics
    (row,) = answer.partitions
    return row.error_code, row.low_watermark


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_log_begins_anew_where_records_were_deleted(client: RawClient, version: int) -> None:
    assert delete_records(client, 3, version=version) == (ErrorCode.NONE, 3)
    assert found(client, EARLIEST) == (ErrorCode.NONE, -1, 3)
    assert fetch(client, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(client, 3).log_start_offset == 3
    assert [record.value for record in read_partition(client, start=3)] == [b"3", b"4"]
    assert append(client, b"5") == 5


@pytest.mark.usefixtures("written")
def test_minus_1_deletes_all_and_offsets_go_on(client: RawClient) -> None:
    assert delete_records(client, -1) == (ErrorCode.NONE, 5)
    assert found(client, EARLIEST) == found(client, LATEST) == (ErrorCode.NONE, -1, 5)
    assert append(client, b"5") == 5


@pytest.mark.usefixtures("written")
def test_deleting_what_is_deleted_changes_nothing(client: RawClient) -> None:
    delete_records(client, 3)
    assert delete_records(client, 1) == (ErrorCode.NONE, 3)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("offset", [6, -2, 2**63 - 1])
def test_offsets_outside_the_log_are_refused(client: RawClient, offset: int) -> None:
    assert delete_records(client, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert found(client, EARLIEST) == (ErrorCode.NONE, -1, 0)


def test_delete_records_has_its_errors(client: RawClient) -> None:
    create_topic(client, configs={"cleanup.policy": "compact"})
    produce(client, batch_of(b"v", key=b"k"))
    assert delete_records(client, 1) == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete_records(client, 1, topic="absent") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS - {SECURITY_TOPIC}))  # that one is never shown
@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_what_the_broker_keeps_in_topics_cannot_be_deleted(
    broker: Broker, client: RawClient, name: str, policy: str
) -> None:
    """Committed offsets would be gone with the next start (ReplicaManager.deleteRecordsOnLocalLog)."""
    broker.call(lambda server: server.topics.create_internal(name, 1, {"cleanup.policy": policy}))
    assert delete_records(client, -1, topic=name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


@pytest.mark.usefixtures("written")
def test_a_timestamp_is_not_found_below_the_logs_start(client: RawClient) -> None:
    delete_records(client, 2)
    assert found(client, 0) == (ErrorCode.NONE, NOW + 100, 2)
