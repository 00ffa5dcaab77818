"""Hunts in worlds of incremental groups: the classic member machine against the coordinator, by chance.

After every step of the coordinator the invariants of rule C9 are checked. I1 a partition is with one member. I2 it
leaves a member only by a JoinGroup that does not claim it, or with the member. I3 a SyncGroup is answered with what the
member has. I4 only who is to lose or to gain is called. I7 a SyncGroup is parked only for a member that has nothing,
and not for long. I8 an accepted commit is of nobody else's partition. I10 the log says what memory has.
"""

from __future__ import annotations

import dataclasses
from itertools import count

from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.incremental.calls import PATIENCE_MS
from equipoise.coordinator.incremental.data import Stance
from equipoise.coordinator.metadata import TopicPartition
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.timers import TimerKind
from equipoise.simulate import Clock, Network, World
from equipoise.simulate.calls import Call
from equipoise.simulate.consumer import Consumer
from equipoise.simulate.topic_ids import topic_id
from equipoise.simulate.world import GROUP
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.consumer_protocol import decode_assignment
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message
from tests.simulate.hunting import CONFIG, INTERVAL, MAX_POLL, SESSION, Hunt, Watch

HOLD = INTERVAL * 9 // 10
Held = dict[str, tuple[frozenset[TopicPartition], Stance | None, bool]]  # and whether its SyncGroup was answered


def check_group(group: ConsumerGroup) -> None:
    """I1, and indexes that follow."""
    owners: dict[TopicPartition, str] = {}
    for member in group.members.values():
        for partition in (*member.assigned, *member.revoking):
            assert partition not in owners, f"{partition} of {owners[partition]} and {member.member_id}"
            owners[partition] = member.member_id
    assert owners == group.owners


class IncrementalWatch(Watch):
    """Looks at incremental groups after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[str] = []  # members that were told that they are none, or of another generation
        self._held: Held = {}
        self._group: ConsumerGroup | None = None

    def stepped(self, shard: Shard) -> None:
        super().stepped(shard)
        group = shard.consumer_groups.get(GROUP)
        if group is not None and group.incremental is not None and shard.status is Status.ACTIVE:
            check_group(group)
            self._check_parked(shard, group)
            self._check_losses(group)
        else:
            self._group = None

    def _check_losses(self, group: ConsumerGroup) -> None:
        """I2."""
        assert group.incremental is not None
        stances, before = group.incremental.stances, self._held if self._group is group else {}
        for member_id, (held, old, had_synced) in before.items():
            member, stance = group.members.get(member_id), stances.get(member_id)
            if member is None or member.classic is None:
                continue
            for one in held.difference(member.assigned, member.revoking):
                assert stance is not None, f"{member_id} has lost {one} without a join"
                assert stance is not old or not had_synced, f"{member_id} has lost {one} without a join"
                assert one not in stance.claimed, f"{member_id} has lost {one} and claims it"
        self._group = group
        self._held = {
            one.member_id: (
                frozenset((*one.assigned, *one.revoking)),
                stance := stances.get(one.member_id),
                stance is None or stance.synced_at is not None,
            )
            for one in group.members.values()
        }

    def _check_parked(self, shard: Shard, group: ConsumerGroup) -> None:
        """I7."""
        assert group.incremental is not None
        for member_id in group.incremental.syncs:
            stance, member = group.incremental.stances[member_id], group.members[member_id]
            assert not stance.claimed
            deadline = shard.timers.deadline(group.timer(TimerKind.PARKED, member_id))
            assert deadline is not None
            assert self.world is not None
            assert deadline - self.world.now <= min(PATIENCE_MS, SESSION // 3)
            busy = [one for one in group.target_of(member_id) if group.owners.get(one, member_id) != member_id]
            assert busy or group.target_epoch < group.group_epoch, f"{member.member_id} is parked for nothing"

    def answered(self, call: Call) -> None:
        super().answered(call)
        assert self.world is not None
        group = self.world.shard.consumer_groups.get(GROUP)
        if group is None or group.incremental is None:
            return
        request, code = call.request, getattr(call.reply, "error_code", ErrorCode.NONE)
        if isinstance(request, HeartbeatRequest) and code == ErrorCode.REBALANCE_IN_PROGRESS:
            member = group.members.get(request.member_id)
            assert member is None or not group.is_settled(member), f"{request.member_id} was called for nothing"  # I4
        if isinstance(request, SyncGroupRequest) and code == ErrorCode.NONE:
            given = decode_assignment(call.reply.assignment).assigned_partitions
            named = {(topic_id(topic), number) for topic, numbers in given.items() for number in numbers}
            assert named == group.members[request.member_id].assigned.keys()  # I3

    def received(self, name: str, request: Message, response: Message) -> None:
        super().received(name, request, response)
        code = getattr(response, "error_code", ErrorCode.NONE)
        if isinstance(request, HeartbeatRequest | SyncGroupRequest) and code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
        ):
            self.lost.append(f"{name} at {self.world and self.world.now}: {ErrorCode(code).name}")


class IncrementalHunt(Hunt):
    """Classic members with one assignor; some with the consumer protocol, if the hunt `is_mixed`."""

    def __init__(
        self,
        seed: int,
        assignor: str = "cooperative-sticky",
        *,
        is_rough: bool = False,
        is_mixed: bool = False,
        debounce_ms: int = 0,
    ) -> None:
        super().__init__(seed, is_rough=is_rough, is_mixed=is_mixed)
        self.assignor = assignor
        self.watch = self.incremental = IncrementalWatch()
        clock, ids = Clock(), count(1)
        self.world = World(
            {"t": 6, "u": 3},
            config=dataclasses.replace(
                CONFIG, group_rebalance_incremental="all", group_rebalance_debounce_ms=debounce_ms
            ),
            clock=clock,
            network=Network(clock, latency_ms=2, jitter_ms=30, loss=0.02, seed=seed),
            observers=[self.watch],
            new_id=lambda: f"id-{next(ids)}",
        )
        self.world.hold_ms = self.random.choice([0, HOLD])
        self.watch.world = self.world

    def step(self) -> None:
        """After each, the log says what memory has."""
        super().step()
        self.check_replay()

    def check_replay(self) -> None:
        """I10."""
        coordinator = self.world.coordinator
        if coordinator.shard.status is not Status.ACTIVE:
            return
        read = Shard(coordinator.config, lambda: "x")
        for record in coordinator.records:
            read.apply(record, self.world.now)
        group = coordinator.shard.consumer_groups.get(GROUP)
        assert read.consumer_groups.get(GROUP) == group

    def _start(self, instance: str | None) -> None:
        if self.is_mixed and self.random.random() < 0.4:
            super()._start(instance)
            return
        self.names += 1
        consumer = self.world.consumer(
            f"c{self.names}",
            self.assignor,
            group_instance_id=instance,
            max_poll_interval_ms=MAX_POLL,
            heartbeat_interval_ms=INTERVAL,
            session_timeout_ms=SESSION,
        )
        consumer.callback_ms = self.random.choice([0, 0, 50, 300])
        consumer.listener = lambda callback: self._commit_in(consumer, callback)
        self._subscribe(consumer)

    def make_topic_anew(self) -> None:
        """Classic members have names: to them a topic made anew is not gone for a while."""

    def restart_a_static_one(self) -> None:
        """A classic static member that closes leaves nobody a word."""
        consumer = self._any()
        if consumer is not None and consumer.member.config.is_static:
            consumer.close()
            self.world.advance(self.random.choice([1, 500, 1_000]))
            if not consumer.is_living:
                self._start(consumer.member.config.group_instance_id)

    def settle(self) -> None:
        """All is shared, and then nothing is written."""
        self.world.network.loss = 0.0
        self.world.advance(MAX_POLL + 2 * INTERVAL)
        self.subscribe_all()
        self.world.advance(4 * SESSION)
        self.world.settle(within_ms=4 * SESSION + 2 * MAX_POLL)
        size = len(self.world.coordinator.log)
        self.world.advance(60_000)
        assert len(self.world.coordinator.log) == size
        self.world.settle(within_ms=1_000)
        (group,) = [one for one in self.world.shard.all_groups() if one.group_id == GROUP]
        assert group.state_word == "Stable"


__all__ = ["Consumer", "IncrementalHunt", "check_group"]
