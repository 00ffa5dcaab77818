"""Tokens of OAUTHBEARER: fetched from a callback, a token endpoint or AWS's signer, and kept until they grow old.

Every function here may block: a connection on a loop calls it in a thread.
"""

from __future__ import annotations

import importlib
import inspect
import json
import random
import ssl
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode

from equipoise.client.net.backoff import Backoff
from equipoise.client.net.errors import AuthenticationError, KafkaConnectionError
from equipoise.client.security.assertions import JWT_BEARER, make_assertion
from equipoise.client.security.config import OAuthConfig
from equipoise.security.sasl.bearer_tokens import BearerToken, RefreshWindow, expiry_of, refresh_at, unsecured_token
from equipoise.security.secrets import Secret
from equipoise.wire.errors import ErrorCode, UsageError
from equipoise.wire.text import printable

Source = Callable[[], BearerToken | Awaitable[Any]]  # what is awaited is what a callback returns

_TOO_MANY_REQUESTS, _FIRST_SERVER_ERROR = 429, 500
_LONGEST_ANSWER = 1024 * 1024
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_UNSECURED_LIFETIME_S = 3600
_random = random.Random()


class Tokens:
    """The token of one configuration, kept by this process for all its connections."""

    def __init__(self, source: Source, window: RefreshWindow, clock: Callable[[], float] = time.time) -> None:
        self._source = source
        self._window = window
        self._clock = clock
        self._kept: BearerToken | None = None
        self._refresh_at = 0.0
        self._fetching = threading.Lock()

    def get(self) -> BearerToken | Awaitable[BearerToken]:
        """The kept token, or another if it grows old. Awaitable if the application's callback is."""
        with self._fetching:
            kept = self._kept
            if kept is not None and self._clock() < self._refresh_at:
                return kept
            try:
                fetched = self._source()
            except (KafkaConnectionError, AuthenticationError):
                if kept is not None and kept.expires_at is not None and self._clock() < kept.expires_at:
                    return kept  # it is old, but still good
                raise
            return self._keep(fetched) if isinstance(fetched, BearerToken) else self._awaited(fetched)

    def forget(self) -> None:
        """The broker has refused it."""
        self._kept = None

    async def _awaited(self, fetched: Awaitable[Any]) -> BearerToken:
        return self._keep(token_from(await fetched))

    def _keep(self, token: BearerToken) -> BearerToken:
        now = self._clock()
        if token.expires_at is not None and token.expires_at > now:
            self._refresh_at = refresh_at(now, token.expires_at, self._window, _random.random())
            self._kept = token
        return token


def tokens_of(oauth: OAuthConfig) -> Tokens:
    """UsageError: the settings name no source."""
    window = RefreshWindow(
        oauth.refresh_window_factor,
        oauth.refresh_window_jitter,
        oauth.refresh_min_period_seconds,
        oauth.refresh_buffer_seconds,
    )
    return Tokens(_source(oauth), window)


def _source(oauth: OAuthConfig) -> Source:
    if oauth.callback is not None:
        return _with_extensions(callback_source(oauth.callback, oauth.config), oauth)
    if oauth.method == "aws_msk_iam":
        return aws_source(oauth.config.reveal())
    if oauth.token_endpoint_url:
        return _with_extensions(lambda: fetch_token(oauth), oauth)
    if oauth.method == "unsecured":
        return _with_extensions(lambda: _unsecured(oauth), oauth)
    raise UsageError(
        "OAUTHBEARER needs a token: give oauth_cb, or sasl.oauthbearer.token.endpoint.url with client id and secret, "
        "or sasl.oauthbearer.method=aws_msk_iam"
    )


def _with_extensions(source: Source, oauth: OAuthConfig) -> Source:
    """Extensions of the settings, unless the source gives its own."""

    def fetch() -> BearerToken | Awaitable[Any]:
        token = source()
        if isinstance(token, BearerToken) and not token.extensions:
            return token._replace(extensions=oauth.extensions)
        return token

    return fetch


def _unsecured(oauth: OAuthConfig) -> BearerToken:
    now = int(time.time())
    claims: dict[str, Any] = {"iat": now, "exp": now + _UNSECURED_LIFETIME_S, **dict(oauth.unsecured_claims)}
    return token_from((unsecured_token(claims), claims["exp"]))


# -- the application's callback


def callback_source(callback: object, config: Secret) -> Source:
    """`oauth_cb(config)` as confluent-kafka has it, or an object with `token()` as kafka-python and aiokafka have it,
    or "module:name" of either."""
    found = _imported(callback) if isinstance(callback, str) else callback
    ask = getattr(found, "token", None)

    def fetch() -> BearerToken | Awaitable[Any]:
        try:
            answer = ask() if callable(ask) else found(config.reveal())  # type: ignore[operator]
        except Exception as error:
            raise KafkaConnectionError(f"the token callback failed: {type(error).__name__}: {error}") from error
        if inspect.isawaitable(answer):
            return _also_extensions(answer, found)
        return _extended(token_from(answer), found)

    return fetch


def _extended(token: BearerToken, provider: object) -> BearerToken:
    extensions = getattr(provider, "extensions", None)
    if not callable(extensions) or token.extensions:
        return token
    return token._replace(extensions=_pairs(extensions()))


async def _also_extensions(answer: Awaitable[Any], provider: object) -> BearerToken:
    return _extended(token_from(await answer), provider)


def token_from(answer: object) -> BearerToken:
    """A callback's answer: the token alone, or with its expiry in seconds since 1970, principal and extensions."""
    match answer:
        case BearerToken():
            return answer
        case str(value):
            return BearerToken(Secret(value), expiry_of(value))
        case (str(value), int() | float() as expires_at):
            return BearerToken(Secret(value), float(expires_at))
        case (str(value), int() | float() as expires_at, _, Mapping() as extensions):
            return BearerToken(Secret(value), float(expires_at), _pairs(extensions))
    raise UsageError(
        f"the token callback returned {type(answer).__name__}: it is to return (token, expiry in seconds since 1970), "
        "or (token, expiry, principal, {extensions})"
    )


def _pairs(extensions: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), str(value)) for key, value in (extensions or {}).items())


def _imported(name: str) -> object:
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        raise UsageError(
            f"sasl.oauthbearer.callback={name} cannot be imported: give module:function, importable on every executor"
        ) from None


# -- AWS's signer


def aws_source(config: str) -> Source:
    """`config` is region=...,profile=... or region=...,role_arn=...,session_name=... The extra `aws` is needed."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    except ImportError:
        raise UsageError("aws_msk_iam needs a package: pip install 'equipoise[aws]'") from None
    options = dict(part.strip().split("=", 1) for part in config.split(",") if "=" in part)
    if not options.get("region"):
        raise UsageError("aws_msk_iam needs a region: sasl.oauthbearer.config=region=eu-west-1")

    def fetch() -> BearerToken:
        try:
            value, expires_at_ms = _signed(MSKAuthTokenProvider, options)
        except Exception as error:
            raise KafkaConnectionError(f"AWS's signer gave no token: {type(error).__name__}: {error}") from error
        return BearerToken(Secret(value), expires_at_ms / 1000)

    return fetch


def _signed(provider: Any, options: Mapping[str, str]) -> tuple[str, int]:
    region = options["region"]
    if profile := options.get("profile"):
        signed: tuple[str, int] = provider.generate_auth_token_from_profile(region, profile)
    elif role := options.get("role_arn"):
        session = options.get("session_name", "equipoise")
        signed = provider.generate_auth_token_from_role_arn(region, role, session)
    else:
        signed = provider.generate_auth_token(region)
    return signed


# -- a token endpoint (OIDC, client credentials)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the client's secret to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def fetch_token(oauth: OAuthConfig) -> BearerToken:
    """By the grant of client credentials (ClientSecretRequestFormatter). A file: URL is read anew each time.

    Retries what may pass: failures of the network, 429 and 5xx. AuthenticationError: the endpoint refuses."""
    url = oauth.token_endpoint_url
    if url.startswith("file:"):
        return _token_of_file(url)
    backoff, failures = Backoff(oauth.retry_backoff_ms, oauth.retry_backoff_max_ms), 0
    deadline = time.monotonic() + (oauth.connect_timeout_ms + oauth.read_timeout_ms) / 1000
    while True:
        try:
            return _answered(_post(oauth), url)
        except _Passing as error:
            failures += 1
            pause = backoff.pause(failures)
            if time.monotonic() + pause > deadline:
                raise KafkaConnectionError(f"the token endpoint {url} gives no token: {error}") from None
            time.sleep(pause)


class _Passing(Exception):
    """A failure that may pass."""


def _token_of_file(url: str) -> BearerToken:
    try:
        with urllib.request.urlopen(url) as file:  # the scheme is file: alone
            value = file.read(_LONGEST_ANSWER).decode().strip()
    except (OSError, ValueError) as error:
        raise KafkaConnectionError(f"the token file {url} cannot be read: {error}") from None
    return BearerToken(Secret(value), None)


def token_request(oauth: OAuthConfig) -> urllib.request.Request:
    """The request to the token endpoint: with id and secret, or with a signed assertion."""
    scope, headers = ({"scope": oauth.scope} if oauth.scope else {}), dict(_FORM)
    if oauth.assertion is not None:
        body = {"grant_type": JWT_BEARER, "assertion": make_assertion(oauth.assertion, int(time.time())), **scope}
    else:
        body = {"grant_type": "client_credentials", **scope}
        headers["Authorization"] = _basic(oauth)
    return urllib.request.Request(oauth.token_endpoint_url, urlencode(body).encode(), headers)


def _basic(oauth: OAuthConfig) -> str:
    names = (oauth.client_id, oauth.client_secret.reveal())
    name, secret = (quote(one, safe="") for one in names) if oauth.header_urlencode else names
    return "Basic " + b64encode(f"{name}:{secret}".encode()).decode()


def _post(oauth: OAuthConfig) -> bytes:
    url = oauth.token_endpoint_url
    https = urllib.request.HTTPSHandler(context=_https_context(oauth))
    try:
        opener = urllib.request.build_opener(https, _NoRedirects())
        with opener.open(
            token_request(oauth), timeout=max(oauth.connect_timeout_ms, oauth.read_timeout_ms) / 1000
        ) as got:
            answer: bytes = got.read(_LONGEST_ANSWER)
            return answer
    except urllib.error.HTTPError as error:
        with error:
            if error.code == _TOO_MANY_REQUESTS or error.code >= _FIRST_SERVER_ERROR:
                raise _Passing(f"HTTP status {error.code}") from None
            raise _refused(url, f"HTTP status {error.code}{_said(error)}") from None
    except UsageError:  # of the assertion
        raise
    except ValueError:
        raise UsageError(f"sasl.oauthbearer.token.endpoint.url={url} is no http or https URL") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise _refused(url, f"{reason.verify_message}; its authority goes into https.ca.location") from None
        raise _Passing(str(reason)) from None


def _https_context(oauth: OAuthConfig) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=oauth.https_ca_location or None, cadata=oauth.https_ca_pem or None)


def _said(error: urllib.error.HTTPError) -> str:
    """RFC 6749, 5.2: `error` and `error_description`."""
    try:
        told = json.loads(error.read(_LONGEST_ANSWER))
        parts = [str(told[key]) for key in ("error", "error_description") if told.get(key)]
    except (ValueError, AttributeError, TypeError, OSError, HTTPException):
        return ""
    return f" ({': '.join(parts)})" if parts else ""


def _answered(body: bytes, url: str) -> BearerToken:
    try:
        told = json.loads(body)
        value = told.get("access_token") or told.get("id_token")
    except (ValueError, AttributeError):
        value = None
    if not isinstance(value, str):
        raise _refused(url, f"its answer of {len(body)} bytes has neither access_token nor id_token")
    lasts = told.get("expires_in")
    expires_at = expiry_of(value)
    if expires_at is None and isinstance(lasts, int | float):
        expires_at = time.time() + lasts
    return BearerToken(Secret(value), expires_at)


def _refused(url: str, why: str) -> AuthenticationError:
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    advice = "check sasl.oauthbearer.client.id, .client.secret and .scope, or the assertion"
    return AuthenticationError(code, f"the token endpoint {url} refuses: {printable(why)}; {advice} ({code.name})")
