"""Hunts in worlds of consumer groups: what members and coordinator must never do together.

P1 two applications own a partition only if one of them is out of the group. P2 when changes stop, the group settles.
P3 an accepted commit is of no partition that another member owns. P4 nobody is fenced without a reason: a
timer, an administrator, or an epoch that is old because answers were lost. P5 a group in
which nothing happens writes nothing. P6 epochs that a client sees do not go down, except to 0.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.shard import Shard
from equipoise.member import Callback, CallbackKind, TopicPartition
from equipoise.member.consumer.member import ConsumerMember
from equipoise.member.partitions import Owned
from equipoise.simulate import Clock, Network, World
from equipoise.simulate.calls import Call
from equipoise.simulate.consumer import Consumer
from equipoise.simulate.observer import Observer
from equipoise.simulate.topic_ids import topic_id
from equipoise.simulate.world import GROUP
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.consumer_protocol import NO_GENERATION
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message

INTERVAL = 500
SESSION = 6_000
MAX_POLL = 8_000
CONFIG = GroupConfig(
    group_initial_rebalance_delay_ms=0,
    group_consumer_heartbeat_interval_ms=INTERVAL,
    group_consumer_session_timeout_ms=SESSION,
    group_consumer_assignment_interval_ms=0,
)
FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class Watch(Observer):
    """Looks at both sides after every step of the coordinator, and at every message."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.fenced: list[str] = []
        self._failures: Counter[str] = Counter()  # heartbeats in a row without an answer, by name
        self._epochs: dict[str, int] = {}

    def stepped(self, shard: Shard) -> None:
        if self.world is not None and shard is self.world.shard:
            self._check_owners(shard)

    def called_back(self, name: str, callback: Callback) -> None:
        if self.world is not None and callback.kind is CallbackKind.ASSIGNED:
            self._check_owners(self.world.shard)

    def _check_owners(self, shard: Shard) -> None:
        """P1."""
        assert self.world is not None
        owners: dict[TopicPartition, str] = {}
        for name, consumer in self.world.consumers.items():
            for one in _owned(consumer) if _is_member(shard, consumer) else ():
                assert one not in owners, f"{one} is owned by {owners[one]} and {name} at {self.world.now}"
                owners[one] = name

    def answered(self, call: Call) -> None:
        """P3."""
        request, response = call.request, call.reply
        if not isinstance(request, OffsetCommitRequest) or not isinstance(response, OffsetCommitResponse):
            return
        assert self.world is not None
        group = self.world.shard.consumer_groups.get(GROUP)
        accepted = {
            (topic_id(topic.name), row.partition_index)
            for topic in response.topics
            for row in topic.partitions
            if row.error_code == ErrorCode.NONE
        }
        for member in () if group is None else group.members.values():
            theirs = {*member.assigned, *member.revoking} & accepted
            assert member.member_id == request.member_id or not theirs, f"{request.member_id} committed {theirs}"

    def failed(self, name: str, request: Message) -> None:
        self._failures[name] += isinstance(request, ConsumerGroupHeartbeatRequest)

    def received(self, name: str, request: Message, response: Message) -> None:
        """P6, and for P4 who was fenced."""
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        if request.member_epoch == 0:
            self._epochs.pop(request.member_id, None)
        is_behind = self._failures.pop(name, 0) >= 2  # of two answers that were lost the coordinator forgives one
        is_behind |= request.member_epoch < self._epochs.get(request.member_id, 0)  # it has overtaken another: B3.10
        if response.error_code in FENCED and request.member_epoch > 0 and not is_behind:
            self.fenced.append(f"{name} at {self.world and self.world.now}: {ErrorCode(response.error_code).name}")
        elif response.error_code == ErrorCode.NONE and response.member_epoch > 0:
            before = self._epochs.get(request.member_id, 0)
            assert response.member_epoch >= before, f"{name}: epoch {response.member_epoch} after {before}"
            self._epochs[request.member_id] = response.member_epoch


def _is_member(shard: Shard, consumer: Consumer) -> bool:
    """Whether both sides think so. Who was removed and has not heard of it may still think that it owns."""
    member = consumer.member
    if member.generation_id == NO_GENERATION:
        return False
    group = shard.consumer_groups.get(GROUP)
    if group is None:  # the last of KIP-848 has gone
        return GROUP in shard.groups and member.member_id in shard.groups[GROUP].members
    known = group.members.get(member.member_id)
    if known is not None and known.classic is not None:
        # After a crash behind a downgrade the log does not say what a member had that has not rejoined; nor does
        # Kafka's. Its generation is refused.
        return member.generation_id in (known.member_epoch, known.previous_member_epoch)
    return known is not None and known.member_epoch > 0


def _owned(consumer: Consumer) -> Owned:
    """Told to the application, and not taken back yet."""
    member = consumer.member
    running = 1 if consumer.is_in_callback else 0
    untold = [one.partitions for one in list(member.callbacks)[running:] if one.kind is CallbackKind.ASSIGNED]
    return member.assignment.difference(*untold)


class Hunt:
    """A world, and what happens in it by chance. `is_rough`: processes die and stand still, applications are late.
    `is_mixed`: some members have the classic protocol. `hold_ms`: the coordinator holds heartbeats for so long."""

    def __init__(self, seed: int, *, is_rough: bool, is_mixed: bool = False, hold_ms: int = 0) -> None:
        self.random = Random(seed)
        self.is_rough, self.is_mixed = is_rough, is_mixed
        self.watch = Watch()
        clock = Clock()
        network = Network(clock, latency_ms=2, jitter_ms=30, loss=0.02, seed=seed)
        ids = count(1)
        self.world = World(
            {"t": 6, "u": 3},
            config=CONFIG,
            clock=clock,
            network=network,
            observers=[self.watch],
            new_id=lambda: f"id-{next(ids)}",
        )
        self.watch.world = self.world
        self.world.hold_ms = hold_ms
        self.names = 0

    def step(self) -> None:
        """One thing happens, and some time passes."""
        gentle = [self.join, self.join, self.leave, self.subscribe, self.cut, self.add_partitions, self.commit]
        # Classic members have names: to them a topic made anew, which has its old id here, is not gone for a while.
        gentle += [self.restart_a_static_one] if self.is_mixed else [self.restart_a_static_one, self.make_topic_anew]
        rough = [self.kill, self.freeze, self.be_late, self.crash]
        self.random.choice(gentle + rough if self.is_rough else [*gentle, self.crash])()
        self.world.advance(self.random.randint(1, 2 * INTERVAL))

    def _any(self) -> Consumer | None:
        living = [one for one in self.world.consumers.values() if one.is_living]
        return self.random.choice(living) if living else None

    def join(self) -> None:
        if len([one for one in self.world.consumers.values() if one.is_living]) >= 6:
            return
        self._start(f"i{self.names}" if self.random.random() < 0.2 else None)

    def _start(self, instance: str | None) -> None:
        self.names += 1
        settings = {"group_instance_id": instance, "max_poll_interval_ms": MAX_POLL}
        if self.is_mixed and instance is None and self.random.random() < 0.5:
            consumer = self.world.consumer(
                f"c{self.names}",
                "cooperative-sticky",
                heartbeat_interval_ms=INTERVAL,
                session_timeout_ms=SESSION,
                **settings,
            )
        else:
            consumer = self.world.consumer_of_848(f"c{self.names}", **settings)
        consumer.callback_ms = self.random.choice([0, 0, 50, 300])
        consumer.listener = lambda callback: self._commit_in(consumer, callback)
        self._subscribe(consumer)

    def _subscribe(self, consumer: Consumer) -> None:
        topics = self.random.choice([("t",), ("t", "u"), ("u",), None])
        if topics is None and isinstance(consumer.member, ConsumerMember):
            consumer.subscribe(regex="t|u")
        elif topics is None:
            consumer.subscribe("t")
        else:
            consumer.subscribe(*topics)

    def restart_a_static_one(self) -> None:
        """It closes, which keeps its place, and is back under its instance id."""
        consumer = self._any()
        if consumer is not None and consumer.member.config.is_static:
            consumer.close()
            self.world.advance(self.random.choice([1, 500, 1_000]))
            if consumer.member.has_left:
                self._start(consumer.member.config.group_instance_id)

    def make_topic_anew(self) -> None:
        if self.random.random() < 0.3:
            topics = dict(self.world.topics)
            self.world.set_topics({"t": topics["t"]})
            self.world.advance(self.random.randint(1, 2 * INTERVAL))
            self.world.set_topics(topics)
            self.world.tell_metadata()

    def _commit_in(self, consumer: Consumer, callback: Callback) -> None:
        if callback.kind is CallbackKind.REVOKED and self.random.random() < 0.5:
            consumer.commit(dict.fromkeys(callback.partitions, self.world.now))

    def leave(self) -> None:
        if (consumer := self._any()) is not None:
            consumer.close()

    def subscribe(self) -> None:
        if (consumer := self._any()) is not None:
            self._subscribe(consumer)

    def cut(self) -> None:
        if (consumer := self._any()) is not None:
            consumer.connection.cut()

    def commit(self) -> None:
        consumer = self._any()
        if consumer is not None and consumer.member.assignment:
            consumer.commit(dict.fromkeys(consumer.member.readable, self.world.now))

    def add_partitions(self) -> None:
        if self.world.topics["t"] < 12:
            self.world.set_topics({**self.world.topics, "t": self.world.topics["t"] + 1})
            self.world.tell_metadata()

    def crash(self) -> None:
        self.world.crash(loading_ms=self.random.choice([0, 100]))

    def kill(self) -> None:
        if (consumer := self._any()) is not None:
            self.world.kill(consumer.name)

    def freeze(self) -> None:
        if (consumer := self._any()) is not None:
            consumer.freeze(self.random.choice([INTERVAL, SESSION + 1_000, 2 * SESSION]))

    def be_late(self) -> None:
        if (consumer := self._any()) is not None:
            consumer.polls = False
            self.world.clock.after(self.random.choice([INTERVAL, MAX_POLL + 1_000]), consumer.poll)

    def settle(self) -> None:
        """P2, then P5."""
        self.world.network.loss = 0.0
        self.world.advance(MAX_POLL + 2 * INTERVAL)  # who is late comes back, also to leave
        self.subscribe_all()
        self.world.settle(within_ms=4 * SESSION + 2 * MAX_POLL)
        self.world.advance(2 * SESSION)
        size = len(self.world.coordinator.log)
        self.world.advance(60_000)
        assert len(self.world.coordinator.log) == size
        self.world.settle(within_ms=1_000)
        group = self.world.shard.consumer_groups.get(GROUP)
        assert group is None or group.state_word == "Stable"

    def subscribe_all(self) -> None:
        """One reader at least, and each topic has one."""
        self.join()
        for consumer in self.world.consumers.values():
            if consumer.is_living:
                consumer.subscribe("t", "u")
