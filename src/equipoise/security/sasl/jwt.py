"""Tokens of OAUTHBEARER (JSON web tokens, RFC 7515 and 7519), validated as BrokerJwtValidator does.

Signatures are checked by the package `cryptography`, with public keys of the issuer alone: a token signed with a
public key as if it were a shared secret, or not signed at all, is refused by its algorithm.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from equipoise.security.sasl.mechanisms import Claims
from equipoise.wire.errors import UsageError

_MAX_HEADER = 8_192
_MAX_TOKEN = 65_536
_RSA, _PSS, _EC = ("RS256", "RS384", "RS512"), ("PS256", "PS384", "PS512"), ("ES256", "ES384", "ES512")
_CURVES = {"P-256": "SECP256R1", "P-384": "SECP384R1", "P-521": "SECP521R1"}
_CURVE_OF = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}


class TokenError(Exception):
    """The token is not valid. The text does not quote it."""


class UnknownKeyError(TokenError):
    """No key of this id is known: the issuer may have new ones."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must say (sasl.oauthbearer.*)."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    clock_skew_s: int = 30
    principal_claim: str = "sub"
    is_unsecured: bool = False  # tokens without signature, for tests


class Keys:
    """The issuer's public keys by their id, read from a JSON Web Key Set (RFC 7517)."""

    def __init__(self, document: str) -> None:
        try:
            found = json.loads(document)["keys"]
            self._keys = {str(key.get("kid", "")): key for key in found if key.get("kty") in ("RSA", "EC")}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise TokenError("the issuer's keys are no JSON Web Key Set") from None

    def __getitem__(self, kid: str) -> Any:
        """The public key. A set with one key needs no id."""
        found = self._keys.get(kid) or (next(iter(self._keys.values())) if not kid and len(self._keys) == 1 else None)
        if found is None:
            raise UnknownKeyError("no key of the issuer has the token's key id")
        return _public_key(found)


def validate(token: str, keys: Keys | None, rules: TokenRules, wall_time_ms: int) -> Claims:
    """Whose token it is, and how long it lasts. TokenError says why it is not valid."""
    header, payload, signed, signature = _parts(token)
    if rules.is_unsecured:
        if header.get("alg") != "none" or signature:
            raise TokenError("only tokens without signature are accepted here")
    else:
        _check_signature(header, signed, signature, keys)
    return _check_claims(payload, rules, wall_time_ms)


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    if len(token) > _MAX_TOKEN:
        raise TokenError(f"a token of {len(token)} characters; {_MAX_TOKEN} is the most")
    parts = token.split(".")
    if len(parts) != 3 or len(parts[0]) > _MAX_HEADER:
        raise TokenError("no JSON web token: header, payload and signature with dots between them")
    try:
        header, payload = (json.loads(_decoded(part)) for part in parts[:2])
        signature = _decoded(parts[2])
    except (ValueError, RecursionError):
        raise TokenError("header or payload is no JSON") from None
    if not isinstance(header, dict) or not isinstance(payload, dict):
        raise TokenError("header or payload is no JSON object")
    return header, payload, ".".join(parts[:2]).encode(), signature


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _check_signature(header: Mapping[str, Any], signed: bytes, signature: bytes, keys: Keys | None) -> None:
    from cryptography.exceptions import InvalidSignature

    algorithm = header.get("alg")
    if algorithm not in (*_RSA, *_PSS, *_EC):
        raise TokenError("the token's algorithm is not accepted: RS, PS or ES with 256, 384 or 512 is needed")
    if keys is None:
        raise UnknownKeyError("the issuer's keys are not known yet")
    if "crit" in header:
        raise TokenError("the token's header has a critical extension")
    try:
        _verify(algorithm, keys[str(header.get("kid") or "")], signed, signature)
    except InvalidSignature:
        raise TokenError("the signature is wrong") from None


def _verify(algorithm: str, key: Any, signed: bytes, signature: bytes) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

    digests: dict[str, hashes.HashAlgorithm] = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
    digest = digests[algorithm[2:]]
    if algorithm in _EC:
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != _CURVE_OF[algorithm]:
            raise TokenError("the key is not of the token's algorithm")
        half = (key.key_size + 7) // 8
        if len(signature) != 2 * half:
            raise TokenError("the signature has a wrong length")
        both = int.from_bytes(signature[:half]), int.from_bytes(signature[half:])
        key.verify(utils.encode_dss_signature(*both), signed, ec.ECDSA(digest))
    else:
        if not isinstance(key, rsa.RSAPublicKey):
            raise TokenError("the key is not of the token's algorithm")
        pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
        key.verify(signature, signed, pss if algorithm in _PSS else padding.PKCS1v15(), digest)


def _public_key(key: Mapping[str, Any]) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    def number(name: str) -> int:
        return int.from_bytes(_decoded(str(key[name])))

    try:
        if key["kty"] == "RSA":
            return rsa.RSAPublicNumbers(number("e"), number("n")).public_key()
        curve = getattr(ec, _CURVES[key["crv"]])()
        return ec.EllipticCurvePublicNumbers(number("x"), number("y"), curve).public_key()
    except (KeyError, ValueError, binascii.Error):
        raise TokenError("the issuer's key cannot be read") from None


def _check_claims(payload: Mapping[str, Any], rules: TokenRules, wall_time_ms: int) -> Claims:
    skew = rules.clock_skew_s * 1000
    expires, issued = _time(payload, "exp"), _time(payload, "iat", needed=not rules.is_unsecured)
    not_before = _time(payload, "nbf", needed=False)
    assert expires is not None
    if wall_time_ms >= expires + skew:
        raise TokenError("the token has expired")
    if not_before is not None and not_before > wall_time_ms + skew:
        raise TokenError("the token is not valid yet")
    if issued is not None and issued > wall_time_ms + skew:
        raise TokenError("the token was issued in the future")
    if rules.issuer is not None and payload.get("iss") != rules.issuer:
        raise TokenError("the token is of another issuer than sasl.oauthbearer.expected.issuer")
    audience = payload.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if rules.audiences and not set(map(str, audiences)) & set(rules.audiences):
        raise TokenError("the token is for another audience than sasl.oauthbearer.expected.audience")
    principal = payload.get(rules.principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise TokenError(f"the token has no claim {rules.principal_claim!r}")
    return Claims(principal, max(expires - wall_time_ms, 1))


def _time(payload: Mapping[str, Any], name: str, *, needed: bool = True) -> int | None:
    value = payload.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return int(value * 1000)
    if value is not None or needed:
        raise TokenError(f"the token's {name} is missing, or no time")
    return None


def require_cryptography() -> None:
    """UsageError: the package that checks signatures is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UsageError(
            "sasl.oauthbearer.jwks.endpoint.url needs the package cryptography: pip install 'equipoise[tls]'"
        ) from None
