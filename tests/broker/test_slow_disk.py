"""Groups while the disk does not answer: what they hear, and that what is in memory then is what the log says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from equipoise.broker import Broker
from equipoise.broker.groups.shards import GroupShard
from equipoise.broker.server import Server
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import create_topic
from tests.broker.conftest import Connect, Gate, Start, eventually
from tests.broker.rawclient import RawClient
from tests.spec.requests import commit, delete_groups, errors_of, fetch, list_groups, offsets_of

OK = ErrorCode.NONE
SETTINGS = {"offsets.topic.num.partitions": 1}


def under_way(broker: Broker) -> int:
    """How many writes of groups are not done yet."""

    def count(server: Server) -> int:
        shard: GroupShard = server.group_coordinator.shard_of("g")
        return shard._begun - shard._ended

    return broker.call(count)


def deletions(broker: Broker) -> int:
    """How many requests wait for writes."""
    return broker.call(lambda server: len(server.group_coordinator.shard_of("g")._after_writes))


def offsets(client: RawClient, group: str = "g") -> dict[tuple[str | bytes, int], int]:
    def answer() -> Any:
        found = client.call(fetch(None, 7, group), 7)
        return found if found.error_code == OK else None

    return offsets_of(eventually(answer, "the group is loaded").topics)


def names(client: RawClient) -> list[str]:
    return sorted(row.group_id for row in client.call(list_groups()).groups)


def code_of(answer: Any) -> set[int]:
    return set(errors_of(answer.topics).values())


def test_a_commit_that_begins_while_a_deletion_waits_goes_with_the_group(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path
) -> None:
    """Its offset stayed, of a group that was no more: nobody could delete it, and it never expired."""
    broker = start(SETTINGS, data=tmp_path)
    first, admin, second = (connect(broker) for _ in range(3))
    create_topic(first, "t", 3)
    first.call(commit({"t": [0]}, offset=10), 9)
    gate.close()
    first.send(commit({"t": [0]}, offset=11), 9)
    eventually(lambda: under_way(broker) == 1, "the first commit is under way")
    admin.send(delete_groups(), 2)
    eventually(lambda: deletions(broker) == 1, "the deletion waits for it")
    second.send(commit({"t": [2]}, offset=5), 9)
    eventually(lambda: under_way(broker) == 2, "the second commit is under way")
    gate.open()
    assert [code_of(first.receive()), code_of(second.receive())] == [{OK}, {OK}]
    assert [row.error_code for row in admin.receive().results] == [OK]
    assert (names(first), offsets(first)) == ([], {})
    broker.stop()
    client = connect(start(SETTINGS, data=tmp_path))
    assert (offsets(client), names(client)) == ({}, [])
