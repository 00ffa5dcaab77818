"""How a member reaches a secured broker: one carrier for all clients, each of which has names of its own for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import time
from typing import Any

from equipoise.security.sasl.bearer_tokens import unsecured_token

_TOKEN_S = 3600


@dataclass(frozen=True)
class Security:
    """A listener, and the credentials for it. `certificate` is a PEM file with the client's key and chain."""

    bootstrap_servers: str
    protocol: str
    ca_file: str
    mechanism: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    certificate: str | None = None


def librdkafka_settings(security: Security | None) -> dict[str, Any]:
    """By the names of librdkafka, which our own clients take too; without a token."""
    if security is None:
        return {}
    settings = {
        "bootstrap.servers": security.bootstrap_servers,
        "security.protocol": security.protocol,
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.certificate,
        "ssl.key.location": security.certificate,
        "sasl.mechanism": security.mechanism,
    }
    if security.mechanism != "OAUTHBEARER":
        settings |= {"sasl.username": security.user, "sasl.password": security.password}
    return {name: value for name, value in settings.items() if value is not None}


def with_token(security: Security | None) -> dict[str, Any]:
    """The same, with the callback that librdkafka's Python client and ours call for a token."""
    settings = librdkafka_settings(security)
    if security is not None and security.mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (token(security), time() + _TOKEN_S)
    return settings


def token(security: Security) -> str:
    """Without a signature."""
    now = time()
    return unsecured_token({"sub": security.user, "iat": now, "exp": now + _TOKEN_S})
