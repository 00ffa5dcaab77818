"""Commits that are recognised wait for the disk together: one write for many, and an answer for each."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from equipoise.broker import Broker
from equipoise.broker.groups.shards import GroupShard
from equipoise.broker.server import Server
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import iter_headers
from tests.broker.calls import create_topic
from tests.broker.conftest import Connect, Gate, StandingClock, Start, advance, eventually, waiting_calls
from tests.broker.rawclient import RawClient
from tests.broker.test_slow_disk import deletions, offsets, under_way
from tests.spec.requests import commit, delete_groups, errors_of, join, leave, sync

ONE_SHARD = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0}
BY_NAME = 9
OK = ErrorCode.NONE


class Member(NamedTuple):
    """The only one of its group. Its next commit will be recognised."""

    client: RawClient
    group: str
    member_id: str

    def commit(self, offset: int) -> OffsetCommitRequest:
        request = commit({"t": [0, 2]}, self.group, offset, generation_id=1)
        request.member_id = self.member_id
        return request

    def committed(self) -> set[int]:
        return set(offsets(self.client, self.group).values())


def settle(client: RawClient, group: str, meanwhile: Callable[[], object] = lambda: None) -> Member:
    """`meanwhile`: while its JoinGroup waits."""
    member_id: str = client.call(join(group=group)).member_id
    client.send(join(member_id, group))
    meanwhile()
    assert client.receive().error_code == OK
    assert client.call(sync(member_id, group)).error_code == OK
    member = Member(client, group, member_id)
    for number in range(3):
        assert codes(client, member.commit(number)) == {OK}
    return member


def codes(client: RawClient, request: OffsetCommitRequest) -> set[int]:
    client.send(request, BY_NAME)
    return heard(client)


def heard(client: RawClient) -> set[int]:
    return set(errors_of(client.receive().topics).values())


def settled(start: Start, connect: Connect, path: Path, count: int, **settings: object) -> tuple[Broker, list[Member]]:
    broker = start({**ONE_SHARD, **settings}, data=path)
    create_topic(connect(broker), "t", 3)
    return broker, [settle(connect(broker), f"g{number}") for number in range(count)]


def held_up(broker: Broker, gate: Gate, members: list[Member]) -> None:
    """The disk is busy with the commit of the first when those of the others come."""
    gate.close()
    for number, member in enumerate(members):
        member.client.send(member.commit(100 + number), BY_NAME)
        if not number:
            assert gate.waiting.wait(60)
    eventually(lambda: commits_under_way(broker) == len(members), "all commits are under way")


def commits_under_way(broker: Broker) -> int:
    def count(server: Server) -> int:
        shard: GroupShard = server.group_coordinator.shard_of("g0")
        return sum(shard.core.offsets.commits_under_way.values())

    return broker.call(count)


def members_of(broker: Broker, *groups: str) -> list[str]:
    def find(server: Server) -> list[str]:
        core = server.group_coordinator.shard_of("g0").core
        return [member_id for group in groups for member_id in core.groups[group].members]

    return broker.call(find)


def records_of_batches(broker: Broker) -> list[int]:
    """How many records the last batches of the shard have."""

    def count(server: Server) -> list[int]:
        log = server.group_coordinator.shard_of("g0").partition.log
        views = log.read(log.log_start_offset, 1 << 20, log.log_end_offset)
        return [header.record_count for view in views for _, header in iter_headers(view)]

    return broker.call(count)


def test_those_that_come_while_the_disk_is_busy_share_a_write(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path
) -> None:
    broker, members = settled(start, connect, tmp_path, 5)
    held_up(broker, gate, members)
    assert under_way(broker) == 2  # the first, and one of the four others
    gate.open()
    assert [heard(member.client) for member in members] == [{OK}] * 5
    assert [member.committed() for member in members] == [{100 + number} for number in range(5)]
    assert (commits_under_way(broker), under_way(broker)) == (0, 0)
    assert records_of_batches(broker)[-2:] == [2, 8]
    broker.stop()
    client = connect(start(ONE_SHARD, data=tmp_path))
    assert [set(offsets(client, f"g{number}").values()) for number in range(5)] == [{100 + n} for n in range(5)]


def test_a_write_has_a_bounded_number_of_them(start: Start, connect: Connect, gate: Gate, tmp_path: Path) -> None:
    broker, members = settled(start, connect, tmp_path, 30)
    held_up(broker, gate, members)
    assert under_way(broker) == 1 + 3  # 29 commits of two partitions, 13 to a write
    gate.open()
    assert [heard(member.client) for member in members] == [{OK}] * 30
    assert [member.committed() for member in members] == [{100 + number} for number in range(30)]


def test_where_batches_are_small_each_has_its_own(start: Start, connect: Connect, gate: Gate, tmp_path: Path) -> None:
    broker, members = settled(start, connect, tmp_path, 4, **{"message.max.bytes": 500})
    held_up(broker, gate, members)
    assert under_way(broker) == 4
    gate.open()
    assert [heard(member.client) for member in members] == [{OK}] * 4
    assert [member.committed() for member in members] == [{100 + number} for number in range(4)]


def test_a_failed_write_is_told_to_each_and_has_no_effect(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    broker, members = settled(start, connect, tmp_path, 4)
    held_up(broker, gate, members)
    monkeypatch.setattr(gate, "_sync", fails)
    gate.open()
    assert [heard(member.client) for member in members] == [{ErrorCode.NOT_COORDINATOR}] * 4
    assert [member.committed() for member in members] == [{2}] * 4
    assert commits_under_way(broker) == 0


def test_those_whose_time_runs_out_count_when_they_are_durable(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path
) -> None:
    clock = StandingClock()
    settings: dict[str, object] = {**ONE_SHARD, "offsets.commit.timeout.ms": 500}
    broker = start(settings, data=tmp_path, clock=clock)
    create_topic(connect(broker), "t", 3)

    def delay_ends() -> None:
        eventually(lambda: waiting_calls(broker), "JoinGroup waits")
        advance(broker, clock, 1)

    members = [settle(connect(broker), f"g{number}", delay_ends) for number in range(3)]
    held_up(broker, gate, members)
    advance(broker, clock, 501)
    assert [heard(member.client) for member in members] == [{ErrorCode.COORDINATOR_NOT_AVAILABLE}] * 3
    gate.open()
    eventually(lambda: members[0].committed() == {100}, "the first is durable")
    assert [member.committed() for member in members[1:]] == [{2}] * 2  # they were not in the log
    eventually(lambda: commits_under_way(broker) == 0, "nothing is under way")


def test_a_deletion_waits_for_those_before_it_and_takes_those_behind_it(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path
) -> None:
    broker, (first, second, third) = settled(start, connect, tmp_path, 3)
    admin = connect(broker)
    held_up(broker, gate, [first, second])
    leaving = [connect(broker) for _ in range(2)]
    for client, member in zip(leaving, (first, second), strict=True):
        client.send(leave(member.member_id, member.group))
    eventually(lambda: not members_of(broker, "g0", "g1"), "both have left")
    admin.send(delete_groups("g0", "g1"), 2)
    eventually(lambda: deletions(broker) > 0, "the deletion waits")
    third.client.send(third.commit(7), BY_NAME)
    eventually(lambda: commits_under_way(broker) == 3, "the third commit is under way")
    gate.open()
    assert [heard(member.client) for member in (first, second, third)] == [{OK}] * 3
    assert [client.receive().error_code for client in leaving] == [OK, OK]
    assert [row.error_code for row in admin.receive().results] == [OK, OK]
    assert [offsets(admin, member.group) for member in (first, second)] == [{}, {}]
    assert third.committed() == {7}


def test_the_order_of_requests_is_kept(start: Start, connect: Connect, tmp_path: Path) -> None:
    """A commit that is gathered has been decided on: what comes behind it on the connection finds it so."""
    _, (member,) = settled(start, connect, tmp_path, 1)
    client = member.client
    sends: list[Callable[[], object]] = [
        lambda: client.send(member.commit(10), BY_NAME),
        lambda: client.send(leave(member.member_id, member.group)),
        lambda: client.send(member.commit(11), BY_NAME),
    ]
    for send in sends:
        send()
    assert heard(client) == {OK}
    assert client.receive().error_code == OK
    assert heard(client) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert member.committed() == {10}
