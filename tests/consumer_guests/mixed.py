"""Groups in which both protocols meet: a coordinator that knows topics, classic clients and clients of the new one.

    ctx = Mixed(partitions=6)
    a, b = ctx.guests("a", "b")             # a Stable classic group, cooperative
    n = ctx.modern("n")
    n.join()                                # the group is a consumer group now
    ctx.settle(a, b, n)                     # all do what real clients do, until nothing changes
    assert len(n.owned) == 2

After every step each partition has at most one owner, on the coordinator and among the clients.
"""

from __future__ import annotations

from typing import Any

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.metadata import EMPTY_IMAGE, TopicImage
from equipoise.simulate import Call
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, HeartbeatTopicPartitions
from equipoise.wire.consumer_protocol import Subscription, encode_subscription
from equipoise.wire.errors import ErrorCode
from tests.spec.context import DELAY, TOPIC, Client, Context, assignment, partitions_in

TOPIC_ID = bytes(range(16))
REBALANCE_TIMEOUT = 60_000


class Mixed(Context):
    """A coordinator with the topic t; a target is computed at once unless told otherwise."""

    def __init__(self, partitions: int = 6, **config: Any) -> None:
        self.partitions = partitions
        super().__init__(**{"group_consumer_assignment_interval_ms": 0, **config})
        self.show_topics()

    def show_topics(self) -> None:
        """The coordinator learns of the topic."""
        image = EMPTY_IMAGE.with_changes([TopicImage(TOPIC_ID, TOPIC, self.partitions)])
        self.run(self.shard.metadata_changed(image, [TOPIC], self.now))

    def add_partitions(self, count: int) -> None:
        self.partitions += count
        self.show_topics()

    def restart(self) -> None:
        super().load()
        self.show_topics()
        super().activate()

    # -- the group

    @property
    def consumer_group(self) -> ConsumerGroup:
        return self.shard.consumer_groups["g"]

    @property
    def is_classic(self) -> bool:
        return "g" in self.shard.groups

    def check(self) -> None:
        """No partition is with two members."""
        group = self.shard.consumer_groups.get("g")
        if group is None:
            return
        seen: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for one in (*member.assigned, *member.revoking):
                assert one not in seen, f"{one} of {seen[one]} and {member.member_id}"
                seen[one] = member.member_id
        assert seen == group.owners

    # -- clients

    def guest(self, name: str, *, eager: bool = False, **settings: Any) -> Guest:
        return Guest(self, name, eager=eager, **settings)

    def modern(self, name: str, **settings: Any) -> Modern:
        return Modern(self, name, **settings)

    def guests(self, *names: str, eager: bool = False, **settings: Any) -> list[Guest]:
        """A Stable classic group, each with its equal part; the first leads."""
        clients = [self.guest(name, eager=eager, **settings) for name in names]
        for one in clients:
            one.enter()
        self.advance(2 * DELAY)
        share = -(-self.partitions // len(clients))
        parts = {one: range(place * share, (place + 1) * share) for place, one in enumerate(clients)}
        for one in clients[1:]:
            one.sync()
        clients[0].sync({one: assignment(*(p for p in part if p < self.partitions)) for one, part in parts.items()})
        for one in clients:
            one.owned = set(partitions_in(one.assignment))
        return clients

    def settle(self, *clients: Guest | Modern, rounds: int = 30) -> None:
        """Heartbeats of all in turn, and what follows from them, until nothing changes."""
        for _ in range(rounds):
            before = [(one.generation_id, frozenset(one.owned)) for one in clients]
            for one in clients:
                one.live()
                self.check()
                self.check_clients(*clients)
            if not self.is_classic and before == [(one.generation_id, frozenset(one.owned)) for one in clients]:
                return
            if self.is_classic:
                self.settle_classic([one for one in clients if isinstance(one, Guest)])

    def settle_classic(self, clients: list[Guest]) -> None:
        """A classic rebalance to its end: all rejoin, the leader assigns."""
        group = self.shard.groups["g"]
        clients = [one for one in clients if one.member_id in group.members]
        if group.state.value == "PreparingRebalance":
            for one in clients:
                if one.member_id not in group.parked.joins:
                    one.rejoin()
        if group.state.value == "CompletingRebalance":
            share = -(-self.partitions // len(clients))
            parts = {one: range(place * share, (place + 1) * share) for place, one in enumerate(clients)}
            wanted = {one: {p for p in part if p < self.partitions} for one, part in parts.items()}
            held = {p: one for one in clients for p in one.owned}
            given = {
                one: assignment(*sorted(p for p in parts if held.get(p, one) is one)) for one, parts in wanted.items()
            }
            leader = next(one for one in clients if one.member_id == group.leader)
            for one in clients:
                if one is not leader:
                    one.sync()
            leader.sync(given)
            for one in [one for one in clients if one.take(partitions_in(one.assignment))]:
                one.rejoin()  # what it has given up is for others

    def check_clients(self, *clients: Guest | Modern) -> None:
        """The ledger: nobody uses what somebody else uses."""
        seen: dict[int, str] = {}
        for one in clients:
            for number in one.owned:
                assert number not in seen, f"t:{number} is used by {seen[number]} and {one.name}"
                seen[number] = one.name


class Guest(Client):
    """A classic client as real ones are: eager ones drop everything before they rejoin, cooperative ones say what they
    have, give up what they are not assigned any more, and rejoin when they have given something up."""

    def __init__(self, ctx: Mixed, name: str, *, eager: bool = False, **settings: Any) -> None:
        self.ctx = ctx
        self.name = name
        self.is_eager = eager
        self.owned: set[int] = set()
        self.joins = 0
        self.losses: list[ErrorCode] = []  # of its membership, by the error that said so
        self.metadata_version = settings.pop("metadata_version", 3)
        super().__init__(ctx, name, **settings)
        self.protocols = self.offers()

    def offers(self) -> list[tuple[str, bytes]]:
        """Its protocol, with what it owns."""
        owned = {} if self.is_eager or not self.owned else {TOPIC: sorted(self.owned)}
        found = Subscription(topics=[TOPIC], owned_partitions=owned, generation_id=self.generation_id)
        name = "range" if self.is_eager else "cooperative-sticky"
        return [(name, encode_subscription(found, self.metadata_version))]

    def join(self, member_id: str | None = None, **other: Any) -> Call:
        self.joins += 1
        return super().join(member_id, **other)

    def rejoin(self) -> Call:
        """As after a heartbeat that told it to."""
        if self.is_eager:
            self.owned = set()
        self.protocols = self.offers()
        return self.join()

    def live(self) -> None:
        """A heartbeat, and a rejoin to its end if it is told so."""
        if self.ctx.shard.find(self.group_id) is None:
            return
        classic = self.ctx.shard.groups.get("g")
        if classic is not None and classic.parked.awaits_phase(self.member_id):
            return
        if self.generation_id < 0:  # its first join was answered with an error
            self.rejoin_and_sync()
            return
        told = self.heartbeat().reply.error_code
        if told == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin_and_sync()
        elif told != ErrorCode.NONE:
            self.losses.append(ErrorCode(told))
            self.owned = set()
            if told == ErrorCode.ILLEGAL_GENERATION:  # its id is as good as before
                self.rejoin_and_sync()
            else:
                self.begin()

    def begin(self) -> None:
        """From nothing: it joins, and asks for its assignment if it need not wait."""
        self.owned, self.member_id = set(), ""
        self.protocols = self.offers()
        call = self.enter()
        if call.is_parked or call.error is not ErrorCode.NONE or self.waits_for_leader:
            return
        if self.sync().error is ErrorCode.NONE:
            self.take(partitions_in(self.assignment))

    @property
    def waits_for_leader(self) -> bool:
        """In a classic group `settle_classic` plays the leader."""
        return self.ctx.is_classic and self.ctx.state is not State.STABLE

    def rejoin_and_sync(self) -> None:
        """Until it has what it is to have; with what it gives up it comes again."""
        for _ in range(3):
            call = self.rejoin()
            if call.is_parked:
                return
            if call.error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.begin()
                return
            assert call.error is ErrorCode.NONE, call.error
            if self.waits_for_leader:
                return
            call = self.sync()
            if call.is_parked or call.error is ErrorCode.REBALANCE_IN_PROGRESS:
                return
            if not self.take(partitions_in(self.assignment)):
                return

    def take(self, given: list[int]) -> bool:
        """Uses what it was given. Whether it had to give something up, and so must rejoin."""
        gone = self.owned - set(given)
        self.owned = set(given)
        return bool(gone) and not self.is_eager


class Modern:
    """A client of the new protocol: it says what it has whenever that has changed."""

    def __init__(
        self, ctx: Mixed, name: str, *, instance: str | None = None, topics: tuple[str, ...] = (TOPIC,)
    ) -> None:
        self.ctx = ctx
        self.name = name
        self.member_id = name
        self.instance = instance
        self.topics = list(topics)
        self.generation_id = 0
        self.owned: set[int] = set()
        self._told: set[int] | None = None

    def beat(self, **fields: Any) -> Call:
        """One heartbeat; what it brings is taken."""
        known: dict[str, Any] = {
            "group_id": "g",
            "member_id": self.member_id,
            "member_epoch": self.generation_id,
            "instance_id": self.instance,
            "rebalance_timeout_ms": -1,
            "topic_partitions": None,
        }
        call = Call(ConsumerGroupHeartbeatRequest(**{**known, **fields}), 1, client_id=self.name, host="/10.0.0.1")
        self.ctx.receive(call)
        if not call.is_parked and call.error is ErrorCode.NONE:
            self.adopt(call.reply)
        return call

    def adopt(self, reply: Any) -> None:
        self.generation_id = reply.member_epoch
        if reply.assignment is not None:
            self.owned = {number for row in reply.assignment.topic_partitions for number in row.partitions}

    def join(self, **fields: Any) -> Call:
        """Its first heartbeat."""
        self.generation_id, self._told = 0, None
        known: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_TIMEOUT,
            "topic_partitions": [],
            "subscribed_topic_names": self.topics,
        }
        return self.beat(**{**known, **fields})

    def live(self) -> None:
        """A heartbeat; with what it has, if that is not what it said last."""
        rows = None
        if self._told != self.owned:
            self._told = set(self.owned)
            rows = [HeartbeatTopicPartitions(topic_id=TOPIC_ID, partitions=sorted(self.owned))] if self.owned else []
        call = self.beat(topic_partitions=rows)
        assert call.error is ErrorCode.NONE, call.reply

    def leave(self, *, epoch: int = -1) -> Call:
        self.owned = set()
        return self.beat(member_epoch=epoch)
