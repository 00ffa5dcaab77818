"""Fetch requests and answers without a broker: topics by id or by name, sessions, errors, epochs, batches."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from equipoise.client.fetch.fetch_request import (
    NEWEST_WITH_NAMES,
    FetchLimits,
    PartitionFetch,
    answered,
    completed_fetch,
    diverging_position,
    fetch_request,
    has_records,
    is_retriable,
    new_leader,
    newest_version,
)
from equipoise.client.fetch.fetch_session import FetchSessionHandler
from equipoise.client.metadata.leader_epochs import LogPosition
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k00_produce import LeaderIdAndEpoch
from equipoise.wire.apis.k01_fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.build import Record, build_batch

LIMITS = FetchLimits(max_wait_ms=500, max_bytes=1000, isolation_level=1, min_bytes=7, rack_id="a")
A, B = bytes([1] * 16), bytes([2] * 16)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Asked(NamedTuple):
    fetch: PartitionFetch


def fetch(offset: int, topic_id: bytes = A, leader_epoch: int = 4) -> PartitionFetch:
    return PartitionFetch(offset, 100, leader_epoch, 3, topic_id)


def data(error: int = 0, **more: object) -> PartitionData:
    usual: dict[str, Any] = {"partition_index": 0, "error_code": error, "high_watermark": 9, "records": None}
    return PartitionData(**usual | more)


def named(request: FetchRequest) -> dict[str, list[tuple[int, int]]]:
    return {topic.topic: [(one.partition, one.fetch_offset) for one in topic.partitions] for topic in request.topics}


def forgotten(request: FetchRequest) -> list[tuple[str, bytes, list[int]]]:
    return [(topic.topic, topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]


# -- requests


def test_a_request_has_the_limits_and_no_session() -> None:
    request = fetch_request(LIMITS, {A0: fetch(5)})
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 7, 1000)
    assert (request.isolation_level, request.rack_id) == (1, "a")
    assert (request.session_id, request.session_epoch) == (0, -1)


def test_partitions_stand_by_topic_in_the_order_asked_for() -> None:
    request = fetch_request(LIMITS, {A1: fetch(5), B0: fetch(6, B), A0: fetch(7)})
    assert list(named(request).items()) == [("a", [(1, 5), (0, 7)]), ("b", [(0, 6)])]
    assert [topic.topic_id for topic in request.topics] == [A, B]
    first = request.topics[0].partitions[0]
    assert (first.current_leader_epoch, first.last_fetched_epoch, first.partition_max_bytes) == (4, 3, 100)


def test_a_topic_without_id_needs_the_version_with_names() -> None:
    assert newest_version([fetch(0), fetch(0, B)]) is None
    assert newest_version([fetch(0), PartitionFetch(0, 1)]) == NEWEST_WITH_NAMES
    request = fetch_request(LIMITS, {TopicPartition("orders", 0): fetch(0)})
    by_name, by_id = (request.encode(version) for version in (NEWEST_WITH_NAMES, NEWEST_WITH_NAMES + 1))
    assert (b"orders" in by_name, A in by_name) == (True, False)
    assert (b"orders" in by_id, A in by_id) == (False, True)


# -- sessions (KIP-227)


def test_the_first_fetch_of_a_session_names_everything_and_the_next_only_changes() -> None:
    session = FetchSessionHandler()
    first = session.request(LIMITS, {A0: fetch(5), A1: fetch(6)})
    assert (first.session_id, first.session_epoch, named(first)) == (0, 0, {"a": [(0, 5), (1, 6)]})
    session.answered(77)
    second = session.request(LIMITS, {A0: fetch(5), A1: fetch(8)})
    assert (second.session_id, second.session_epoch, named(second)) == (77, 1, {"a": [(1, 8)]})
    assert forgotten(second) == []


@pytest.mark.parametrize("changed", [fetch(6), fetch(5, leader_epoch=5), fetch(5)._replace(last_fetched_epoch=4)])
def test_an_offset_or_an_epoch_is_a_change(changed: PartitionFetch) -> None:
    session = FetchSessionHandler()
    session.request(LIMITS, {A0: fetch(5)})
    session.answered(77)
    assert named(session.request(LIMITS, {A0: changed})) == {"a": [(0, changed.offset)]}


def test_what_is_not_fetched_any_more_is_forgotten_by_the_broker() -> None:
    session = FetchSessionHandler()
    session.request(LIMITS, {A0: fetch(5), A1: fetch(6), B0: fetch(1, B)})
    session.answered(77)
    request = session.request(LIMITS, {A1: fetch(6)})
    assert (named(request), forgotten(request)) == ({}, [("a", A, [0]), ("b", B, [0])])


def test_a_topic_made_anew_is_named_and_its_old_id_forgotten() -> None:
    session = FetchSessionHandler()
    session.request(LIMITS, {A0: fetch(5)})
    session.answered(77)
    request = session.request(LIMITS, {A0: fetch(0, B)})
    assert (named(request), forgotten(request)) == ({"a": [(0, 0)]}, [("a", A, [0])])


def test_without_a_session_at_the_broker_everything_is_named_again() -> None:
    session = FetchSessionHandler()
    session.request(LIMITS, {A0: fetch(5)})
    session.answered(0)
    request = session.request(LIMITS, {A0: fetch(5)})
    assert (request.session_epoch, named(request)) == (0, {"a": [(0, 5)]})


def test_the_epoch_of_a_session_goes_round_to_1() -> None:
    session = FetchSessionHandler()
    session.epoch = 2**31 - 1
    session.answered(77)
    assert session.epoch == 1


# -- answers


def test_answers_are_found_by_id_and_by_name_and_strange_ones_left_out() -> None:
    asked = {A0: Asked(fetch(5)), B0: Asked(fetch(6, B))}
    by_id, by_name, strange, unasked = data(), data(), data(), data(partition_index=3)
    answer = FetchResponse(
        responses=[
            FetchableTopicResponse(topic_id=B, partitions=[by_id]),
            FetchableTopicResponse(topic="a", partitions=[by_name, unasked]),
            FetchableTopicResponse(topic_id=bytes([9] * 16), partitions=[strange]),
        ]
    )
    found = list(answered(answer, asked))
    assert [one.fetch.offset for one, _ in found] == [6, 5]
    assert found[0][1] is by_id
    assert found[1][1] is by_name
    assert not has_records(answer)
    by_name.records = memoryview(b"x")
    assert has_records(answer)


def test_errors_that_time_or_metadata_mends_are_retriable() -> None:
    assert all(is_retriable(code) for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR))
    assert not any(is_retriable(code) for code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CORRUPT_MESSAGE))


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_broker_that_does_not_lead_names_the_leader(code: ErrorCode) -> None:
    hint = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    assert new_leader(data(code, current_leader=hint)) is hint
    assert new_leader(data(code)) is None
    assert new_leader(data(code, current_leader=LeaderIdAndEpoch(leader_id=-1, leader_epoch=5))) is None
    assert new_leader(data(ErrorCode.NONE, current_leader=hint)) is None
    assert new_leader(data(ErrorCode.UNKNOWN_TOPIC_ID, current_leader=hint)) is None


def test_a_diverging_epoch_is_a_position() -> None:
    assert diverging_position(data(diverging_epoch=DivergingEpoch(epoch=3, end_offset=40))) == LogPosition(40, 3)
    assert diverging_position(data(diverging_epoch=DivergingEpoch())) is None
    assert diverging_position(data()) is None


def test_batches_of_an_answer() -> None:
    batch = memoryview(build_batch([Record(0, 1, None, b"v"), Record(1, 1, None, b"v")]))
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    chunk = completed_fetch(data(records=batch, aborted_transactions=aborted), 0)
    assert chunk is not None
    assert (chunk.next_offset, chunk.aborted, len(chunk.batches)) == (2, aborted, 1)
    assert completed_fetch(data(), 0) is None
    assert completed_fetch(data(records=memoryview(b"")), 0) is None
    with pytest.raises(KafkaError, match="no complete record batch"):
        completed_fetch(data(records=batch[:40]), 0)
