"""A coordinator and its members under one virtual clock: the pure machines of both sides, with nothing between them
but messages that take a millisecond each way. Everything that is said can be read in `lines`."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

from equipoise.assignors import Topic, assignor_named
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.step import Caller
from equipoise.coordinator.step import Step as ShardStep
from equipoise.member import (
    Callback,
    Commit,
    Kind,
    Member,
    MemberConfig,
    MemberState,
    OffsetAndMetadata,
    Step,
    TopicPartition,
)
from equipoise.member.partitions import listed
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Message

GROUP = "g"
LATENCY_MS = 1
VERSIONS = {OffsetCommitRequest: 9, JoinGroupRequest: 9, SyncGroupRequest: 5, HeartbeatRequest: 4, LeaveGroupRequest: 5}


class Client:
    """A member and the application around it, which polls all the time unless told otherwise."""

    def __init__(self, town: Town, name: str, config: MemberConfig) -> None:
        self.town = town
        self.name = name
        self.member = Member(config)
        self.polls = True
        self.connected = True
        self.told: list[tuple[str, set[TopicPartition]]] = []
        self.failures: list[KafkaError] = []
        self.commits: list[Commit] = []
        self.listener: Callable[[Callback], None] = lambda callback: None
        self._tick_at: int | None = None

    # -- the application

    def subscribe(self, *topics: str, pattern: str | None = None) -> Client:
        compiled = None if pattern is None else re.compile(pattern)
        self.run(self.member.subscribe(topics, compiled, self.town.now))
        return self

    def commit(self, **offsets: int) -> Commit:
        """Partitions of the topic t: commit(p0=5)."""
        wanted = {TopicPartition("t", int(key[1:])): OffsetAndMetadata(at) for key, at in offsets.items()}
        commit, step = self.member.commit(wanted, self.town.now)
        self.commits.append(commit)
        self.run(step)
        return commit

    def close(self) -> None:
        self.run(self.member.close(self.town.now))

    @property
    def owned(self) -> set[int]:
        return {one.partition for one in self.member.assignment}

    # -- running the machine

    def run(self, step: Step) -> None:
        for send in step.sends:
            self.town.say(f"{self.name} -> {describe(send.request)}")
            self.town.carry(self, send.request)
        if self.polls:
            self._poll()
        self._arm()

    def _poll(self) -> None:
        self._send(self.member.poll_begins(self.town.now))
        while (callback := self.member.begin_callback()) is not None:
            self.town.say(f"{self.name}: {callback.kind.value} {listed(callback.partitions) or 'nothing'}")
            self.told.append((callback.kind.value, set(callback.partitions)))
            self.listener(callback)
            self._send(self.member.callback_done(self.town.now))
        if (failure := self.member.take_failure()) is not None:
            self.failures.append(failure)
            self.polls = False
        self.member.poll_ends(self.town.now)

    def _send(self, step: Step) -> None:
        for send in step.sends:
            self.town.say(f"{self.name} -> {describe(send.request)}")
            self.town.carry(self, send.request)

    def _arm(self) -> None:
        deadline = self.member.next_deadline()
        if deadline is not None and (self._tick_at is None or deadline < self._tick_at):
            assert deadline > self.town.now or self.polls is False or deadline >= self.town.now, (
                "a deadline in the past"
            )
            self._tick_at = deadline
            self.town.at(deadline, self._tick)

    def _tick(self) -> None:
        if self._tick_at is not None and self._tick_at <= self.town.now:
            self._tick_at = None
            self.run(self.member.tick(self.town.now))


class Town:
    def __init__(self, topics: Mapping[str, int] | None = None, **config: int) -> None:
        self.now = 0
        self.topics = dict(topics or {"t": 3})
        self.lines: list[str] = []
        self.clients: dict[str, Client] = {}
        self.answers: dict[type[Message], Callable[[Message], Message | None]] = {}  # instead of the coordinator's
        ids = itertools.count(1)
        settings = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 0, **config}
        self.shard = Shard(GroupConfig(**settings), lambda: str(next(ids)))
        self._order = itertools.count()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._run_shard(self.shard.activate(0))

    def member(self, name: str, *assignors: str, **changes: Any) -> Client:
        named = tuple(assignor_named(one) for one in assignors or ("range",))
        config = MemberConfig(group_id=GROUP, assignors=named, **changes)
        client = self.clients[name] = Client(self, name, config)
        self.tell_metadata(client)
        return client

    def tell_metadata(self, *clients: Client) -> None:
        """All topics, to all clients or some."""
        metadata = {name: Topic(count) for name, count in self.topics.items()}
        for client in clients or self.clients.values():
            client.run(client.member.learn(metadata, None, self.now))

    # -- time

    def at(self, when: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (max(when, self.now), next(self._order), action))

    def advance(self, ms: int) -> None:
        end = self.now + ms
        while self._queue and self._queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = end

    def settle(self, ms: int = 20_000) -> None:
        """Until all members are Stable, have been told so, and share all partitions."""
        end = self.now + ms
        while not self.is_settled():
            assert self.now < end, "\n".join(self.lines[-60:])
            self.advance(1)

    def is_settled(self) -> bool:
        living = [client for client in self.clients.values() if client.member.subscription.is_active]
        owned = [one for client in living for one in client.member.assignment]
        wanted = {topic for client in living for topic in client.member.subscription.topics}
        everything = sum(self.topics.get(topic, 0) for topic in wanted)
        return (
            all(
                client.member.state is MemberState.STABLE
                and not client.member.callbacks
                and not client.member.joining.is_wanted
                for client in living
            )
            and sorted(owned) == sorted(set(owned))
            and len(owned) == everything
        )

    # -- messages

    def say(self, line: str) -> None:
        self.lines.append(f"{self.now / 1000:.3f} {line}")

    def carry(self, client: Client, request: Message) -> None:
        self.at(self.now + LATENCY_MS, lambda: self._arrive(client, request))

    def _arrive(self, client: Client, request: Message) -> None:
        if not client.connected:
            self.at(self.now + LATENCY_MS, lambda: client.run(client.member.failed(request, self.now)))
            return
        instead = self.answers.get(type(request))
        if instead is not None and (response := instead(request)) is not None:
            self._reply(client, request, response)
        elif isinstance(request, FindCoordinatorRequest):
            found = Coordinator(key=GROUP, node_id=1, host="h", port=1, error_code=0)
            self._reply(client, request, FindCoordinatorResponse(coordinators=[found]))
        else:
            self._run_shard(self._ask(client, request))

    def _ask(self, client: Client, request: Message) -> ShardStep:
        caller = Caller((client, request), VERSIONS[type(request)], client.name, "/h")
        match request:
            case JoinGroupRequest():
                return self.shard.join_group(request, caller, self.now)
            case SyncGroupRequest():
                return self.shard.sync_group(request, caller, self.now)
            case HeartbeatRequest():
                return self.shard.heartbeat(request, caller, self.now)
            case LeaveGroupRequest():
                return self.shard.leave_group(request, caller, self.now)
            case OffsetCommitRequest():
                return self.shard.commit_offsets(request, {}, caller, self.now)
        raise AssertionError(request)

    def _run_shard(self, step: ShardStep) -> None:
        for caller, response in step.replies:
            client, request = caller.token
            self._reply(client, request, response)
        for write in step.writes:
            self._run_shard(write.done(ErrorCode.NONE, self.now))
        deadline = self.shard.next_deadline()
        if deadline is not None:
            self.at(deadline, lambda: self._run_shard_tick(deadline))

    def _run_shard_tick(self, deadline: int) -> None:
        if (due := self.shard.next_deadline()) is not None and due <= self.now:
            self._run_shard(self.shard.tick(self.now))

    def _reply(self, client: Client, request: Message, response: Message | bytes) -> None:
        self.at(self.now + LATENCY_MS, lambda: self._hand_over(client, request, response))

    def _hand_over(self, client: Client, request: Message, response: Message | bytes) -> None:
        if client.connected and not isinstance(response, bytes):
            self.say(f"{client.name} <- {describe(response)}")
            client.run(client.member.answered(request, response, self.now))


def describe(message: Message) -> str:
    name = type(message).__name__
    details = []
    if getattr(message, "error_code", 0):
        details.append(ErrorCode(message.error_code).name)  # type: ignore[attr-defined]
    generation = getattr(message, "generation_id", None)
    if generation is not None:
        details.append(f"generation {generation}")
    return " ".join([name, *details])


__all__ = ["Client", "Kind", "Town"]
