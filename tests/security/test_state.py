"""The security state, changed by records alone."""

from __future__ import annotations

import pytest

from equipoise.security.sasl.scram import ScramCredential
from equipoise.security.state import SecurityState
from equipoise.wire.errors import ProtocolError
from equipoise.wire.security_records import (
    AccessControlEntryKey,
    AccessControlEntryValue,
    ClientQuotaKey,
    ClientQuotaValue,
    QuotaEntity,
    SecurityRecord,
    UserScramCredentialKey,
    UserScramCredentialValue,
)


def credential(name: str, mechanism: int = 1, iterations: int = 4096) -> SecurityRecord:
    value = UserScramCredentialValue(salt=b"s", stored_key=b"k", server_key=b"v", iterations=iterations)
    return SecurityRecord(UserScramCredentialKey(name=name, mechanism=mechanism), value)


def quota(value: float, user: str | None = "alice", key: str = "producer_byte_rate") -> SecurityRecord:
    entity = [QuotaEntity(entity_type="user", entity_name=user)]
    return SecurityRecord(ClientQuotaKey(entity=entity, key=key), ClientQuotaValue(value=value))


def removed(record: SecurityRecord) -> SecurityRecord:
    return SecurityRecord(record.key, None)


def test_credentials_are_found_by_user_and_name_of_the_mechanism() -> None:
    state = SecurityState()
    state.apply(credential("alice"))
    state.apply(credential("alice", mechanism=2, iterations=8192))
    assert state.credentials("alice", "SCRAM-SHA-256") == ScramCredential(b"s", b"k", b"v", 4096)
    assert state.credentials("alice", "SCRAM-SHA-512") == ScramCredential(b"s", b"k", b"v", 8192)
    assert state.credentials("alice", "PLAIN") is None
    assert state.credentials("Alice", "SCRAM-SHA-256") is None


def test_the_last_record_counts_and_a_tombstone_removes() -> None:
    state = SecurityState()
    state.apply(credential("alice"))
    state.apply(credential("alice", iterations=5000))
    assert state.users["alice"][1].iterations == 5000
    state.apply(removed(credential("alice")))
    state.apply(removed(credential("alice")))
    assert state.users == {}


def test_quotas_by_entity_and_key() -> None:
    state = SecurityState()
    for record in (quota(1.5), quota(2.0, user=None), quota(50.0, key="request_percentage")):
        state.apply(record)
    alice = (("user", "alice"),)
    assert state.quotas == {
        alice: {"producer_byte_rate": 1.5, "request_percentage": 50.0},
        (("user", None),): {"producer_byte_rate": 2.0},
    }
    state.apply(removed(quota(0)))
    assert state.quotas[alice] == {"request_percentage": 50.0}
    assert (state.quotas_epoch, state.acls_epoch) == (4, 0)


def test_acls_by_id() -> None:
    state, key = SecurityState(), AccessControlEntryKey(id=bytes(16))
    value = AccessControlEntryValue(
        resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*", operation=3, permission_type=3
    )
    state.apply(SecurityRecord(key, value))
    assert (state.acls, state.acls_epoch) == ({bytes(16): value}, 1)
    state.apply(SecurityRecord(key, None))
    assert (state.acls, state.acls_epoch) == ({}, 2)


def test_a_key_with_the_value_of_another_type_is_refused() -> None:
    with pytest.raises(ProtocolError, match="UserScramCredentialKey and ClientQuotaValue"):
        SecurityState().apply(SecurityRecord(credential("alice").key, quota(1).value))
