"""The login of a client: from its settings to a SASL exchange on each connection.

A process keeps one login for all connections with the same settings: a password is salted once, a token fetched once.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Awaitable
from functools import lru_cache

from equipoise.client.net.handshake import Login
from equipoise.client.security.config import SecurityConfig
from equipoise.client.security.tokens import Tokens, tokens_of
from equipoise.security.sasl.bearer_tokens import BearerToken
from equipoise.security.sasl.client import OAuthBearerClient, PlainClient, SaslClient, ScramClient
from equipoise.security.sasl.scram import HASHES, ClientKeys, client_keys, salted_password
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

_MOST_SALTS = 64  # a cluster has one salt for a user; a hostile broker may send many
_NONCE_BYTES = 16


class PasswordLogin:
    """PLAIN and SCRAM."""

    advice = "Check sasl.username and sasl.password"

    def __init__(self, security: SecurityConfig) -> None:
        assert security.mechanism is not None
        self.mechanism = security.mechanism
        self._username, self._password = security.username, security.password
        self._token_auth = security.token_auth
        self._keys: dict[tuple[str, bytes, int], ClientKeys] = {}
        if self.mechanism in HASHES and not self._username.isascii():
            log.warning("sasl.username has letters outside ASCII: Kafka refuses such names with %s", self.mechanism)

    def begin(self) -> SaslClient:
        """A new exchange, with a new nonce."""
        if self.mechanism == "PLAIN":
            return PlainClient(self._username, self._password.reveal())
        nonce = secrets.token_hex(_NONCE_BYTES)
        return ScramClient(self.mechanism, self._username, nonce, self._keys_of, tokenauth=self._token_auth)

    def refused(self) -> bool:
        """The same password would be refused again."""
        return False

    def accepted(self) -> None:
        """Nothing is counted."""

    def _keys_of(self, mechanism: str, salt: bytes, iterations: int) -> ClientKeys:
        """Kept: a reconnection or another login on the same connection costs no hashing."""
        known = self._keys.get((mechanism, salt, iterations))
        if known is None:
            salted = salted_password(mechanism, self._password.reveal().encode(), salt, iterations)
            known = client_keys(mechanism, salted)
            if len(self._keys) >= _MOST_SALTS:
                self._keys.clear()
            self._keys[mechanism, salt, iterations] = known
        return known


class TokenLogin:
    """OAUTHBEARER."""

    mechanism = "OAUTHBEARER"
    advice = "Check the token's audience, scope and lifetime, and the clock"

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._refusals = 0  # since the last token that was accepted

    def begin(self) -> SaslClient | Awaitable[SaslClient]:
        """A new exchange, with the kept token or a new one."""
        token = self._tokens.get()
        return _exchange(token) if isinstance(token, BearerToken) else self._awaited(token)

    def refused(self) -> bool:
        """A kept token may have been withdrawn: the next attempt fetches another, once."""
        self._tokens.forget()
        self._refusals += 1
        return self._refusals == 1

    def accepted(self) -> None:
        """The token is good."""
        self._refusals = 0

    async def _awaited(self, token: Awaitable[BearerToken]) -> SaslClient:
        return _exchange(await token)


def _exchange(token: BearerToken) -> OAuthBearerClient:
    return OAuthBearerClient(token.value.reveal(), dict(token.extensions))


@lru_cache(maxsize=64)
def login_of(security: SecurityConfig) -> Login:
    """UsageError: the mechanism is not offered, or lacks a setting."""
    if security.mechanism == "PLAIN" or security.mechanism in HASHES:
        return PasswordLogin(security)
    if security.mechanism == "OAUTHBEARER":
        return TokenLogin(tokens_of(security.oauth))
    if security.mechanism == "GSSAPI":
        raise UsageError(
            "GSSAPI (Kerberos) is not offered: set sasl.mechanism to SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or "
            "OAUTHBEARER, or use mutual TLS (security.protocol=SSL with a certificate)"
        )
    raise UsageError(f"sasl.mechanism={security.mechanism} is not offered")


if hasattr(os, "register_at_fork"):  # a lock may be held by a thread that a forked process does not have
    os.register_at_fork(after_in_child=login_of.cache_clear)
