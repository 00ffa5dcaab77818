"""What connections need to know of security, made from the settings: `SecurityConfig`.

Every object here is a value: it is compared, hashed and pickled by its fields. Secrets print as `***`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from equipoise.client.security.tls import context_of
from equipoise.security.secrets import NO_SECRET, Secret
from equipoise.security.tls.contexts import DEFAULT_TLS, TlsConfig

if TYPE_CHECKING:
    from equipoise.client.net.handshake import Login

ANONYMOUS = "User:ANONYMOUS"


class SecurityProtocol(StrEnum):
    """security.protocol: whether a connection begins with TLS, and whether it logs in with SASL."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionConfig:
    """What a client signs to get a token (RFC 7523)."""

    algorithm: str = "RS256"
    private_key_file: str = ""
    private_key_pem: Secret = NO_SECRET
    private_key_passphrase: Secret = NO_SECRET
    file: str = ""  # with an assertion that somebody else has made
    aud: str = ""
    iss: str = ""
    sub: str = ""
    exp_seconds: int = 300
    nbf_seconds: int = 60
    jti_include: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """Where the tokens of OAUTHBEARER come from: a callback, a token endpoint (OIDC) or AWS's signer."""

    method: str = "default"  # default (a callback), oidc, aws_msk_iam or unsecured (tests)
    callback: object = None  # a function, an object with token(), or "module:name"
    config: Secret = NO_SECRET  # text for the callback; of aws_msk_iam: region=...,profile=...
    token_endpoint_url: str = ""
    client_id: str = ""
    client_secret: Secret = NO_SECRET
    assertion: AssertionConfig | None = None  # in place of id and secret: the grant jwt-bearer
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = ()
    unsecured_claims: tuple[tuple[str, str], ...] = ()
    header_urlencode: bool = False
    https_ca_location: str = ""
    https_ca_pem: str = ""
    refresh_window_factor: float = 0.8
    refresh_window_jitter: float = 0.05
    refresh_min_period_seconds: int = 60
    refresh_buffer_seconds: int = 300
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosConfig:
    """GSSAPI: the broker's service, and the client's identity."""

    service_name: str = "kafka"
    principal: str = ""
    keytab: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Made by `parse_security`, which checks it. The default is PLAINTEXT."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    mechanism: str | None = None  # PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI; None without SASL
    username: str = ""
    password: Secret = NO_SECRET
    token_auth: bool = False  # SCRAM with a delegation token (KIP-48)
    tls: TlsConfig = DEFAULT_TLS
    oauth: OAuthConfig = OAuthConfig()
    kerberos: KerberosConfig = KerberosConfig()

    @property
    def uses_tls(self) -> bool:
        """Whether connections begin with a TLS handshake."""
        return self.protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether connections log in."""
        return self.protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)

    def login(self) -> Login | None:
        """The login of all connections with these settings in this process; None without SASL."""
        if not self.uses_sasl:
            return None
        from equipoise.client.security.login import login_of  # it takes tens of milliseconds to import

        return login_of(self)

    @property
    def principal(self) -> str:
        """As whom a broker serves this client, unless it maps names in its own way. Empty: the certificate, the token
        or the ticket says it (DefaultKafkaPrincipalBuilder)."""
        if self.uses_sasl:
            return f"User:{self.username}" if self.username and not self.token_auth else ""
        return "" if self.protocol is SecurityProtocol.SSL else ANONYMOUS

    def ssl_context(self) -> ssl.SSLContext | None:
        """The context of all TLS connections with these settings in this process; None without TLS."""
        return context_of(self.tls) if self.uses_tls else None


PLAINTEXT = SecurityConfig()
