"""Light group members on raw sockets: one connection each, one thread and one epoll for thousands of them.

They keep the protocol's rules and do nothing else, so that what is measured is the broker. Load is sent as bytes
made beforehand, and its answers are compared with bytes made beforehand.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from struct import Struct

from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import decode_response_header, encode_request_header, encode_response_header
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from equipoise.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from equipoise.wire.errors import EquipoiseError, ErrorCode
from equipoise.wire.schema import Message

CLIENT_ID = "bench"
TOPIC = "bench"
PROTOCOL = "range"
SESSION_TIMEOUT_MS = 1_800_000  # the longest that a broker allows: nobody expires while others are measured
_SIZE = Struct(">i")
_READ = 1 << 18
_PATIENCE = 60.0
_SUBSCRIPTION = encode_subscription(Subscription(topics=[TOPIC]))


def request_frame(request: Message) -> bytes:
    """In the newest version that we know; the correlation id is always 0, because answers come in order."""
    version = type(request).versions.last
    body = encode_request_header(request.api_key, version, 0, CLIENT_ID) + request.encode(version)
    return _SIZE.pack(len(body)) + body


def response_frame(response: Message) -> bytes:
    version = type(response).versions.last
    body = encode_response_header(response.api_key, version, 0) + response.encode(version)
    return _SIZE.pack(len(body)) + body


def decode_frame(frame: bytes, api_key: int) -> Message:
    response = APIS[api_key].response
    _, pos = decode_response_header(frame, api_key, response.versions.last)
    return response.decode(frame, response.versions.last, pos)


class Member:
    """A member and its connection: at most one request is under way."""

    __slots__ = ("_buffer", "_socket", "fileno", "generation_id", "group_id", "member_id", "synced")

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, _PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fileno = self._socket.fileno()
        self._buffer = b""
        self.group_id = self.member_id = ""
        self.generation_id = -1
        self.synced = False

    def close(self) -> None:
        self._socket.close()

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def receive(self) -> bytes | None:
        """The frame that has come, without its size; None as long as a part is missing."""
        data = os.read(self.fileno, _READ)
        if not data:
            raise EquipoiseError("the broker closed a connection in the middle of the measurement")
        self._buffer += data
        size = _SIZE.unpack_from(self._buffer)[0] if len(self._buffer) >= _SIZE.size else len(self._buffer)
        if len(self._buffer) < size + _SIZE.size:
            return None
        frame, self._buffer = self._buffer[_SIZE.size :], b""
        return frame

    # -- the protocol

    def join(self) -> None:
        self.synced = False
        self.send(
            request_frame(
                JoinGroupRequest(
                    group_id=self.group_id,
                    session_timeout_ms=SESSION_TIMEOUT_MS,
                    rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                    member_id=self.member_id,
                    protocol_type=PROTOCOL_TYPE,
                    protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=_SUBSCRIPTION)],
                )
            )
        )

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id
        )
