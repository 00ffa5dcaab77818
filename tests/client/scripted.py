"""A broker that says what a test wants: one function per request, in order; then it is silent."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from equipoise.wire.apis.headers import decode_request_header, encode_response_header
from equipoise.wire.apis.k18_api_versions import ApiVersion, ApiVersionsResponse
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message

# A request's frame to the bytes that go back, perhaps in pieces; None ends the connection.
Answer = Callable[[bytes], bytes | Iterable[bytes] | None]


class ScriptedBroker:
    def __init__(self, *script: Answer) -> None:
        self.asked: list[tuple[int, int]] = []  # API key and version of each request
        self._script: Sequence[Answer] = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        peer, _ = self._listener.accept()
        with peer, contextlib.suppress(ConnectionError):  # the client may end it at any time
            for answer in self._script:
                frame = _read_frame(peer)
                key, version = decode_request_header(frame)[:2]
                self.asked.append((key, version))
                reply = answer(frame)
                if reply is None:
                    return
                for piece in (reply,) if isinstance(reply, bytes) else reply:
                    peer.sendall(piece)
            while peer.recv(65536):
                pass


def _read_frame(peer: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _read(peer, 4))
    return _read(peer, size)


def _read(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = peer.recv(size - len(data))
        if not chunk:
            raise ConnectionError("the client has gone in the middle of a request")
        data += chunk
    return data


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def answering(response: Message, *, shift: int = 0, tail: bytes = b"") -> Callable[[bytes], bytes]:
    """A proper answer; with `shift` it claims to be that to another request, and `tail` comes behind it."""

    def answer(frame: bytes) -> bytes:
        key, version, correlation_id = decode_request_header(frame)[:3]
        head = encode_response_header(key, version, correlation_id + shift)
        return framed(head + response.encode(version) + tail)

    return answer


def refusing_version(frame: bytes) -> bytes:
    """UNSUPPORTED_VERSION, as brokers answer an ApiVersions that is too new for them: in version 0."""
    key, _, correlation_id = decode_request_header(frame)[:3]
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[])
    return framed(encode_response_header(key, 0, correlation_id) + response.encode(0))


def serving(*apis: tuple[int, int, int]) -> Callable[[bytes], bytes]:
    """The answer to ApiVersions: (key, first version, last version) of each API."""
    rows = [ApiVersion(api_key=key, min_version=first, max_version=last) for key, first, last in apis]
    return answering(ApiVersionsResponse(error_code=0, api_keys=rows))
