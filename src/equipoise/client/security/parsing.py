"""From settings to `SecurityConfig`: the names of all clients, contradictions, defaults."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from equipoise.client.security.config import PLAINTEXT, SecurityConfig, SecurityProtocol
from equipoise.client.security.credentials import login_of
from equipoise.client.security.settings import DOCUMENT, SecuritySettings, canonical, known_names, rows
from equipoise.security.secrets import Secret
from equipoise.security.tls.contexts import TlsConfig, check_pairs
from equipoise.settings import parse_values
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

_NOT_RESOLVED = "{{secrets/"
_NO_HOSTNAMES = ("", "none")


def parse_security(
    settings: Mapping[str, object], bootstrap_servers: str = "", also_known: Iterable[str] = ()
) -> SecurityConfig:
    """Settings by name, as text or values. UsageError names the one at fault, and the nearest match.

    `bootstrap_servers`: they may name the region of AWS. `also_known`: other names that may be meant.
    """
    if not settings:
        return PLAINTEXT
    given = canonical(settings)
    parsed = SecuritySettings(**parse_values(given, rows(), [*known_names(), *also_known], DOCUMENT))
    _check_resolved(parsed)
    config = SecurityConfig(protocol=SecurityProtocol(parsed.security_protocol))
    _warn_of_no_effect(config, given)
    values: dict[str, Any] = {}
    if config.uses_tls:
        values["tls"] = _tls(parsed, given)
    if config.uses_sasl:
        values |= login_of(parsed, bootstrap_servers)
    return SecurityConfig(protocol=config.protocol, **values)


def security_from_keywords(bootstrap_servers: str = "", **settings: object) -> SecurityConfig:
    """The same with underscores for dots: `security_protocol="SSL"`."""
    return parse_security({name.replace("_", "."): value for name, value in settings.items()}, bootstrap_servers)


def _check_resolved(parsed: SecuritySettings) -> None:
    """Databricks puts secrets in the place of such text before a source sees it."""
    for name, row in rows().items():
        value = getattr(parsed, row.name)
        if isinstance(value, Secret) and _NOT_RESOLVED in value.reveal():
            raise UsageError(f"{name}: the secret was not resolved: it still has {_NOT_RESOLVED}...}}}} in it")


def _warn_of_no_effect(config: SecurityConfig, given: Iterable[str]) -> None:
    """Java ignores them in silence."""
    families = ("sasl.",) * (not config.uses_sasl) + ("ssl.", "enable.ssl.") * (not config.uses_tls)
    idle = sorted(name for name in given if name.startswith(families)) if families else []
    if idle:
        log.warning("%s: no effect with security.protocol=%s", ", ".join(idle), config.protocol)


def _tls(parsed: SecuritySettings, given: Mapping[str, object]) -> TlsConfig:
    algorithm = parsed.ssl_endpoint_identification_algorithm.lower()
    if algorithm not in ("https", *_NO_HOSTNAMES):
        raise UsageError(f"ssl.endpoint.identification.algorithm={algorithm}: must be https, none or empty")
    if parsed.ssl_context is not None:
        beside = sorted(name for name in given if name.startswith("ssl.") and name != "ssl.context")
        if beside:
            raise UsageError(f"ssl.context goes without other settings of TLS: leave {', '.join(beside)} out")
    tls = TlsConfig.from_settings(
        parsed,
        verifies=parsed.enable_ssl_certificate_verification,
        checks_hostname=algorithm == "https",
        ciphers=parsed.ssl_cipher_suites,
        versions=tuple(parsed.ssl_enabled_protocols.split(",")),
    )
    check_pairs(tls)
    return tls
