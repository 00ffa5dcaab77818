"""Worlds: the same seed gives the same world, and whatever breaks in it mends."""

from __future__ import annotations

import pytest

from equipoise.console import words
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import GroupConfig
from equipoise.member import TopicPartition
from equipoise.simulate import Clock, Invariants, Network, Transcript, World
from equipoise.wire.errors import ErrorCode

AT_ONCE = GroupConfig(group_initial_rebalance_delay_ms=0)


def lossy(seed: int) -> tuple[World, Transcript]:
    clock = Clock()
    transcript = Transcript(clock, words.event)
    network = Network(clock, latency_ms=2, jitter_ms=30, loss=0.02, seed=seed)
    observers = [transcript, Invariants()]
    return World({"t": 6}, config=AT_ONCE, clock=clock, network=network, observers=observers), transcript


def share(world: World) -> None:
    for name in "abc":
        world.consumer(name, "cooperative-sticky").subscribe("t")
        world.settle(120_000)
    world.advance(60_000)
    world.settle(120_000)


@pytest.mark.parametrize("seed", range(5))
def test_a_group_lives_on_a_network_that_loses_messages(seed: int) -> None:
    world, transcript = lossy(seed)
    share(world)
    assert sorted(len(one.member.readable) for one in world.consumers.values()) == [2, 2, 2]
    assert any("has failed" in line for line in transcript.lines)


def test_the_same_seed_gives_the_same_world_and_another_seed_another() -> None:
    transcripts = []
    for seed in (1, 1, 2):
        world, transcript = lossy(seed)
        share(world)
        transcripts.append(str(transcript))
    assert transcripts[0] == transcripts[1] != transcripts[2]


def test_a_message_of_one_connection_does_not_overtake_another() -> None:
    clock = Clock()
    world = World({"t": 1}, clock=clock, network=Network(clock, jitter_ms=500, seed=3))
    consumer = world.consumer("a")
    arrived: list[int] = []
    consumer.connection._deliver = lambda exchange: arrived.append(exchange.node_id)
    for node_id in range(50):
        consumer.connection.send(world.client("a").heartbeat_request(), node_id, 30_000)
        clock.advance(1)
    clock.advance(1_000)
    assert arrived == list(range(50))


def test_a_world_without_settings_has_kafkas_defaults() -> None:
    world = World({"t": 2})
    world.consumer("a").subscribe("t")
    world.advance(2_900)
    assert world.group().state is State.PREPARING_REBALANCE
    world.settle()
    assert world.now > 3_000


def test_what_was_durable_survives_a_crash_and_nothing_else() -> None:
    world = World({"t": 1}, config=AT_ONCE)
    consumer = world.consumer("a").subscribe("t")
    world.settle()
    durable = consumer.commit({TopicPartition("t", 0): 5})
    world.advance(10)
    world.coordinator.hold_writes()
    lost = consumer.commit({TopicPartition("t", 0): 6})
    world.advance(10)
    assert (durable.is_done, lost.is_done) == (True, False)
    world.coordinator.holds_writes = False
    world.coordinator.under_way.clear()
    world.crash()
    assert [row.partitions[0].committed_offset for row in world.shard.fetch_offsets("g", None)] == [5]
    world.settle()
    world.advance(1_000)
    assert (lost.is_done, lost.error) == (True, None)  # the consumer has sent it again


def test_consumers_find_the_coordinator_where_it_has_gone() -> None:
    world = World({"t": 2}, config=AT_ONCE)
    consumer = world.consumer("a").subscribe("t")
    world.settle()
    world.unload()
    world.advance(10_000)
    assert consumer.member.coordinator is None
    world.load(2, loading_ms=500)
    world.advance(1_100)  # the longest pause between two attempts
    assert consumer.member.coordinator is not None
    assert consumer.member.coordinator.node_id == 2


def test_a_frozen_consumer_loses_its_partitions_and_a_killed_one_too() -> None:
    world = World({"t": 3}, config=AT_ONCE)
    a, b, _ = (world.consumer(name, session_timeout_ms=6_000).subscribe("t") for name in "abc")
    world.settle()
    a.freeze(60_000)
    world.kill("c")
    world.advance(30_000)
    assert b.partitions == {0, 1, 2}
    world.settle(60_000)
    assert a.callbacks[-2][0] == "on_lost"
    assert (len(a.partitions), len(b.partitions)) == (2, 1)


def test_who_does_not_settle_is_named() -> None:
    world = World({"t": 1})
    world.consumer("a").subscribe("t")
    with pytest.raises(AssertionError, match=r"not settled within 1000 ms:\na: PreparingRebalance, generation -1"):
        world.settle(1_000)


def test_a_client_sends_any_value_once_and_learns_from_the_answer() -> None:
    world = World(config=AT_ONCE, observers=[Invariants()])
    client = world.client("a")
    client.enter()
    world.advance(0)
    assert (client.member_id, client.generation_id, client.leader) == ("a-1", 1, "a-1")
    assert client.heartbeat(generation_id=7).error is ErrorCode.ILLEGAL_GENERATION
    assert client.heartbeat().error is ErrorCode.NONE
    assert client.sync({"a-1": b"mine"}).reply.assignment == client.assignment == b"mine"
    assert client.member.assignment == b"mine"
    with pytest.raises(TypeError, match="a client has no generation"):
        client.heartbeat(generation=7)


def test_writes_can_wait_and_fail() -> None:
    world = World(config=AT_ONCE)
    client = world.client("a")
    world.coordinator.hold_writes()
    call = client.commit({"t": {0: 1}})
    assert call.is_parked
    world.coordinator.fail_writes(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    call = client.commit({"t": {0: 1}})
    world.coordinator.durable()
    assert call.error is ErrorCode.NONE
    with pytest.raises(AssertionError, match="OffsetCommit of a is answered twice"):
        call.answer(call.reply)


def test_data_that_are_not_consistent_are_noticed() -> None:
    world = World(config=AT_ONCE, observers=[Invariants()])
    client = world.client("a")
    client.enter()
    world.group().leader = "somebody"
    with pytest.raises(AssertionError):
        client.heartbeat()
