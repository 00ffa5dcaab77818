"""Users of a broker: a file of them, and Kafka's `user_NAME` options of PlainLoginModule.

    alice:SCRAM-SHA-256$4096:<salt>$<stored key>:<server key>
    bob:plain:<password>

The first notation is PostgreSQL's: it lets a user log in and does not hold the password. A user may have a line for
each mechanism. Empty lines and those that begin with `#` are skipped.
"""

from __future__ import annotations

import binascii
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Protocol

from equipoise.security.sasl.mechanisms import own_salt
from equipoise.security.sasl.scram import MIN_ITERATIONS, ScramCredential, client_keys, credential, salted_password
from equipoise.security.secrets import Secret
from equipoise.wire.errors import UsageError

_LINE = re.compile(r"(?P<name>.+?):(?:plain:(?P<password>.+)|(?P<mechanism>SCRAM-SHA-(?:256|512))\$(?P<verifier>.+))")
_VERIFIER = re.compile(r"([0-9]{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
_DIGEST_SIZES = {"SCRAM-SHA-256": 32, "SCRAM-SHA-512": 64}
_NOTATIONS = "write name:plain:password or name:SCRAM-SHA-256$iterations:salt$storedkey:serverkey"


class ScramCredentials(Protocol):
    """Where SCRAM looks a user up."""

    def credentials(self, user: str, mechanism: str) -> ScramCredential | None:
        """What is kept of the user for this mechanism; None: nothing."""
        ...


class Users:
    """The users of a file, or of a setting. `server_secret` gives their salts to those who have a password."""

    def __init__(self, server_secret: bytes) -> None:
        self._server_secret = server_secret
        self._passwords: dict[str, Secret] = {}
        self._verifiers: dict[tuple[str, str], ScramCredential] = {}
        self._derived: dict[tuple[str, str], ScramCredential] = {}

    def __len__(self) -> int:
        return len({*self._passwords, *(name for name, _ in self._verifiers)})

    @classmethod
    def parse(cls, text: str, server_secret: bytes) -> Users:
        """The users of a file. UsageError names the line, and not what stands there."""
        users = cls(server_secret)
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                users._add_line(line, number)
        return users

    def add(self, name: str, password: Secret) -> None:
        """A user with a password, for PLAIN and for SCRAM."""
        self._passwords[name] = password

    def _add_line(self, line: str, number: int) -> None:
        found = _LINE.fullmatch(line)
        if found is None:
            raise UsageError(f"line {number}: no user: {_NOTATIONS}")
        name, mechanism = found["name"], found["mechanism"]
        is_known = (name, mechanism) in self._verifiers if mechanism else name in self._passwords
        if is_known:
            raise UsageError(f"line {number}: the user has a line before: leave one out")
        if mechanism is None:
            self.add(name, Secret(found["password"]))
        else:
            self._verifiers[name, mechanism] = _verifier(mechanism, found["verifier"], number)

    def credentials(self, user: str, mechanism: str) -> ScramCredential | None:
        """Of a user who has only a password they are made at the first login: that takes a millisecond."""
        found = self._verifiers.get((user, mechanism)) or self._derived.get((user, mechanism))
        password = self._passwords.get(user)
        if found is None and password is not None:
            salt = own_salt(self._server_secret, user)
            salted = salted_password(mechanism, password.reveal().encode(), salt, MIN_ITERATIONS)
            found = self._derived[user, mechanism] = credential(mechanism, salted, salt, MIN_ITERATIONS)
        return found

    def password(self, user: str) -> Secret | None:
        """The password itself, where it is kept."""
        return self._passwords.get(user)

    def verifier(self, user: str) -> tuple[str, ScramCredential] | None:
        """A mechanism and what is kept of the user for it, where the password is not."""
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            if (user, mechanism) in self._verifiers:
                return mechanism, self._verifiers[user, mechanism]
        return None

    @property
    def has_verifiers(self) -> bool:
        """Whether some password is kept as a slow hash only."""
        return bool(self._verifiers)


def users_of_options(options: Mapping[str, str], server_secret: bytes) -> Users:
    """Kafka's way: `user_alice="password"` among the options of PlainLoginModule (PlainServerCallbackHandler)."""
    users = Users(server_secret)
    for option, value in options.items():
        if option.startswith("user_"):
            users.add(option.removeprefix("user_"), Secret(value))
    return users


def line_of(name: str, mechanism: str, kept: ScramCredential) -> str:
    """A user's line in the file."""
    salt, stored, server = (b64encode(part).decode() for part in (kept.salt, kept.stored_key, kept.server_key))
    return f"{name}:{mechanism}${kept.iterations}:{salt}${stored}:{server}"


def is_password(expected: Secret | None, password: Secret) -> bool:
    """Compares in the same time, whether the user exists or not and however long the password is."""
    digests = [sha256(text.reveal().encode()).digest() for text in (expected or Secret(), password)]
    return hmac.compare_digest(*digests) and expected is not None


def verifies(mechanism: str, kept: ScramCredential, password: Secret) -> bool:
    """Whether the password is the one of which this is kept. It takes long: not for the loop."""
    salted = salted_password(mechanism, password.reveal().encode(), kept.salt, kept.iterations)
    return hmac.compare_digest(client_keys(mechanism, salted).stored_key, kept.stored_key)


def _verifier(mechanism: str, text: str, number: int) -> ScramCredential:
    found = _VERIFIER.fullmatch(text)
    try:
        iterations, *parts = found.groups() if found else ("0",)
        salt, stored, server = (b64decode(part, validate=True) for part in parts)
    except (binascii.Error, ValueError):
        raise UsageError(f"line {number}: no SCRAM verifier: {_NOTATIONS}") from None
    if int(iterations) < MIN_ITERATIONS:
        raise UsageError(f"line {number}: {iterations} iterations are too few: {MIN_ITERATIONS} is the least")
    if {len(stored), len(server)} != {_DIGEST_SIZES[mechanism]}:
        raise UsageError(f"line {number}: a key of {mechanism} has {_DIGEST_SIZES[mechanism]} bytes")
    return ScramCredential(salt, stored, server, int(iterations))
