"""TxnOffsetCommit and what it does to a group's offsets, on the raw protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.security.acls import Resource, ResourceType
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import create_topic, delete_topic
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient
from tests.broker.txn_calls import RawProducer, committed, settled

NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
def producer(client: RawClient) -> RawProducer:
    create_topic(client, partitions=2)
    return RawProducer(client)


def commit(client: RawClient, offset: int, group_id: str = "g", partition: int = 0) -> int:
    rows = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=rows)]
    ((row,),) = [one.partitions for one in client.call(OffsetCommitRequest(group_id=group_id, topics=topics), 8).topics]
    return int(row.error_code)


def test_t70_a_pending_offset_is_unstable_until_its_transaction_ends(client: RawClient, producer: RawProducer) -> None:
    assert commit(client, 3) == NONE
    assert producer.commit_offset("g", 7) == NONE
    assert committed(client, "g") == (UNSTABLE, -1)
    assert committed(client, "g", stable=False) == (NONE, 3)
    assert committed(client, "g", partition=1) == (NONE, -1)
    producer.end(commit=True)
    assert settled(client, "g") == 7
    assert committed(client, "g", stable=False) == (NONE, 7)


def test_t69_an_abort_leaves_the_old_offset(client: RawClient, producer: RawProducer) -> None:
    assert commit(client, 3) == NONE
    assert producer.commit_offset("g", 7) == NONE
    producer.end(commit=False)
    assert settled(client, "g") == 3


def test_t69_the_order_of_records_decides(client: RawClient, producer: RawProducer) -> None:
    assert producer.commit_offset("g", 7) == NONE
    assert commit(client, 5) == NONE
    assert committed(client, "g") == (UNSTABLE, -1)
    producer.end(commit=True)
    assert settled(client, "g") == 5  # the later record
    assert producer.commit_offset("g", 7) == NONE
    producer.end(commit=True)
    assert settled(client, "g") == 7


def test_t66_older_clients_must_have_added_the_group(client: RawClient) -> None:
    create_topic(client)
    producer = RawProducer(client, bumps=False)
    producer.write(b"a")
    assert producer.commit_offset("g", 7, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.commit_offset("g", 7, version=3) == ErrorCode.INVALID_TXN_STATE
    assert producer.add_offsets("g") == NONE
    assert producer.commit_offset("g", 7, version=3) == NONE
    producer.end(commit=True)
    assert settled(client, "g") == 7


@pytest.mark.parametrize("version", [4, 5])
def test_t66_who_is_not_the_producer_is_refused(client: RawClient, producer: RawProducer, version: int) -> None:
    assert producer.commit_offset("g", 7) == NONE
    producer.epoch -= 1
    assert producer.commit_offset("g", 8, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH
    producer.producer_id += 1
    assert producer.commit_offset("g", 8, version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer.transactional_id = "nobody"
    assert producer.commit_offset("g", 8, version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(
    ("member", "error"),
    [
        ({"generation_id": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 3, "member_id": "m"}, ErrorCode.ILLEGAL_GENERATION),
        ({}, NONE),
        ({"member_id": "m"}, NONE),
    ],
)
def test_t65_a_group_that_nobody_knows(
    client: RawClient, producer: RawProducer, member: dict[str, Any], error: ErrorCode
) -> None:
    assert producer.commit_offset("g", 7, **member) == error


def test_t65_what_is_not_there_is_answered_by_itself(client: RawClient, producer: RawProducer) -> None:
    assert producer.commit_offset("g", 7, partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offset("g", 7, topic="none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offset("", 7) == ErrorCode.INVALID_GROUP_ID
    assert producer.commit_offset("g", 7, metadata="x" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_t71_deleted_offsets_do_not_come_back_with_the_marker(client: RawClient, producer: RawProducer) -> None:
    assert producer.commit_offset("g", 7) == NONE
    topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    assert client.call(OffsetDeleteRequest(group_id="g", topics=[topic])).error_code == NONE
    assert committed(client, "g") == (NONE, -1)
    producer.end(commit=True)
    assert settled(client, "g") == -1


def test_t71_a_deleted_group_takes_its_pending_offsets_with_it(client: RawClient, producer: RawProducer) -> None:
    assert producer.commit_offset("g", 7) == NONE
    (result,) = client.call(DeleteGroupsRequest(groups_names=["g"])).results
    assert result.error_code == NONE
    assert committed(client, "g") == (NONE, -1)
    producer.end(commit=True)
    assert settled(client, "g") == -1


def test_t71_a_deleted_topic_too(client: RawClient, producer: RawProducer) -> None:
    assert producer.commit_offset("g", 7) == NONE
    assert delete_topic(client, "t") == NONE
    eventually(lambda: committed(client, "g") == (NONE, -1), "the offsets of the topic are gone")
    producer.end(commit=True)
    assert settled(client, "g") == -1


@pytest.mark.parametrize(
    ("denied", "error"),
    [
        (Resource(ResourceType.TRANSACTIONAL_ID, "tx"), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (Resource(ResourceType.GROUP, "g"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (Resource(ResourceType.TOPIC, "t"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
    ids=["id", "group", "topic"],
)
def test_it_needs_the_id_the_group_and_the_topic(
    start: Start, connect: Connect, denied: Resource, error: ErrorCode
) -> None:
    refused: set[Resource] = set()
    client = connect(start(authorizer=lambda session, operation, resource: resource not in refused))
    create_topic(client)
    producer = RawProducer(client)
    refused.add(denied)
    assert producer.commit_offset("g", 7) == error
    refused.clear()
    assert producer.commit_offset("g", 7) == NONE


@pytest.mark.parametrize("ending", ["commit", "abort", None])
def test_t73_pending_offsets_and_markers_are_loaded(
    start: Start, connect: Connect, tmp_path: Path, ending: str | None
) -> None:
    broker: Broker = start(data=tmp_path)
    client = connect(broker)
    create_topic(client)
    producer = RawProducer(client)
    assert commit(client, 3) == NONE
    assert producer.commit_offset("g", 7) == NONE
    if ending is not None:
        producer.end(commit=ending == "commit")
        settled(client, "g")
    broker.stop()
    client = connect(start(data=tmp_path))
    eventually(lambda: committed(client, "g")[0] != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the group is loaded")
    expected = {"commit": (NONE, 7), "abort": (NONE, 3), None: (UNSTABLE, -1)}[ending]
    assert committed(client, "g") == expected
    if ending is None:
        producer.client = client
        producer.end(commit=True)
        assert settled(client, "g") == 7
