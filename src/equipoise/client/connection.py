"""One blocking connection to a broker: versions agreed on, one request and its answer at a time.

Whatever fails between a request and its answer closes the connection, because an answer that comes later could
be taken for that of another request.
"""

from __future__ import annotations

import socket
import time
from importlib.metadata import version as installed_version
from struct import Struct
from types import TracebackType
from typing import Self, TypeVar

from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import decode_response_header, encode_request_header
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.compiler import decoder
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, ProtocolError, UsageError
from equipoise.wire.schema import TRUSTED, Message, VersionRange

Response = TypeVar("Response", bound=Message)

_SIZE = Struct(">i")
_ERROR_CODE = Struct(">h")
_MAX_FRAME = 100_000_000  # what librdkafka accepts by default: far above any fetch.max.bytes in use
_MAX_CORRELATION_ID = 2**31 - 1
# 3 is the last without which the client's name is lost. The range that comes with a refusal is not used, because
# librdkafka's mock cluster sends one that cannot be read.
_HANDSHAKE_VERSIONS = (4, 3, 0)


class KafkaConnectionError(EquipoiseError):
    """A broker cannot be reached, does not answer, or has gone."""


class Connection:
    """Connected and ready when made. `timeout`, in seconds, bounds connecting and each `send` as a whole."""

    def __init__(self, host: str, port: int, *, client_id: str = "equipoise", timeout: float = 30.0) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._client_id = client_id
        self._timeout = timeout
        self._correlation_id = 0
        self._socket = self._connect(host, port)
        try:
            self._served = self._handshake()
        except BaseException:
            self.close()
            raise

    def send(self, request: Message, response: type[Response]) -> Response:
        """The answer to `request`, in the highest version that both sides know."""
        version = self.version(type(request))
        frame, pos = self._exchange(request, version)
        return _decode(response, version, frame, pos)

    def version(self, request: type[Message]) -> int:
        """The version in which `request` would be sent. UsageError: the broker serves none that we know."""
        name, served = APIS[request.api_key].name, self._served.get(request.api_key)
        if served is None:
            raise UsageError(f"{self.address} does not serve {name}; a newer or fuller broker is needed for this")
        version = min(served.last, request.versions.last)
        if version < max(served.first, request.versions.first):
            raise UsageError(
                f"{self.address} serves {name} in versions {served}, this client speaks {request.versions}: "
                "one of them must be upgraded"
            )
        return version

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
            raise KafkaConnectionError(
                f"cannot connect to {self.address}: {error.strerror or error}; is a broker listening there?"
            ) from None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _handshake(self) -> dict[int, VersionRange]:
        """What the broker serves, asked in older forms as long as the broker does not know the newer one."""
        request = ApiVersionsRequest(
            client_software_name="equipoise", client_software_version=installed_version("equipoise")
        )
        for version in _HANDSHAKE_VERSIONS:
            frame, pos = self._exchange(request, version)
            if _error_code(frame, pos) != ErrorCode.UNSUPPORTED_VERSION:
                break
        answer = _decode(ApiVersionsResponse, version, frame, pos)
        if answer.error_code:
            raise error_from(answer.error_code, f"{self.address} refuses to say what it serves")
        return {api.api_key: VersionRange(api.min_version, api.max_version) for api in answer.api_keys}

    # -- frames

    def _exchange(self, request: Message, version: int) -> tuple[bytearray, int]:
        """The frame that answers, and where its body begins."""
        name = APIS[request.api_key].name
        self._correlation_id = self._correlation_id % _MAX_CORRELATION_ID + 1
        head = encode_request_header(request.api_key, version, self._correlation_id, self._client_id)
        body = request.encode(version)
        deadline = time.monotonic() + self._timeout
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(_SIZE.pack(len(head) + len(body)) + head + body)
            frame = self._receive_frame(deadline)
            correlation_id, pos = decode_response_header(frame, request.api_key, version)
            if correlation_id != self._correlation_id:
                raise ProtocolError(
                    f"{self.address} answered request {correlation_id} when {name}, request "
                    f"{self._correlation_id}, was the only one"
                )
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
        return frame, pos

    def _receive_frame(self, deadline: float) -> bytearray:
        (size,) = _SIZE.unpack(self._receive(_SIZE.size, deadline))
        if not 0 <= size <= _MAX_FRAME:
            raise ProtocolError(
                f"{self.address} announced a frame of {size} bytes, {_MAX_FRAME} is the most: "
                "it speaks TLS or is no Kafka broker"
            )
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


def error_from(code: int, message: str) -> KafkaError:
    """A broker's error as an exception, also for the codes that have no name here."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{message} (Kafka's error code {code})")
    return KafkaError(known, f"{message} ({known.name})")


def _decode(response: type[Response], version: int, frame: bytearray, pos: int) -> Response:
    """Bytes behind the answer are ignored, as all clients do: librdkafka's mock cluster sends one too many."""
    answer: Response = decoder(response, version, exact=False)(frame, pos, TRUSTED)
    return answer


def _error_code(frame: bytearray, pos: int) -> int:
    """The one field of ApiVersions that lies at the same place in every version."""
    if len(frame) < pos + _ERROR_CODE.size:
        raise ProtocolError(f"ApiVersions answered with {len(frame) - pos} bytes; at least 2 are needed")
    code: int = _ERROR_CODE.unpack_from(frame, pos)[0]
    return code
