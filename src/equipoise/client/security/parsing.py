"""From settings to `SecurityConfig`: names of all clients, contradictions, defaults."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from equipoise.client.security.config import (
    PLAINTEXT,
    KerberosConfig,
    OAuthConfig,
    SecurityConfig,
    SecurityProtocol,
)
from equipoise.client.security.settings import DOCUMENT, SecuritySettings, canonical, known_names, rows
from equipoise.client.security.tls import TlsConfig
from equipoise.settings import parse_values
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

MECHANISMS = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"


def parse_security(settings: Mapping[str, object], also_known: Iterable[str] = ()) -> SecurityConfig:
    """Settings by name, as text or values. UsageError names the one at fault, and the nearest match."""
    if not settings:
        return PLAINTEXT
    given = canonical(settings)
    parsed = SecuritySettings(**parse_values(given, rows(), [*known_names(), *also_known], DOCUMENT))
    protocol = SecurityProtocol(parsed.security_protocol)
    config = SecurityConfig(protocol=protocol)
    values: dict[str, Any] = {"tls": _tls(parsed)}
    if config.uses_sasl:
        values |= _sasl(parsed)
    return SecurityConfig(protocol=protocol, **values)


def security_from_keywords(**settings: object) -> SecurityConfig:
    """The same with underscores for dots: `security_protocol="SSL"`."""
    return parse_security({name.replace("_", "."): value for name, value in settings.items()})


def _tls(parsed: SecuritySettings) -> TlsConfig:
    return TlsConfig(
        ca_location=parsed.ssl_ca_location,
        ca_pem=parsed.ssl_ca_pem,
        truststore_location=parsed.ssl_truststore_location,
        truststore_type=parsed.ssl_truststore_type,
        truststore_password=parsed.ssl_truststore_password,
        certificate_location=parsed.ssl_certificate_location,
        certificate_pem=parsed.ssl_certificate_pem,
        key_location=parsed.ssl_key_location,
        key_pem=parsed.ssl_key_pem,
        key_password=parsed.ssl_key_password,
        keystore_location=parsed.ssl_keystore_location,
        keystore_type=parsed.ssl_keystore_type,
        keystore_password=parsed.ssl_keystore_password,
        verifies=parsed.enable_ssl_certificate_verification,
        checks_hostname=parsed.ssl_endpoint_identification_algorithm.lower() == "https",
        crl_location=parsed.ssl_crl_location,
        ciphers=parsed.ssl_cipher_suites,
        versions=tuple(parsed.ssl_enabled_protocols.split(",")),
        context=parsed.ssl_context,
    )


def _sasl(parsed: SecuritySettings) -> dict[str, Any]:
    return {
        "mechanism": _mechanism(parsed),
        "username": parsed.sasl_username,
        "password": parsed.sasl_password,
        "oauth": _oauth(parsed),
        "kerberos": KerberosConfig(
            service_name=parsed.sasl_kerberos_service_name,
            principal=parsed.sasl_kerberos_principal,
            keytab=parsed.sasl_kerberos_keytab,
        ),
    }


def _mechanism(parsed: SecuritySettings) -> str:
    """Without a mechanism Java and librdkafka take GSSAPI, which nobody with a password means."""
    if parsed.sasl_mechanism is None:
        if parsed.sasl_username or parsed.sasl_password:
            raise UsageError("sasl.mechanism is missing: say PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
        return "GSSAPI"
    if "," in parsed.sasl_mechanism:
        raise UsageError(f"sasl.mechanism={parsed.sasl_mechanism}: name one mechanism only")
    if parsed.sasl_mechanism not in MECHANISMS:
        raise UsageError(f"sasl.mechanism={parsed.sasl_mechanism}: must be one of {', '.join(MECHANISMS)}")
    return parsed.sasl_mechanism


def _oauth(parsed: SecuritySettings) -> OAuthConfig:
    return OAuthConfig(
        method=parsed.sasl_oauthbearer_method,
        callback=parsed.sasl_oauthbearer_callback,
        config=parsed.sasl_oauthbearer_config,
        token_endpoint_url=parsed.sasl_oauthbearer_token_endpoint_url,
        client_id=parsed.sasl_oauthbearer_client_id,
        client_secret=parsed.sasl_oauthbearer_client_secret,
        scope=parsed.sasl_oauthbearer_scope,
        extensions=_pairs("sasl.oauthbearer.extensions", parsed.sasl_oauthbearer_extensions),
        header_urlencode=parsed.sasl_oauthbearer_header_urlencode,
        https_ca_location=parsed.https_ca_location,
        https_ca_pem=parsed.https_ca_pem,
        refresh_window_factor=parsed.sasl_login_refresh_window_factor,
        refresh_window_jitter=parsed.sasl_login_refresh_window_jitter,
        refresh_min_period_seconds=parsed.sasl_login_refresh_min_period_seconds,
        refresh_buffer_seconds=parsed.sasl_login_refresh_buffer_seconds,
        connect_timeout_ms=parsed.sasl_login_connect_timeout_ms,
        read_timeout_ms=parsed.sasl_login_read_timeout_ms,
        retry_backoff_ms=parsed.sasl_login_retry_backoff_ms,
        retry_backoff_max_ms=parsed.sasl_login_retry_backoff_max_ms,
    )


def _pairs(name: str, text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = part.partition("=")
        if not separator or not key.strip():
            raise UsageError(f"{name}: write key=value, separated by commas")
        found.append((key.strip(), value.strip()))
    return tuple(found)
