"""Groups while the disk does not answer: what they hear, and that what is in memory then is what the log says."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.groups.shards import GroupShard
from equipoise.broker.server import Server
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message
from tests.broker.calls import create_topic, delete_topic
from tests.broker.conftest import Connect, Gate, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient
from tests.spec.requests import commit, delete_groups, delete_offsets, errors_of, fetch, list_groups, offsets_of

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


class Hanging:
    """A broker on a disk that now and then takes longer than `offsets.commit.timeout.ms`, and a connection to it."""

    def __init__(self, start: Start, connect: Connect, gate: Gate, data: Path) -> None:
        self._start, self._connect, self._gate, self._data = start, connect, gate, data
        self._clock = StandingClock()
        self.begin()
        create_topic(self.client, "t", 3)

    def begin(self) -> None:
        self._broker = self._start(SETTINGS, data=self._data, clock=self._clock)
        self.client = self._connect(self._broker)

    def calls_too_long(self, request: Message, version: int) -> Any:
        """The answer, while the disk still hangs."""
        self._gate.close()
        self.client.send(request, version)
        assert self._gate.waiting.wait(60)
        advance(self._broker, self._clock, 5_000)
        return self.client.receive()

    def opens(self) -> None:
        self._gate.open()

    def goes_on(self) -> None:
        """All is on disk, and in effect."""
        self.opens()
        assert code_of(self.client.call(commit({"t": [0]}, "other"), 9)) == {OK}

    def state(self, *groups: str) -> tuple[list[str], list[dict[tuple[str | bytes, int], int]]]:
        found = [offsets(self.client, group) for group in groups]
        return names(self.client), found

    def state_after_restart(self, *groups: str) -> tuple[list[str], list[dict[tuple[str | bytes, int], int]]]:
        self._broker.stop()
        self.begin()
        return self.state(*groups)


@pytest.fixture
def hanging(start: Start, connect: Connect, gate: Gate, tmp_path: Path) -> Hanging:
    return Hanging(start, connect, gate, tmp_path)


def test_a_commit_that_is_durable_after_its_time_out_takes_effect(hanging: Hanging) -> None:
    """It was in the log, and nowhere else: a restart brought it back."""
    answer = hanging.calls_too_long(commit({"t": [1]}, offset=20), 9)
    assert code_of(answer) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert offsets(hanging.client) == {}
    hanging.goes_on()
    state = hanging.state("g")
    assert state == (["g", "other"], [{("t", 1): 20}])
    assert hanging.state_after_restart("g") == state


def test_a_group_whose_tombstone_is_durable_after_its_time_out_is_gone(hanging: Hanging) -> None:
    """It was there again, with its offsets, until a restart."""
    hanging.client.call(commit({"t": [0]}, offset=10), 9)
    (result,) = hanging.calls_too_long(delete_groups(), 2).results
    assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert names(hanging.client) == []
    hanging.goes_on()
    state = hanging.state("g")
    assert state == (["other"], [{}])
    assert hanging.state_after_restart("g") == state


def test_a_deletion_of_offsets_takes_a_commit_whose_time_ran_out_with_it(hanging: Hanging) -> None:
    """It was there again when the disk answered, behind an answer that said that it was gone."""
    hanging.client.call(commit({"t": [0]}, offset=10), 9)
    hanging.calls_too_long(commit({"t": [1, 2]}, offset=20), 9)
    hanging.client.send(delete_offsets({"t": [0, 1]}), 0)
    hanging.opens()
    assert code_of(hanging.client.receive()) == {OK}
    hanging.goes_on()
    state = hanging.state("g")
    assert state == (["g", "other"], [{("t", 2): 20}])
    assert hanging.state_after_restart("g") == state


def test_a_deletion_of_a_topic_takes_a_commit_whose_time_ran_out_with_it(hanging: Hanging) -> None:
    """A topic of that name that came later had an offset of the one before."""
    create_topic(hanging.client, "u", 2)
    hanging.calls_too_long(commit({"t": [0], "u": [1]}, offset=20), 9)
    assert delete_topic(hanging.client, "u") == OK
    hanging.goes_on()
    create_topic(hanging.client, "u", 2)
    state = hanging.state("g")
    assert state == (["g", "other"], [{("t", 0): 20}])
    assert hanging.state_after_restart("g") == state


def test_a_deletion_takes_a_commit_whose_time_ran_out_with_it(hanging: Hanging) -> None:
    """After a restart it was back, of no group that anybody had made."""
    hanging.calls_too_long(commit({"t": [1]}, offset=20), 9)
    hanging.client.send(delete_groups(), 2)
    hanging.opens()
    (result,) = hanging.client.receive().results
    assert result.error_code == OK
    hanging.goes_on()
    state = hanging.state("g")
    assert state == (["other"], [{}])
    assert hanging.state_after_restart("g") == state


def test_a_deletion_of_a_topic_while_its_offsets_are_loaded(
    start: Start, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stayed, and a topic of that name that came later had them."""
    broker = start(SETTINGS, data=tmp_path)
    client = connect(broker)
    create_topic(client, "t", 3)
    client.call(commit({"t": [0]}, offset=10), 9)
    broker.stop()
    replay, is_read = GroupShard._replay, threading.Event()

    async def slowly(shard: GroupShard) -> None:
        while not is_read.is_set():
            await asyncio.sleep(0.01)
        await replay(shard)

    monkeypatch.setattr(GroupShard, "_replay", slowly)
    client = connect(start(SETTINGS, data=tmp_path))
    assert client.call(fetch(None, 7, "g"), 7).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert delete_topic(client, "t") == OK
    create_topic(client, "t", 3)
    is_read.set()
    offsets(client)  # the group is loaded
    assert code_of(client.call(commit({"t": [0]}, "other"), 9)) == {OK}  # behind the tombstones
    assert offsets(client) == {}
