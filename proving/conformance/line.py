"""A raw connection: frames go out without waiting, answers are taken when they are there. Says nothing of itself."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from typing import Self

from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import decode_response_header, encode_request_header
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.compiler import decoder
from equipoise.wire.errors import EquipoiseError
from equipoise.wire.frames import Frame, FrameReader, framed
from equipoise.wire.schema import TRUSTED, Message

_PATIENCE_S = 60.0
_MAX_FRAME = 2**31 - 1


class Closed(EquipoiseError):
    """The broker has ended the connection."""


class Line:
    """Answers come in the order of the requests; Kafka does not even look at the next before it has answered."""

    def __init__(self, port: int, client_id: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._reader = FrameReader(_MAX_FRAME)
        self._received: deque[Frame] = deque()
        self._correlation_id = 0
        self._asked: deque[tuple[int, int]] = deque()
        # Answered means: taken over from the listener. Before that a request could be overtaken by a later one.
        self.call(ApiVersionsRequest(), 0)

    @property
    def local_port(self) -> int:
        """Its own port, by which a broker knows it."""
        return int(self._socket.getsockname()[1])

    @property
    def is_busy(self) -> bool:
        return bool(self._asked)

    def send(self, request: Message, version: int) -> None:
        """Also in a version that nobody knows: then with the body of the nearest one."""
        self._correlation_id += 1
        self._asked.append((request.api_key, version))
        body = request.encode(min(max(version, request.versions.first), request.versions.last))
        head = encode_request_header(request.api_key, version, self._correlation_id, self._client_id)
        self._socket.sendall(framed(head, body))

    def take(self) -> Message | None:
        """The answer, if it is there."""
        return self._decode(self._received.popleft()) if self.has_frame() else None

    def has_frame(self) -> bool:
        """Whether an answer is there to be taken."""
        self._socket.setblocking(False)
        try:
            while not self._received:
                self._receive()
        except BlockingIOError:
            return False
        finally:
            self._socket.settimeout(_PATIENCE_S)
        return True

    def wait(self, seconds: float) -> Message | None:
        """The answer, if it comes in time."""
        deadline = time.monotonic() + seconds
        while not self.has_frame() and time.monotonic() < deadline:
            select.select([self._socket], [], [], max(deadline - time.monotonic(), 0))
        return self.take()

    def call(self, request: Message, version: int) -> Message:
        self.send(request, version)
        while not self._received:
            self._receive()
        return self._decode(self._received.popleft())

    def _receive(self) -> None:
        try:
            count = self._socket.recv_into(self._reader.buffer())
        except ConnectionResetError:
            count = 0
        if not count:
            raise Closed("the broker has closed the connection")
        self._reader.received(count, self._received)

    def _decode(self, frame: Frame) -> Message:
        key, version = self._asked.popleft()
        _, pos = decode_response_header(frame, key, version)
        answer: Message = decoder(APIS[key].response, version)(frame, pos, TRUSTED)
        return answer

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
