"""The beginning of a connection, without input or output: ApiVersions, then SASL (SaslClientAuthenticator).

A handshake is a generator. It yields `Ask`, for which it is sent the answer's frame, and `Compute`, for which it is
sent what the function returned: a password that is salted, a token that is fetched. A failure of the connection is
thrown into it. It returns the milliseconds that the session lives; 0: for ever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, Protocol

from equipoise.client.net.api_versions import ApiVersions, Response, ResponseFrame, decode_answer
from equipoise.client.net.errors import AuthenticationError, KafkaConnectionError, RefusedTokenError, TlsError
from equipoise.security.sasl.client import SaslClient, SaslServerError
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from equipoise.wire.errors import ErrorCode, UsageError
from equipoise.wire.schema import Message
from equipoise.wire.text import LONGEST_NAME, printable

_FIRST_WITH_FRAMES = 1  # of SaslHandshake: before, tokens travel without headers


class Ask(NamedTuple):
    """A request to send."""

    request: Message
    version: int


class Compute(NamedTuple):
    """Work that may take long: not on a loop. What it returns may be awaitable."""

    work: Callable[[], Any]


class Login(Protocol):
    """The credentials of a client, for any number of exchanges."""

    @property
    def mechanism(self) -> str:
        """Its name in SaslHandshake."""

    @property
    def advice(self) -> str:
        """What to look at if the broker refuses the credentials."""

    def begin(self) -> SaslClient | Awaitable[SaslClient]:
        """A new exchange."""

    def refused(self) -> bool:
        """The broker has refused the credential. True: another attempt may succeed."""

    def accepted(self) -> None:
        """The broker has accepted the credential."""


Handshake = Generator[Ask | Compute, Any, int]


def renewal_pause(lifetime_ms: int, chance: float) -> float:
    """Seconds after which a session is renewed; `chance` lies in 0..1. Kafka refuses a renewal in the first second.

    85 to 95 % of the session's life
    (SaslClientAuthenticator.ReauthInfo.setAuthenticationEndAndSessionReauthenticationTimes)."""
    return max(lifetime_ms / 1000 * (0.85 + 0.1 * chance), 1.0) if lifetime_ms > 0 else float("inf")


def handshake(api_versions: ApiVersions, login: Login | None) -> Handshake:
    """All of a new connection after TLS. ApiVersions is asked once, as a broker before a login allows it once."""
    for request, version in api_versions.proposals():
        frame: ResponseFrame = yield Ask(request, version)
        if api_versions.conclude(frame, version):
            break
    return 0 if login is None else (yield from authentication(api_versions, login))


def authentication(api_versions: ApiVersions, login: Login) -> Handshake:
    """A login, or another on the same connection (KIP-368). AuthenticationError: it is refused."""
    sasl: SaslClient = yield Compute(login.begin)
    try:
        yield from _choose(api_versions, login)
        lifetime_ms = yield from _exchange(api_versions, login, sasl)
    except SaslServerError as error:
        raise _refused(f"{api_versions.address}: {login.mechanism} fails: {error}") from None
    except (TlsError, RefusedTokenError):
        raise
    except KafkaConnectionError as error:
        raise KafkaConnectionError(
            f"{error} (during SASL with {login.mechanism}: has this port another security.protocol?)"
        ) from None
    login.accepted()
    return lifetime_ms


def _choose(api_versions: ApiVersions, login: Login) -> Generator[Ask, ResponseFrame, None]:
    address, mechanism = api_versions.address, login.mechanism
    try:
        version = api_versions.version(SaslHandshakeRequest)
    except UsageError:
        raise _refused(f"{address} offers no SASL: is security.protocol right?") from None
    if version < _FIRST_WITH_FRAMES:
        raise _refused(f"{address} is older than Kafka 1.0: this client does not speak its form of SASL")
    request = SaslHandshakeRequest(mechanism=mechanism)
    answer = decode_answer(SaslHandshakeResponse, version, (yield Ask(request, version)))
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(printable(one, LONGEST_NAME) for one in answer.mechanisms) or "none"
        raise _refused(
            f"{address} does not offer {mechanism}, it offers {offered}: set sasl.mechanism to one of them",
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise _refused(
            f"{address} expects no SASL on this port: set security.protocol=PLAINTEXT or SSL, or use the SASL port",
            ErrorCode.ILLEGAL_SASL_STATE,
        )
    if answer.error_code:
        raise _refused(f"{address} refuses SaslHandshake with error {answer.error_code}")


def _exchange(api_versions: ApiVersions, login: Login, sasl: SaslClient) -> Generator[Ask | Compute, Any, int]:
    token: bytes | None = sasl.first()
    lifetime_ms = 0
    while token is not None:
        answer = yield from _ask(api_versions, SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
        if answer.error_code:
            raise _not_authenticated(api_versions.address, login, sasl, answer)
        challenge, lifetime_ms = answer.auth_bytes, answer.session_lifetime_ms
        if sasl.is_slow(challenge):
            token = yield Compute(lambda: sasl.step(challenge))  # noqa: B023  it runs before the next turn
        else:
            token = sasl.step(challenge)
    if not sasl.is_done:
        raise SaslServerError("the server ends the exchange before it has proved itself")
    return max(lifetime_ms, 0)


def _ask(
    api_versions: ApiVersions, request: Message, response: type[Response]
) -> Generator[Ask, ResponseFrame, Response]:
    version = api_versions.version(type(request))
    frame = yield Ask(request, version)
    return decode_answer(response, version, frame)


def _not_authenticated(
    address: str, login: Login, sasl: SaslClient, answer: SaslAuthenticateResponse
) -> AuthenticationError | RefusedTokenError:
    told = "; ".join(one for one in (answer.error_message, sasl.refusal) if one) or f"error {answer.error_code}"
    error = _refused(f"{address} refuses the login with {login.mechanism}: {told}. {login.advice}")
    return RefusedTokenError(str(error)) if login.refused() else error


def _refused(message: str, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> AuthenticationError:
    return AuthenticationError(code, f"{printable(message)} ({code.name})")
