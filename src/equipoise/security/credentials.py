"""Users' SCRAM credentials: what a request describes, and which records it asks for (KIP-554).

The password never comes here: a client sends what PBKDF2 has made of it. Of that only StoredKey and ServerKey are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import new as new_hash

from equipoise.security.sasl.scram import HASHES, MIN_ITERATIONS, credential
from equipoise.security.state import ScramMechanism, SecurityState, check_count
from equipoise.wire.apis.k50_describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResult,
    UserName,
)
from equipoise.wire.apis.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.security_records import SecurityRecord, UserScramCredentialKey, UserScramCredentialValue

MAX_ITERATIONS = 16_384  # ScramControlManager: a server must not be made to work long for a login


def describe(
    state: SecurityState, users: Sequence[UserName] | None
) -> Iterator[DescribeUserScramCredentialsResult | None]:
    """Mechanisms and iterations of each user, without salt or keys. No names ask for all (ScramImage.describe).

    Between two of them the caller may do something else; None is a user that was removed meanwhile."""
    if not users:
        return (_described(state, name) if name in state.users else None for name in sorted(state.users))
    return (
        _described(state, name)
        if count == 1
        else _not_described(name, ErrorCode.DUPLICATE_RESOURCE, f"user {name!r} is named twice in the request")
        for name, count in Counter(one.name for one in users).items()
    )


def _described(state: SecurityState, name: str) -> DescribeUserScramCredentialsResult:
    if name not in state.users:
        return _not_described(name, ErrorCode.RESOURCE_NOT_FOUND, f"user {name!r} has no SCRAM credential")
    infos = [CredentialInfo(mechanism=kind, iterations=one.iterations) for kind, one in state.users[name].items()]
    infos.sort(key=lambda info: info.mechanism)
    return DescribeUserScramCredentialsResult(user=name, error_code=ErrorCode.NONE, credential_infos=infos)


def _not_described(name: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message, credential_infos=[])


Change = ScramCredentialDeletion | ScramCredentialUpsertion


class Alteration:
    """What becomes of one AlterUserScramCredentials: the records to write, and each user's result.

    Results are in Kafka's order: deletions, upsertions, errors (ScramControlManager.alterCredentials)."""

    def __init__(self, state: SecurityState, request: AlterUserScramCredentialsRequest) -> None:
        self._state = state
        self._changes: dict[str, Change] = {}
        self._errors: dict[str, KafkaError] = {}
        changes = _changes(request)
        check_count(len(changes))
        for change in changes:
            self._add(change)
        self.records = [_record(change) for change in self._changes.values()]

    def _add(self, change: Change) -> None:
        """A user that is named twice keeps what it has, and a user's first error stands."""
        if change.name in self._errors:
            return
        try:
            if self._changes.pop(change.name, None) is not None:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"user {change.name!r} is changed twice in the request")
            _check(self._state, change)
            self._changes[change.name] = change
        except KafkaError as error:
            self._errors[change.name] = error

    def results(self) -> list[AlterUserScramCredentialsResult]:
        """The answer when the records are durable."""
        done = [_result(name, None) for name in self._changes]
        return done + [_result(name, error) for name, error in self._errors.items()]


def refused(request: AlterUserScramCredentialsRequest, error: KafkaError) -> list[AlterUserScramCredentialsResult]:
    """The same error for every user of the request."""
    names = dict.fromkeys(change.name for change in _changes(request))
    return [_result(name, error) for name in names]


def _changes(request: AlterUserScramCredentialsRequest) -> list[Change]:
    return [*request.deletions, *request.upsertions]


def _result(name: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=name, error_code=ErrorCode.NONE)
    return AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=str(error))


def _check(state: SecurityState, change: Change) -> None:
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user needs a name")
    if change.mechanism not in list(ScramMechanism):
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{change.mechanism} is no SCRAM mechanism: 1 or 2 is")
    if isinstance(change, ScramCredentialUpsertion):
        _check_upsertion(change)
    elif change.mechanism not in state.users.get(change.name, {}):
        name = ScramMechanism(change.mechanism).mechanism_name
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"user {change.name!r} has no credential of {name}")


def _check_upsertion(change: ScramCredentialUpsertion) -> None:
    """Kafka does not look at the length of the salted password; one of another length can belong to no password."""
    if change.iterations < MIN_ITERATIONS:
        why = f"Too few iterations: {change.iterations} are less than {MIN_ITERATIONS}"
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)
    if change.iterations > MAX_ITERATIONS:
        why = f"Too many iterations: {change.iterations} are more than {MAX_ITERATIONS}"
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)
    size = new_hash(HASHES[ScramMechanism(change.mechanism).mechanism_name]).digest_size
    if len(change.salted_password) != size:
        why = f"a salted password of {len(change.salted_password)} bytes; the mechanism's has {size}"
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)


def _record(change: Change) -> SecurityRecord:
    if isinstance(change, ScramCredentialDeletion):
        return SecurityRecord(UserScramCredentialKey(name=change.name, mechanism=change.mechanism), None)
    mechanism = ScramMechanism(change.mechanism)
    return scram_record(change.name, mechanism, change.salted_password, salt=change.salt, iterations=change.iterations)


def scram_record(
    name: str, mechanism: ScramMechanism, salted_password: bytes, *, salt: bytes, iterations: int
) -> SecurityRecord:
    """What is kept of a salted password (ScramControlManager.finishUpsertion)."""
    kept = credential(mechanism.mechanism_name, salted_password, salt, iterations)
    key = UserScramCredentialKey(name=name, mechanism=mechanism)
    return SecurityRecord(key, UserScramCredentialValue(**kept._asdict()))
