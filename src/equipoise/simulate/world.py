"""A coordinator, its brokers and its consumers under one virtual clock.

    clock = Clock()
    world = World({"orders": 3}, clock=clock)
    consumer = world.consumer("a", "cooperative-sticky").subscribe("orders")
    world.settle()

Nothing in a world is real: no sockets, threads, disks or time. The state machines are the ones that run behind a broker
and inside a consumer. The same calls with the same seed give the same world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from equipoise.assignors import Topic, assignor_named
from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.metadata import TopicImage
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status
from equipoise.member import AnyMember, ConsumerMember, Member, MemberConfig
from equipoise.simulate.calls import Call
from equipoise.simulate.client import Client
from equipoise.simulate.clock import Clock, Drifting
from equipoise.simulate.consumer import Consumer
from equipoise.simulate.coordinator import Coordinator
from equipoise.simulate.network import Connection, Exchange, Network
from equipoise.simulate.observer import Observer
from equipoise.simulate.topic_ids import topic_id
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k10_find_coordinator import Coordinator as Found
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message

GROUP = "g"
NOWHERE = 0  # in place of a node id
_VERSIONS: Mapping[type[Message], int] = {
    OffsetCommitRequest: 9,
    FindCoordinatorRequest: 4,
    JoinGroupRequest: 9,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    LeaveGroupRequest: 5,
    ConsumerGroupHeartbeatRequest: 1,
}


class World:
    """`topics`: partitions by name. `config` is the coordinator's; by default its settings are Kafka's."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        config: GroupConfig | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        observers: Iterable[Observer] = (),
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.network = network or Network(self.clock)
        self.observers = list(observers)
        self.topics: dict[str, int] = {}
        self.coordinator = Coordinator(self.clock, config, observers=self.observers, new_id=new_id)
        self.consumers: dict[str, Consumer] = {}
        self.hold_ms = 0  # how long the coordinator holds heartbeats of consumers, to answer them when there is news
        self.rate, self.ahead_ms = 1.0, 0  # of the clocks of processes that start from now on
        self.node_id = 1  # of the broker that coordinates, or NOWHERE
        self._processes = 0
        self._gone = 0  # inputs of consumers that are gone
        self._deposed: tuple[int, Coordinator] | None = None  # with its node id
        self._topic_ids: dict[str, bytes] = {}
        self._elsewhere = Coordinator(Clock(), config, observers=self.observers)  # on another broker, which has no say
        self._elsewhere.close()
        self.coordinator.activate()
        self.set_topics(topics or {})

    # -- members and clients

    @property
    def now(self) -> int:
        """Milliseconds since the world began."""
        return self.clock.now

    @property
    def is_drifting(self) -> bool:
        """Whether processes that start now have clocks of their own."""
        return (self.rate, self.ahead_ms) != (1.0, 0)

    @property
    def inputs(self) -> int:
        """All that members and coordinators were given so far, each a step of a state machine."""
        return self.coordinator.inputs + self._gone + sum(one.inputs for one in self.consumers.values())

    @property
    def shard(self) -> Shard:
        """The coordinator's shard; another one after each load."""
        return self.coordinator.shard

    def group(self, group_id: str = GROUP) -> Group:
        """KeyError if there is none."""
        return self.coordinator.group(group_id)

    def client(self, client_id: str, **settings: Any) -> Client:
        """A client that sends what it is told to; see `Client` for its settings."""
        return Client(self.coordinator, client_id, **settings)

    def consumer(self, name: str, *assignors: str, **settings: Any) -> Consumer:
        """A new process with the classic protocol, also if there was one of that name; see `MemberConfig` for its
        settings."""
        named = tuple(assignor_named(one) for one in assignors or ("range",))
        return self._run(name, Member(MemberConfig(**{"group_id": GROUP, "assignors": named, **settings})))

    def consumer_of_848(self, name: str, **settings: Any) -> Consumer:
        """A new process with the consumer protocol (KIP-848)."""
        self._processes += 1
        member_id = f"{name}-{self._processes}"
        return self._run(name, ConsumerMember(MemberConfig(**{"group_id": GROUP, **settings}), member_id))

    def _run(self, name: str, member: AnyMember) -> Consumer:
        connection = Connection(self.network, name, self._receive)
        clock = Drifting(self.clock, rate=self.rate, ahead_ms=self.ahead_ms) if self.is_drifting else self.clock
        consumer = self.consumers[name] = Consumer(
            name, member, clock=clock, connection=connection, observers=self.observers
        )
        self.tell_metadata(consumer)
        return consumer

    # -- topics

    def set_topics(self, topics: Mapping[str, int]) -> None:
        """The topics that there are from now on, with their partitions. Consumers learn of it by `tell_metadata`."""
        gone = self.topics.keys() - topics.keys()
        self.topics = dict(topics)
        self._topic_ids = {name: topic_id(name) for name in topics}
        images = [TopicImage(topic_id(name), name, count) for name, count in topics.items()]
        image = self.coordinator.image.with_changes(images, gone)
        self.coordinator.change_topics(image, [*topics, *gone])

    def tell_metadata(self, *consumers: Consumer) -> None:
        """Some consumers, or all, learn of all topics."""
        metadata = {name: Topic(count, topic_id=topic_id(name)) for name, count in self.topics.items()}
        for consumer in consumers or tuple(self.consumers.values()):
            consumer.learn(metadata)

    def kill(self, name: str) -> None:
        """The process of a consumer is gone."""
        consumer = self.consumers.pop(name)
        self._gone += consumer.inputs
        consumer.kill()

    # -- the coordinator's life

    def crash(self, loading_ms: int = 0, keeps: int = 0) -> None:
        """The broker dies and is back, with what was durable. Connections break."""
        self.load(self.node_id, loading_ms, keeps)
        for consumer in self.consumers.values():
            consumer.connection.cut()

    def unload(self, keeps: int = 0) -> None:
        """The broker coordinates no more, and no other does. Of the writes under way the oldest are durable."""
        self.node_id = NOWHERE
        self.coordinator.close()
        self.coordinator.durable(keeps)
        self.coordinator.fail_writes(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def depose(self, node_id: int, stale_ms: int, loading_ms: int = 0, keeps: int = 0) -> None:
        """Another broker becomes coordinator. The old one hears of it `stale_ms` later: until then it answers."""
        self._resign()
        former = self.coordinator.depose(keeps)
        self._deposed = self.node_id, former
        self.clock.after(stale_ms, lambda: self._resign(former))
        self.load(node_id, loading_ms)

    def _resign(self, which: Coordinator | None = None) -> None:
        if self._deposed is not None and (which is None or self._deposed[1] is which):
            former = self._deposed[1]
            self._deposed = None
            self.clock.forget(former)
            former.close()

    def load(self, node_id: int, loading_ms: int = 0, keeps: int = 0) -> None:
        """A broker reads the groups, which takes its time, and is their coordinator from then on."""
        if self._deposed is not None and self._deposed[0] == node_id:
            self._resign()
        self.node_id = node_id
        self.coordinator.load(keeps)
        if loading_ms:
            shard = self.shard
            self.clock.after(loading_ms, lambda: self._activate(shard))
        else:
            self.coordinator.activate()

    def _activate(self, shard: Shard) -> None:
        """Unless the groups have gone elsewhere before they were read."""
        if shard is self.shard and shard.status is Status.LOADING:
            self.coordinator.activate()

    # -- time

    def advance(self, ms: int) -> None:
        """Time goes on, and everything that is due happens."""
        self.clock.advance(ms)

    def settle(self, within_ms: int = 30_000, calm_ms: int = 10) -> None:
        """Until all consumers are Stable, have been told so and share all partitions, for some time."""
        end, calm = self.now + within_ms, 0
        while calm <= calm_ms:
            if self.now >= end:
                raise AssertionError(f"not settled within {within_ms} ms:\n{self.describe()}")
            is_settled = self.is_settled()
            calm = calm + 1 if is_settled else 0
            self.advance(1 if is_settled else max(1, min(100, self.clock.next_event() - self.now)))

    def is_settled(self) -> bool:
        """Whether each partition of each subscribed topic has one reader in a Stable group."""
        living = [consumer for consumer in self.consumers.values() if consumer.is_living]
        owned = [partition for consumer in living for partition in consumer.member.readable]
        wanted = {topic for consumer in living for topic in consumer.member.subscription.topics}
        everything = sum(self.topics.get(topic, 0) for topic in wanted)
        return (
            all(consumer.is_settled for consumer in living)
            and len(owned) == len(set(owned))
            and len(owned) == everything
        )

    def describe(self) -> str:
        """Each consumer in a line."""
        return "\n".join(
            f"{name}: {one.member.state.value}, generation {one.member.generation_id}, reads {len(one.member.readable)}"
            for name, one in self.consumers.items()
        )

    # -- requests of consumers

    def _receive(self, exchange: Exchange) -> None:
        call = Call(exchange.request, _VERSIONS[type(exchange.request)], client_id=exchange.client_id)
        call.on_reply = lambda reply: exchange.connection.reply(exchange, reply)
        if isinstance(exchange.request, FindCoordinatorRequest):
            self.coordinator.reply(call, self._find(exchange.request))
        elif exchange.node_id == self.node_id:
            self.coordinator.receive(call, hold_ms=self.hold_ms, topic_ids=self._topic_ids)
        elif self._deposed is not None and exchange.node_id == self._deposed[0]:
            self._deposed[1].receive(call, hold_ms=self.hold_ms, topic_ids=self._topic_ids)
        else:
            self._elsewhere.receive(call)

    def _find(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        found = Found(key=request.key, node_id=self.node_id, host="h", port=self.node_id, error_code=ErrorCode.NONE)
        if self.node_id == NOWHERE:
            found.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return FindCoordinatorResponse(coordinators=[found])
