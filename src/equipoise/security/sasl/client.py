"""The client's side of the SASL mechanisms, each a small state machine: `first()`, then `step` for each challenge.

A mechanism is done when the server has proved what the mechanism lets it prove. Until then a success that the server
announces is worth nothing: a driver asks `is_done`. Nothing here reads a clock or draws a number: the nonce is given.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Mapping
from typing import Protocol

from equipoise.security.sasl.scram import (
    MIN_ITERATIONS,
    ClientFinal,
    ClientFirst,
    ClientKeys,
    ScramMessageError,
    ServerFinal,
    ServerFirst,
    auth_message,
    client_proof,
    server_signature,
    without_proof,
)
from equipoise.wire.errors import ProtocolError, UsageError

MAX_ITERATIONS = 1_000_000  # beyond it a hostile broker burns the client's time (kafka-python has the same bound)
KeysOf = Callable[[str, bytes, int], ClientKeys]  # of mechanism, salt and iterations

_EXTENSION_KEY = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")


class SaslServerError(ProtocolError):
    """The server breaks the mechanism's rules, or cannot prove that it knows the password."""


class SaslClient(Protocol):
    """One exchange."""

    @property
    def mechanism(self) -> str:
        """Its name in SaslHandshake."""

    @property
    def is_done(self) -> bool:
        """Whether the exchange has succeeded."""

    @property
    def refusal(self) -> str:
        """What the server has said of a refusal inside the mechanism."""

    def first(self) -> bytes:
        """The first token."""

    def step(self, challenge: bytes) -> bytes | None:
        """The answer to the server's token; None: there is nothing more to say."""

    def is_slow(self, challenge: bytes) -> bool:
        """Whether `step` would compute for longer than a loop may wait."""


class PlainClient:
    """PLAIN (RFC 4616): name and password as they are. The authorization id stays empty, as Java leaves it."""

    mechanism, refusal = "PLAIN", ""

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise UsageError("sasl.username and sasl.password cannot hold a NUL character with PLAIN")
        self._token = f"\0{username}\0{password}".encode()
        self.is_done = False

    def first(self) -> bytes:
        """Name and password."""
        return self._token

    def step(self, challenge: bytes) -> bytes | None:
        """The server has accepted them."""
        self.is_done = True
        return None

    def is_slow(self, challenge: bytes) -> bool:
        """Nothing is computed."""
        return False


class ScramClient:
    """SCRAM-SHA-256 or -512: the password never leaves this side, and the server proves that it has its hash."""

    refusal = ""

    def __init__(self, mechanism: str, username: str, nonce: str, keys_of: KeysOf, *, tokenauth: bool = False) -> None:
        self.mechanism = mechanism
        self._first = ClientFirst.make(username, nonce, tokenauth=tokenauth)
        self._keys_of = keys_of
        self._signature: bytes | None = None  # what the server must send
        self.is_done = False

    def first(self) -> bytes:
        """The name and the nonce."""
        return self._first.encode()

    def step(self, challenge: bytes) -> bytes | None:
        """SaslServerError: the server's message is none, is dangerous, or proves the wrong password."""
        try:
            if self._signature is None:
                return self._final(challenge)
            self._check(challenge, self._signature)
        except ScramMessageError as error:
            raise SaslServerError(str(error)) from None
        return None

    def is_slow(self, challenge: bytes) -> bool:
        """Whether the password is to be salted: about a millisecond for 4096 iterations."""
        return self._signature is None

    def _final(self, challenge: bytes) -> bytes:
        server = ServerFirst.parse(challenge)
        check_server_first(self._first.nonce, server)
        unsigned = without_proof(server.nonce)
        auth = auth_message(self._first.bare, challenge, unsigned)
        keys = self._keys_of(self.mechanism, server.salt, server.iterations)
        self._signature = server_signature(self.mechanism, keys.server_key, auth)
        return ClientFinal(b"", server.nonce, client_proof(self.mechanism, keys, auth), unsigned).encode()

    def _check(self, challenge: bytes, expected: bytes) -> None:
        final = ServerFinal.parse(challenge)
        if final.error:
            raise SaslServerError(f"the server refuses: {final.error}")
        if self.is_done or not hmac.compare_digest(final.signature, expected):
            raise SaslServerError(
                "the server's signature is wrong: it does not know the password of this user, "
                "so it may not be the broker that it claims to be"
            )
        self.is_done = True


def check_server_first(nonce: str, server: ServerFirst) -> None:
    """SaslServerError: the server repeats an exchange, asks for a hash that can be guessed, or for endless work."""
    if not server.nonce.startswith(nonce) or server.nonce == nonce:
        raise SaslServerError("the server's nonce does not continue the client's: the exchange may be a recorded one")
    if server.iterations < MIN_ITERATIONS:
        raise SaslServerError(
            f"the server asks for {server.iterations} iterations, {MIN_ITERATIONS} is the least: "
            "a password hashed so little could be guessed"
        )
    if server.iterations > MAX_ITERATIONS:
        raise SaslServerError(f"the server asks for {server.iterations} iterations, {MAX_ITERATIONS} is the most")
    if not server.salt:
        raise SaslServerError("the server sent an empty salt")


class OAuthBearerClient:
    """OAUTHBEARER (RFC 7628): a token, and extensions that some clouds need.

    A server that refuses the token says why in JSON. It expects one byte before it ends the exchange."""

    mechanism = "OAUTHBEARER"

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        check_extensions(extensions or {})
        pairs = [f"auth=Bearer {token}", *(f"{key}={value}" for key, value in (extensions or {}).items())]
        self._token = ("n,,\x01" + "".join(pair + "\x01" for pair in pairs) + "\x01").encode()
        self.is_done = False
        self.refusal = ""

    def first(self) -> bytes:
        """The token."""
        return self._token

    def step(self, challenge: bytes) -> bytes | None:
        """Nothing: the token is accepted. JSON: it is not."""
        if self.refusal:
            raise SaslServerError(f"the server goes on after it has refused the token ({self.refusal})")
        if not challenge:
            self.is_done = True
            return None
        self.refusal = _refusal(challenge)
        return b"\x01"

    def is_slow(self, challenge: bytes) -> bool:
        """Nothing is computed."""
        return False


def check_extensions(extensions: Mapping[str, str]) -> None:
    """As OAuthBearerClientInitialResponse.validateExtensions. The message has no value: it may be a secret."""
    for key, value in extensions.items():
        if key == "auth" or not _EXTENSION_KEY.fullmatch(key):
            raise UsageError(f"{key!r} is no name of a SASL extension: letters only, and not 'auth'")
        if not _EXTENSION_VALUE.fullmatch(value):
            raise UsageError(f"the SASL extension {key} has a character that is not printable ASCII, or no value")


def _refusal(challenge: bytes) -> str:
    """The fields of the server's JSON (RFC 7628, 3.2.2) in one line."""
    try:
        told = json.loads(challenge)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return f"an answer of {len(challenge)} bytes that is no JSON"
    named = [f"{key}={told[key]}" for key in ("status", "scope", "openid-configuration") if told.get(key)]
    return ", ".join(named) or "no reason given"
