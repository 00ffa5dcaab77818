"""Runs a member of either group protocol: sends its requests, gives it the answers, and keeps its time.

The loop's thread and the application's thread use the member, one at a time, under `lock`. Only the loop sends
requests.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, cast

from equipoise.assignors import Assignor, Topic, assignor_named
from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.metadata.cluster import Cluster, Snapshot
from equipoise.client.net.addresses import address_of
from equipoise.client.net.backoff import jitter
from equipoise.client.net.connection import AsyncConnection
from equipoise.client.net.errors import error_from
from equipoise.client.net.hedging import while_in_charge
from equipoise.client.net.lasting_warnings import LastingWarning
from equipoise.client.net.pool import Purpose
from equipoise.member import AnyMember, BrokerNode, ConsumerMember, Member, MemberConfig, Send, Step
from equipoise.member.fallback import fall_back, is_refused
from equipoise.member.subscription import TopicsOfInterest
from equipoise.random_uuid import random_uuid
from equipoise.wire.apis import APIS
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.errors import EquipoiseError, ErrorCode, UsageError
from equipoise.wire.schema import Message
from equipoise.wire.uuids import short

log = logging.getLogger(__name__)

NEWEST_WITH_NAMES = 9  # of OffsetCommit and OffsetFetch: from 10 on topics go by id, which a new topic may not have yet
_OFFSET_APIS = (8, 9)
_WITH_OWN_MEMBER_ID = 1  # version of ConsumerGroupHeartbeat
_SUSPICIOUS_S = 3.0  # of silence, before others are asked for the coordinator


def now_ms() -> int:
    """The member's clock."""
    return time.monotonic_ns() // 1_000_000


def _member_config(config: ConsumerConfig) -> MemberConfig:
    """UsageError if an assignor is not known."""
    assert config.group_id is not None
    same = {row.name: getattr(config, row.name) for row in fields(MemberConfig) if hasattr(config, row.name)}
    own: dict[str, Any] = {
        "assignors": tuple(map(_assignor, config.partition_assignment_strategy)),
        "server_assignor": config.group_remote_assignor,
        "client_rack": config.client_rack or None,
        "principal": config.security.principal,
    }
    return MemberConfig(**same | own)


def _new_member(config: ConsumerConfig) -> AnyMember:
    """With auto it begins as a member of a consumer group: the first answer decides."""
    if config.group_protocol == "classic":
        return Member(_member_config(config), jitter=jitter)
    return ConsumerMember(_member_config(config), _new_member_id(), jitter=jitter)


def _new_member_id() -> str:
    """A random UUID in base64 without a leading dash, as Java's clients make it (KIP-1082, Uuid.randomUuid)."""
    while (made := short(random_uuid())).startswith("-"):
        pass
    return made


def _assignor(given: object) -> Assignor:
    """UsageError: it is none. A member would find out when it joins, and try again for ever."""
    if isinstance(given, str):
        return assignor_named(given)
    methods = (getattr(given, name, None) for name in ("assign", "user_data", "on_assignment"))
    is_one = (
        isinstance(getattr(given, "name", None), str) and hasattr(given, "protocols") and all(map(callable, methods))
    )
    if isinstance(given, type) or not is_one:
        what = f"partition.assignment.strategy: {given!r} is no assignor"
        raise UsageError(f"{what}: give a name, or an object of a subclass of Assignor")
    return cast(Assignor, given)


def _has_consumer_groups(connection: AsyncConnection) -> bool:
    """Rules B2.4 and B2.5. Brokers of the early access have v0, in which the coordinator makes the member id."""
    try:
        return connection.version(ConsumerGroupHeartbeatRequest) >= _WITH_OWN_MEMBER_ID
    except UsageError:
        return False


class Membership:
    """`changed` is called, on either thread, whenever the member may have something for the application.

    UsageError: an assignor is not known."""

    def __init__(self, config: ConsumerConfig, cluster: Cluster, changed: Callable[[], None]) -> None:
        self.member = _new_member(config)
        self._hides_internal_topics = config.exclude_internal_topics
        self.lock = threading.RLock()
        self._cluster = cluster
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._wanted: tuple[TopicsOfInterest, frozenset[bytes]] = (frozenset(), frozenset())
        self._is_undecided = config.group_protocol == "auto"
        self._is_closed = False
        self._lost = LastingWarning(self._tell_lost)
        self._why_lost = ""

    def act(self, act: Callable[[AnyMember, int], Step]) -> None:
        """An input to the member, from any thread."""
        with self.lock:
            sends = act(self.member, now_ms()).sends
            deadline, subscription = self.member.next_deadline(), self.member.subscription
            wanted = subscription.wanted, subscription.wanted_ids
        if threading.get_ident() == self._thread:
            self._follow(sends, deadline, wanted)
        elif sends or wanted != self._wanted or self._is_earlier(deadline):
            self._loop.call_soon_threadsafe(self._follow, sends, deadline, wanted)
        self._changed()

    def _is_earlier(self, deadline: int | None) -> bool:
        return deadline is not None and (self._timer_at is None or deadline < self._timer_at)

    def _follow(
        self, sends: list[Send], deadline: int | None, wanted: tuple[TopicsOfInterest, frozenset[bytes]]
    ) -> None:
        if self._is_closed:
            return
        for send in sends:
            task = asyncio.create_task(self._exchange(send, self.member.coordinator))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._is_earlier(deadline):
            self._arm(deadline)
        if wanted != self._wanted:
            self._wanted = wanted
            self._cluster.subscribe_topics(*wanted)

    # -- time

    def _arm(self, deadline: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at, self._timer = deadline, None
        if deadline is not None:
            self._timer = self._loop.call_later(max(deadline - now_ms(), 0) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer_at = self._timer = None
        self.act(lambda member, now: member.tick(now))

    # -- messages

    async def _exchange(self, send: Send, coordinator: BrokerNode | None) -> None:
        request = send.request
        try:
            response = await self.ask(request, coordinator, send.timeout_ms / 1000)
        except EquipoiseError as error:
            log.debug("%s: %s", type(request).__name__, error)
            self.act(lambda member, now: member.failed(request, now))
            return
        try:
            self.act(lambda member, now: self._take(member, request, response, now))
            self._note_coordinator(response)
        except Exception:  # a bug of ours: the member must not wait for ever for an answer that has come
            log.exception("the answer to %s could not be taken in", type(request).__name__)
            self.act(lambda member, now: member.failed(request, now))

    def _take(self, member: AnyMember, request: Message, response: Message, now: int) -> Step:
        """With group.protocol=auto the first answer to a heartbeat decides, once for this consumer (rule B2.4)."""
        if self._is_undecided and isinstance(response, ConsumerGroupHeartbeatResponse):
            self._is_undecided = response.error_code != ErrorCode.NONE
            if isinstance(member, ConsumerMember) and is_refused(member, response):
                log.info("group %s: the broker has no consumer groups; joins a classic one", member.config.group_id)
                self._is_undecided = False
                classic = Member(member.config, jitter=jitter)
                self.member = classic
                return fall_back(member, classic, now)
        return member.answered(request, response, now)

    def _note_coordinator(self, response: Message) -> None:
        if isinstance(response, FindCoordinatorResponse):
            found = response.coordinators[0] if response.coordinators else response
            self._why_lost = str(error_from(found.error_code, found.error_message or "the brokers name none"))
            self._lost.set(bool(found.error_code) and not self._is_closed)

    def _tell_lost(self, seconds: float) -> str:
        return (
            f"group {self.member.config.group_id} has had no coordinator for {seconds:.0f} s: {self._why_lost}. Is "
            "__consumer_offsets readable, and are there brokers enough for offsets.topic.replication.factor?"
        )

    async def ask(self, request: Message, coordinator: BrokerNode | None, timeout: float) -> Message:
        """The coordinator's answer; any broker's if there is none. KafkaConnectionError: also if another broker is the
        coordinator by now."""
        response = APIS[request.api_key].response
        if coordinator is None or isinstance(request, FindCoordinatorRequest):
            return await self._cluster.ask(request, response, timeout)
        of_offsets = request.api_key in _OFFSET_APIS

        async def ask() -> Message:
            purpose = Purpose.OFFSETS if of_offsets else Purpose.COORDINATOR
            connection = await self._cluster.coordinator_connection(coordinator.host, coordinator.port, purpose)
            if isinstance(request, ConsumerGroupHeartbeatRequest) and not _has_consumer_groups(connection):
                return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            newest = NEWEST_WITH_NAMES if of_offsets else None
            return await connection.send(request, response, timeout, newest=newest)

        # A heartbeat may be held for an interval, and a join for the whole rebalance: others know the coordinator.
        suspicious = max(_SUSPICIOUS_S, 1.5 * self.member.heartbeat_interval_ms / 1000)
        return await while_in_charge(ask(), partial(self._has_moved, coordinator), suspicious, _SUSPICIOUS_S)

    async def _has_moved(self, coordinator: BrokerNode) -> str | None:
        group_id = self.member.config.group_id
        try:
            response = await self._cluster.ask(
                FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id]),
                FindCoordinatorResponse,
                _SUSPICIOUS_S,
            )
        except EquipoiseError:
            return None
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code or (found.host, found.port) == (coordinator.host, coordinator.port):
            return None
        before, now = address_of(coordinator.host, coordinator.port), address_of(found.host, found.port)
        return f"{before} does not answer, and {now} is the coordinator by now"

    def learn(self, topics: Snapshot, wanted: TopicsOfInterest) -> None:
        """Passes new metadata on. Internal topics must be subscribed by name."""
        hide = self._hides_internal_topics and wanted is None
        known = {
            name: Topic(topic.partitions, topic.racks, topic.topic_id)
            for name, topic in topics.items()
            if not (hide and topic.is_internal)
        }
        self.act(lambda member, now: member.learn(known, wanted, now))

    def close(self) -> None:
        """Ends its work. A member that is to leave has done so before."""
        self._is_closed = True
        self._lost.end()
        self._arm(None)
        for task in self._tasks:
            task.cancel()
