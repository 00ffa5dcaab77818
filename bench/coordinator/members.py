"""Light group members on raw sockets: a connection each, one thread and one epoll for thousands of them.

They keep the protocol's rules and do nothing else, so that what is measured is the broker. Load is sent as bytes
made beforehand, and its answers are compared with bytes made beforehand.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Sequence
from struct import Struct
from typing import Any, Self

from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import decode_response_header, encode_request_header, encode_response_header
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from equipoise.wire.errors import EquipoiseError, ErrorCode
from equipoise.wire.schema import Message

TOPIC = "bench"
PATIENCE = 60.0  # seconds without any answer before the bench gives up
VERSIONS = {8: 9}  # of OffsetCommit the last with names; of all others the newest
_CLIENT_ID = "bench"
_PROTOCOL = "range"
_SESSION_TIMEOUT_MS = 1_800_000  # the longest that a broker allows: nobody expires while others are measured
_SIZE = Struct(">i")
_READ = 1 << 18
_REST = 0.0005
_PATIENT_CLIENT = "apache-kafka-java"
_UNTIL_HELD = 0.5  # seconds: much less than a heartbeat is held, much more than it takes to send them
_SUBSCRIPTION = encode_subscription(Subscription(topics=[TOPIC]))


def request_frame(request: Message) -> bytes:
    """The correlation id is always 0: a connection has one request under way, or equal ones."""
    version = VERSIONS.get(request.api_key, request.versions.last)
    body = encode_request_header(request.api_key, version, 0, _CLIENT_ID) + request.encode(version)
    return _SIZE.pack(len(body)) + body


def response_frame(response: Message) -> bytes:
    version = VERSIONS.get(response.api_key, response.versions.last)
    body = encode_response_header(response.api_key, version, 0) + response.encode(version)
    return _SIZE.pack(len(body)) + body


ALL_IS_WELL = response_frame(HeartbeatResponse(error_code=ErrorCode.NONE))


class Member:
    """A member and its connection. `settled`: it has its assignment, and nothing of it is under way."""

    def __init__(self, address: tuple[str, int], group_id: str) -> None:
        self._socket = socket.create_connection(address, PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._awaits = 0  # the API key of the request under way
        self.fileno = self._socket.fileno()
        self.enter(group_id)

    def enter(self, group_id: str) -> None:
        """Begins anew as a stranger to this group."""
        self.group_id = group_id
        self.member_id = ""
        self.generation_id = -1
        self.leads = self.settled = False

    def close(self) -> None:
        self._socket.close()

    def _send(self, request: Message) -> None:
        self.settled = False
        self._awaits = request.api_key
        self._socket.sendall(request_frame(request))

    def take(self) -> None:
        """Reads what has come, and does what an answer asks for."""
        data = os.read(self.fileno, _READ)
        if not data:
            raise EquipoiseError("the broker closed a connection in the middle of the measurement")
        self._received += data
        if len(self._received) < _SIZE.size + _SIZE.unpack_from(self._received)[0]:
            return
        frame, self._received = self._received[_SIZE.size :], b""
        response = APIS[self._awaits].response
        _, pos = decode_response_header(frame, self._awaits, response.versions.last)
        self._answered(response.decode(frame, response.versions.last, pos))

    def _answered(self, response: Any) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        elif response.error_code:
            raise EquipoiseError(f"a member was answered {ErrorCode(response.error_code).name}: {response}")
        elif isinstance(response, JoinGroupResponse):
            self._sync(response)
        elif isinstance(response, HeartbeatResponse):
            self.heartbeat()
        else:
            assert isinstance(response, SyncGroupResponse | LeaveGroupResponse | ApiVersionsResponse)
            self.settled = True

    def introduce(self, software: str) -> None:
        self._send(ApiVersionsRequest(client_software_name=software, client_software_version="1"))

    def join(self) -> None:
        protocol = JoinGroupRequestProtocol(name=_PROTOCOL, metadata=_SUBSCRIPTION)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_SESSION_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
        )
        self._send(request)

    def _sync(self, response: JoinGroupResponse) -> None:
        self.generation_id = response.generation_id
        self.leads = response.leader == self.member_id
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=_PROTOCOL,
            assignments=[
                SyncGroupRequestAssignment(member_id=row.member_id, assignment=_assignment(number))
                for number, row in enumerate(response.members)
            ],
        )
        self._send(request)

    def heartbeat(self) -> None:
        """Again and again, until a rebalance is told."""
        self._send(self.heartbeat_request())

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id)

    def leave(self, members: Sequence[Member]) -> None:
        """For itself and others."""
        rows = [MemberIdentity(member_id=member.member_id) for member in members]
        self._send(LeaveGroupRequest(group_id=self.group_id, members=rows))


def _assignment(partition: int) -> bytes:
    return encode_assignment(Assignment(assigned_partitions={TOPIC: [partition]}))


class Crowd:
    """Members, of one group or of many, driven together. One for each group id that is named."""

    def __init__(self, address: tuple[str, int], group_ids: Sequence[str]) -> None:
        self.members = [Member(address, group_id) for group_id in group_ids]
        self._by_fileno = {member.fileno: member for member in self.members}
        self._epoll = select.epoll()
        for member in self.members:
            self._epoll.register(member.fileno, select.EPOLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._epoll.close()
        for member in self.members:
            member.close()

    def form(self) -> float:
        """Everybody joins; the seconds until all are in Stable groups and have their assignments."""
        began = time.perf_counter()
        for member in self.members:
            member.join()
        self._settle()
        return time.perf_counter() - began

    def be_patient(self) -> None:
        """From now on the broker may hold heartbeats, because it takes us for a client that bears it."""
        for member in self.members:
            member.introduce(_PATIENT_CLIENT)
        self._settle()

    def rebalance(self) -> tuple[float, float]:
        """The leader of a patient crowd joins again; all others learn of it at once. When it began and ended."""
        leader = next(member for member in self.members if member.leads)
        for member in self.members:
            if member is not leader:
                member.heartbeat()
        time.sleep(_UNTIL_HELD)
        began = time.perf_counter()
        leader.join()
        self._settle()
        return began, time.perf_counter()

    def disband(self) -> None:
        """All members of one group leave with one request."""
        self.members[0].leave(self.members)
        self._settle()
        for member in self.members:
            member.enter(member.group_id)

    def _settle(self) -> None:
        left = sum(not member.settled for member in self.members)
        while left:
            ready = self._epoll.poll(PATIENCE)
            if not ready:
                raise EquipoiseError(f"{left} members have heard nothing for {PATIENCE:g} s")
            for fileno, _ in ready:
                member = self._by_fileno[fileno]
                member.take()
                left -= member.settled


def pump(members: Sequence[Member], requests: Sequence[bytes], answer: bytes, seconds: float) -> tuple[int, float]:
    """Sends each member's request, and again whenever `answer` has come. How often it came, and the seconds it took.

    With `seconds` of 0 each is sent once.
    """
    with select.epoll() as epoll:
        frames = {}
        for member, request in zip(members, requests, strict=True):
            epoll.register(member.fileno, select.EPOLLIN)
            frames[member.fileno] = request
        began = time.perf_counter()
        for fileno, request in frames.items():
            _write(fileno, request)
        count = _keep_pumping(epoll, frames, answer, began + seconds)
    return count, time.perf_counter() - began


def _keep_pumping(epoll: select.epoll, frames: dict[int, bytes], answer: bytes, deadline: float) -> int:
    """Rests between two looks, so that the broker need not wake us for every answer: that may cost it more than the
    answer itself, and no client on another machine makes it pay for that."""
    count, under_way, partial = 0, len(frames), dict.fromkeys(frames, b"")
    room = max(len(answer), 4096)
    now = heard = time.perf_counter()
    while under_way:
        time.sleep(_REST)
        ready = epoll.poll(0, len(frames))
        goes_on = now < deadline
        for fileno, _ in ready:
            data = os.read(fileno, room)
            if data != answer:
                data = _more(partial[fileno], data, answer)
                partial[fileno] = data if data != answer else b""
                if data != answer:
                    continue
            count += 1
            if goes_on:
                _write(fileno, frames[fileno])
            else:
                under_way -= 1
        now = time.perf_counter()
        heard = now if ready else heard
        if now - heard > PATIENCE:
            raise EquipoiseError(f"{under_way} requests were not answered within {PATIENCE:g} s")
    return count


def _more(before: bytes, data: bytes, answer: bytes) -> bytes:
    if not data or not answer.startswith(before + data):
        raise EquipoiseError(f"the broker answered {(before + data)[:60].hex(' ')}, expected {answer[:60].hex(' ')}")
    return before + data


def _write(fileno: int, data: bytes) -> None:
    """Few requests are larger than what a socket takes at once; then the broker is reading already."""
    written = os.write(fileno, data)
    while written < len(data):
        select.select((), (fileno,), ())
        written += os.write(fileno, data[written:])
