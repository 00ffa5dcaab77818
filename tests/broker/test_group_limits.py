"""Groups that are too large, or say too much: what is refused before it is written, and what the journal cuts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.wire.apis.k14_sync_group import SyncGroupRequestAssignment
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import BatchHeader, iter_headers
from tests.broker.calls import create_topic, delete_topic, read_partition
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient
from tests.spec.requests import commit, delete_groups, fetch, join, list_groups, sync

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
LIMIT = 1_048_588  # max.message.bytes


@pytest.fixture
def broker(start: Start) -> Broker:
    return start(SETTINGS)


def enter(client: RawClient, group: str) -> str:
    member_id: str = client.call(join(group=group)).member_id
    assert client.call(join(member_id, group)).error_code == ErrorCode.NONE
    return member_id


def assigning(member_id: str, group: str, size: int) -> Any:
    rows = [SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(size))]
    return sync(member_id, group, assignments=rows)


def batches_of_groups(broker: Broker) -> list[BatchHeader]:
    def look(server: Server) -> list[BatchHeader]:
        log = server.topics.require("__consumer_offsets").partitions[0].log
        return [header for view in log.read(0, 1 << 30, log.log_end_offset) for _, header in iter_headers(view)]

    return broker.call(look)


def test_an_assignment_larger_than_a_batch_is_refused_and_not_written(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    member_id = enter(client, "g")
    answer = client.call(assigning(member_id, "g", LIMIT))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert sum(header.size for header in batches_of_groups(broker)) < 1000
    assert client.call(join(member_id)).generation_id == 2
    assert client.call(sync(member_id, generation_id=2)).error_code == ErrorCode.NONE


def test_many_large_groups_are_written_in_batches_within_the_limit(broker: Broker, connect: Connect) -> None:
    """They came together in one batch of any size; the loop stood still for seconds, and clients were told of failures
    although all was written."""
    names = [f"g{number}" for number in range(40)]
    clients = {name: connect(broker) for name in names}
    members = {name: enter(client, name) for name, client in clients.items()}
    for name, client in clients.items():
        client.send(assigning(members[name], name, 600_000))
    for client in clients.values():
        assert client.receive().error_code == ErrorCode.NONE
    sizes = [header.size for header in batches_of_groups(broker)]
    assert max(sizes) <= LIMIT
    assert sum(size > 600_000 for size in sizes) == len(names)


def test_one_that_is_too_large_does_not_stand_in_the_way_of_others(broker: Broker, connect: Connect) -> None:
    names = [f"g{number}" for number in range(9)]
    clients = {name: connect(broker) for name in names}
    members = {name: enter(client, name) for name, client in clients.items()}
    for number, (name, client) in enumerate(clients.items()):
        client.send(assigning(members[name], name, 2 * LIMIT if number % 2 else 10))
    codes = [client.receive().error_code for client in clients.values()]
    refused = ErrorCode.UNKNOWN_SERVER_ERROR
    assert codes == [refused if number % 2 else ErrorCode.NONE for number in range(len(names))]


def test_a_commit_larger_than_a_batch_is_refused_and_not_kept(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    create_topic(client, partitions=300)
    request = commit({"t": list(range(300))})
    for row in request.topics[0].partitions:
        row.committed_metadata = "x" * 4000
    (answer,) = client.call(request, 9).topics
    assert {row.error_code for row in answer.partitions} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    (group,) = client.call(fetch(None, 9), 9).groups
    assert group.topics == []


SMALL = 4_000  # max.message.bytes, of the two that follow
MANY = 300  # offsets, whose tombstones take more than that


def committed(client: RawClient, *groups: str) -> None:
    """In many commits, each of which fits into a batch."""
    create_topic(client, partitions=MANY)
    for group in groups:
        for first in range(0, MANY, 20):
            (answer,) = client.call(commit({"t": list(range(first, first + 20))}, group), 9).topics
            assert {row.error_code for row in answer.partitions} == {ErrorCode.NONE}


def has_offsets(client: RawClient, *groups: str) -> bool:
    return any(row.topics for row in client.call(fetch(None, 9, *groups), 9).groups)


def test_the_offsets_of_a_deleted_topic_go_however_many_they_are(start: Start, connect: Connect) -> None:
    """A topic of the same name would begin at the offsets of the old one."""
    broker = start({**SETTINGS, "message.max.bytes": SMALL})
    client = connect(broker)
    committed(client, "g", "h")
    assert delete_topic(client, "t") == ErrorCode.NONE
    eventually(lambda: not has_offsets(client, "g", "h"), "the offsets are gone")
    assert max(header.size for header in batches_of_groups(broker)) <= SMALL
    results = client.call(delete_groups("g", "h")).results  # behind all writes
    assert [row.error_code for row in results] == [ErrorCode.NONE] * 2


def test_expired_offsets_go_with_their_group_however_many_they_are(start: Start, connect: Connect) -> None:
    """The sweep tried them all again in vain, every time."""
    clock = StandingClock()
    settings = {**SETTINGS, "message.max.bytes": SMALL, "offsets.retention.minutes": 1}
    broker = start({**settings, "offsets.retention.check.interval.ms": 120_000}, clock=clock)
    client = connect(broker)
    committed(client, "g")
    before = len(batches_of_groups(broker))
    advance(broker, clock, 120_000)
    eventually(lambda: not has_offsets(client, "g"), "the offsets are gone")
    assert client.call(list_groups()).groups == []
    sizes = [header.size for header in batches_of_groups(broker)[before:]]
    assert max(sizes) <= SMALL
    assert len(sizes) > 2
    (result,) = client.call(delete_groups("g")).results  # behind all writes
    assert result.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deletion_larger_than_a_batch_is_refused_as_a_whole(start: Start, connect: Connect) -> None:
    client = connect(start({**SETTINGS, "message.max.bytes": SMALL}))
    committed(client, "g")
    (result,) = client.call(delete_groups("g")).results
    assert result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (group,) = client.call(fetch(None, 9), 9).groups
    assert len(group.topics[0].partitions) == MANY


def rows(client: RawClient, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(record.value or b"") for record in read_partition(client, "__rebalances")]
    return [row for row in found if row["type"] == kind]


def test_long_ids_are_cut_before_they_go_to_disk_and_say_by_how_much(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    create_topic(client)
    enter(client, "g")
    request = commit({"t": [0]}, generation_id=1)
    request.member_id = "m" * 30_000
    (answer,) = client.call(request, 9).topics
    assert answer.partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    (row,) = eventually(lambda: rows(client, "commit_refused"), "the refusal is in the journal")
    assert row["who"]["member_id"] == "m" * 1_000 + "…+29000"


def test_a_large_assignment_is_a_short_row(start: Start, connect: Connect) -> None:
    """With a larger max.message.bytes a group may be what it likes; the journal says that it has not looked."""
    client = connect(start({**SETTINGS, "message.max.bytes": 10_000_000}))
    member_id = enter(client, "g")
    assert client.call(assigning(member_id, "g", 4_000_000)).error_code == ErrorCode.NONE
    (row,) = eventually(lambda: rows(client, "rebalance"), "the rebalance is in the journal")
    assert (row["moved"], row["cut"]) == ([], 1_000_000)
