"""Contexts of TLS for connections to brokers.

A context is made once for all connections of a process with the same settings.
"""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass

from equipoise.security.secrets import NO_SECRET, Secret

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """The settings ssl.*, checked."""

    ca_location: str = ""
    ca_pem: str = ""
    truststore_location: str = ""
    truststore_type: str = "JKS"
    truststore_password: Secret = NO_SECRET
    certificate_location: str = ""
    certificate_pem: str = ""
    key_location: str = ""
    key_pem: Secret = NO_SECRET
    key_password: Secret = NO_SECRET
    keystore_location: str = ""
    keystore_type: str = "JKS"
    keystore_password: Secret = NO_SECRET
    verifies: bool = True
    checks_hostname: bool = True
    crl_location: str = ""
    ciphers: str = ""
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    context: object = None  # the application's own, instead of all others


DEFAULT_TLS = TlsConfig()
_CONTEXTS: dict[TlsConfig, ssl.SSLContext] = {}
_MAKING = threading.Lock()


def context_of(tls: TlsConfig) -> ssl.SSLContext:
    """The context for these settings, made at the first call. UsageError names the setting at fault."""
    if isinstance(tls.context, ssl.SSLContext):
        return tls.context
    with _MAKING:
        known = _CONTEXTS.get(tls)
        if known is None:
            known = _CONTEXTS[tls] = make_context(tls)
        return known


def make_context(tls: TlsConfig) -> ssl.SSLContext:
    """A client's context: TLS 1.2 at least, certificates and host names checked (DefaultSslEngineFactory)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = sorted(_VERSIONS[name] for name in tls.versions)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.check_hostname = tls.verifies and tls.checks_hostname
    if not tls.verifies:
        context.verify_mode = ssl.CERT_NONE
    _load_trust(context, tls)
    if tls.certificate_location:
        context.load_cert_chain(tls.certificate_location, tls.key_location or None, tls.key_password.reveal)
    return context


def _load_trust(context: ssl.SSLContext, tls: TlsConfig) -> None:
    if tls.ca_location:
        context.load_verify_locations(cafile=tls.ca_location)
    elif tls.ca_pem:
        context.load_verify_locations(cadata=tls.ca_pem)
    else:
        context.load_default_certs()
