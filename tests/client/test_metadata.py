"""What a client knows of a cluster, and when it asks again: pure data and rules."""

from __future__ import annotations

import pytest

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.metadata.list_offsets import OffsetAndTimestamp, list_offsets_request, outcomes_of
from equipoise.client.metadata.metadata import (
    Leader,
    Metadata,
    RefreshSchedule,
    metadata_request,
    patience_rounds,
)
from equipoise.client.net.backoff import Backoff
from equipoise.member import BrokerNode
from equipoise.member.backoff import backoff_ms
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from equipoise.wire.apis.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID, OTHER_ID = bytes(15) + b"\1", bytes(15) + b"\2"


def broker(node_id: int, rack: str | None = None) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id=node_id, host=f"host{node_id}", port=9092, rack=rack)


def topic(name: str, *leaders: tuple[int, int], topic_id: bytes = ID, error: int = 0) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            error_code=0,
            partition_index=number,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=[1, 2],
            isr_nodes=[1, 2],
        )
        for number, (leader, epoch) in enumerate(leaders)
    ]
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=partitions)


def answer(*topics: MetadataResponseTopic, brokers: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    return MetadataResponse(brokers=[broker(one) for one in brokers], controller_id=2, topics=list(topics))


def known(*topics: MetadataResponseTopic, brokers: tuple[int, ...] = (1, 2)) -> Metadata:
    metadata = Metadata()
    metadata.update(answer(*topics, brokers=brokers))
    return metadata


def test_leaders_topics_and_ids_are_known() -> None:
    metadata = known(topic("a", (1, 5), (2, 6)))
    assert metadata.leader(A0) == Leader(1, 5)
    assert metadata.leader(A1) == Leader(2, 6)
    assert metadata.leader(B0) is None
    assert metadata.topics["a"].partitions == 2
    assert metadata.topic_name(ID) == "a"
    assert metadata.controller == BrokerNode(2, "host2", 9092)
    assert metadata.by_leader([A0, A1, B0]) == {1: [A0], 2: [A1], None: [B0]}
    assert metadata.is_settled


def test_an_answer_about_all_forgets_what_it_does_not_name_and_a_merge_does_not() -> None:
    metadata = known(topic("a", (1, 5)), topic("b", (2, 0), topic_id=OTHER_ID))
    metadata.merge(answer(topic("b", (1, 1), topic_id=OTHER_ID)))
    assert (metadata.leader(A0), metadata.leader(B0)) == (Leader(1, 5), Leader(1, 1))
    metadata.merge(answer(topic("b", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
    assert (metadata.leader(A0), metadata.leader(B0), metadata.missing) == (Leader(1, 5), None, {"b"})
    metadata.update(answer(topic("b", (1, 2))))
    assert (metadata.leader(A0), metadata.leader(B0), metadata.errors) == (None, Leader(1, 2), {})


@pytest.mark.parametrize(
    ("epoch", "topic_id", "expected"),
    [
        (4, ID, Leader(1, 5)),  # a broker that has not heard of the newest leader
        (6, ID, Leader(2, 6)),
        (-1, ID, Leader(2, -1)),  # brokers of before Kafka 2.1 name none
        (0, OTHER_ID, Leader(2, 0)),  # the topic was made anew
    ],
)
def test_a_leader_gives_way_to_a_newer_one_only(epoch: int, topic_id: bytes, expected: Leader) -> None:
    metadata = known(topic("a", (1, 5)))
    metadata.update(answer(topic("a", (2, epoch), topic_id=topic_id)))
    assert metadata.leader(A0) == expected


def test_a_partition_without_a_leader_is_missing_until_it_has_one() -> None:
    metadata = known(topic("a", (-1, 5), (1, 0)))
    assert metadata.leaderless == {A0}
    assert not metadata.is_settled
    assert metadata.learn_leader(A0, Leader(2, 6), None)
    assert metadata.is_settled
    assert metadata.leader(A0) == Leader(2, 6)


def test_what_a_broker_says_besides_counts_if_it_is_newer_and_can_be_reached() -> None:
    metadata = known(topic("a", (1, 5)))
    assert not metadata.learn_leader(A0, Leader(2, 5), None)
    assert not metadata.learn_leader(A0, Leader(3, 6), None)
    assert metadata.learn_leader(A0, Leader(3, 6), BrokerNode(3, "host3", 9092))
    assert metadata.leader(A0) == Leader(3, 6)


def test_a_leader_that_is_away_is_none() -> None:
    metadata = known(topic("a", (3, 5)))
    assert metadata.leader(A0) is None
    metadata.update(answer(topic("a", (3, 5)), brokers=(1, 3)))
    assert metadata.leader(A0) == Leader(3, 5)


def test_an_error_that_waiting_does_not_mend_is_settled() -> None:
    metadata = known(topic("a", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert metadata.is_settled
    assert metadata.errors == {"a": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    metadata.update(answer(topic("a", error=ErrorCode.LEADER_NOT_AVAILABLE)))
    assert not metadata.is_settled


def test_the_rack_of_a_broker_that_is_away_is_remembered() -> None:
    metadata, response = Metadata(), answer(topic("a", (1, 0)))
    response.brokers = [broker(1, "east"), broker(2, "west")]
    metadata.update(response)
    response.brokers = [broker(1, "east")]
    metadata.update(response)
    assert metadata.topics["a"].racks == (frozenset({"east", "west"}),)


def test_brokers_that_are_known_are_asked_before_those_to_begin_with() -> None:
    assert Metadata().addresses([("first", 1)]) == [("first", 1)]
    expected = [("host1", 9092), ("host2", 9092), ("first", 1)]
    assert known().addresses([("host2", 9092), ("first", 1)]) == expected


def test_topics_are_asked_for_once_and_in_order() -> None:
    asked = metadata_request(["b", "a", "b"]).topics
    assert [one.name for one in asked or []] == ["a", "b"]
    assert metadata_request(None).topics is None
    assert metadata_request([]).topics == []


@pytest.mark.parametrize(("whole", "rounds"), [(0.5, [0.5]), (1.0, [1.0]), (20.0, [1.0, 5.0, 20.0])])
def test_patience_grows_up_to_the_whole(whole: float, rounds: list[float]) -> None:
    assert list(patience_rounds(whole)) == rounds


# -- when


def test_metadata_is_asked_for_when_it_is_old_and_at_once_when_it_is_urgent() -> None:
    schedule = RefreshSchedule(Backoff(100, 1000), max_age=300.0)
    schedule.begin(1000.0)
    schedule.end(is_settled=True)
    assert schedule.due_in(1010.0) == 290.0
    schedule.make_urgent()
    assert schedule.due_in(1010.0) == 0.0
    schedule.begin(1010.0)
    schedule.end(is_settled=True)
    assert schedule.due_in(1010.0) == 300.0


def test_a_request_waits_for_the_pause_after_the_last_attempt() -> None:
    schedule = RefreshSchedule(Backoff(100, 1000), max_age=300.0)
    schedule.begin(1000.0)
    schedule.end(is_settled=True)
    schedule.request()
    assert 0.08 <= schedule.due_in(1000.0) <= 0.12
    assert schedule.due_in(1000.2) < 0
    schedule.begin(1000.2)
    assert schedule.due_in(1000.2) == 300.0


def test_what_is_missing_is_asked_for_with_growing_pauses() -> None:
    schedule = RefreshSchedule(Backoff(100, 1000), max_age=300.0)
    for pause in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        schedule.begin(0.0)
        schedule.end(is_settled=False)
        assert 0.8 * pause <= schedule.due_in(0.0) <= 1.2 * pause
    schedule.end(is_settled=True)
    assert schedule.due_in(0.0) == 300.0


def test_pauses_double_up_to_a_bound() -> None:
    assert [backoff_ms(failures, 100, 1000) for failures in (0, 1, 2, 3, 4, 5, 99)] == [
        0,
        100,
        200,
        400,
        800,
        1000,
        1000,
    ]
    assert backoff_ms(3, 0, 0) == 0


# -- offsets by time


def test_list_offsets_names_the_leaders_epoch() -> None:
    metadata = known(topic("a", (1, 5), (1, 6)))
    request = list_offsets_request({A0: -1, A1: -2, B0: 7}, metadata.leader, isolation_level=1)
    rows = [
        (one.name, [(p.partition_index, p.current_leader_epoch, p.timestamp) for p in one.partitions])
        for one in request.topics
    ]
    assert rows == [("a", [(0, 5, -1), (1, 6, -2)]), ("b", [(0, -1, 7)])]
    assert request.isolation_level == 1


def test_what_may_pass_is_not_among_the_outcomes() -> None:
    codes = (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    rows = [
        ListOffsetsPartitionResponse(partition_index=number, error_code=code, offset=9, timestamp=5, leader_epoch=2)
        for number, code in enumerate(codes)
    ]
    answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a", partitions=rows)])
    outcomes = outcomes_of(answer, ConsumerConfig(bootstrap_servers="a:1"))
    assert outcomes.keys() == {A0, TopicPartition("a", 2)}
    assert outcomes[A0] == OffsetAndTimestamp(9, 5, 2)
    refused = outcomes[TopicPartition("a", 2)]
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
