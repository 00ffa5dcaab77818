"""A connection to a broker on an asyncio loop: requests leave at once, answers come back in their order.

A large answer is received into one buffer of its exact size; its records stay views of it. When the connection breaks,
or an answer does not come in time, every request in flight fails with the reason.

A session that nears its end is renewed before the next request (KIP-368). Until then no other request leaves. Answers
to earlier requests come before those of the login.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import socket
import ssl
from collections import deque
from errno import ECONNRESET
from typing import Any, NamedTuple, Self, cast

from equipoise.client.net.addresses import address_of
from equipoise.client.net.api_versions import MAX_RESPONSE, ApiVersions, Response, ResponseFrame, decode_answer
from equipoise.client.net.errors import KafkaConnectionError, TlsError, cannot_connect, no_kafka_broker
from equipoise.client.net.handshake import Compute, Handshake, authentication, handshake, renewal_pause
from equipoise.client.net.receive_buffers import ReceiveBuffers
from equipoise.client.net.tls_failure import closed_at_once, server_name, tls_failure
from equipoise.client.security.config import PLAINTEXT, SecurityConfig
from equipoise.wire.apis import APIS
from equipoise.wire.errors import EquipoiseError, ProtocolError
from equipoise.wire.frames import Frame, FrameReader, FrameSizeError
from equipoise.wire.schema import Message

_MOST_UNSENT = 256 * 1024  # bytes that `tell` leaves to the transport
_LOOK_AGAIN_S = 0.002
_SHUTDOWN_S = 1.0  # for TLS to end; asyncio would wait 30 s for a dead peer


class _InFlightRequest(NamedTuple):
    """A request under way."""

    request: type[Message]
    version: int
    correlation_id: int
    answer: asyncio.Future[ResponseFrame]
    deadline: asyncio.TimerHandle


class AsyncConnection(asyncio.BufferedProtocol):
    """Made by `connect`. All methods belong on the loop it was made on."""

    def __init__(self, address: str, client_id: str) -> None:
        self.address = address
        self.last_used = 0.0
        self.is_closed = False
        self._api_versions = ApiVersions(address, client_id)
        self._transport = cast(asyncio.Transport, None)
        self._loop = asyncio.get_running_loop()
        self._in_flight: deque[_InFlightRequest] = deque()
        self._reader = FrameReader(MAX_RESPONSE, ReceiveBuffers().get)
        self._setup_timeout = 0.0
        self._security = PLAINTEXT
        self._renew_at = float("inf")  # on the loop's clock: when the session nears its end
        self._renewal: asyncio.Task[KafkaConnectionError | None] | None = None
        self._lost: Exception | None = None  # why the transport has ended
        self._was_open_when_lost = False  # the peer has ended it, not we

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str = "equipoise",
        timeout: float = 10.0,
        receive_buffer: int = -1,
        security: SecurityConfig = PLAINTEXT,
    ) -> Self:
        """Ready for requests: TLS is up, the versions are agreed on, and the client is logged in.

        `timeout`, in seconds, is for all of it."""
        login = security.login()
        address, loop = address_of(host, port), asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                transport, connection = await loop.create_connection(lambda: cls(address, client_id), host, port)
        except TimeoutError:
            raise KafkaConnectionError(f"cannot connect to {address} within {timeout:g} s") from None
        except (OSError, ValueError) as error:
            raise cannot_connect(address, error) from None
        connection._setup_timeout, connection._security = timeout, security
        try:
            if receive_buffer >= 0:
                wire = transport.get_extra_info("socket")
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            await connection._start_tls(host, port, deadline)
            await connection._run(handshake(connection._api_versions, login), deadline)
        except KafkaConnectionError as error:
            connection.close()
            if isinstance(connection._lost, ssl.SSLError):
                raise await _explained(host, port, security, connection._lost) from None
            if connection._api_versions.is_known or not connection._was_open_when_lost:
                raise
            raise await asyncio.to_thread(closed_at_once, host, port, security, error) from None
        except BaseException:
            connection.close()
            raise
        return connection

    async def send(
        self, request: Message, response: type[Response], timeout: float, *, newest: int | None = None
    ) -> Response:
        """The answer to `request`, in the highest version that both sides know, or `newest` if that is lower.

        Without an answer within `timeout` seconds the connection is given up: those behind it could not come either.
        """
        version = self.version(type(request))
        version = version if newest is None else min(version, newest)
        if self._loop.time() >= self._renew_at:
            await self._renewed()
        return decode_answer(response, version, await self._exchange(request, version, timeout))

    async def tell(self, request: Message, newest: int) -> None:
        """Sends what is not answered: Produce with acks=0. Returns when most of it has left this process."""
        version = min(self.version(type(request)), newest)
        if self._loop.time() >= self._renew_at:
            await self._renewed()
        if self.is_closed:
            raise KafkaConnectionError(f"{self.address}: the connection is closed; connect again")
        self._transport.write(self._api_versions.encode(request, version)[1])
        self.last_used = self._loop.time()
        while self._transport.get_write_buffer_size() > _MOST_UNSENT and not self.is_closed:
            await asyncio.sleep(_LOOK_AGAIN_S)

    def version(self, request: type[Message]) -> int:
        """The version in which `request` would be sent. UsageError: the broker serves none that we know."""
        return self._api_versions.version(request)

    def feature(self, name: str) -> int:
        """The level of a feature that the cluster has agreed on; 0: none (KIP-584)."""
        return self._api_versions.features.get(name, 0)

    @property
    def is_waiting(self) -> bool:
        """Whether a request has no answer yet."""
        return bool(self._in_flight)

    def close(self) -> None:
        """Every request under way fails."""
        self._break(KafkaConnectionError(f"{self.address}: the connection is closed"))

    # -- the beginning

    async def _start_tls(self, host: str, port: int, deadline: float) -> None:
        context = self._security.ssl_context()
        if context is None:
            return
        try:
            async with asyncio.timeout_at(deadline):
                if self._transport.is_closing():  # uvloop would wait without end, or log a failure of its own
                    raise ConnectionResetError(ECONNRESET, os.strerror(ECONNRESET))
                secured = await self._loop.start_tls(
                    self._transport,
                    self,
                    context,
                    server_hostname=server_name(host),
                    ssl_handshake_timeout=self._setup_timeout + 1,  # the deadline is sooner
                    ssl_shutdown_timeout=_SHUTDOWN_S,
                )
        except TimeoutError:
            raise KafkaConnectionError(
                f"{self.address} did not end the TLS handshake within {self._setup_timeout:g} s; "
                "does the port speak TLS?"
            ) from None
        except OSError as error:
            raise await _explained(host, port, self._security, error) from None
        self._transport = cast(asyncio.Transport, secured)

    async def _run(self, steps: Handshake, deadline: float) -> None:
        answer: Any = None
        try:
            while True:
                step = steps.send(answer)
                try:
                    if isinstance(step, Compute):
                        answer = await self._computed(step, deadline)
                    else:
                        answer = await self._exchange(*step, self._setup_timeout, deadline)
                except EquipoiseError as error:
                    steps.throw(error)  # which says in which phase
        except StopIteration as end:
            self._renew_at = self._loop.time() + renewal_pause(end.value, random.random())

    async def _computed(self, step: Compute, deadline: float) -> Any:
        """On a thread: a token is fetched, a password is salted. An application's coroutine is awaited here."""
        try:
            async with asyncio.timeout_at(deadline):
                made = await asyncio.to_thread(step.work)
                return await made if inspect.isawaitable(made) else made
        except TimeoutError:
            raise KafkaConnectionError(
                f"{self.address}: there was no token for the login within {self._setup_timeout:g} s"
            ) from None

    async def _renewed(self) -> None:
        """Returns when the session is renewed. All requests wait for the same renewal, and leave in their order."""
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())
        failure = await asyncio.shield(self._renewal)
        if failure is not None:
            raise failure

    async def _renew(self) -> KafkaConnectionError | None:
        """Why it has failed, as a value: all who waited may be cancelled, and the loop about to end."""
        login = self._security.login()
        assert login is not None
        now = self._loop.time()
        behind = max((one.deadline.when() for one in self._in_flight), default=now)
        try:
            await self._run(authentication(self._api_versions, login), behind + self._setup_timeout)
        except EquipoiseError as error:  # a new connection logs in from the beginning, and then it is final
            failure = KafkaConnectionError(f"{self.address}: the session could not be renewed: {error}")
            self._break(failure)
            return failure
        finally:
            self._renewal = None
        return None

    async def _exchange(
        self, request: Message, version: int, timeout: float, until: float | None = None
    ) -> ResponseFrame:
        if self.is_closed:
            raise KafkaConnectionError(f"{self.address}: the connection is closed; connect again")
        correlation_id, data = self._api_versions.encode(request, version)
        answer: asyncio.Future[ResponseFrame] = self._loop.create_future()
        # It stays even if its caller is cancelled: later requests would wait for ever.
        at = self._loop.time() + timeout if until is None else until
        deadline = self._loop.call_at(at, self._give_up, type(request), timeout)
        self._in_flight.append(_InFlightRequest(type(request), version, correlation_id, answer, deadline))
        self._transport.write(data)
        self.last_used = self._loop.time()
        return await answer

    def _give_up(self, request: type[Message], timeout: float) -> None:
        name = APIS[request.api_key].name
        self._break(
            KafkaConnectionError(f"{self.address} did not answer {name} within {timeout:g} s; the connection is closed")
        )

    # -- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._lost, self._was_open_when_lost = exc, not self.is_closed
        why = getattr(exc, "strerror", None) or exc or "the broker closed the connection"
        under_way = f" while {APIS[self._in_flight[0].request.api_key].name} was under way" if self._in_flight else ""
        self._break(KafkaConnectionError(f"{self.address}: {why}{under_way}; connect again"))

    def eof_received(self) -> bool:
        """Called by the loop: the transport closes itself."""
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the loop: where the next bytes go."""
        return self._reader.buffer()

    def buffer_updated(self, count: int) -> None:
        """Called by the loop: so many bytes have come."""
        frames: list[Frame] = []
        try:
            try:
                self._reader.received(count, frames)
            finally:
                for frame in frames:
                    self._deliver(frame)
        except FrameSizeError as error:
            self._break(no_kafka_broker(self.address, error))
        except ProtocolError as error:
            self._break(error)

    def _deliver(self, data: Frame) -> None:
        if not self._in_flight:
            raise ProtocolError(f"{self.address} sent an answer of {len(data)} bytes to no request")
        request, version, correlation_id, answer, deadline = self._in_flight[0]
        frame = self._api_versions.open(data, request.api_key, version, correlation_id)
        self._in_flight.popleft()
        deadline.cancel()
        if not answer.done():  # the caller may have been cancelled
            answer.set_result(frame)

    def _break(self, error: EquipoiseError) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()
        requests, self._in_flight = self._in_flight, deque()
        for request in requests:
            request.deadline.cancel()
            if not request.answer.done():
                request.answer.set_exception(error)


async def _explained(host: str, port: int, security: SecurityConfig, error: Exception) -> TlsError:
    return await asyncio.to_thread(tls_failure, host, port, security, error)
