"""Why TLS with a broker has failed, in one sentence that says what to do.

After a failure the client may connect once more, without secrets, to name the cause: the certificate that was refused,
or plain text where TLS was expected. All of this blocks: a loop runs it in a thread.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from equipoise.client.net.addresses import address_of
from equipoise.client.net.errors import KafkaConnectionError, TlsError, plain_text_to_tls
from equipoise.client.security.config import SecurityConfig
from equipoise.client.security.tls import make_context, trusts_nobody
from equipoise.wire.apis.headers import encode_request_header
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.errors import EquipoiseError
from equipoise.wire.frames import framed

_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME
_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_NAMES = (62, 64)  # host name, IP address
_UNTRUSTED = (2, 18, 19, 20, 21)  # X509_V_ERR_*: no issuer, self-signed
_PLAIN_TEXT = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER")
_PATIENCE_S = 1.0
_MOST_NAMES = 8


def server_name(host: str) -> str:
    """The name to verify, and to send as SNI: without the dot that ends a full name."""
    return host.removesuffix(".")


def tls_failure(host: str, port: int, security: SecurityConfig, error: Exception) -> TlsError:
    """The error of a handshake, or of the first answer: with TLS 1.3 a broker refuses certificates only then."""
    address = address_of(host, port)
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsError(f"{address}: {_verification(host, port, security, error)}")
    is_eof = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    reason = "" if is_eof else getattr(error, "reason", None) or ""
    if reason in _PLAIN_TEXT or (isinstance(error, OSError) and not reason and speaks_plain_text(host, port)):
        return TlsError(
            f"{address} speaks plain text, and this client speaks TLS: set security.protocol=PLAINTEXT or "
            "SASL_PLAINTEXT, or use the broker's TLS port"
        )
    if "ALERT" in reason:
        return TlsError(f"{address} refuses TLS: {_alert(reason, security)}")
    if reason:
        return TlsError(f"{address}: the TLS handshake fails: {_words(reason)}")
    why = "the connection was closed" if is_eof else getattr(error, "strerror", None) or error
    return TlsError(
        f"{address}: {why} during the TLS handshake: does the broker want a client certificate "
        "(ssl.certificate.location)?",
        is_final=False,
    )


def _alert(reason: str, security: SecurityConfig) -> str:
    """What the broker does not like, as its alert says it."""
    said = _words(reason.partition("ALERT_")[2])
    has_certificate = bool(
        security.tls.certificate_location or security.tls.certificate_pem or security.tls.keystore_location
    )
    if "PROTOCOL_VERSION" in reason:
        return f"{said}: ssl.enabled.protocols names none that it speaks"
    if not has_certificate:
        return (
            f"{said}: it wants a client certificate; set ssl.certificate.location and ssl.key.location, or a keystore"
        )
    return f"{said}: it does not accept this client's certificate; is it signed by an authority that it trusts?"


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")


def _verification(host: str, port: int, security: SecurityConfig, error: ssl.SSLCertVerificationError) -> str:
    code = error.verify_code
    if code in _OTHER_NAMES:
        names = _names(_certificate(host, port, security)) or "no name: a common name without subjectAltName is none"
        return (
            f"the broker's certificate is not for {server_name(host)}, it is for {names}: connect by such a name, or "
            "let the broker advertise it (advertised.listeners), or have the certificate made for this name"
        )
    if code in (_EXPIRED, _NOT_YET_VALID):
        word, key = ("has expired", "notAfter") if code == _EXPIRED else ("is not yet valid", "notBefore")
        date = _certificate(host, port, security).get(key, "")
        return f"the broker's certificate {word}{f' ({date})' if date else ''}: renew it, or set the clock right"
    if code in _UNTRUSTED:
        return (
            f"the broker's certificate is signed by an authority that this client does not trust "
            f"({error.verify_message}): give the authority's certificate, ssl.ca.location or "
            f"ssl.truststore.location{_empty(security)}"
        )
    return f"the broker's certificate is refused: {error.verify_message}"


def _empty(security: SecurityConfig) -> str:
    """Containers without ca-certificates trust nobody."""
    context = security.ssl_context()
    is_empty = context is not None and not security.tls.has_trust and trusts_nobody(context)
    return "; at present this client knows no authority at all" if is_empty else ""


def _names(certificate: Mapping[str, Any]) -> str:
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")


def _certificate(host: str, port: int, security: SecurityConfig) -> Mapping[str, Any]:
    """The broker's certificate, taken by a context that looks neither at names nor at dates; empty: not to be had."""
    try:
        context = make_context(replace(security.tls, checks_hostname=False, context=None))
        context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
        with (
            socket.create_connection((host, port), _PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname=server_name(host)) as secured,
        ):
            return secured.getpeercert() or {}
    except (OSError, ValueError, EquipoiseError):
        return {}


def closed_at_once(host: str, port: int, security: SecurityConfig, error: KafkaConnectionError) -> KafkaConnectionError:
    """The error of a connection that was closed before the first answer: a TLS port does so to plain text, and to a
    client whose certificate it does not accept."""
    if isinstance(error, TlsError):
        return error
    if security.uses_tls:
        return TlsError(f"{error} (right after TLS: does it want another client certificate?)", is_final=False)
    if not speaks_tls(host, port):
        return error
    return plain_text_to_tls(address_of(host, port))


def speaks_tls(host: str, port: int) -> bool:
    """Whether it answers a TLS handshake, if only to refuse it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), _PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname=server_name(host)),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):
        return False


def speaks_plain_text(host: str, port: int) -> bool:
    """Whether it answers ApiVersions without TLS."""
    request = ApiVersionsRequest()
    with contextlib.suppress(OSError, ValueError), socket.create_connection((host, port), _PATIENCE_S) as plain:
        plain.sendall(framed(encode_request_header(request.api_key, 0, 1, "equipoise"), request.encode(0)))
        return plain.recv(8)[4:] == (1).to_bytes(4)  # behind the size: our correlation id
    return False
