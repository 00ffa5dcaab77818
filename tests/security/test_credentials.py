"""AlterUserScramCredentials and DescribeUserScramCredentials, pure (ScramControlManager, ScramImage)."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.security.credentials import Alteration, describe
from equipoise.security.sasl.scram import credential, salted_password
from equipoise.security.state import SecurityState
from equipoise.wire.apis.k50_describe_user_scram_credentials import UserName
from equipoise.wire.apis.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from equipoise.wire.errors import ErrorCode

DIGEST = {1: 32, 2: 64}


def upsertion(name: str = "alice", mechanism: int = 1, iterations: int = 4096, **values: Any) -> Any:
    usual = {"salt": b"salt", "salted_password": b"p" * DIGEST.get(mechanism, 32)}
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=iterations, **(usual | values))


def deletion(name: str = "alice", mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(state: SecurityState, *changes: Any) -> list[tuple[str, ErrorCode]]:
    """Applies, as the broker does when the records are durable."""
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    alteration = Alteration(state, request)
    for record in alteration.records:
        state.apply(record)
    return [(result.user, ErrorCode(result.error_code)) for result in alteration.results()]


@pytest.fixture
def state() -> SecurityState:
    state = SecurityState()
    alter(state, upsertion("alice"), upsertion("bob", mechanism=2, iterations=8192))
    return state


def test_the_broker_keeps_keys_from_which_the_password_cannot_be_had() -> None:
    state = SecurityState()
    salted = salted_password("SCRAM-SHA-256", b"secret", b"salt", 4096)
    assert alter(state, upsertion(salted_password=salted)) == [("alice", ErrorCode.NONE)]
    assert state.credentials("alice", "SCRAM-SHA-256") == credential("SCRAM-SHA-256", salted, b"salt", 4096)
    assert salted not in repr(state.users).encode()


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "name"),
        (deletion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "name"),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "0 is no SCRAM mechanism"),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "3 is no SCRAM mechanism"),
        (deletion(mechanism=-1), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "-1 is no SCRAM mechanism"),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsertion(salted_password=b"p" * 64), ErrorCode.UNACCEPTABLE_CREDENTIAL, "64 bytes"),
        (upsertion(mechanism=2, salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "0 bytes"),
        (deletion("nobody"), ErrorCode.RESOURCE_NOT_FOUND, "'nobody' has no credential of SCRAM-SHA-256"),
        (deletion("alice", 2), ErrorCode.RESOURCE_NOT_FOUND, "'alice' has no credential of SCRAM-SHA-512"),
    ],
)
def test_what_is_refused(state: SecurityState, change: Any, code: ErrorCode, why: str) -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[change] if isinstance(change, ScramCredentialDeletion) else [],
        upsertions=[] if isinstance(change, ScramCredentialDeletion) else [change],
    )
    alteration = Alteration(state, request)
    (result,) = alteration.results()
    assert (alteration.records, result.error_code) == ([], code)
    assert why in (result.error_message or "")


@pytest.mark.parametrize("iterations", [4096, 16_384])
def test_the_bounds_of_iterations_are_allowed(iterations: int) -> None:
    assert alter(SecurityState(), upsertion(iterations=iterations)) == [("alice", ErrorCode.NONE)]


@pytest.mark.parametrize(
    "changes",
    [
        [deletion("alice"), deletion("alice")],
        [deletion("alice"), upsertion("alice", mechanism=2)],
        [upsertion("alice", mechanism=1), upsertion("alice", mechanism=2)],
        [deletion("alice"), upsertion("alice"), upsertion("alice")],
    ],
)
def test_a_user_that_is_changed_twice_keeps_what_it_has(state: SecurityState, changes: list[Any]) -> None:
    before = state.users["alice"].copy()
    assert alter(state, *changes, upsertion("carol")) == [
        ("carol", ErrorCode.NONE),
        ("alice", ErrorCode.DUPLICATE_RESOURCE),
    ]
    assert state.users["alice"] == before


def test_the_first_error_of_a_user_stands(state: SecurityState) -> None:
    assert alter(state, deletion("nobody"), upsertion("nobody")) == [("nobody", ErrorCode.RESOURCE_NOT_FOUND)]


def test_results_are_in_kafkas_order_and_one_error_does_not_stop_the_others(state: SecurityState) -> None:
    results = alter(state, upsertion("new"), upsertion("low", iterations=1), deletion("bob", 2), deletion("nobody"))
    assert results == [
        ("bob", ErrorCode.NONE),
        ("new", ErrorCode.NONE),
        ("nobody", ErrorCode.RESOURCE_NOT_FOUND),
        ("low", ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ]
    assert set(state.users) == {"alice", "new"}


class TestDescribe:
    @pytest.mark.parametrize("users", [None, []])
    def test_all_users(self, state: SecurityState, users: list[UserName] | None) -> None:
        alter(state, upsertion("alice", mechanism=2, iterations=5000))
        found = [
            (one.user, [(info.mechanism, info.iterations) for info in one.credential_infos])
            for one in filter(None, describe(state, users))
        ]
        assert found == [("alice", [(1, 4096), (2, 5000)]), ("bob", [(2, 8192)])]

    def test_unknown_and_repeated_names(self, state: SecurityState) -> None:
        names = [UserName(name=name) for name in ("bob", "nobody", "alice", "bob")]
        assert [
            (one.user, one.error_code, len(one.credential_infos)) for one in filter(None, describe(state, names))
        ] == [
            ("bob", ErrorCode.DUPLICATE_RESOURCE, 0),
            ("nobody", ErrorCode.RESOURCE_NOT_FOUND, 0),
            ("alice", ErrorCode.NONE, 1),
        ]
