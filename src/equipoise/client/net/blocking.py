"""A blocking connection to a broker. It uses the versions that both sides know, and reads answers in the order of
requests.

`send` does both halves; `ask` and `answer` are the halves, for a caller that works in between.

Any failure between a request and its answer closes the connection: a late answer could be taken for that of another
request.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

from equipoise.client.net.addresses import address_of
from equipoise.client.net.api_versions import MAX_RESPONSE, ApiVersions, Response, ResponseFrame, decode_answer
from equipoise.client.net.errors import (
    KafkaConnectionError,
    cannot_connect,
    error_from,
    no_kafka_broker,
    refuse_secured,
)
from equipoise.client.security.config import PLAINTEXT, SecurityConfig
from equipoise.wire.apis import APIS
from equipoise.wire.errors import ProtocolError
from equipoise.wire.frames import Frame, FrameReader, FrameSizeError
from equipoise.wire.schema import Message

__all__ = ["Connection", "KafkaConnectionError", "error_from"]


class InFlightRequest(NamedTuple):
    """A request that is under way."""

    api_key: int
    version: int
    correlation_id: int


class Connection:
    """Connected and ready when made. `timeout`, in seconds, bounds connecting, and each half of a `send`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str = "equipoise",
        timeout: float = 30.0,
        security: SecurityConfig = PLAINTEXT,
    ) -> None:
        refuse_secured(security)
        self.address = address_of(host, port)
        self._api_versions = ApiVersions(self.address, client_id)
        self.timeout = timeout
        self._reader = FrameReader(MAX_RESPONSE)
        self._received: deque[Frame] = deque()  # answers that are not taken yet
        self._socket = self._connect(host, port)
        try:
            self._handshake()
        except BaseException:
            self.close()
            raise

    def send(self, request: Message, response: type[Response]) -> Response:
        """The answer to `request`, in the highest version that both sides know."""
        return self.answer(self.ask(request), response)

    def ask(self, request: Message, newest: int | None = None) -> InFlightRequest:
        """Sends `request`, in no newer version than `newest`. Each `answer` is taken in the order of asking."""
        version = self.version(type(request))
        return self._ask(request, version if newest is None else min(version, newest))

    def answer(self, asked: InFlightRequest, response: type[Response]) -> Response:
        """Waits for the answer to the oldest request."""
        return decode_answer(response, asked.version, self._receive_answer(asked))

    @property
    def is_quiet(self) -> bool:
        """Whether it is still open, and nothing lies there unread: what a connection should be that waits for use."""
        if self._received or not self._reader.is_empty:
            return False
        try:
            self._socket.settimeout(0)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def is_answered(self, seconds: float) -> bool:
        """Whether something comes within so long: an answer, or the end of the connection."""
        if self._received:
            return True
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def version(self, request: type[Message]) -> int:
        """The version in which `request` would be sent. UsageError: the broker serves none that we know."""
        return self._api_versions.version(request)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the beginning

    def _connect(self, host: str, port: int) -> socket.socket:
        try:
            connected = socket.create_connection((host, port), self.timeout)
        except (OSError, ValueError) as error:
            raise cannot_connect(self.address, error) from None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _handshake(self) -> None:
        for request, version in self._api_versions.proposals():
            if self._api_versions.conclude(self._receive_answer(self._ask(request, version)), version):
                return

    # -- frames

    def _ask(self, request: Message, version: int) -> InFlightRequest:
        correlation_id, data = self._api_versions.encode(request, version)
        with self._closing_on_failure(request.api_key):
            self._socket.settimeout(self.timeout)
            self._socket.sendall(data)
        return InFlightRequest(request.api_key, version, correlation_id)

    def _receive_answer(self, asked: InFlightRequest) -> ResponseFrame:
        with self._closing_on_failure(asked.api_key):
            frame = self._receive_frame(time.monotonic() + self.timeout)
            return self._api_versions.open(frame, *asked)

    @contextmanager
    def _closing_on_failure(self, api_key: int) -> Iterator[None]:
        name = APIS[api_key].name
        try:
            yield
        except TimeoutError:
            self.close()
            raise KafkaConnectionError(
                f"{self.address} did not answer {name} within {self.timeout:g} s; the connection is closed"
            ) from None
        except OSError as error:
            self.close()
            reason = error.strerror or str(error)
            raise KafkaConnectionError(f"{self.address}: {reason} while {name} was under way; connect again") from None
        except FrameSizeError as error:
            self.close()
            raise no_kafka_broker(self.address, error) from None
        except ProtocolError:
            self.close()
            raise

    def _receive_frame(self, deadline: float) -> Frame:
        while not self._received:
            # A zero would mean "do not block" to the socket.
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            count = self._socket.recv_into(self._reader.buffer())
            if count == 0:
                raise ConnectionResetError("the broker closed the connection")
            self._reader.received(count, self._received)
        return self._received.popleft()
