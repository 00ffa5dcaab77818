"""Validates tokens of OAUTHBEARER with the issuer's public keys, which it fetches and keeps fresh."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from urllib.parse import urlsplit

from equipoise.broker.clock import Clock
from equipoise.broker.net.listener_config import ListenerConfig
from equipoise.security.sasl.jwt import Keys, TokenError, TokenRules, UnknownKeyError, require_cryptography, validate
from equipoise.security.sasl.mechanisms import Claims, TokenRefusal
from equipoise.security.secrets import Secret
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

_FETCH_TIMEOUT_S = 10
_LEAST_BETWEEN_MS = 10_000  # a flood of unknown key ids does not become a flood of requests to the issuer
_LARGEST = 1 << 20


class TokenValidator:
    """BrokerJwtValidator, and RefreshingHttpsJwks."""

    def __init__(self, config: ListenerConfig, clock: Clock) -> None:
        self._rules = token_rules(config)
        self._url = config.sasl_oauthbearer_jwks_endpoint_url
        self._refresh_ms = config.sasl_oauthbearer_jwks_endpoint_refresh_ms
        self._clock = clock
        self._keys: Keys | None = None
        self._asked: int | None = None  # when the keys were last asked for
        self._waiting: list[Callable[[], None]] = []
        self._fetching: asyncio.Task[None] | None = None

    def validate(self, token: Secret) -> Claims | TokenRefusal | None:
        """None: the issuer's keys should be fetched first."""
        if self._is_stale and not self._rules.is_unsecured:
            return None
        try:
            return validate(token.reveal(), self._keys, self._rules, self._clock.wall_time())
        except UnknownKeyError as error:
            return None if self._may_ask else TokenRefusal(str(error))
        except TokenError as error:
            return TokenRefusal(str(error))

    @property
    def _is_stale(self) -> bool:
        is_old = self._asked is None or self._clock.now() - self._asked >= self._refresh_ms
        return self._may_ask and (self._keys is None or is_old)

    @property
    def _may_ask(self) -> bool:
        return self._asked is None or self._clock.now() - self._asked >= _LEAST_BETWEEN_MS

    def refresh(self, then: Callable[[], None]) -> None:
        """Fetches the keys, once for all who wait."""
        self._waiting.append(then)
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())

    async def _fetch(self) -> None:
        try:
            self._keys = Keys(await asyncio.to_thread(_read, self._url))
        except (OSError, ValueError, TokenError) as error:
            log.warning("the keys of the tokens' issuer cannot be had from %s: %s", self._url, error)
        self._asked = self._clock.now()
        self._fetching = None
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()


def token_rules(config: ListenerConfig) -> TokenRules:
    """UsageError: what a token must say is not said."""
    if config.sasl_oauthbearer_unsecured:
        log.warning("sasl.oauthbearer.unsecured=true: tokens are not verified, so anyone can be anybody")
        return TokenRules(principal_claim=config.sasl_oauthbearer_sub_claim_name, is_unsecured=True)
    if not config.sasl_oauthbearer_jwks_endpoint_url:
        raise UsageError("OAUTHBEARER: say where the issuer's keys are: sasl.oauthbearer.jwks.endpoint.url")
    require_cryptography()
    issuer, audience = config.sasl_oauthbearer_expected_issuer, config.sasl_oauthbearer_expected_audience
    if not issuer and not config.sasl_oauthbearer_allow_unverified_issuer:
        raise UsageError("OAUTHBEARER: say sasl.oauthbearer.expected.issuer, or allow any (allow.unverified.issuer)")
    if not audience and not config.sasl_oauthbearer_allow_unverified_audience:
        raise UsageError(
            "OAUTHBEARER: say sasl.oauthbearer.expected.audience, or allow any (allow.unverified.audience)"
        )
    return TokenRules(
        issuer=issuer or None,
        audiences=tuple(word.strip() for word in audience.split(",") if word.strip()),
        clock_skew_s=config.sasl_oauthbearer_clock_skew_seconds,
        principal_claim=config.sasl_oauthbearer_sub_claim_name,
    )


def _read(url: str) -> str:
    if urlsplit(url).scheme not in ("http", "https", "file"):
        raise ValueError("only http, https and file are known")
    from http.client import HTTPException  # most brokers never need them: megabytes, and milliseconds of the start
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url), timeout=_FETCH_TIMEOUT_S) as answer:
            return str(answer.read(_LARGEST).decode())
    except HTTPException as error:
        raise OSError(f"the answer is no HTTP: {error!r}") from None
