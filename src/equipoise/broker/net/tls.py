"""The broker's side of TLS: a context of a listener's settings, made anew when its files change; and why a handshake
failed, in words."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
from contextvars import ContextVar
from typing import Any

from equipoise.broker.net.listener_config import ListenerConfig
from equipoise.security.tls.contexts import TlsConfig, check_pairs, load_key, load_trust, set_ciphers, set_versions
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_HANDSHAKE_RECORD = 0x16
PROTOCOL_VERSION_ALERT = bytes.fromhex("15030300020246")  # fatal, 70: what OpenSSL answers to plain text
_WHY = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate, and ssl.client.auth is required",
    "UNSUPPORTED_PROTOCOL": "the client's newest version of TLS is too old; ssl.enabled.protocols has those allowed",
    "NO_SHARED_CIPHER": "the client has no cipher in common with ssl.cipher.suites",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the CA of our certificate: give it the CA's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refused our certificate: it checks host name, dates and CA",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refused our certificate: it checks host name, dates and CA",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client says that our certificate has expired",
}


# The socket of the handshake that a task does. The loop runs the handshake's callbacks in the task's context.
accepted_socket: ContextVar[socket.socket] = ContextVar("accepted_socket")


class _AlertingObject(ssl.SSLObject):
    """Sends the alert of a failed handshake, which asyncio drops: from it the client learns why it is refused."""

    outgoing: ssl.MemoryBIO
    accepted: socket.socket | None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.accepted is not None:
                with contextlib.suppress(OSError):
                    self.accepted.send(self.outgoing.read())
            raise


class _AlertingContext(ssl.SSLContext):
    sslobject_class = _AlertingObject

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *rest: Any, **named: Any) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *rest, **named)
        assert isinstance(made, _AlertingObject)
        made.outgoing, made.accepted = outgoing, accepted_socket.get(None)
        return made


class ListenerTls:
    """The context for new connections of one listener. Connections that are there keep the one they began with."""

    def __init__(self, name: str, config: ListenerConfig) -> None:
        self._name = name
        self._config = config
        self._tls = _tls_config(config)
        try:
            check_pairs(self._tls)
            if not self._tls.has_key:
                raise UsageError(
                    "TLS needs a key and a certificate: ssl.keystore.location, or ssl.certificate.location and "
                    "ssl.key.location"
                )
            self._stamps = self._look()
            self.context = self._make()
        except UsageError as error:
            raise UsageError(f"listener {name}: {error}") from None

    def reload(self, *, always: bool = False) -> None:
        """Makes a new context if a file has changed. Certificate and key are two files: while they do not fit
        together, the old context stays, and the next look tries again."""
        stamps = self._look()
        if stamps == self._stamps and not always:
            return
        try:
            self.context = self._make()
        except UsageError as error:
            log.error("listener %s: the certificates stay as they were: %s", self._name, error)
            return
        self._stamps = stamps
        log.warning("listener %s: new connections get the certificates of now", self._name)

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._tls.files]

    def _make(self) -> ssl.SSLContext:
        context = _AlertingContext(ssl.PROTOCOL_TLS_SERVER)
        set_versions(context, self._tls.versions)
        set_ciphers(context, self._tls.ciphers)
        context.options |= ssl.OP_NO_RENEGOTIATION
        load_key(context, self._tls)
        context.verify_mode = _VERIFY[self._config.ssl_client_auth]
        if context.verify_mode != ssl.CERT_NONE:
            if not self._tls.has_trust:
                raise UsageError("ssl.client.auth needs the CA certificates of clients: ssl.truststore.location")
            load_trust(context, self._tls)
        return context


def _tls_config(config: ListenerConfig) -> TlsConfig:
    return TlsConfig.from_settings(
        config,
        ca_pem=config.ssl_truststore_certificates,
        certificate_pem=config.ssl_keystore_certificate_chain,
        key_pem=config.ssl_keystore_key,
        ciphers=config.ssl_cipher_suites,
        versions=tuple(config.ssl_enabled_protocols.split(",")),
    )


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def begins_tls(first: bytes) -> bool:
    """Whether a connection's first byte is that of a TLS handshake."""
    return first[:1] == bytes([_HANDSHAKE_RECORD])


def describe_plain(first: bytes) -> str:
    """What came instead of a TLS handshake, and what to do."""
    if first[:4].strip().isalpha():
        return "an HTTP request; this listener speaks Kafka's protocol over TLS"
    return "plain text; this listener speaks TLS: set security.protocol=SSL or SASL_SSL"


def describe_failure(error: Exception) -> str | None:
    """Why a handshake failed; None: the client went away, which is not worth a line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        if error.reason in (None, "UNEXPECTED_EOF_WHILE_READING"):
            return None
        return _WHY.get(error.reason, error.reason.lower().replace("_", " "))
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return "no TLS handshake in time"
    return None
