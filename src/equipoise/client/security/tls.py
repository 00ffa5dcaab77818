"""Contexts of TLS for connections to brokers.

A context is made once for all connections of a process with the same settings. When a file changes, the next
connection gets a new one: certificates are renewed without a restart.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
from importlib import import_module
from typing import NamedTuple

from equipoise.security.tls.contexts import (
    TlsConfig,
    load_ca_location,
    load_crl,
    load_key,
    load_trust,
    set_ciphers,
    set_versions,
)
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

_PROBE = "probe"


class _Made(NamedTuple):
    context: ssl.SSLContext
    stamps: tuple[int, ...]


_contexts: dict[TlsConfig, _Made] = {}
_making = threading.Lock()


def context_of(tls: TlsConfig) -> ssl.SSLContext:
    """The context for these settings, made at the first call. UsageError names the setting at fault."""
    if isinstance(tls.context, ssl.SSLContext):
        return tls.context
    with _making:
        known, stamps = _contexts.get(tls), tuple(map(_stamp, tls.files))
        if known is None:
            known = _contexts[tls] = _Made(make_context(tls), stamps)
        elif known.stamps != stamps:
            known = _contexts[tls] = _Made(_renewed(tls, known.context), stamps)
        return known.context


def _renewed(tls: TlsConfig, before: ssl.SSLContext) -> ssl.SSLContext:
    """A file may be half written, or a key may be replaced before its certificate: the old ones go on."""
    try:
        return make_context(tls)
    except UsageError as error:
        log.warning("certificates have changed, and cannot be used: %s; the old ones go on", error)
        return before


def _stamp(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def make_context(tls: TlsConfig) -> ssl.SSLContext:
    """A client's context: TLS 1.2 at least, certificates and host names checked (DefaultSslEngineFactory)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    set_versions(context, tls.versions)
    set_ciphers(context, tls.ciphers)
    context.check_hostname = tls.verifies and tls.checks_hostname
    context.hostname_checks_common_name = False  # names are in subjectAltName (RFC 9525)
    if tls.verifies:
        _load_trust(context, tls)
    else:
        context.verify_mode = ssl.CERT_NONE
        log.warning("enable.ssl.certificate.verification=false: any server can pose as the broker")
    if tls.has_key:
        load_key(context, tls)
    return context


def _load_trust(context: ssl.SSLContext, tls: TlsConfig) -> None:
    if tls.has_trust and tls.ca_location != _PROBE:
        load_trust(context, tls)
        return
    context.load_default_certs()
    if tls.ca_location == _PROBE and trusts_nobody(context):
        _load_certifi(context)
    if tls.crl_location:
        load_crl(context, tls.crl_location)


def _load_certifi(context: ssl.SSLContext) -> None:
    try:
        certifi = import_module("certifi")
    except ImportError:
        return
    load_ca_location(context, certifi.where(), "ssl.ca.location=probe")


def trusts_nobody(context: ssl.SSLContext) -> bool:
    """Whether no CA is known, as in a container without the package ca-certificates. For messages."""
    paths = ssl.get_default_verify_paths()
    return context.cert_store_stats()["x509_ca"] == 0 and paths.capath is None
