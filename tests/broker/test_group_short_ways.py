"""What groups do to be quick, seen from outside: it must not be seen, except that it is quick."""

from __future__ import annotations

from pathlib import Path

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.security.session import Session
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import iter_headers
from tests.broker.calls import create_topic
from tests.broker.conftest import Connect, Gate, StandingClock, Start, advance, eventually, waiting_calls
from tests.broker.rawclient import RawClient
from tests.spec.requests import commit, heartbeat, join, sync

AT_ONCE = {"group.initial.rebalance.delay.ms": 0}
ONE_SHARD = {"offsets.topic.num.partitions": 1}
CROWD = 130  # more than leave in one turn of the loop
BY_NAME = 9


def settle(client: RawClient, group: str = "g") -> str:
    """The only member of a Stable group: its id."""
    member_id: str = client.call(join(group=group)).member_id
    assert client.call(join(member_id, group)).error_code == ErrorCode.NONE
    assert client.call(sync(member_id, group)).error_code == ErrorCode.NONE
    return member_id


# -- heartbeats that repeat themselves


def test_the_same_heartbeat_again_and_again_is_answered_each_time_in_order(start: Start, connect: Connect) -> None:
    client = connect(start(AT_ONCE))
    member_id = settle(client)
    for version in (0, 4, 4, 3):
        for _ in range(3):
            client.send(heartbeat(member_id), version)
        assert [client.receive().error_code for _ in range(3)] == [ErrorCode.NONE] * 3


def test_a_rebalance_is_told_to_the_next_of_them(start: Start, connect: Connect) -> None:
    broker = start(AT_ONCE)
    client, other = connect(broker), connect(broker)
    member_id = settle(client)
    assert [client.call(heartbeat(member_id)).error_code for _ in range(2)] == [ErrorCode.NONE] * 2
    other.send(join(other.call(join()).member_id))
    eventually(
        lambda: client.call(heartbeat(member_id)).error_code == ErrorCode.REBALANCE_IN_PROGRESS, "the rebalance is told"
    )
    assert client.call(join(member_id)).generation_id == other.receive().generation_id == 2
    assert client.call(heartbeat(member_id)).error_code == ErrorCode.ILLEGAL_GENERATION


def test_each_of_them_is_a_sign_of_life(start: Start, connect: Connect) -> None:
    clock = StandingClock()
    broker = start({**AT_ONCE, "group.min.session.timeout.ms": 1}, clock=clock)
    client = connect(broker)
    member_id: str = client.call(join()).member_id
    client.send(join(member_id))
    eventually(lambda: waiting_calls(broker), "the join has come")
    advance(broker, clock, 0)
    assert client.receive().error_code == ErrorCode.NONE
    assert client.call(sync(member_id)).error_code == ErrorCode.NONE
    for _ in range(4):
        advance(broker, clock, 9_000)  # of a session of 10 s
        assert client.call(heartbeat(member_id)).error_code == ErrorCode.NONE
    advance(broker, clock, 11_000)
    assert client.call(heartbeat(member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_behind_a_request_that_waits_its_answer_waits_too(start: Start, connect: Connect) -> None:
    broker = start({"group.initial.rebalance.delay.ms": 200})
    client = connect(broker)
    member_id = settle(client)
    assert client.call(heartbeat(member_id)).error_code == ErrorCode.NONE
    newcomer: str = client.call(join(group="other")).member_id
    client.send(join(newcomer, "other"))  # waits for the initial delay
    client.send(heartbeat(member_id))
    assert client.receive().member_id == newcomer
    assert client.receive().error_code == ErrorCode.NONE


def test_who_is_asked_for_permission_is_asked_each_time(start: Start, connect: Connect) -> None:
    forbidden: list[str] = []

    def authorizer(session: Session, operation: AclOperation, resource: Resource) -> bool:
        return resource.type is not ResourceType.GROUP or resource.name not in forbidden

    client = connect(start(AT_ONCE, authorizer=authorizer))
    member_id = settle(client)
    assert [client.call(heartbeat(member_id)).error_code for _ in range(2)] == [ErrorCode.NONE] * 2
    forbidden.append("g")
    assert client.call(heartbeat(member_id)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


# -- large groups are answered in portions


def crowd_of(broker: Broker, connect: Connect) -> list[RawClient]:
    """Members whose JoinGroup waits for the initial delay."""
    clients = [connect(broker) for _ in range(CROWD)]
    for client in clients:
        client.send(join(client.call(join()).member_id))
    return clients


def test_each_member_of_a_crowd_gets_its_answer(start: Start, connect: Connect) -> None:
    clients = crowd_of(
        start({"group.initial.rebalance.delay.ms": 1_000, "group.initial.rebalance.delay.quiet.ms": 0}), connect
    )
    answers = [client.receive() for client in clients]
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    assert len({answer.member_id for answer in answers}) == CROWD
    assert [len(answer.members) for answer in answers].count(CROWD) == 1


def test_a_broker_that_stops_answers_the_whole_crowd(start: Start, connect: Connect) -> None:
    broker = start({"group.initial.rebalance.delay.ms": 60_000, "group.initial.rebalance.delay.quiet.ms": 0})
    clients = crowd_of(broker, connect)
    eventually(lambda: broker.call(_joined) == CROWD, "all have joined")
    broker.stop()
    assert {client.receive().error_code for client in clients} == {ErrorCode.NOT_COORDINATOR}


def _joined(server: Server) -> int:
    return server.group_coordinator.shard_of("g").core.groups["g"].joined


# -- writes are gathered while the disk is busy


def _record_counts(server: Server) -> list[int]:
    """Of each batch in the log of the only shard."""
    log = server.topics.require("__consumer_offsets").partitions[0].log
    views = log.read(0, 1 << 20, log.log_end_offset)
    return [header.record_count for view in views for _, header in iter_headers(view)]


def test_commits_that_find_the_disk_busy_are_written_together(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path
) -> None:
    broker = start(ONE_SHARD, data=tmp_path)
    clients = [connect(broker) for _ in range(6)]
    create_topic(clients[0])
    assert _committed(clients[0].call(commit({"t": [0]}), BY_NAME)) == ErrorCode.NONE
    before = broker.call(_record_counts)
    gate.close()
    clients[0].send(commit({"t": [0]}), BY_NAME)
    assert gate.waiting.wait(60)
    for number, client in enumerate(clients[1:]):
        client.send(commit({"t": [0]}, f"group-{number}"), BY_NAME)
    eventually(lambda: broker.call(_gathered) == 5, "the others have come")
    assert not any(client.has_reply() for client in clients)
    gate.open()
    assert {_committed(client.receive()) for client in clients} == {ErrorCode.NONE}
    assert broker.call(_record_counts) == [*before, 1, 5]


def _gathered(server: Server) -> int:
    batch = server.group_coordinator.shard_of("g")._gathered
    return len(batch.writes) if batch is not None else 0


def test_commits_that_the_disk_does_not_take_in_time_are_refused_written_or_not(
    start: Start, connect: Connect, gate: Gate, tmp_path: Path
) -> None:
    clock = StandingClock()
    broker = start(ONE_SHARD, data=tmp_path, clock=clock)
    first, second = connect(broker), connect(broker)
    create_topic(first)
    gate.close()
    first.send(commit({"t": [0]}), BY_NAME)
    assert gate.waiting.wait(60)
    second.send(commit({"t": [0]}, "late"), BY_NAME)
    eventually(lambda: broker.call(_gathered) == 1, "the second has come")
    advance(broker, clock, 5_000)  # offsets.commit.timeout.ms
    assert {_committed(client.receive()) for client in (first, second)} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    second.send(commit({"t": [0]}, "later"), BY_NAME)
    gate.open()
    assert _committed(second.receive()) == ErrorCode.NONE
    assert broker.call(_record_counts) == [1, 1]  # what timed out before it was written never will be


def _committed(response: object) -> int:
    return int(response.topics[0].partitions[0].error_code)  # type: ignore[attr-defined]
