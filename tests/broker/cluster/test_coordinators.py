"""Coordinators that move: which broker answers for a group, what a failover keeps, and what it loses as on Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.clock import VirtualClock
from equipoise.broker.cluster.placement import NOBODY
from equipoise.coordinator.shard_state import Status
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.cluster.conftest import QUICK, At
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.spec.requests import commit, delete_offsets, join, leave, sync

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


def find(client: RawClient, *groups: str) -> dict[str, tuple[int, int]]:
    """By group: the error, and the node."""
    found = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups))).coordinators
    return {one.key: (one.error_code, one.node_id) for one in found}


def committed(client: RawClient, group: str = "g") -> tuple[int, int]:
    """The error, and the offset of partition 0."""
    asked = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    answer = client.call(asked, 7)
    return answer.error_code, answer.topics[0].partitions[0].committed_offset if answer.topics else -1


def loaded(broker: Broker, group: str = "g") -> None:
    def is_loaded() -> bool:
        return broker.call(lambda server: server.group_coordinator.shard_of(group).core.status is Status.ACTIVE)

    eventually(is_loaded, "the shard is loaded")


class Members:
    """A Stable group of one, at its coordinator."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.member_id = client.call(join(session_timeout_ms=10_000), 5).member_id
        self.generation = client.call(join(self.member_id), 5).generation_id
        assert client.call(sync(self.member_id, generation_id=self.generation), 5).error_code == ErrorCode.NONE

    def beats(self, client: RawClient) -> int:
        request = HeartbeatRequest(group_id="g", member_id=self.member_id, generation_id=self.generation)
        return int(client.call(request, 3).error_code)


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_groups_are_spread_and_every_broker_knows_where(three: Broker, at: At, node_id: int) -> None:
    names = [f"group-{number}" for number in range(60)]
    found = find(at(node_id), *names)
    assert {node for _, node in found.values()} == {1, 2, 3}
    assert {name: three.coordinator_of(name) for name in names} == {name: node for name, (_, node) in found.items()}


def _requests() -> list[tuple[Any, int]]:
    return [
        (join(), 9),
        (sync(), 5),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
        (leave(), 5),
        (delete_offsets({"t": [0]}), 0),
        (ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), 1),
    ]


def test_every_request_of_a_group_is_sent_away(three: Broker, at: At) -> None:
    three.move_coordinator("g", to=2)
    wrong = at(3)
    for request, version in _requests():
        assert wrong.call(request, version).error_code == NOT_COORDINATOR, request
    (topic,) = wrong.call(commit({"t": [0]}), 9).topics
    assert topic.partitions[0].error_code == NOT_COORDINATOR
    assert committed(wrong) == (NOT_COORDINATOR, -1)
    (described,) = wrong.call(DescribeGroupsRequest(groups=["g"])).groups
    assert described.error_code == NOT_COORDINATOR
    (deleted,) = wrong.call(DeleteGroupsRequest(groups_names=["g"])).results
    assert deleted.error_code == NOT_COORDINATOR


def test_each_broker_lists_its_own_groups(three: Broker, at: At) -> None:
    for group, node_id in (("a", 1), ("b", 2), ("c", 2)):
        three.move_coordinator(group, to=node_id)
        loaded(three, group)
        assert at(node_id).call(commit({"t": [0]}, group), 9).topics[0].partitions[0].error_code == ErrorCode.NONE
    listed = {
        node_id: {one.group_id for one in at(node_id).call(ListGroupsRequest()).groups} for node_id in three.brokers
    }
    assert listed == {1: {"a"}, 2: {"b", "c"}, 3: set()}


@pytest.mark.parametrize("deed", ["move", "kill", "stop"])
def test_members_and_offsets_are_found_again(three: Broker, at: At, deed: str) -> None:
    three.move_coordinator("g", to=1)
    loaded(three)
    old = at(1)
    assert old.call(commit({"t": [0]}, offset=7), 9).topics[0].partitions[0].error_code == ErrorCode.NONE
    member = Members(old)
    if deed == "move":
        three.move_coordinator("g", to=2)
        assert member.beats(old) == NOT_COORDINATOR
    else:
        (three.brokers[1].kill if deed == "kill" else three.brokers[1].stop)()
        with pytest.raises(ConnectionError):
            member.beats(old)
    loaded(three)
    new = at(three.coordinator_of("g"))
    assert member.beats(new) == ErrorCode.NONE
    assert committed(new) == (ErrorCode.NONE, 7)


def test_a_parked_join_is_sent_to_the_new_coordinator(three: Broker, at: At) -> None:
    """It is not kept: the group comes back as it was last written (GroupMetadataManager.onUnloaded)."""
    three.move_coordinator("g", to=1)
    loaded(three)
    member = Members(at(1))
    second = at(1)
    second_id = second.call(join(), 5).member_id
    second.send(join(second_id), 5)
    eventually(lambda: three.groups["g"].state == "PreparingRebalance", "the second has joined")
    three.move_coordinator("g", to=3)
    assert second.receive().error_code == NOT_COORDINATOR
    loaded(three)
    group = three.groups["g"]
    assert (group.state, group.generation_id, [one.member_id for one in group.members]) == (
        "Stable",
        member.generation,
        [member.member_id],
    )
    assert member.beats(at(3)) == ErrorCode.NONE
    assert at(3).call(join(second_id), 5).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_sessions_begin_again_with_the_new_coordinator() -> None:
    """Virtual time and several brokers: who is silent since the failover is gone after a session, not before."""
    clock = VirtualClock()
    with Broker(QUICK, brokers=3, topics={"t": 1}, clock=clock) as three:
        three.move_coordinator("g", to=1)
        loaded(three)
        with RawClient(three.brokers[1].address) as client:
            Members(client)
            clock.advance(seconds=9)
            three.brokers[1].kill()
            loaded(three)
            clock.advance(seconds=9)
            assert len(three.groups["g"].members) == 1
            clock.advance(seconds=2)
            eventually(lambda: not three.groups["g"].members, "its session is over")


def test_a_write_that_is_not_durable_is_not_acknowledged(tmp_path: Path) -> None:
    """The commit is in the log, and the move comes before the disk has it: the client is to ask the next coordinator,
    which has it."""
    with Broker(QUICK, brokers=2, topics={"t": 1}, data=tmp_path) as broker:
        broker.move_coordinator("g", to=1)
        loaded(broker)
        with RawClient(broker.brokers[1].address) as client, RawClient(broker.brokers[2].address) as other:

            def move_at_once(server: Any) -> None:
                shard = server.group_coordinator.shard_of("g")
                append = shard._append_pairs

                def append_and_move(*arguments: Any) -> Any:
                    found = append(*arguments)
                    server.turns.add(lambda: server.cluster.move(shard.partition, 2))
                    return found

                shard._append_pairs = append_and_move
                server.flusher.dirty = lambda log: None  # the disk takes for ever

            broker.call(move_at_once)
            client.send(commit({"t": [0]}, offset=5), 9)
            (topic,) = client.receive().topics
            assert topic.partitions[0].error_code == NOT_COORDINATOR
            assert committed(other)[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # nothing is shown that may be lost

            def sync_at_last(server: Any) -> None:
                del server.flusher.dirty
                server.flusher.dirty(server.group_coordinator.shard_of("g").partition.log)

            broker.call(sync_at_last)
            loaded(broker)
            assert committed(other) == (ErrorCode.NONE, 5)


def test_without_any_broker_there_is_no_coordinator(three: Broker, at: At) -> None:
    loaded_client = at(2)
    assert find(loaded_client, "g")["g"][0] == ErrorCode.NONE
    for one in three.brokers.values():
        one.kill()
    assert three.coordinator_of("g") == NOBODY
    three.brokers[2].start()
    assert three.coordinator_of("g") == 2
    loaded(three)
    assert find(at(2), "g") == {"g": (ErrorCode.NONE, 2)}
    assert three.brokers[2].leads == {("t", 0), ("t", 1), ("t", 2)} | {("__consumer_offsets", n) for n in range(50)}


def test_a_shard_that_moves_on_while_it_is_loaded(three: Broker, at: At) -> None:
    three.move_coordinator("g", to=1)
    loaded(three)
    assert at(1).call(commit({"t": [0]}, offset=3), 9).topics[0].partitions[0].error_code == ErrorCode.NONE

    def hurry(server: Any) -> None:
        partition = server.group_coordinator.shard_of("g").partition
        for node_id in (2, 3, 1, 2):
            server.cluster.move(partition, node_id)

    three.call(hurry)
    loaded(three)
    assert committed(at(2)) == (ErrorCode.NONE, 3)
    assert committed(at(1))[0] == NOT_COORDINATOR
