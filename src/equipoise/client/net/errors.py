"""Errors of a client: brokers that cannot be reached, brokers that refuse, and steps of a login that fail."""

from __future__ import annotations

from equipoise.security.denials import RESOURCE_OF, AclAction, authorization_error
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, ProtocolError
from equipoise.wire.frames import FrameSizeError
from equipoise.wire.text import printable

_TLS_RECORDS = (0x15, 0x16)  # an alert, a handshake: the first byte of what a TLS port says


class KafkaConnectionError(EquipoiseError):
    """A broker cannot be reached, does not answer, or has gone."""


class TlsError(KafkaConnectionError):
    """TLS with a broker has failed. `is_final`: another attempt would fail too."""

    def __init__(self, message: str, *, is_final: bool = True) -> None:
        self.is_final = is_final
        super().__init__(message)


class RefusedTokenError(KafkaConnectionError):
    """The broker refuses a token that was kept, and another can be fetched: the next attempt may succeed."""


class AuthenticationError(KafkaError):
    """The broker refuses the login, or cannot prove that it knows the password. Another attempt would fail too."""


def is_final(error: BaseException | None) -> bool:
    """Whether trying again is useless, and may lock an account (Java's client raises such errors at once)."""
    return isinstance(error, AuthenticationError) or (isinstance(error, TlsError) and error.is_final)


def cannot_connect(address: str, error: OSError | ValueError) -> KafkaConnectionError:
    """ValueError: the host is none that could be looked for, as a label of 64 letters."""
    why = (error.strerror or error) if isinstance(error, OSError) else "this is no name of a host"
    return KafkaConnectionError(f"cannot connect to {address}: {why}; is a broker listening there?")


def plain_text_to_tls(address: str) -> TlsError:
    """The error of a client without TLS at a port with TLS."""
    return TlsError(
        f"{address} speaks TLS, and this client speaks plain text: set security.protocol=SSL or SASL_SSL, "
        "or use the broker's plain port"
    )


def no_kafka_broker(address: str, error: FrameSizeError) -> EquipoiseError:
    """The error for a frame that no broker announces."""
    if (error.size >> 24) & 0xFF in _TLS_RECORDS:
        return plain_text_to_tls(address)
    return ProtocolError(
        f"{address} announced a frame of {error.size} bytes, {error.max_size} is the most: "
        "it speaks TLS or is no Kafka broker"
    )


def error_from(code: int, message: str, *actions: AclAction, principal: str = "") -> KafkaError:
    """A broker's error as an exception, also for the codes that have no name here. What it says may be logged.

    A denial names the action that `principal` needs, the first of `actions` that fits."""
    message = printable(message)
    try:
        known = ErrorCode(code)
    except ValueError:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{message} (Kafka's error code {code})")
    if known in RESOURCE_OF:
        return authorization_error(known, message, *actions, principal=principal)
    return KafkaError(known, f"{message} ({known.name})")
