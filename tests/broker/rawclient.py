"""A client with nothing between the test and the socket: our codec, one request at a time or many, or any bytes."""

from __future__ import annotations

import socket
import ssl
import struct
from collections import deque
from types import TracebackType
from typing import Any, Self

from equipoise.broker.handlers import HANDLERS
from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import decode_response_header, encode_request_header
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeRequest
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from equipoise.wire.schema import Message

TIMEOUT = 60  # seconds: no test waits for it, unless something hangs


def request_frame(request: Message, version: int, correlation_id: int = 0, client_id: str | None = "raw") -> bytes:
    """A whole request as it stands on the wire, its size before it."""
    body = encode_request_header(request.api_key, version, correlation_id, client_id) + request.encode(version)
    return sized(body)


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class RawClient:
    """Replies are taken in the order of the requests; a reply to another request than the oldest fails the test."""

    def __init__(self, address: str, *, receive_buffer: int | None = None, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(TIMEOUT)
        self._socket.connect((host, int(port)))
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._unanswered: deque[tuple[int, type[Message], int]] = deque()
        self._next_id = 1

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def call(self, request: Message, version: int | None = None) -> Any:
        """Sends, and waits for the reply. Without `version` in the newest that the broker serves."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int | None = None, *, answered: bool = True) -> None:
        """Only sends; `answered=False` for a Produce with acks=0."""
        if version is None:
            version = HANDLERS[request.api_key].versions.last
        correlation_id, self._next_id = self._next_id, self._next_id + 1
        if answered:
            self._unanswered.append((correlation_id, APIS[request.api_key].response, version))
        self.send_bytes(request_frame(request, version, correlation_id))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> Any:
        frame = self.receive_frame()
        expected, response, version = self._unanswered.popleft()
        correlation_id, pos = decode_response_header(frame, response.api_key, version)
        assert correlation_id == expected, "replies must come in the order of the requests"
        return response.decode(frame, version, pos)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def _receive_exactly(self, count: int) -> bytes:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            received = self._socket.recv_into(view)
            if not received:
                raise ConnectionResetError(f"connection closed, {len(view)} bytes were still to come")
            view = view[received:]
        return bytes(data)

    def authenticate(self, mechanism: str, *tokens: bytes) -> Any:
        """SaslHandshake and one SaslAuthenticate for each token; returns the last answer."""
        answer = self.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        for token in tokens:
            answer = self.call(SaslAuthenticateRequest(auth_bytes=token), 2)
        return answer

    def wait_closed(self) -> None:
        """Waits until the broker ends the connection; whatever arrives before that is thrown away."""
        try:
            while self._socket.recv(65536):
                pass
        except (ConnectionResetError, ssl.SSLEOFError):
            pass

    def has_reply(self) -> bool:
        """Whether bytes have arrived that nobody has taken yet."""
        self._socket.setblocking(False)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        finally:
            self._socket.settimeout(TIMEOUT)

    def finish_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
