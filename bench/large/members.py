"""Members of one group with the consumer protocol (KIP-848): a connection each, one epoll for all of them.

They keep to the rules of a client: one heartbeat under way, the next one after the interval that the broker names, at
once when there is something to confirm. They have no callbacks, so that what is measured is the broker.
"""

from __future__ import annotations

import heapq
import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any, Self

from bench.coordinator.members import PATIENCE
from equipoise.wire.apis.headers import decode_response_header, encode_request_header
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from equipoise.wire.errors import EquipoiseError, ErrorCode
from equipoise.wire.frames import framed

_VERSION = 1
_READ = 1 << 18
_JOIN, _LEAVE = 0, -1
_REBALANCE_MS = 300_000
_SOFTWARE = "apache-kafka-java"

Held = frozenset[int]  # partitions of the one topic


class Member:
    """`due`: when its next heartbeat is to be sent; None while one is under way, or before it has joined."""

    def __init__(self, address: tuple[str, int], group_id: str, member_id: str, topic: str) -> None:
        self._socket = socket.create_connection(address, PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fileno = self._socket.fileno()
        self._group_id, self._member_id, self._topic = group_id, member_id, topic
        self._received = b""
        self._introduce()
        self._epoch = _JOIN
        self._topic_id = b""
        self.is_in = False
        self.held: Held = frozenset()
        self.due: float | None = None

    def _introduce(self) -> None:
        """As a client that bears it if its heartbeats are held."""
        request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version="4.3.1")
        self._socket.sendall(framed(encode_request_header(18, 3, 0, self._member_id), request.encode(3)))
        poll = select.poll()  # unlike select, it takes any number of files
        poll.register(self.fileno, select.POLLIN)
        while not poll.poll(PATIENCE * 1_000) or self._frame() is None:
            pass

    def close(self) -> None:
        self._socket.close()

    def join(self) -> None:
        self._epoch, self.held, self.is_in = _JOIN, frozenset(), True
        self._send(rebalance_timeout_ms=_REBALANCE_MS, subscribed_topic_names=[self._topic], topic_partitions=[])

    def leave(self) -> None:
        self._epoch, self.is_in = _LEAVE, False
        self._send()

    def beat(self) -> None:
        self._send()

    def _confirm(self) -> None:
        rows = [HeartbeatTopicPartitions(topic_id=self._topic_id, partitions=sorted(self.held))] if self.held else []
        self._send(topic_partitions=rows)

    def _send(self, **fields: Any) -> None:
        self.due = None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch, **fields
        )
        head = encode_request_header(request.api_key, _VERSION, 0, self._member_id)
        self._socket.sendall(framed(head, request.encode(_VERSION)))

    def take(self, now: float) -> bool:
        """Reads what has come, and does what an answer asks for. Whether it holds other partitions than before."""
        frame = self._frame()
        if frame is None:
            return False
        _, pos = decode_response_header(frame, ConsumerGroupHeartbeatResponse.api_key, _VERSION)
        answer = ConsumerGroupHeartbeatResponse.decode(frame, _VERSION, pos)
        if answer.error_code:
            raise EquipoiseError(f"{self._member_id} was answered {ErrorCode(answer.error_code).name}: {answer}")
        if self._epoch == _LEAVE:
            return bool(self.held) and self._adopt(frozenset())
        self._epoch = answer.member_epoch
        self.due = now + answer.heartbeat_interval_ms / 1000
        if answer.assignment is None:
            return False
        rows = answer.assignment.topic_partitions
        self._topic_id = rows[0].topic_id if rows else self._topic_id
        is_other = self._adopt(frozenset(partition for row in rows for partition in row.partitions))
        if is_other:
            self._confirm()
        return is_other

    def _adopt(self, held: Held) -> bool:
        before, self.held = self.held, held
        return before != held

    def _frame(self) -> bytes | None:
        data = os.read(self.fileno, _READ)
        if not data:
            raise EquipoiseError("the broker closed a connection in the middle of the measurement")
        self._received += data
        size = 4 + int.from_bytes(self._received[:4], "big") if len(self._received) >= 4 else 0
        if not size or len(self._received) < size:
            return None
        frame, self._received = self._received[4:size], self._received[size:]
        return frame


class Crowd:
    """All members of one group, driven together. `count` partitions are to be shared."""

    def __init__(self, address: tuple[str, int], group_id: str, topic: str, count: int) -> None:
        self._address, self._group_id, self._topic, self._count = address, group_id, topic, count
        self._by_fileno: dict[int, Member] = {}
        self._epoll = select.epoll()
        self._timers: list[tuple[float, int]] = []
        self.held = 0  # partitions, of all members

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._epoll.close()
        for member in self._by_fileno.values():
            member.close()

    def connect(self, members: int) -> list[Member]:
        """Those who may join later."""
        made = []
        for _ in range(members):
            member = Member(self._address, self._group_id, f"member-{len(self._by_fileno):05}", self._topic)
            self._by_fileno[member.fileno] = member
            self._epoll.register(member.fileno, select.EPOLLIN)
            made.append(member)
        return made

    @property
    def is_settled(self) -> bool:
        """Whether every partition is held, and every member has its share. The broker gives no partition to two
        members, which `check` looks at."""
        if self.held != self._count:
            return False
        shares = [len(member.held) for member in self._by_fileno.values() if member.is_in]
        return max(shares) - min(shares) <= 1

    def check(self) -> None:
        held = sorted(partition for member in self._by_fileno.values() for partition in member.held)
        if held != list(range(self._count)):
            raise EquipoiseError(f"{len(held)} partitions are held, {len(set(held))} of them different")

    def wait(self, is_so: Callable[[], bool], seconds: float) -> float:
        """Drives the members until it is so; the seconds that took."""
        began = time.perf_counter()
        while not is_so():
            now = time.perf_counter()
            if now - began > seconds:
                raise EquipoiseError(f"only {self.held} of {self._count} partitions are held after {seconds:.0f} s")
            self._turn(now)
        return time.perf_counter() - began

    def _turn(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            at, fileno = heapq.heappop(self._timers)
            member = self._by_fileno[fileno]
            if member.due == at:
                member.beat()
        rest = min(self._timers[0][0] - now, 0.1) if self._timers else 0.1
        for fileno, _ in self._epoll.poll(max(rest, 0)):
            member = self._by_fileno[fileno]
            before = len(member.held)
            member.take(time.perf_counter())
            self.held += len(member.held) - before
            if member.due is not None:
                heapq.heappush(self._timers, (member.due, fileno))
