"""Tokens of OAUTHBEARER: signatures, algorithms, claims (BrokerJwtValidator)."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from equipoise.security.sasl.jwt import Keys, TokenError, TokenRules, UnknownKeyError, validate
from tests.security.tokens import Issuer, claims, encoded, unsigned

NOW_S = 1_700_000_000
RULES = TokenRules(issuer="https://issuer", audiences=("kafka", "other"))


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def keys(issuer: Issuer) -> Keys:
    return Keys(issuer.key_set())


def check(token: str, keys: Keys | None, rules: TokenRules = RULES) -> tuple[str, int]:
    found = validate(token, keys, rules, NOW_S * 1000)
    return found.principal, found.lifetime_ms


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"])
def test_every_public_key_algorithm_is_verified(issuer: Issuer, keys: Keys, algorithm: str) -> None:
    token = issuer.token(claims(NOW_S), algorithm)
    assert check(token, keys) == ("alice", 600_000)
    head, _, signature = token.split(".")
    forged = f"{head}.{encoded(json.dumps(claims(NOW_S, sub='admin')).encode())}.{signature}"
    with pytest.raises(TokenError, match="signature is wrong"):
        check(forged, keys)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"exp": NOW_S - 31}, "expired"),
        ({"exp": None}, "exp is missing"),
        ({"exp": "tomorrow"}, "exp is missing, or no time"),
        ({"exp": True}, "exp is missing"),
        ({"iat": None}, "iat is missing"),
        ({"iat": NOW_S + 31}, "in the future"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"iss": "https://other"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "web"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"sub": None}, "no claim 'sub'"),
        ({"sub": " "}, "no claim 'sub'"),
        ({"sub": 7}, "no claim 'sub'"),
    ],
)
def test_a_claim_that_does_not_hold_refuses_the_token(
    issuer: Issuer, keys: Keys, change: dict[str, Any], why: str
) -> None:
    with pytest.raises(TokenError, match=why):
        check(issuer.token(claims(NOW_S, **change)), keys)


@pytest.mark.parametrize(
    "change", [{"exp": NOW_S - 29}, {"iat": NOW_S + 29}, {"nbf": NOW_S + 29}, {"aud": ["a", "other"]}]
)
def test_clocks_may_differ_and_one_audience_is_enough(issuer: Issuer, keys: Keys, change: dict[str, Any]) -> None:
    assert check(issuer.token(claims(NOW_S, **change)), keys)[0] == "alice"


def test_a_token_without_signature_is_refused(keys: Keys) -> None:
    with pytest.raises(TokenError, match="algorithm"):
        check(unsigned(claims(NOW_S)), keys)


def test_the_public_key_is_no_shared_secret(issuer: Issuer, keys: Keys) -> None:
    signed = (
        f"{encoded(json.dumps({'alg': 'HS256', 'kid': 'rsa'}).encode())}.{encoded(json.dumps(claims(NOW_S)).encode())}"
    )
    for secret in (issuer.key_set().encode(), b""):
        mac = hmac.digest(secret, signed.encode(), hashlib.sha256)
        with pytest.raises(TokenError, match="algorithm"):
            check(f"{signed}.{encoded(mac)}", keys)


@pytest.mark.parametrize(("algorithm", "kid"), [("RS256", "ES256"), ("ES256", "rsa"), ("ES256", "ES384")])
def test_the_key_must_be_of_the_algorithm(issuer: Issuer, keys: Keys, algorithm: str, kid: str) -> None:
    with pytest.raises(TokenError, match="key is not of"):
        check(issuer.token(claims(NOW_S), algorithm, kid=kid), keys)


def test_an_unknown_key_is_told_apart(issuer: Issuer, keys: Keys) -> None:
    with pytest.raises(UnknownKeyError):
        check(issuer.token(claims(NOW_S), kid="new"), keys)
    with pytest.raises(UnknownKeyError):
        check(issuer.token(claims(NOW_S)), None)


def test_a_critical_extension_is_refused(issuer: Issuer, keys: Keys) -> None:
    with pytest.raises(TokenError, match="critical"):
        check(issuer.token(claims(NOW_S), crit=["b64"]), keys)


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "x" * 70_000,
        f"{'e' * 9000}.e30.x",
        "e30.e30.e30.e30",
        "W10.W10.W10",
        "\u00e9.a.b",
        "[" * 900,
    ],
)
def test_what_is_no_token_is_refused_before_any_signature_work(token: str) -> None:
    with pytest.raises(TokenError):
        check(token, None)


def test_a_deeply_nested_payload_is_refused(keys: Keys) -> None:
    deep = encoded(b"[" * 40_000)
    with pytest.raises(TokenError):
        check(f"{encoded(b'{}')}.{deep}.", keys)


def test_unsecured_tokens_are_for_an_explicit_setting() -> None:
    rules = TokenRules(is_unsecured=True)
    assert check(unsigned(claims(NOW_S, iat=None)), None, rules)[0] == "alice"
    with pytest.raises(TokenError, match="without signature"):
        check(Issuer().token(claims(NOW_S)), None, rules)


@pytest.mark.parametrize("document", ["", "[]", "{}", '{"keys": 1}', '{"keys": [1]}'])
def test_what_is_no_key_set_is_refused(document: str) -> None:
    with pytest.raises(TokenError, match="Key Set"):
        Keys(document)
