"""A connection to a broker on an asyncio loop: requests leave at once, answers come back in their order.

A large answer is received into one buffer of its exact size; its records stay views of it. When the connection breaks,
or an answer does not come in time, every request in flight fails with the reason.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import NamedTuple, Self, cast

from equipoise.client.net.addresses import address_of
from equipoise.client.net.api_versions import MAX_RESPONSE, ApiVersions, Response, ResponseFrame, decode_answer
from equipoise.client.net.errors import KafkaConnectionError, cannot_connect, no_kafka_broker, refuse_secured
from equipoise.client.security.config import PLAINTEXT, SecurityConfig
from equipoise.wire.apis import APIS
from equipoise.wire.errors import EquipoiseError, ProtocolError
from equipoise.wire.frames import Frame, FrameReader, FrameSizeError
from equipoise.wire.schema import Message

_SMALLEST_KEPT = 256 * 1024
_MOST_KEPT = 16 * 1024 * 1024  # bytes of buffers kept by one connection
_LOOK_AGAIN_S = 0.002


class _Buffers:
    """Large buffers, reused when no view of them is left: fresh memory costs more than reading into it.

    A bytearray refuses to change its size while a view of it lives, so the test for that is the change itself.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[int, bytearray]] = deque()  # with the size each was made with

    def get(self, size: int) -> bytearray:
        if not _SMALLEST_KEPT <= size <= _MOST_KEPT // 2:
            return bytearray(size)
        for most, buffer in self._kept:
            if size <= most <= 2 * size and _resized(buffer, size):
                return buffer
        made = bytearray(size)
        self._kept.append((size, made))
        while sum(most for most, _ in self._kept) > _MOST_KEPT:
            self._kept.popleft()
        return made


def _resized(buffer: bytearray, size: int) -> bool:
    try:
        del buffer[-1:]  # a change in any case, also where the size is right already
        if size < len(buffer):
            del buffer[size:]
        else:
            buffer.extend(bytes(size - len(buffer)))
    except BufferError:
        return False
    return True


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
        self._reader = FrameReader(MAX_RESPONSE, _Buffers().get)

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
        """Ready for requests: the versions are agreed on. `timeout`, in seconds, is for all of it."""
        refuse_secured(security)
        address, loop = address_of(host, port), asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                transport, connection = await loop.create_connection(lambda: cls(address, client_id), host, port)
        except TimeoutError:
            raise KafkaConnectionError(f"cannot connect to {address} within {timeout:g} s") from None
        except (OSError, ValueError) as error:
            raise cannot_connect(address, error) from None
        if receive_buffer >= 0:
            wire = transport.get_extra_info("socket")
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await connection._handshake(timeout)
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
        return decode_answer(response, version, await self._exchange(request, version, timeout))

    async def tell(self, request: Message, newest: int) -> None:
        """Sends what is not answered: Produce with acks=0. Returns when most of it has left this process."""
        version = min(self.version(type(request)), newest)
        if self.is_closed:
            raise KafkaConnectionError(f"{self.address}: the connection is closed; connect again")
        self._transport.write(self._api_versions.encode(request, version)[1])
        self.last_used = self._loop.time()
        while self._transport.get_write_buffer_size() > _SMALLEST_KEPT and not self.is_closed:
            await asyncio.sleep(_LOOK_AGAIN_S)

    def version(self, request: type[Message]) -> int:
        """The version in which `request` would be sent. UsageError: the broker serves none that we know."""
        return self._api_versions.version(request)

    @property
    def is_waiting(self) -> bool:
        """Whether a request has no answer yet."""
        return bool(self._in_flight)

    def close(self) -> None:
        """Every request under way fails."""
        self._break(KafkaConnectionError(f"{self.address}: the connection is closed"))

    async def _handshake(self, timeout: float) -> None:
        for request, version in self._api_versions.proposals():
            if self._api_versions.conclude(await self._exchange(request, version, timeout), version):
                return

    async def _exchange(self, request: Message, version: int, timeout: float) -> ResponseFrame:
        if self.is_closed:
            raise KafkaConnectionError(f"{self.address}: the connection is closed; connect again")
        correlation_id, data = self._api_versions.encode(request, version)
        answer: asyncio.Future[ResponseFrame] = self._loop.create_future()
        # It stays even if its caller is cancelled: later requests would wait for ever.
        deadline = self._loop.call_later(timeout, self._give_up, type(request), timeout)
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
