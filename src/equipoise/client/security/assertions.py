"""Assertions of OAuth (RFC 7523): a client signs who it is, and the token endpoint gives a token for it.

The grant jwt-bearer needs no secret that the endpoint knows: it has the client's public key.
"""

from __future__ import annotations

import json
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.client.security.config import AssertionConfig
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_KEY = "sasl.oauthbearer.assertion.private.key"


def make_assertion(config: AssertionConfig, now: int) -> str:
    """A file has it ready, and is read anew each time; otherwise it is made of the claims, and signed.

    `now` is in seconds since 1970. UsageError: there is no key, or none of the algorithm's kind.
    """
    if config.file:
        return _read(f"sasl.oauthbearer.assertion.file={config.file}", config.file).decode().strip()
    header = {"alg": config.algorithm, "typ": "JWT"}
    signed = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(_claims(config, now)).encode())}"
    return f"{signed}.{_encoded(_sign(config, signed.encode()))}"


def _claims(config: AssertionConfig, now: int) -> dict[str, Any]:
    """As Java has them (DynamicAssertionCreator)."""
    claims: dict[str, Any] = {"iat": now, "exp": now + config.exp_seconds, "nbf": now - config.nbf_seconds}
    claims |= {name: value for name, value in (("aud", config.aud), ("iss", config.iss), ("sub", config.sub)) if value}
    if config.jti_include:
        claims["jti"] = str(uuid.uuid4())
    return claims


def _sign(config: AssertionConfig, data: bytes) -> bytes:
    key = _private_key(config)
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
    from cryptography.hazmat.primitives.hashes import SHA256

    if config.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), SHA256())
    if config.algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size == 256:
        r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
    raise UsageError(f"{_KEY} is no key for {config.algorithm}: RS256 needs an RSA key, ES256 one of the curve P-256")


def _private_key(config: AssertionConfig) -> PrivateKeyTypes:
    try:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise UsageError("a signed assertion needs the package cryptography: pip install 'equipoise[tls]'") from None
    pem = config.private_key_pem.reveal().encode()
    if not pem:
        pem = _read(f"{_KEY}.file={config.private_key_file}", config.private_key_file)
    passphrase = config.private_key_passphrase.reveal().encode() or None
    try:
        return load_pem_private_key(pem, passphrase)
    except (TypeError, ValueError):  # their words may quote the file
        raise UsageError(f"{_KEY} cannot be read: it is no PEM key, or {_KEY}.passphrase is missing or wrong") from None


def _read(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{setting} cannot be read: {error.strerror}") from None


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
