"""One blocking connection to a broker: versions agreed on, one request and its answer at a time.

Whatever fails between a request and its answer closes the connection, because an answer that comes later could
be taken for that of another request.
"""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Self

from equipoise.client.agreement import (
    SIZE,
    Agreement,
    Frame,
    KafkaConnectionError,
    Response,
    address_of,
    cannot_connect,
    decode_answer,
    error_from,
)
from equipoise.wire.apis import APIS
from equipoise.wire.errors import ProtocolError
from equipoise.wire.schema import Message

__all__ = ["Connection", "KafkaConnectionError", "error_from"]


class Connection:
    """Connected and ready when made. `timeout`, in seconds, bounds connecting and each `send` as a whole."""

    def __init__(self, host: str, port: int, *, client_id: str = "equipoise", timeout: float = 30.0) -> None:
        self.address = address_of(host, port)
        self._agreement = Agreement(self.address, client_id)
        self._timeout = timeout
        self._socket = self._connect(host, port)
        try:
            self._handshake()
        except BaseException:
            self.close()
            raise

    def send(self, request: Message, response: type[Response]) -> Response:
        """The answer to `request`, in the highest version that both sides know."""
        version = self.version(type(request))
        return decode_answer(response, version, self._exchange(request, version))

    def version(self, request: type[Message]) -> int:
        """The version in which `request` would be sent. UsageError: the broker serves none that we know."""
        return self._agreement.version(request)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the beginning

    def _connect(self, host: str, port: int) -> socket.socket:
        try:
            connected = socket.create_connection((host, port), self._timeout)
        except OSError as error:
            raise cannot_connect(self.address, error) from None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _handshake(self) -> None:
        for request, version in self._agreement.proposals():
            if self._agreement.conclude(self._exchange(request, version), version):
                return

    # -- frames

    def _exchange(self, request: Message, version: int) -> Frame:
        name = APIS[request.api_key].name
        correlation_id, data = self._agreement.encode(request, version)
        deadline = time.monotonic() + self._timeout
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(data)
            return self._agreement.open(self._receive_frame(deadline), request.api_key, version, correlation_id)
        except TimeoutError:
            self.close()
            raise KafkaConnectionError(
                f"{self.address} did not answer {name} within {self._timeout:g} s; the connection is closed"
            ) from None
        except OSError as error:
            self.close()
            reason = error.strerror or str(error)
            raise KafkaConnectionError(f"{self.address}: {reason} while {name} was under way; connect again") from None
        except ProtocolError:
            self.close()
            raise

    def _receive_frame(self, deadline: float) -> bytearray:
        (size,) = SIZE.unpack(self._receive(SIZE.size, deadline))
        self._agreement.check_size(size)
        return self._receive(size, deadline)

    def _receive(self, size: int, deadline: float) -> bytearray:
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            # A zero would mean "do not block" to the socket.
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            count = self._socket.recv_into(view[filled:])
            if count == 0:
                raise ConnectionResetError("the broker closed the connection")
            filled += count
        return data
