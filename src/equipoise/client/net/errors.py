"""Errors of a client: brokers that cannot be reached, and brokers that refuse."""

from __future__ import annotations

from equipoise.client.security.config import SecurityConfig
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, ProtocolError, UsageError
from equipoise.wire.frames import FrameSizeError
from equipoise.wire.text import printable


class KafkaConnectionError(EquipoiseError):
    """A broker cannot be reached, does not answer, or has gone."""


def cannot_connect(address: str, error: OSError | ValueError) -> KafkaConnectionError:
    """ValueError: the host is none that could be looked for, as a label of 64 letters."""
    why = (error.strerror or error) if isinstance(error, OSError) else "this is no name of a host"
    return KafkaConnectionError(f"cannot connect to {address}: {why}; is a broker listening there?")


def refuse_secured(security: SecurityConfig) -> None:
    """UsageError unless it is plain text: nothing leaves in clear text that was to be secured."""
    if security.uses_tls or security.uses_sasl:
        raise UsageError(
            f"security.protocol={security.protocol}: secured clusters (TLS, SASL) are not supported yet: "
            "connect to a PLAINTEXT listener"
        )


def no_kafka_broker(address: str, error: FrameSizeError) -> ProtocolError:
    """The error for a frame that no broker announces."""
    return ProtocolError(
        f"{address} announced a frame of {error.size} bytes, {error.max_size} is the most: "
        "it speaks TLS or is no Kafka broker"
    )


def error_from(code: int, message: str) -> KafkaError:
    """A broker's error as an exception, also for the codes that have no name here. What it says may be logged."""
    message = printable(message)
    try:
        known = ErrorCode(code)
    except ValueError:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{message} (Kafka's error code {code})")
    return KafkaError(known, f"{message} ({known.name})")
