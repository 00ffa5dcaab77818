"""Commits that are recognised by their bytes: from outside they are commits like any other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker.groups.repeated_commit import RepeatedCommit
from equipoise.testing import Fail
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import create_topic, delete_topic
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually, waiting_calls
from tests.broker.rawclient import RawClient, request_frame, sized
from tests.broker.test_client_quotas import set_quota
from tests.spec.requests import heartbeat, join, sync

AT_ONCE = {"group.initial.rebalance.delay.ms": 0}
BY_NAME = 9
SESSION = 10_000  # of `join`
Offsets = dict[tuple[str, int], int]
Ways = Counter[bool]


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    """How often a connection that remembered a commit has recognised the next request (True), and has not."""
    counted: Ways = Counter()
    serve = RepeatedCommit.serve

    def counting(self: RepeatedCommit, *args: Any) -> Any:
        call = serve(self, *args)
        counted[call is not None] += 1
        return call

    monkeypatch.setattr(RepeatedCommit, "serve", counting)
    return counted


def commit(member: tuple[str, int], offsets: Offsets, *, epoch: int = 3, metadata: str = "") -> OffsetCommitRequest:
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, number), offset in offsets.items():
        row = OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            committed_metadata=metadata,
        )
        by_topic.setdefault(topic, []).append(row)
    return OffsetCommitRequest(
        group_id="g",
        member_id=member[0],
        generation_id_or_member_epoch=member[1],
        topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in by_topic.items()],
    )


def codes(response: Any) -> list[int]:
    return [row.error_code for topic in response.topics for row in topic.partitions]


def committed(client: RawClient) -> dict[tuple[str, int], tuple[int, int, str]]:
    answer = client.call(OffsetFetchRequest(group_id="g", topics=None), 7)
    return {
        (topic.name, row.partition_index): (row.committed_offset, row.committed_leader_epoch, row.metadata)
        for topic in answer.topics
        for row in topic.partitions
    }


def settle(client: RawClient, meanwhile: Callable[[], object] = lambda: None) -> tuple[str, int]:
    """The only member of a Stable group, with its generation. `meanwhile`: while its JoinGroup waits."""
    create_topic(client, "t", partitions=3)
    create_topic(client, "u", partitions=3)
    member_id: str = client.call(join()).member_id
    client.send(join(member_id))
    meanwhile()
    generation: int = client.receive().generation_id
    assert client.call(sync(member_id, generation_id=generation)).error_code == ErrorCode.NONE
    return member_id, generation


def remembered(client: RawClient, meanwhile: Callable[[], object] = lambda: None) -> tuple[str, int]:
    """The same, when its next commit of t:0 will be recognised; so was the last one, of offset 2."""
    member = settle(client, meanwhile)
    for number in range(3):
        assert codes(client.call(commit(member, {("t", 0): number}), BY_NAME)) == [ErrorCode.NONE]
    return member


@pytest.mark.parametrize("version", [6, 7, 8, 9])
def test_each_commit_counts_with_its_own_offsets(start: Start, connect: Connect, ways: Ways, version: int) -> None:
    client = connect(start(AT_ONCE))
    member = settle(client)
    for number in range(1, 6):
        offsets = {("t", 0): number, ("t", 2): 2**62 + number, ("u", 1): -1 + number}
        assert codes(client.call(commit(member, offsets, epoch=number), version)) == [ErrorCode.NONE] * 3
        assert committed(client) == {place: (offset, number, "") for place, offset in offsets.items()}
    assert ways[True] == 3  # the first is unknown, the second is as long, the others are like it


def test_many_under_way_are_answered_in_order(start: Start, connect: Connect, ways: Ways) -> None:
    client = connect(start(AT_ONCE))
    member = settle(client)
    for number in range(50):
        client.send(commit(member, {("t", 0): number}), BY_NAME)
        client.send(heartbeat(member[0]))
    for _ in range(50):
        assert codes(client.receive()) == [ErrorCode.NONE]
        assert client.receive().error_code == ErrorCode.NONE
    assert (committed(client), ways[True]) == ({("t", 0): (49, 3, "")}, 48)


def test_a_member_of_the_past_is_refused(start: Start, connect: Connect, ways: Ways) -> None:
    broker = start(AT_ONCE)
    client, other = connect(broker), connect(broker)
    member = remembered(client)
    other.send(join(other.call(join()).member_id))
    client.call(join(member[0]))
    assert codes(client.call(commit(member, {("t", 0): 9}), BY_NAME)) == [ErrorCode.ILLEGAL_GENERATION]
    assert codes(client.call(commit((member[0], 2), {("t", 0): 9}), BY_NAME)) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert (committed(client)["t", 0][0], ways[True]) == (2, 2)


def test_each_is_a_sign_of_life(start: Start, connect: Connect, ways: Ways) -> None:
    """Rule 4.1.10."""
    clock = StandingClock()
    broker = start(AT_ONCE, clock=clock)
    client = connect(broker)

    def delay_ends() -> None:
        eventually(lambda: waiting_calls(broker), "JoinGroup waits")
        advance(broker, clock, 1)

    member = remembered(client, delay_ends)
    for number in range(3, 8):
        advance(broker, clock, SESSION * 2 // 3)
        assert codes(client.call(commit(member, {("t", 0): number}), BY_NAME)) == [ErrorCode.NONE]
    assert ways[True] == 6
    advance(broker, clock, SESSION)
    assert codes(client.call(commit(member, {("t", 0): 9}), BY_NAME)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_topic_that_is_gone_is_unknown(start: Start, connect: Connect) -> None:
    client = connect(start(AT_ONCE))
    member = settle(client)
    for number in range(3):
        assert codes(client.call(commit(member, {("t", 0): number, ("u", 0): number}), BY_NAME)) == [ErrorCode.NONE] * 2
    assert delete_topic(client, "t") == ErrorCode.NONE
    answer = client.call(commit(member, {("t", 0): 9, ("u", 0): 9}), BY_NAME)
    assert codes(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    create_topic(client, "t", partitions=3)
    assert codes(client.call(commit(member, {("t", 0): 10, ("u", 0): 10}), BY_NAME)) == [ErrorCode.NONE] * 2
    assert {place: row[0] for place, row in committed(client).items()} == {("t", 0): 10, ("u", 0): 10}


def test_faults_are_met_by_commits_that_were_recognised(start: Start, connect: Connect, ways: Ways) -> None:
    broker = start(AT_ONCE)
    client = connect(broker)
    member = remembered(client)
    with broker.control(Fail(apis=["OffsetCommit"], error=ErrorCode.REBALANCE_IN_PROGRESS)):
        assert codes(client.call(commit(member, {("t", 0): 9}), BY_NAME)) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert (committed(client)["t", 0][0], ways[True]) == (2, 1)


def test_quotas_count_commits_that_were_recognised(start: Start, connect: Connect, ways: Ways) -> None:
    broker = start(AT_ONCE)
    client = connect(broker)
    member = remembered(client)
    set_quota(connect(broker), "request_percentage", 1e-9)
    answer = client.call(commit(member, {("t", 0): 9}), BY_NAME)
    assert codes(answer) == [ErrorCode.NONE]
    assert answer.throttle_time_ms > 0
    assert ways[True] == 1


@pytest.mark.parametrize("broken", [lambda body: body[:-1], lambda body: body + b"\0", lambda body: body[:-1] + b"\1"])
def test_bytes_that_are_no_commit_end_the_connection(
    start: Start, connect: Connect, broken: Callable[[bytes], bytes]
) -> None:
    broker = start(AT_ONCE)
    client = connect(broker)
    member = remembered(client)
    frame = request_frame(commit(member, {("t", 0): 9}), BY_NAME)
    client.send_bytes(sized(broken(frame[4:])))
    client.wait_closed()
    assert committed(connect(broker))["t", 0][0] == 2


def drawn(seed: int, member: tuple[str, int]) -> list[tuple[OffsetCommitRequest, int]]:
    """Commits that are alike, and others of the same length between them."""
    chance = random.Random(seed)
    places = [(topic, number) for topic in ("t", "u", "x") for number in range(4)]
    found = [(commit(member, {("t", 0): offset}), BY_NAME) for offset in range(4)]
    for _ in range(12):
        chosen = chance.sample(places, chance.choice([1, 1, 2, 3]))
        version = chance.choice([6, 8, 9, 9])
        who = chance.choice([member, member, member, (member[0], 7), ("x" * len(member[0]), member[1])])
        metadata = chance.choice(["", "", "", "m", "m" * 5000])
        for _ in range(chance.choice([1, 3, 6])):
            offsets = {place: chance.choice([-1, 0, 5, 2**40]) for place in chosen}
            request = commit(who, offsets, epoch=chance.choice([-1, 0, 4]), metadata=metadata)
            found.append((request, chance.choice([version, version, version, 9])))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_what_is_recognised_is_answered_as_what_is_decoded(
    start: Start, connect: Connect, ways: Ways, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    told = []
    for _ in range(2):
        client = connect(start(AT_ONCE))
        answers = [client.call(*one) for one in drawn(seed, settle(client))]
        told.append((list(map(codes, answers)), committed(client)))
        monkeypatch.setattr(RepeatedCommit, "serve", lambda *_: None)
    assert told[0] == told[1]
    assert ways[True] >= 2


def test_a_connection_whose_commits_differ_is_not_remembered_for_ever(
    start: Start, connect: Connect, ways: Ways
) -> None:
    client = connect(start(AT_ONCE))
    member = settle(client)
    for number in range(20):
        assert codes(client.call(commit(member, {("t", number % 3): number}), BY_NAME)) == [ErrorCode.NONE]
    assert ways == {False: 3}
    assert {place[1]: row[0] for place, row in committed(client).items()} == {0: 18, 1: 19, 2: 17}
