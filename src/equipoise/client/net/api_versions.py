"""The common part of both kinds of connection: versions from ApiVersions, frames of requests and responses.

Nothing here touches a socket.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version as installed_version
from struct import Struct
from typing import NamedTuple, TypeVar

from equipoise.client.net.errors import error_from
from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import decode_response_header, encode_request_header
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.compiler import decoder
from equipoise.wire.errors import ErrorCode, ProtocolError, UsageError
from equipoise.wire.frames import framed
from equipoise.wire.schema import TRUSTED, Message, VersionRange

Response = TypeVar("Response", bound=Message)

_ERROR_CODE = Struct(">h")
MAX_RESPONSE = 100_000_000  # what librdkafka accepts by default: far above any fetch.max.bytes in use
_MAX_CORRELATION_ID = 2**31 - 1
# 3 is the last without which the client's name is lost. The range that comes with a refusal is not used, because
# librdkafka's mock cluster sends one that cannot be read.
_HANDSHAKE_VERSIONS = (4, 3, 0)


class ResponseFrame(NamedTuple):
    """An answer as it came, and where its body begins."""

    data: bytes | bytearray
    pos: int
    view: memoryview  # while it lives, the buffer is not reused


class ApiVersions:
    """One connection's numbering of requests, and, once the handshake is done, what its broker serves."""

    def __init__(self, address: str, client_id: str) -> None:
        self.address = address
        self._client_id = client_id
        self._correlation_id = 0
        self._served: dict[int, VersionRange] = {}
        self.features: dict[str, int] = {}  # that the cluster has agreed on, with their levels (KIP-584)

    @property
    def is_known(self) -> bool:
        """Whether the broker has said what it serves."""
        return bool(self._served)

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

    def serves(self, request: type[Message]) -> bool:
        """Whether there is a version that both sides know."""
        served = self._served.get(request.api_key)
        if served is None:
            return False
        return min(served.last, request.versions.last) >= max(served.first, request.versions.first)

    def encode(self, request: Message, version: int) -> tuple[int, bytes]:
        """The correlation id given to it, and the frame to send."""
        self._correlation_id = self._correlation_id % _MAX_CORRELATION_ID + 1
        head = encode_request_header(request.api_key, version, self._correlation_id, self._client_id)
        body = request.encode(version)
        return self._correlation_id, framed(head, body)

    def open(self, data: bytes | bytearray, api_key: int, version: int, expected: int) -> ResponseFrame:
        """The frame that must answer request `expected`."""
        correlation_id, pos = decode_response_header(data, api_key, version)
        if correlation_id != expected:
            raise ProtocolError(
                f"{self.address} answered request {correlation_id} when {APIS[api_key].name}, request {expected}, "
                "was the one to be answered"
            )
        return ResponseFrame(data, pos, memoryview(data))

    # -- the handshake

    def proposals(self) -> Iterator[tuple[ApiVersionsRequest, int]]:
        """ApiVersions in older and older forms: each is sent if the one before was refused (KIP-511,
        NetworkClient.handleApiVersionsResponse)."""
        request = ApiVersionsRequest(
            client_software_name="equipoise", client_software_version=installed_version("equipoise")
        )
        return ((request, version) for version in _HANDSHAKE_VERSIONS)

    def conclude(self, frame: ResponseFrame, version: int) -> bool:
        """Takes the answer to a proposal. False: the broker does not know this form."""
        if _error_code(frame) == ErrorCode.UNSUPPORTED_VERSION and version != _HANDSHAKE_VERSIONS[-1]:
            return False
        answer = decode_answer(ApiVersionsResponse, version, frame)
        if answer.error_code:
            raise error_from(answer.error_code, f"{self.address} refuses to say what it serves")
        self._served = {api.api_key: VersionRange(api.min_version, api.max_version) for api in answer.api_keys}
        self.features = {one.name: one.max_version_level for one in answer.finalized_features}
        return True


def decode_answer(response: type[Response], version: int, frame: ResponseFrame) -> Response:
    """Bytes behind the answer are ignored, as all clients do: librdkafka's mock cluster sends one too many."""
    answer: Response = decoder(response, version, exact=False)(frame.data, frame.pos, TRUSTED)
    return answer


def _error_code(frame: ResponseFrame) -> int:
    """The one field of ApiVersions that lies at the same place in every version."""
    data, pos, _ = frame
    if len(data) < pos + _ERROR_CODE.size:
        raise ProtocolError(f"ApiVersions answered with {len(data) - pos} bytes; at least 2 are needed")
    code: int = _ERROR_CODE.unpack_from(data, pos)[0]
    return code
