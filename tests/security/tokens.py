"""Tokens for tests: an issuer with keys of every kind, and its JSON Web Key Set."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

_DIGESTS: dict[str, hashes.HashAlgorithm] = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8))


def claims(now_s: float, **more: Any) -> dict[str, Any]:
    """Valid ones, with changes; a claim of None is left out."""
    made = {"sub": "alice", "iss": "https://issuer", "aud": "kafka", "iat": now_s - 1, "exp": now_s + 600, **more}
    return {name: value for name, value in made.items() if value is not None}


def unsigned(payload: dict[str, Any]) -> str:
    return f"{encoded(json.dumps({'alg': 'none'}).encode())}.{encoded(json.dumps(payload).encode())}."


class Issuer:
    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.curves = {
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "ES384": ec.generate_private_key(ec.SECP384R1()),
            "ES512": ec.generate_private_key(ec.SECP521R1()),
        }

    def key_set(self) -> str:
        public = self.rsa.public_key().public_numbers()
        keys = [{"kty": "RSA", "kid": "rsa", "n": number(public.n), "e": number(public.e)}]
        for name, key in self.curves.items():
            point = key.public_key().public_numbers()
            curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[name]
            keys.append({"kty": "EC", "kid": name, "crv": curve, "x": number(point.x), "y": number(point.y)})
        return json.dumps({"keys": keys})

    def token(self, payload: dict[str, Any], algorithm: str = "RS256", **header: Any) -> str:
        kid = algorithm if algorithm in self.curves else "rsa"
        head = {"alg": algorithm, "kid": kid, **header}
        signed = f"{encoded(json.dumps(head).encode())}.{encoded(json.dumps(payload).encode())}"
        return f"{signed}.{encoded(self.sign(algorithm, signed.encode()))}"

    def sign(self, algorithm: str, data: bytes) -> bytes:
        digest = _DIGESTS[algorithm[2:]]
        if algorithm in self.curves:
            key = self.curves[algorithm]
            r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(digest)))
            size = (key.key_size + 7) // 8
            return r.to_bytes(size) + s.to_bytes(size)
        pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
        return self.rsa.sign(data, pss if algorithm.startswith("PS") else padding.PKCS1v15(), digest)
