"""A coordinator to test, and clients to test it with, in the few words that the rules need.

    ctx = Context()
    a, b = ctx.stable("a", "b")         # two members, synced
    call = a.join()                     # one request; it knows its reply, or that it is parked
    assert call.is_parked
    ctx.advance(60_000)                 # every deadline on the way fires in order
    assert call.reply.generation_id == 2

After every step the invariants of the data are checked. Member ids are `<client>-1`, `<client>-2`, ... over the shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, TypeVar

from equipoise import simulate
from equipoise.coordinator.admin import describe_group, list_groups
from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.events import Event
from equipoise.coordinator.journal import Rebalance
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.simulate import Call, Clock, Coordinator, Invariants, Observer
from equipoise.simulate.calls import over_the_wire
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequestTopic, OffsetFetchResponsePartition
from equipoise.wire.apis.k13_leave_group import MemberIdentity
from equipoise.wire.apis.k15_describe_groups import DescribedGroup, DescribeGroupsResponse
from equipoise.wire.apis.k16_list_groups import ListedGroup
from equipoise.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from equipoise.wire.offsets_records import CoordinatorRecord

START = 1_700_000_000_000
DELAY = 3_000  # group.initial.rebalance.delay.ms
SESSION = 10_000
REBALANCE = 60_000
TOPIC = "t"
SWEEP = 600_000
RETENTION = 7 * 86_400_000

Protocols = list[tuple[str, bytes]]
E = TypeVar("E", bound=Event)


def subscription(*topics: str, owned: Mapping[str, list[int]] | None = None, generation: int = -1) -> bytes:
    named = list(topics) or [TOPIC]
    return encode_subscription(Subscription(topics=named, owned_partitions=dict(owned or {}), generation_id=generation))


def protocols(*names: str, metadata: bytes | None = None) -> Protocols:
    """The same metadata under each name."""
    return [(name, subscription() if metadata is None else metadata) for name in names]


RANGE = protocols("range")


def assignment(*partitions: int, topic: str = TOPIC) -> bytes:
    return encode_assignment(Assignment(assigned_partitions={topic: list(partitions)} if partitions else {}))


def partitions_in(data: bytes) -> list[int]:
    return decode_assignment(data).assigned_partitions.get(TOPIC, [])


_SHORT = {
    "group": "group_id",
    "instance": "group_instance_id",
    "session": "session_timeout_ms",
    "rebalance": "rebalance_timeout_ms",
    "offered": "protocols",
}


def _fields(short: Mapping[str, Any]) -> dict[str, Any]:
    """Tests say `instance` where a client has a `group_instance_id`, and both halves of a protocol at once."""
    found = {_SHORT.get(name, name): value for name, value in short.items()}
    if "protocol" in found:
        found["protocol_type"], found["protocol_name"] = found.pop("protocol")
    return found


class Client(simulate.Client):
    """Of the topic t, unless told otherwise."""

    def __init__(self, ctx: Context, name: str, **settings: Any) -> None:
        known = {"client_id": name, "host": "/10.0.0.1", "protocols": RANGE}
        super().__init__(ctx, **{**known, **_fields(settings)})

    @property
    def instance(self) -> str | None:
        return self.group_instance_id

    @property
    def deadline(self) -> int | None:
        """When its session, or the wait for its return, ends; counted from now."""
        at = self.coordinator.shard.timers.deadline(TimerKey(TimerKind.SESSION, self.group_id, self.member_id))
        return None if at is None else at - self.coordinator.clock.now

    def join(self, member_id: str | None = None, **other: Any) -> Call:
        known: dict[str, Any] = {} if member_id is None else {"member_id": member_id}
        return super().join(**known, **_fields(other))

    def restart(self, **other: Any) -> Call:
        """The process is new, its group.instance.id is not."""
        return self.join("", **other)

    def sync(self, assignments: Mapping[Any, bytes] | None = None, **other: Any) -> Call:
        """Assignments by client, or by member id."""
        by_id = {one.member_id if isinstance(one, Client) else one: data for one, data in (assignments or {}).items()}
        return super().sync(by_id, **_fields(other))

    def heartbeat(self, **other: Any) -> Call:
        return super().heartbeat(**_fields(other))

    def commit(self, offsets: Mapping[Any, Any] | None = None, *, topic: str = TOPIC, **other: Any) -> Call:
        """Offsets by partition."""
        topic_id = other.pop("topic_id", bytes(16))
        return super().commit({topic: offsets or {0: 1}}, topic_ids={topic: topic_id}, **_fields(other))


class Events(Observer):
    def __init__(self) -> None:
        self.noted: list[Event] = []

    def event(self, event: Event) -> None:
        self.noted.append(event)


Identity = tuple[str, str, int, str | None]  # group, member id, generation, group.instance.id
NOBODY: Identity = ("g", "", -1, None)


class Context(Coordinator):
    def __init__(self, **config: Any) -> None:
        ids = count(1)
        noted = Events()
        self.events = noted.noted
        observers = [noted, Invariants()]
        super().__init__(Clock(START), GroupConfig(**config), observers=observers, new_id=lambda: str(next(ids)))
        self.activate()

    # -- time and the group

    @property
    def now(self) -> int:
        return self.clock.now

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    def group(self, group_id: str = "g") -> Group:
        return super().group(group_id)

    def journal(self, group_id: str = "g") -> list[Rebalance]:
        return super().journal(group_id)

    @property
    def state(self) -> State:
        return self.group().state

    def written(self, since: int = 0) -> list[CoordinatorRecord]:
        """The records after the first `since`."""
        return self.records[since:]

    def all_events(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def last_event(self, kind: type[E]) -> E:
        return self.all_events(kind)[-1]

    def client(self, name: str, **settings: Any) -> Client:
        return Client(self, name, **settings)

    def stable(self, *members: str | Client, assignments: Mapping[Client, bytes] | None = None) -> list[Client]:
        """The members of a new group, synced; the first is the leader. Each has the partition of its place."""
        clients = [one if isinstance(one, Client) else self.client(one) for one in members]
        self.completing(*clients)
        shares = assignments or {client: assignment(place) for place, client in enumerate(clients)}
        for client in clients[1:]:
            client.sync()
        clients[0].sync(shares)
        assert self.state is State.STABLE
        return clients

    def completing(self, *members: str | Client) -> list[Client]:
        """The members of a new group, joined and not yet synced; the first is the leader."""
        clients = [one if isinstance(one, Client) else self.client(one) for one in members]
        for client in clients:
            client.enter()
        self.advance(DELAY)
        if len(clients) > 1:
            self.advance(DELAY)
        assert self.state is State.COMPLETING_REBALANCE
        assert self.group().leader == clients[0].member_id
        return clients

    # -- requests of nobody in particular

    def stranger(self, about: Identity = NOBODY, client_id: str = "client") -> Client:
        group, member_id, generation_id, instance = about
        return self.client(client_id, group=group, member_id=member_id, generation_id=generation_id, instance=instance)

    def join(self, member_id: str = "", *, client_id: str = "client", **other: Any) -> Call:
        return self.stranger(client_id=client_id).join(member_id, **other)

    def sync(self, about: Identity, assignments: Mapping[str, bytes], **other: Any) -> Call:
        return self.stranger(about).sync(assignments, **other)

    def heartbeat(self, about: Identity, **other: Any) -> Call:
        return self.stranger(about).heartbeat(**other)

    def leave(
        self, *members: tuple[str, str | None], group: str = "g", version: int = 5, reason: str | None = None
    ) -> Call:
        rows = [MemberIdentity(member_id=one, group_instance_id=instance, reason=reason) for one, instance in members]
        return self.stranger().remove(*rows, version=version, group_id=group)

    def commit(self, offsets: Mapping[int, int], about: Identity = NOBODY, **other: Any) -> Call:
        return self.stranger(about).commit(offsets, **other)

    def fetch_offset(self, partition: int = 0, **options: Any) -> int:
        offset: int = self.fetch(partition, **options).committed_offset
        return offset

    def fetch(
        self, partition: int = 0, *, topic: str = TOPIC, group: str = "g", topic_id: bytes = bytes(16)
    ) -> OffsetFetchResponsePartition:
        asked = OffsetFetchRequestTopic(name=topic, topic_id=topic_id, partition_indexes=[partition])
        (found,) = self.shard.fetch_offsets(group, [asked])
        (row,) = found.partitions
        return row

    def fetch_all(self, group: str = "g") -> dict[tuple[str, int], int]:
        return {
            (topic.name, row.partition_index): row.committed_offset
            for topic in self.shard.fetch_offsets(group, None)
            for row in topic.partitions
        }

    def delete_offsets(self, *partitions: int, topic: str = TOPIC, group: str = "g") -> Call:
        return self.stranger().delete_offsets({topic: partitions}, group_id=group)

    def delete_group(self, group: str = "g") -> Call:
        return self.stranger().delete_group(version=3, group_id=group)

    def delete_topic(self, topic: str, topic_id: bytes) -> None:
        self.run(self.shard.topic_deleted(topic, topic_id, self.now))

    def describe(self, group: str = "g", version: int = 6) -> DescribedGroup:
        answer = DescribeGroupsResponse(groups=[describe_group(self.shard, group, version)])
        return over_the_wire(answer, version).groups[0]

    def list(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        return [*list_groups(self.shard, [*states], [*types])]
