"""Answers the questions of SASL mechanisms: whose password is this, whose token is this.

A password that is kept as a slow hash is checked on a thread. So is a token whose issuer's keys are not known yet.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

from equipoise.broker.clock import Clock
from equipoise.broker.security.token_keys import TokenValidator
from equipoise.security.sasl.mechanisms import Answer, Claims, PasswordQuestion, Question, TokenQuestion, TokenRefusal
from equipoise.security.sasl.scram import MIN_ITERATIONS, ScramCredential
from equipoise.security.secrets import Secret
from equipoise.security.users import ScramCredentials, Users, is_password, verifies
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

_THREADS = 2
_MOST_WAITING = 1_000
_REMEMBERED_MS = 300_000
_LOOK_AGAIN_MS = 1_000
_NOBODY = ScramCredential(b"nobody's salt...", bytes(32), bytes(32), MIN_ITERATIONS)


class UsersSource(Protocol):
    """Users that may change."""

    @property
    def current(self) -> Users:
        """The users as they are now."""
        ...


class FixedUsers:
    """Users of a setting."""

    def __init__(self, users: Users) -> None:
        self.current = users


class _Stamp(NamedTuple):
    """By which a changed file is known."""

    mtime_ns: int
    size: int
    inode: int


class UsersFile:
    """`sasl.users.file`: looked at again, at most once a second, when a user is looked up."""

    def __init__(self, path: Path, server_secret: bytes, clock: Clock) -> None:
        self._path = path
        self._server_secret = server_secret
        self._clock = clock
        self._looked = clock.now()
        self._seen = self._stamp()
        self._users = self._read()
        if self._path.stat().st_mode & 0o004:
            log.warning("%s: everybody on this machine can read it: chmod 600", self._path)

    @property
    def current(self) -> Users:
        """A file that cannot be read, or has a mistake, leaves the users as they were."""
        if self._clock.now() - self._looked >= _LOOK_AGAIN_MS:
            self.look()
        return self._users

    def look(self) -> None:
        """Reads the file if it has changed. An empty one is about to be written."""
        self._looked, stamp = self._clock.now(), self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            if stamp is not None and not stamp.size:
                raise UsageError(f"sasl.users.file: {self._path} is empty")
            self._users = self._read()
            log.warning("%s was read again: %d users", self._path, len(self._users))
        except UsageError as error:
            log.error("%s; the users stay as they were", error)

    def _stamp(self) -> _Stamp | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return _Stamp(found.st_mtime_ns, found.st_size, found.st_ino)

    def _read(self) -> Users:
        try:
            return Users.parse(self._path.read_text(encoding="utf-8"), self._server_secret)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"sasl.users.file: {self._path} cannot be read: {error}") from None
        except UsageError as error:
            raise UsageError(f"sasl.users.file: {self._path}: {error}") from None


class PasswordThreads:
    """Slow checks of passwords, shared by all listeners. It remembers the last good password of a user as a digest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="equipoise-login")
        self._waiting = 0
        self._good: dict[tuple[str, ScramCredential], tuple[bytes, int]] = {}

    def remembers(self, user: str, kept: ScramCredential, password: Secret) -> bool:
        """Whether this was the password some minutes ago, and what is kept of it has not changed."""
        digest, when = self._good.get((user, kept), (b"", 0))
        is_same = hmac.compare_digest(digest, sha256(password.reveal().encode()).digest())
        return is_same and self._clock.now() - when < _REMEMBERED_MS

    def check(
        self, question: PasswordQuestion, mechanism: str, kept: ScramCredential, then: Callable[[bool], None]
    ) -> bool:
        """Calls `then` on the loop. False: too many wait."""
        if self._waiting >= _MOST_WAITING:
            return False
        self._waiting += 1
        user, password = question
        future = asyncio.get_running_loop().run_in_executor(self._threads, verifies, mechanism, kept, password)

        def done(found: asyncio.Future[bool]) -> None:
            self._waiting -= 1
            if found.cancelled():
                return
            if found.result():
                self._good[user, kept] = sha256(password.reveal().encode()).digest(), self._clock.now()
            then(found.result())

        future.add_done_callback(done)
        return True

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Logins:
    """What a listener knows of users and tokens."""

    def __init__(
        self,
        sources: Sequence[UsersSource],
        stores: Sequence[ScramCredentials],
        threads: PasswordThreads,
        tokens: TokenValidator | None,
    ) -> None:
        self._sources = sources
        self._stores = stores
        self._threads = threads
        self._tokens = tokens

    def credentials(self, user: str, mechanism: str) -> ScramCredential | None:
        """What SCRAM authenticates the user by: the first that is found."""
        for store in (*(source.current for source in self._sources), *self._stores):
            found = store.credentials(user, mechanism)
            if found is not None:
                return found
        return None

    def answer_now(self, question: Question) -> Answer | None:
        """The answer, if it takes no time."""
        if isinstance(question, TokenQuestion):
            return self._validate(question.token)
        users = [source.current for source in self._sources]
        for known in users:
            expected = known.password(question.username)
            if expected is not None:
                return is_password(expected, question.password)
        slow = self._slow(question)
        if slow is not None:
            return True if self._threads.remembers(question.username, slow[1], question.password) else None
        return None if any(known.has_verifiers for known in users) else is_password(None, question.password)

    def answer_later(self, question: Question, then: Callable[[Answer], None]) -> bool:
        """Calls `then` with the answer. False: too much work waits. An unknown user takes as long as a known one."""
        if isinstance(question, TokenQuestion):
            assert self._tokens is not None
            self._tokens.refresh(lambda: then(self._validate(question.token) or TokenRefusal("no keys of the issuer")))
            return True
        slow = self._slow(question)
        mechanism, kept = slow or ("SCRAM-SHA-256", _NOBODY)
        return self._threads.check(question, mechanism, kept, lambda is_right: then(is_right and slow is not None))

    def _slow(self, question: PasswordQuestion) -> tuple[str, ScramCredential] | None:
        found = (source.current.verifier(question.username) for source in self._sources)
        return next((one for one in found if one is not None), None)

    def _validate(self, token: Secret) -> Claims | TokenRefusal | None:
        return TokenRefusal("no validator") if self._tokens is None else self._tokens.validate(token)
