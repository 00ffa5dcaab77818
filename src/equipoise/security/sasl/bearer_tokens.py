"""Tokens of OAUTHBEARER as a client sees them: their lifetime, the time to refresh them, and unsigned ones for tests.

A client does not verify a token: it reads `exp` to know when to fetch the next. Nothing here reads a clock.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from equipoise.security.secrets import Secret


class BearerToken(NamedTuple):
    """A token, its end in seconds since 1970 (None: not known), and what goes to the broker beside it."""

    value: Secret
    expires_at: float | None
    extensions: tuple[tuple[str, str], ...] = ()


class RefreshWindow(NamedTuple):
    """When a token is refreshed, as the settings sasl.login.refresh.* say (ExpiringCredentialRefreshConfig)."""

    factor: float = 0.8
    jitter: float = 0.05
    min_period_s: float = 60
    buffer_s: float = 300


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a JWT, unverified; empty for any other token."""
    try:
        _, payload, _ = token.split(".")
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return claims if isinstance(claims, dict) else {}


def expiry_of(token: str) -> float | None:
    """The claim `exp`, in seconds since 1970; None: the token does not say."""
    exp = claims_of(token).get("exp")
    return float(exp) if isinstance(exp, int | float) and not isinstance(exp, bool) else None


def refresh_at(issued_at: float, expires_at: float, window: RefreshWindow, chance: float) -> float:
    """When the token is to be refreshed; `chance` lies in 0..1 (ExpiringCredentialRefreshingLogin.refreshMs).

    Not sooner than the least period, and not later than the buffer before the end. A short life knows no bounds."""
    lifetime = expires_at - issued_at
    proposed = issued_at + lifetime * (window.factor + window.jitter * chance)
    if window.min_period_s + window.buffer_s > lifetime:
        return proposed
    return max(min(proposed, expires_at - window.buffer_s), issued_at + window.min_period_s)


def unsecured_token(claims: Mapping[str, Any]) -> str:
    """A JWT without a signature. A broker takes it only if it is set up for tests (OAuthBearerUnsecuredJws)."""
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(content: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(dict(content)).encode()).decode().rstrip("=")
