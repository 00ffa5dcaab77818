"""The wall clock is set while groups are at work: deadlines do not move by it, stamps do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.groups.journal import JOURNAL_TOPIC
from equipoise.client import Consumer
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord, OffsetCommitValue, decode_record
from equipoise.wire.records.batch import iter_headers
from equipoise.wire.records.read import read_pairs
from tests.broker.calls import append, create_topic, read_partition
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient
from tests.crash.served import ServedBroker
from tests.spec.requests import commit, heartbeat, join, sync

BY_NAME = 9  # the last version of OffsetCommit in which topics have names
HOUR = 3_600_000
SUSPENDED = 700_000  # longer than offsets.retention.check.interval.ms, the next timer of a shard without members
JUMPS = [-HOUR, SUSPENDED, -10 * 365 * 24 * HOUR, 24 * HOUR]
WHOLE_DELAY = {"group.initial.rebalance.delay.quiet.ms": 0}
START = 1_700_000_000_000


def jump(broker: Broker, clock: StandingClock, by: int) -> None:
    broker.call(lambda _: clock.set_wall_clock(by))


def settled(broker: Broker, client: RawClient, clock: StandingClock) -> str:
    """The only member of a Stable group, whose initial delay has passed: its id."""
    member_id: str = client.call(join()).member_id
    client.send(join(member_id))
    eventually(lambda: broker.call(is_parked), "the join waits for the initial delay")
    advance(broker, clock, 3_000)
    assert client.receive().error_code == ErrorCode.NONE
    assert client.call(sync(member_id)).error_code == ErrorCode.NONE
    return member_id


def is_parked(server: Any) -> bool:
    return bool(server.group_coordinator.shard_of("g").core.groups["g"].joined)


@pytest.mark.parametrize("by", JUMPS)
def test_a_jump_before_the_first_join_leaves_its_delay_as_it_is(start: Start, connect: Connect, by: int) -> None:
    clock = StandingClock()
    broker = start(clock=clock)
    client = connect(broker)
    client.call(commit({"t": [0]}), BY_NAME)  # the shard is there, with its timers
    jump(broker, clock, by)
    settled(broker, client, clock)


@pytest.mark.parametrize("by", JUMPS)
def test_a_jump_neither_ends_a_session_nor_keeps_one_alive(start: Start, connect: Connect, by: int) -> None:
    clock = StandingClock()
    broker = start(clock=clock)
    client = connect(broker)
    member_id = settled(broker, client, clock)
    for _ in range(3):
        advance(broker, clock, 9_000)  # of a session of 10 s
        jump(broker, clock, by)
        assert client.call(heartbeat(member_id)).error_code == ErrorCode.NONE
    advance(broker, clock, 11_000)
    assert client.call(heartbeat(member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("by", JUMPS)
def test_connections_outlive_a_jump(start: Start, connect: Connect, by: int) -> None:
    clock = StandingClock()
    broker = start({"connections.max.idle.ms": 10_000}, clock=clock)
    client = connect(broker)
    client.call(commit({"t": [0]}), BY_NAME)
    jump(broker, clock, by)
    advance(broker, clock, 9_000)
    assert broker.call(lambda server: len(server.connections)) == 1
    advance(broker, clock, 3_500)
    eventually(lambda: broker.call(lambda server: not server.connections), "the idle connection is closed")


def test_records_and_commits_carry_the_wall_time(start: Start, connect: Connect) -> None:
    clock = StandingClock(START)
    broker = start({"log.message.timestamp.type": "LogAppendTime"}, clock=clock)
    client = connect(broker)
    create_topic(client)
    jump(broker, clock, -HOUR)
    append(client, b"value")
    client.call(commit({"t": [0]}), BY_NAME)
    assert [record.timestamp for record in read_partition(client)] == [START - HOUR]
    stamps = broker.call(commit_stamps)
    assert stamps == [START - HOUR]


def commit_stamps(server: Any) -> list[int]:
    return [
        found.value.commit_timestamp
        for partition in server.topics.require("__consumer_offsets").partitions
        for view in partition.log.read(0, 1 << 20, partition.log.log_end_offset)
        for position, header in iter_headers(view)
        for key, value in read_pairs(view, position, header)
        if isinstance(found := decode_record(key or b"", value), CoordinatorRecord)
        and isinstance(found.value, OffsetCommitValue)
    ]


@pytest.mark.parametrize("by", [-HOUR, SUSPENDED])
def test_the_journal_has_wall_times_and_true_lengths(start: Start, connect: Connect, by: int) -> None:
    clock = StandingClock(START)
    broker = start(WHOLE_DELAY, clock=clock)
    client = connect(broker)
    member_id: str = client.call(join()).member_id
    client.send(join(member_id))
    eventually(lambda: broker.call(is_parked), "the join waits for the initial delay")
    jump(broker, clock, by)
    advance(broker, clock, 3_000)
    assert client.receive().error_code == ErrorCode.NONE
    assert client.call(sync(member_id)).error_code == ErrorCode.NONE
    rows = [json.loads(record.value or b"") for record in read_partition(client, JOURNAL_TOPIC)]
    (whole,) = [row for row in rows if row["type"] == "rebalance"]
    assert (whole["started"], whole["at"]) == (START + by, START + by + 3_000)
    assert whole["phases_ms"]["join"] == 3_000
    assert rows[-2]["at"] == START + by + 3_000


# -- a broker as a process, whose wall clock is set while it runs

SHIFT = """
import os, time

_time, _time_ns = time.time, time.time_ns

def _shift():
    with open(os.environ["CLOCK_SHIFT"]) as file:
        return int(file.read() or 0)

time.time = lambda: _time() + _shift()
time.time_ns = lambda: _time_ns() + _shift() * 1_000_000_000
"""


class ShiftedBroker(ServedBroker):
    def __init__(self, path: Path) -> None:
        (path / "sitecustomize.py").write_text(SHIFT)
        self._shift = path / "shift"
        self.shift(0)
        environment = os.environ | {"PYTHONPATH": str(path), "CLOCK_SHIFT": str(self._shift)}
        super().__init__(path / "data", path / "log", WHOLE_DELAY, env=environment)

    def shift(self, seconds: int) -> None:
        beside = self._shift.with_suffix(".new")
        beside.write_text(str(seconds))
        beside.replace(self._shift)


@pytest.fixture
def shifted(tmp_path: Path) -> Iterator[ShiftedBroker]:
    with ShiftedBroker(tmp_path) as broker:
        yield broker
        assert "Traceback" not in broker.log.read_text()


@pytest.mark.parametrize(("before", "during"), [(700, 0), (0, -3600)])
def test_groups_join_read_and_rebalance_whatever_the_wall_clock_does(
    shifted: ShiftedBroker, before: int, during: int
) -> None:
    """The jumps come before the first JoinGroup, and while it waits for the initial delay."""
    with RawClient(shifted.address) as client:
        create_topic(client, partitions=2)
        client.call(commit({"t": [0]}), BY_NAME)
        shifted.shift(before)
        with consumer(shifted) as first:
            eventually(lambda: first.poll(0.05) == [] and state(client) == "PreparingRebalance", "the group waits")
            shifted.shift(during)
            read(first, client, b"after a jump")
            shifted.shift(before)
            with consumer(shifted) as second:
                both = [first, second]
                eventually(lambda: [one.poll(0.05) for one in both] and all(map(owns_one, both)), "both have a part")
            eventually(lambda: first.poll(0.05) == [] and len(first.assignment()) == 2, "the first has all again")


def state(client: RawClient) -> str:
    return str(client.call(DescribeGroupsRequest(groups=["jumping"])).groups[0].group_state)


def consumer(broker: ServedBroker) -> Consumer:
    found = Consumer({"bootstrap.servers": broker.address, "group.id": "jumping", "auto.offset.reset": "earliest"})
    found.subscribe(["t"])
    return found


def owns_one(one: Consumer) -> bool:
    return len(one.assignment()) == 1


def read(reader: Consumer, writer: RawClient, value: bytes) -> None:
    append(writer, value)
    got: list[bytes | None] = []

    def is_read() -> bool:
        got.extend(record.value for record in reader.poll(0.1))
        return value in got

    eventually(is_read, f"{value!r} is read")
    reader.commit()
