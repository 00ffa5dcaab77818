"""A coordinator to test: one shard of the pure core, a clock that moves when told, a log, and clients.

    ctx = Context()
    a, b = ctx.stable("a", "b")         # two members, synced
    call = a.join()                     # one request; it knows its reply, or that it is parked
    assert call.is_parked
    ctx.advance(60_000)                 # every deadline on the way fires in order
    assert call.reply.generation_id == 2

A reply passes through the codec of the request's version, so tests see what a client of that version sees. After
every step the invariants of the data are checked. Member ids are `<client>-1`, `<client>-2`, ... over the shard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, TypeVar

from equipoise.coordinator.admin import describe_group, list_groups
from equipoise.coordinator.classic.group import Group, Member
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.events import Event
from equipoise.coordinator.journal import Rebalance
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.step import Caller, Step, Write
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequestTopic, OffsetFetchResponsePartition
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from equipoise.wire.apis.k15_describe_groups import DescribedGroup, DescribeGroupsResponse
from equipoise.wire.apis.k16_list_groups import ListedGroup
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from equipoise.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import Record, decode_record, encode_key, encode_value
from equipoise.wire.schema import Message

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


class Call:
    """One request on its way. To answer it twice is an error of the coordinator."""

    def __init__(self, version: int, client: Client | None = None) -> None:
        self.version = version
        self._client = client
        self._reply: Any = None

    def answer(self, response: Message) -> None:
        assert self._reply is None, f"answered twice: {self._reply}, then {response}"
        self._reply = type(response).decode(response.encode(self.version), self.version)
        if self._client is not None:
            self._client.hear(self._reply)

    @property
    def is_parked(self) -> bool:
        return self._reply is None

    @property
    def reply(self) -> Any:
        assert self._reply is not None, "still parked"
        return self._reply

    @property
    def error(self) -> ErrorCode:
        """The one error of the reply, which may be said partition by partition."""
        (code,) = set(self.errors)
        return code

    @property
    def errors(self) -> list[ErrorCode]:
        """In the order of the reply: of the partitions of a commit, the results of a deletion, or the top level."""
        if hasattr(self.reply, "results"):
            return [ErrorCode(row.error_code) for row in self.reply.results]
        if hasattr(self.reply, "topics") and not getattr(self.reply, "error_code", 0):
            return [ErrorCode(row.error_code) for topic in self.reply.topics for row in topic.partitions]
        return [ErrorCode(self.reply.error_code)]

    @property
    def member_errors(self) -> list[ErrorCode]:
        """Of a LeaveGroup."""
        return [ErrorCode(row.error_code) for row in self.reply.members]


class Client:
    """What a client remembers between its requests. Every request can be given other values than these."""

    def __init__(self, ctx: Context, name: str, **settings: Any) -> None:
        self.ctx = ctx
        self.name = name
        self.settings: dict[str, Any] = settings
        self.member_id = ""
        self.generation_id = -1
        self.protocol: tuple[str | None, str | None] = ("consumer", "range")
        self.assignment = b""

    @property
    def instance(self) -> str | None:
        instance: str | None = self.settings.get("instance")
        return instance

    @property
    def member(self) -> Member:
        return self.ctx.group(self.settings.get("group", "g")).members[self.member_id]

    @property
    def deadline(self) -> int | None:
        """When its session, or the wait for its return, ends; counted from now."""
        group = self.settings.get("group", "g")
        at = self.ctx.shard.timers.deadline(TimerKey(TimerKind.SESSION, group, self.member_id))
        return None if at is None else at - self.ctx.now

    def hear(self, reply: Any) -> None:
        if reply.error_code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            return
        if hasattr(reply, "leader"):
            self.member_id = reply.member_id
            self.generation_id = reply.generation_id
            if reply.protocol_name:
                self.protocol = (self.settings.get("protocol_type", "consumer"), reply.protocol_name)
        elif hasattr(reply, "assignment"):
            self.assignment = reply.assignment

    def join(self, member_id: str | None = None, **overrides: Any) -> Call:
        """One JoinGroup."""
        member_id = self.member_id if member_id is None else member_id
        return self.ctx.join(member_id, client=self, **{"client_id": self.name, **self.settings, **overrides})

    def enter(self, **overrides: Any) -> Call:
        """The JoinGroup that is parked or accepted: the one after the member id is known."""
        call = self.join("", **overrides)
        if not call.is_parked and call.error is ErrorCode.MEMBER_ID_REQUIRED:
            call = self.join(**overrides)
        return call

    def restart(self, **overrides: Any) -> Call:
        """The process is new, its group.instance.id is not."""
        return self.join("", **overrides)

    def sync(self, assignments: Mapping[Client | str, bytes] | None = None, **overrides: Any) -> Call:
        by_id = {one.member_id if isinstance(one, Client) else one: data for one, data in (assignments or {}).items()}
        return self.ctx.sync(self._about(overrides), by_id, client=self, **{"protocol": self.protocol, **overrides})

    def heartbeat(self, **overrides: Any) -> Call:
        return self.ctx.heartbeat(self._about(overrides), client=self, **overrides)

    def commit(self, offsets: Mapping[int, int] | None = None, **overrides: Any) -> Call:
        return self.ctx.commit(offsets or {0: 1}, self._about(overrides), **overrides)

    def leave(self, **overrides: Any) -> Call:
        return self.ctx.leave((self.member_id, self.instance), group=self.settings.get("group", "g"), **overrides)

    def _about(self, overrides: dict[str, Any]) -> tuple[str, str, int, str | None]:
        return (
            self.settings.get("group", "g"),
            overrides.pop("member_id", self.member_id),
            overrides.pop("generation_id", self.generation_id),
            overrides.pop("instance", self.instance),
        )


Identity = tuple[str, str, int, str | None]  # group, member id, generation, group.instance.id
NOBODY: Identity = ("g", "", -1, None)


class Context:
    def __init__(self, **config: Any) -> None:
        self.config = GroupConfig(**config)
        self.now = START
        self.wall_ahead = 0  # of `now`: somebody may set the wall clock
        self.log: list[tuple[bytes, bytes | None]] = []  # what is durable, as it stands in the partition
        self.events: list[Event] = []
        self.under_way: deque[Write] = deque()
        self.holds_writes = False
        self._ids = count(1)
        self.shard = self._new_shard()
        self.run(self.shard.activate(self.now))

    def _new_shard(self) -> Shard:
        return Shard(self.config, lambda: str(next(self._ids)), lambda now: now + self.wall_ahead)

    # -- steps, writes, time

    def run(self, step: Step) -> None:
        for caller, response in step.replies:
            caller.token.answer(response)
        self.events += step.events
        self.under_way += step.writes
        if not self.holds_writes:
            self.durable()
        check_invariants(self.shard)

    def hold_writes(self) -> None:
        """From now on a write is durable when `durable` says so, or never, when `fail_writes` says so."""
        self.holds_writes = True

    def durable(self, writes: int | None = None) -> None:
        """The oldest writes under way, or all, succeed."""
        while self.under_way and writes != 0:
            write = self.under_way.popleft()
            self.log += [
                (encode_key(key), None if value is None else encode_value(value)) for key, value in write.records
            ]
            self.run(self.shard.written(write, ErrorCode.NONE, self.now))
            writes = None if writes is None else writes - 1

    def fail_writes(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """All writes under way fail; later ones are still to be decided."""
        writes, self.under_way = self.under_way, deque()
        for write in writes:
            self.run(self.shard.written(write, error, self.now))

    @property
    def records(self) -> list[Record]:
        return list(decode_log(self.log))

    def written(self, since: int = 0) -> list[Record]:
        """The records after the first `since`."""
        return self.records[since:]

    def advance(self, ms: int) -> None:
        """Time goes on, and stops at every deadline on its way."""
        end = self.now + ms
        while (deadline := self.shard.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.run(self.shard.tick(self.now))
        self.now = end

    # -- load and unload

    def reload(self) -> None:
        """A crash, and a new shard from what was durable. Whoever was parked will not hear of it."""
        self.under_way.clear()
        self.start_loading()
        self.finish_loading()

    def start_loading(self) -> None:
        self.shard = self._new_shard()

    def finish_loading(self) -> None:
        for record in decode_log(self.log):
            self.shard.apply(record, self.now)
        self.run(self.shard.activate(self.now))

    def close(self) -> None:
        self.run(self.shard.close(self.now))

    # -- the group

    def group(self, group_id: str = "g") -> Group:
        return self.shard.groups[group_id]

    @property
    def state(self) -> State:
        return self.group().state

    def all_events(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def last_event(self, kind: type[E]) -> E:
        return self.all_events(kind)[-1]

    def journal(self, group_id: str = "g") -> list[Rebalance]:
        """All rebalances that are over, with what they moved."""
        journal = self.group(group_id).journal
        while journal.settle() is not None:
            pass
        return list(journal.entries)

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

    # -- requests

    def _caller(self, version: int, client: Client | None = None, client_id: str = "") -> tuple[Call, Caller]:
        call = Call(version, client)
        return call, Caller(call, version, client_id or (client.name if client else "client"), "/10.0.0.1")

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        session: int = SESSION,
        rebalance: int = REBALANCE,
        offered: Protocols = RANGE,
        protocol_type: str = "consumer",
        version: int = 9,
        client_id: str = "client",
        reason: str | None = None,
        client: Client | None = None,
    ) -> Call:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in offered],
            reason=reason,
        )
        call, caller = self._caller(version, client, client_id)
        self.run(self.shard.join_group(sent(request, version), caller, self.now))
        return call

    def sync(
        self,
        about: Identity,
        assignments: Mapping[str, bytes],
        *,
        protocol: tuple[str | None, str | None] = ("consumer", "range"),
        version: int = 5,
        client: Client | None = None,
    ) -> Call:
        group, member_id, generation_id, instance = about
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol[0],
            protocol_name=protocol[1],
            assignments=[
                SyncGroupRequestAssignment(member_id=one, assignment=data) for one, data in assignments.items()
            ],
        )
        call, caller = self._caller(version, client)
        self.run(self.shard.sync_group(sent(request, version), caller, self.now))
        return call

    def heartbeat(self, about: Identity, *, version: int = 4, hold_ms: int = 0, client: Client | None = None) -> Call:
        group, member_id, generation_id, instance = about
        request = HeartbeatRequest(
            group_id=group, generation_id=generation_id, member_id=member_id, group_instance_id=instance
        )
        call, caller = self._caller(version, client)
        self.run(self.shard.heartbeat(sent(request, version), caller, self.now, hold_ms))
        return call

    def leave(
        self, *members: tuple[str, str | None], group: str = "g", version: int = 5, reason: str | None = None
    ) -> Call:
        rows = [MemberIdentity(member_id=one, group_instance_id=instance, reason=reason) for one, instance in members]
        request = LeaveGroupRequest(group_id=group, member_id=members[0][0] if version < 3 else "", members=rows)
        call, caller = self._caller(version)
        self.run(self.shard.leave_group(sent(request, version), caller, self.now))
        return call

    def commit(
        self,
        offsets: Mapping[int, int],
        about: Identity = NOBODY,
        *,
        topic: str = TOPIC,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
        topic_id: bytes = bytes(16),
        version: int = 9,
    ) -> Call:
        group, member_id, generation_id, instance = about
        rows = [
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
            for index, offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
        )
        call, caller = self._caller(version)
        step = self.shard.commit_offsets(sent(request, version), {topic: topic_id}, caller, self.now)
        self.run(step)
        return call

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
        rows = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
        request = OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=rows)])
        call, caller = self._caller(0)
        self.run(self.shard.delete_offsets(request, caller, self.now))
        return call

    def delete_group(self, group: str = "g") -> Call:
        (name,) = sent(DeleteGroupsRequest(groups_names=[group]), 3).groups_names
        call, caller = self._caller(3)
        self.run(self.shard.delete_group(name, caller, self.now))
        return call

    def delete_topic(self, topic: str, topic_id: bytes) -> None:
        self.run(self.shard.topic_deleted(topic, topic_id, self.now))

    def describe(self, group: str = "g", version: int = 6) -> DescribedGroup:
        answer = DescribeGroupsResponse(groups=[describe_group(self.shard, group, version)])
        return DescribeGroupsResponse.decode(answer.encode(version), version).groups[0]

    def list(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        return [*list_groups(self.shard, [*states], [*types])]


M = TypeVar("M", bound=Message)


def sent(request: M, version: int) -> M:
    """The request as it arrives: without what its version cannot say."""
    return type(request).decode(request.encode(version), version)


def decode_log(log: Iterable[tuple[bytes, bytes | None]]) -> Iterable[Record]:
    for key, value in log:
        record = decode_record(key, value)
        assert isinstance(record, Record)
        yield record


def check_invariants(shard: Shard) -> None:
    for group in shard.groups.values():
        members = group.members
        parked = group.parked
        assert parked.joins.keys() | parked.syncs.keys() | parked.heartbeats.keys() <= members.keys()
        assert all(member.member_id == key for key, member in members.items())
        assert group.static_members == {
            member.group_instance_id: key for key, member in members.items() if member.is_static
        }
        assert group.leader in members if members else group.leader is None
        assert group.pending_sync <= members.keys()
        assert not group.pending_members & members.keys()
        assert (not members) <= group.is_in(State.EMPTY, State.PREPARING_REBALANCE)
        assert not (members and group.state is State.EMPTY)
        for member in members.values():
            _check_member(shard, group, member)


def _check_member(shard: Shard, group: Group, member: Member) -> None:
    timer = shard.timers.deadline(member.timer)
    parked = [
        calls.get(member.member_id) for calls in (group.parked.joins, group.parked.syncs, group.parked.heartbeats)
    ]
    join, sync, heartbeat = parked
    assert join or sync or timer is not None, f"{member.member_id} would live for ever"
    assert sync is None or group.state is State.COMPLETING_REBALANCE
    assert heartbeat is None or group.state is State.STABLE
    for caller in parked:
        assert caller is None or caller.token.is_parked
