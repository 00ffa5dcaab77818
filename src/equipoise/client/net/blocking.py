"""A blocking connection to a broker. It uses the versions that both sides know, and reads answers in the order of
requests.

`send` does both halves; `ask` and `answer` are the halves, for a caller that works in between.

Any failure between a request and its answer closes the connection: a late answer could be taken for that of another
request. A session that nears its end is renewed before the next request (KIP-368).
"""

from __future__ import annotations

import inspect
import random
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from equipoise.client.net.addresses import address_of
from equipoise.client.net.api_versions import MAX_RESPONSE, ApiVersions, Response, ResponseFrame, decode_answer
from equipoise.client.net.errors import (
    KafkaConnectionError,
    RefusedTokenError,
    cannot_connect,
    error_from,
    no_kafka_broker,
)
from equipoise.client.net.handshake import Ask, Compute, Handshake, authentication, handshake, renewal_pause
from equipoise.client.net.receive_buffers import ReceiveBuffers
from equipoise.client.net.tls_failure import closed_at_once, server_name, tls_failure
from equipoise.client.security.config import PLAINTEXT, SecurityConfig
from equipoise.closing import Closing
from equipoise.wire.apis import APIS
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeRequest
from equipoise.wire.errors import EquipoiseError, ProtocolError
from equipoise.wire.frames import Frame, FrameReader, FrameSizeError
from equipoise.wire.schema import Message

__all__ = ["Connection", "KafkaConnectionError", "error_from"]


class InFlightRequest(NamedTuple):
    """A request that is under way."""

    api_key: int
    version: int
    correlation_id: int


class Connection(Closing):
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
        self.address = address_of(host, port)
        self.timeout = timeout
        self._host, self._port = host, port
        self._security, self._login = security, security.login()
        self._api_versions = ApiVersions(self.address, client_id)
        self._reader = FrameReader(MAX_RESPONSE, ReceiveBuffers().get)
        self._received: deque[Frame] = deque()  # answers that are not taken yet
        self._awaited = 0  # requests whose answers are not taken yet
        self._renew_at = float("inf")  # when the session nears its end
        try:
            self._open()
        except RefusedTokenError:  # which may have been withdrawn: once more with another
            self._open()

    def send(self, request: Message, response: type[Response]) -> Response:
        """The answer to `request`, in the highest version that both sides know."""
        return self.answer(self.ask(request), response)

    def ask(self, request: Message, newest: int | None = None) -> InFlightRequest:
        """Sends `request`, in no newer version than `newest`. Each `answer` is taken in the order of asking."""
        version = self.version(type(request))
        return self._ask(request, version if newest is None else min(version, newest))

    def answer(self, asked: InFlightRequest, response: type[Response]) -> Response:
        """Waits for the answer to the oldest request."""
        self._awaited -= 1
        return decode_answer(response, asked.version, self._receive_answer(asked, time.monotonic() + self.timeout))

    @property
    def is_quiet(self) -> bool:
        """Whether it is still open, and nothing lies there unread: what a connection should be that waits for use."""
        if self._received or not self._reader.is_empty:
            return False
        try:
            self._socket.settimeout(0)
            if isinstance(self._socket, ssl.SSLSocket):  # it cannot peek: what it reads makes it useless anyway
                self._socket.recv(1)
            else:
                self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, ssl.SSLWantReadError):  # the latter also if only a session ticket has come
            return True
        except OSError:
            pass
        return False

    def is_answered(self, seconds: float) -> bool:
        """Whether something comes within so long: an answer, or the end of the connection."""
        if self._received or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
            return True
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def version(self, request: type[Message]) -> int:
        """The version in which `request` would be sent. UsageError: the broker serves none that we know."""
        return self._api_versions.version(request)

    def serves(self, request: type[Message]) -> bool:
        """Whether the broker serves `request` in a version that we know."""
        return self._api_versions.serves(request)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    # -- the beginning

    def _open(self) -> None:
        deadline = time.monotonic() + self.timeout
        self._socket = self._connect(deadline)
        try:
            self._run(handshake(self._api_versions, self._login), deadline)
        except KafkaConnectionError as error:
            self.close()
            if self._api_versions.is_known or time.monotonic() >= deadline:
                raise
            raise closed_at_once(self._host, self._port, self._security, error) from None
        except BaseException:
            self.close()
            raise

    def _connect(self, deadline: float) -> socket.socket:
        try:
            connected = socket.create_connection((self._host, self._port), self.timeout)
        except (OSError, ValueError) as error:
            raise cannot_connect(self.address, error) from None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = self._security.ssl_context()
        return connected if context is None else self._start_tls(connected, context, deadline)

    def _start_tls(self, connected: socket.socket, context: ssl.SSLContext, deadline: float) -> ssl.SSLSocket:
        try:
            name = server_name(self._host)
            secured = context.wrap_socket(connected, server_hostname=name, do_handshake_on_connect=False)
        except BaseException:
            connected.close()
            raise
        try:
            secured.settimeout(_left(deadline))
            secured.do_handshake()
        except TimeoutError:
            secured.close()
            raise KafkaConnectionError(
                f"{self.address} did not end the TLS handshake within {self.timeout:g} s; does the port speak TLS?"
            ) from None
        except OSError as error:
            secured.close()
            raise tls_failure(self._host, self._port, self._security, error) from None
        return secured

    def _run(self, steps: Handshake, deadline: float) -> None:
        answer: Any = None
        try:
            while True:
                step = steps.send(answer)
                try:
                    answer = self._computed(step) if isinstance(step, Compute) else self._exchange(step, deadline)
                except EquipoiseError as error:
                    steps.throw(error)  # which says in which phase
        except StopIteration as end:
            self._renew_at = time.monotonic() + renewal_pause(end.value, random.random())

    def _computed(self, step: Compute) -> Any:
        made = step.work()
        if not inspect.isawaitable(made):
            return made
        import asyncio  # here: executors of Spark seldom need it

        return asyncio.run(_awaited(made))

    def _exchange(self, step: Ask, deadline: float) -> ResponseFrame:
        return self._receive_answer(self._send(step.request, step.version, deadline), deadline)

    def _renew(self) -> None:
        """Logs in anew, behind requests that are under way: their answers come first, and are kept."""
        deadline = time.monotonic() + self.timeout
        with self._closing_on_failure(SaslHandshakeRequest.api_key):
            while len(self._received) < self._awaited:
                self._receive(deadline)
        earlier, self._received = self._received, deque()
        assert self._login is not None
        try:
            self._run(authentication(self._api_versions, self._login), deadline)
        except EquipoiseError as error:
            self.close()
            raise KafkaConnectionError(f"{self.address}: the session could not be renewed: {error}") from None
        self._received = earlier

    # -- frames

    def _ask(self, request: Message, version: int) -> InFlightRequest:
        now = time.monotonic()
        if now >= self._renew_at:
            self._renew()
            now = time.monotonic()
        asked = self._send(request, version, now + self.timeout)
        self._awaited += 1
        return asked

    def _send(self, request: Message, version: int, deadline: float) -> InFlightRequest:
        correlation_id, data = self._api_versions.encode(request, version)
        with self._closing_on_failure(request.api_key):
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(data)
        return InFlightRequest(request.api_key, version, correlation_id)

    def _receive_answer(self, asked: InFlightRequest, deadline: float) -> ResponseFrame:
        with self._closing_on_failure(asked.api_key):
            while not self._received:
                self._receive(deadline)
            return self._api_versions.open(self._received.popleft(), *asked)

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
        except ssl.SSLError as error:
            self.close()
            raise tls_failure(self._host, self._port, self._security, error) from None
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

    def _receive(self, deadline: float) -> None:
        """Some more bytes: of TLS at most one record."""
        self._socket.settimeout(_left(deadline))
        count = self._socket.recv_into(self._reader.buffer())
        if count == 0:
            raise ConnectionResetError("the broker closed the connection")
        self._reader.received(count, self._received)


async def _awaited(made: Awaitable[Any]) -> Any:
    return await made


def _left(deadline: float) -> float:
    """Seconds. A zero would mean "do not block" to the socket."""
    return max(deadline - time.monotonic(), 0.001)
