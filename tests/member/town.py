"""A coordinator and its members under one virtual clock: the pure machines of both sides, and between them nothing but
messages that take a millisecond each way, unless a test loses them. `lines` tells what was said and done."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from equipoise.assignors import Topic, assignor_named
from equipoise.console import words
from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.shard import Shard, Status
from equipoise.coordinator.step import Caller
from equipoise.coordinator.step import Step as ShardStep
from equipoise.member import MemberConfig
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import Record, decode_record, encode_key, encode_value
from equipoise.wire.schema import Message
from tests.member.client import LATENCY_MS, Client, Exchange
from tests.transcripts.world import clock

GROUP = "g"
VERSIONS = {OffsetCommitRequest: 9, JoinGroupRequest: 9, SyncGroupRequest: 5, HeartbeatRequest: 4, LeaveGroupRequest: 5}


class Town:
    def __init__(self, topics: Mapping[str, int] | None = None, **config: int) -> None:
        self.now = 0
        self.topics = dict({"t": 3} if topics is None else topics)
        self.lines: list[str] = []
        self.is_silent = False  # where nobody reads the lines
        self.clients: dict[str, Client] = {}
        self.answers: dict[type[Message], Callable[[Any], Message | None]] = {}  # instead of the coordinator's
        self.watch: Callable[[], None] = lambda: None  # after every event
        self.note: Callable[[Exchange, Message], None] = lambda exchange, response: None  # at every reply
        self.hold_ms = 0  # how long the coordinator keeps a heartbeat, to answer it when there is news
        self.node_id = 1  # where the coordinator is; 0: nowhere
        self._config = GroupConfig(
            **{"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 0, **config}  # type: ignore[arg-type]
        )
        self._elsewhere = Shard(self._config, self._new_id)  # a broker that is not the coordinator
        self._elsewhere.close(0)
        self._durable: list[tuple[bytes, bytes | None]] = []
        self._ids: Counter[str] = Counter()
        self._caller = ""
        self._order = itertools.count()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self.start()

    def member(self, name: str, *assignors: str, **changes: Any) -> Client:
        """A new process, also if there was one of that name."""
        named = tuple(assignor_named(one) for one in assignors or ("range",))
        config = MemberConfig(group_id=GROUP, assignors=named, **changes)
        client = self.clients[name] = Client(self, name, config)
        self.tell_metadata(client)
        return client

    def tell_metadata(self, *clients: Client) -> None:
        """All topics, to all clients or some."""
        metadata = {name: Topic(count) for name, count in self.topics.items()}
        for client in clients or tuple(self.clients.values()):
            client.do(lambda member: member.learn(metadata, None, self.now))

    @property
    def group(self) -> Group | None:
        return self.shard.groups.get(GROUP)

    def say(self, line: str) -> None:
        self.lines.append(f"{clock(self.now)} {line}")

    # -- the coordinator's life

    def start(self, node_id: int = 1, loading_ms: int = 0) -> None:
        """Reads back what was durable, perhaps on another broker, which takes its time."""
        self.node_id = node_id
        self.shard = Shard(self._config, self._new_id)
        for key, value in self._durable:
            record = decode_record(key, value)
            assert isinstance(record, Record)
            self.shard.apply(record, self.now)
        if loading_ms:
            self.at(self.now + loading_ms, lambda shard=self.shard: self._activate(shard))  # type: ignore[misc]
        else:
            self._activate(self.shard)

    def _activate(self, shard: Shard) -> None:
        """Unless it has gone elsewhere before it was read."""
        if shard is self.shard and shard.status is Status.LOADING:
            self._run_shard(shard.activate(self.now))

    def crash(self, loading_ms: int = 0) -> None:
        """And a fresh start. Connections break."""
        self.start(self.node_id, loading_ms)
        for client in self.clients.values():
            client.cut()

    def unload(self) -> None:
        """The broker is no coordinator any more, and nobody else is."""
        self.node_id = 0
        self._run_shard(self.shard.close(self.now))

    def _new_id(self) -> str:
        self._ids[self._caller] += 1
        return str(self._ids[self._caller])

    # -- time

    def at(self, when: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (max(when, self.now), next(self._order), action))

    def advance(self, ms: int) -> None:
        end = self.now + ms
        while self._next_event() <= end:
            self.now = int(self._next_event())
            if self._queue and self._queue[0][0] <= self.now:
                heapq.heappop(self._queue)[2]()
            self._tick_shard()
            self.watch()
        self.now = end

    def _next_event(self) -> float:
        queued = self._queue[0][0] if self._queue else float("inf")
        due = self.shard.next_deadline()
        return queued if due is None else max(min(queued, due), self.now)

    def _tick_shard(self) -> None:
        due = self.shard.next_deadline()
        if due is not None and due <= self.now:
            self._run_shard(self.shard.tick(self.now))

    def settle(self, ms: int = 30_000, calm_ms: int = 10) -> None:
        """Until all members are Stable, have been told so and share all partitions, for some time."""
        end, calm = self.now + ms, 0
        while calm <= calm_ms:
            assert self.now < end, "\n".join(["not settled:", *self.lines[-80:]])
            calm = calm + 1 if self.is_settled() else 0
            self.advance(1 if self.is_settled() else max(1, min(100, int(self._next_event()) - self.now)))

    def is_settled(self) -> bool:
        living = [client for client in self.clients.values() if client.is_living]
        owned = [one for client in living for one in client.member.readable]
        wanted = {topic for client in living for topic in client.member.subscription.topics}
        everything = sum(self.topics.get(topic, 0) for topic in wanted)
        return (
            all(client.is_settled for client in living) and len(owned) == len(set(owned)) and len(owned) == everything
        )

    # -- messages

    def arrive(self, exchange: Exchange) -> None:
        request = exchange.request
        instead = self.answers.get(type(request))
        if instead is not None and (response := instead(request)) is not None:
            self._reply(exchange, response)
        elif isinstance(request, FindCoordinatorRequest):
            self._reply(exchange, self._find())
        else:
            self._run_shard(self._ask(exchange, self.shard if exchange.node_id == self.node_id else self._elsewhere))

    def _find(self) -> FindCoordinatorResponse:
        found = Coordinator(key=GROUP, node_id=self.node_id, host="h", port=self.node_id, error_code=0)
        if not self.node_id:
            found.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return FindCoordinatorResponse(coordinators=[found])

    def _ask(self, exchange: Exchange, shard: Shard) -> ShardStep:
        request, client = exchange.request, exchange.client
        self._caller = client.member.config.group_instance_id or client.name
        caller = Caller(exchange, VERSIONS[type(request)], client.name, "/127.0.0.1")
        match request:
            case JoinGroupRequest():
                return shard.join_group(request, caller, self.now)
            case SyncGroupRequest():
                return shard.sync_group(request, caller, self.now)
            case HeartbeatRequest():
                return shard.heartbeat(request, caller, self.now, self.hold_ms)
            case LeaveGroupRequest():
                return shard.leave_group(request, caller, self.now)
            case OffsetCommitRequest():
                return shard.commit_offsets(request, {}, caller, self.now)
        raise AssertionError(request)

    def _run_shard(self, step: ShardStep) -> None:
        if not self.is_silent:
            for event in step.events:
                self.say(f"{event.group_id}: {words.event(event)}")
        for caller, response in step.replies:
            self._reply(caller.token, response)
        for write in step.writes:
            self._durable += [
                (encode_key(key), None if value is None else encode_value(value)) for key, value in write.records
            ]
            self._run_shard(self.shard.written(write, ErrorCode.NONE, self.now))

    def _reply(self, exchange: Exchange, response: Message) -> None:
        self.note(exchange, response)
        self.at(self.now + LATENCY_MS, lambda: exchange.client.take(exchange, response))
