"""The server's side of the SASL mechanisms PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.

A mechanism is a state machine: a token of the client goes in, a `Step` comes out. Work that takes long, or that needs
a network, comes out as a question: a password against a slow hash, a token against the keys of its issuer. Whoever
runs the mechanism finds the answer and hands it to `answered`.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from equipoise.security.sasl.scram import (
    HASHES,
    MIN_ITERATIONS,
    ClientFinal,
    ClientFirst,
    ScramCredential,
    ScramMessageError,
    ServerFinal,
    ServerFirst,
    auth_message,
    escaped,
    is_proof,
    server_signature,
)
from equipoise.security.secrets import Secret

MECHANISMS = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
_INVALID = "Authentication failed: Invalid username or password"
_OTHER_ID = "Authentication failed: Client requested an authorization id that is different from username"


class Challenge(NamedTuple):
    """The exchange goes on: the client gets `data`."""

    data: bytes


class Success(NamedTuple):
    """The client is `username`."""

    username: str
    data: bytes = b""
    lifetime_ms: int | None = None  # of the credential; None: it does not expire


class Failure(NamedTuple):
    """The client is not believed. `reason` is for the log. `message` is for the client; None: a general sentence."""

    reason: str
    message: str | None = None


class PasswordQuestion(NamedTuple):
    """Is this the password of this user? The answer is a bool."""

    username: str
    password: Secret


class TokenQuestion(NamedTuple):
    """Whose token is this? The answer is `Claims` or a `TokenRefusal`."""

    token: Secret


class Claims(NamedTuple):
    """What a valid token says."""

    principal: str
    lifetime_ms: int


class TokenRefusal(NamedTuple):
    """Why a token is not valid. `reason` is for the log alone."""

    reason: str


Question = PasswordQuestion | TokenQuestion
Answer = bool | Claims | TokenRefusal
Step = Challenge | Success | Failure | Question


class Mechanism(Protocol):
    """One exchange."""

    def evaluate(self, token: bytes) -> Step:
        """What the client's token leads to."""
        ...

    def answered(self, answer: Answer) -> Step:
        """What the answer to the last question leads to."""
        ...


class Plain:
    """RFC 4616 as PlainSaslServer has it: one token with authorization id, user name and password."""

    def __init__(self) -> None:
        self._username = ""

    def evaluate(self, token: bytes) -> Step:
        """Asks whether the password is right."""
        try:
            parts = token.decode().split("\0", 3)
        except UnicodeDecodeError:
            return Failure("the token is not UTF-8")
        if len(parts) != 3:
            message = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            return Failure(message, message)
        authorization_id, username, password = parts
        if not username or not password:
            missing = "username" if not username else "password"
            return Failure(f"{missing} not specified", f"Authentication failed: {missing} not specified")
        self._username = username
        if authorization_id and authorization_id != username:
            return Failure("an authorization id that is not the user name", _OTHER_ID)
        return PasswordQuestion(username, Secret(password))

    def answered(self, answer: Answer) -> Step:
        """The same failure for an unknown user and for a wrong password."""
        return Success(self._username) if answer is True else Failure("wrong user or password", _INVALID)


class Scram:
    """RFC 5802 as ScramSaslServer has it.

    An unknown user gets a salt too, always the same, and fails at the proof: nobody learns which users exist.
    """

    def __init__(
        self,
        mechanism: str,
        credentials: Callable[[str, str], ScramCredential | None],
        nonce: str,
        server_secret: bytes,
    ) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._nonce = nonce
        self._server_secret = server_secret
        self._first: ClientFirst | None = None
        self._reply = ServerFirst("", b"", 0)
        self._credential: ScramCredential | None = None

    def evaluate(self, token: bytes) -> Step:
        """The client's first message, then its proof."""
        try:
            return self._begin(ClientFirst.parse(token)) if self._first is None else self._end(ClientFinal.parse(token))
        except ScramMessageError as error:
            return Failure(str(error))

    def answered(self, answer: Answer) -> Step:
        """SCRAM asks nothing."""
        raise AssertionError("SCRAM asks nothing")

    def _begin(self, first: ClientFirst) -> Step:
        if first.authorization_id and first.authorization_id != first.username:
            return Failure("an authorization id that is not the user name", _OTHER_ID)
        self._first = first
        self._credential = None if first.is_tokenauth else self._credentials(first.username, self._mechanism)
        shown = self._credential or self._unknown(first.username)
        self._reply = ServerFirst(first.nonce + self._nonce, shown.salt, shown.iterations)
        return Challenge(self._reply.encode())

    def _unknown(self, username: str) -> ScramCredential:
        salt = own_salt(self._server_secret, username)
        return ScramCredential(salt, hmac.digest(salt, b"", HASHES[self._mechanism]), b"", MIN_ITERATIONS)

    def _end(self, final: ClientFinal) -> Step:
        first = self._first
        assert first is not None
        auth = auth_message(first.bare, self._reply.encode(), final.without_proof)
        found = self._credential or self._unknown(first.username)
        is_proven = is_proof(self._mechanism, found.stored_key, final.proof, auth)
        if final.nonce != self._reply.nonce:
            return Failure("a nonce that is not ours")
        if final.channel_binding != _gs2_header(first):
            return Failure("a channel binding that is not the client's own")
        if self._credential is None:
            return Failure(f"{self._mechanism} knows no such user")
        if not is_proven:
            return Failure("wrong password")
        return Success(first.username, ServerFinal(server_signature(self._mechanism, found.server_key, auth)).encode())


def own_salt(server_secret: bytes, username: str) -> bytes:
    """A salt that stays the same for a user, without being kept."""
    return hmac.digest(server_secret, username.encode(), "sha256")[:16]


def _gs2_header(first: ClientFirst) -> bytes:
    return f"n,{'a=' + escaped(first.authorization_id) if first.authorization_id else ''},".encode()


# OAuthBearerClientInitialResponse: "n," authzid "," ^A key=value ^A ... ^A
_SASLNAME = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_PAIR = r"[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01"
_BEARER_FIRST = re.compile(rf"n,(?:a=({_SASLNAME}))?,\x01((?:{_PAIR})*)\x01")
_BEARER = re.compile(r"(\w+) +([-_.a-zA-Z0-9]+)", re.ASCII)


class OAuthBearer:
    """RFC 7628 as OAuthBearerSaslServer has it: a token, and for a refused one a document and a last round."""

    def __init__(self) -> None:
        self._authorization_id = ""
        self._error: str | None = None

    def evaluate(self, token: bytes) -> Step:
        """Asks whose token it is. After a refusal any reply of the client ends the exchange."""
        if self._error is not None:
            return Failure("the token is not valid", self._error)
        found = _BEARER_FIRST.fullmatch(token.decode("latin-1"))
        if found is None:
            return Failure("no first message of OAUTHBEARER")
        pairs = dict(pair.split("=", 1) for pair in found[2].split("\x01") if pair)
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if bearer is None or bearer[1].lower() != "bearer":
            return Failure("no bearer token")
        self._authorization_id = found[1] or ""
        return TokenQuestion(Secret(bearer[2]))

    def answered(self, answer: Answer) -> Step:
        """A refused token leads to a challenge: the error itself follows when the client has read it."""
        if not isinstance(answer, Claims):
            self._error = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return Challenge(self._error.encode())
        if self._authorization_id and self._authorization_id != answer.principal:
            return Failure("an authorization id that is not the token's principal", _OTHER_ID)
        return Success(answer.principal, lifetime_ms=answer.lifetime_ms)
