"""The security state of a broker: users' SCRAM credentials, access rules, quotas.

It changes only by applying a record of `__security`, in live operation and in loading alike. What a request changes is
decided elsewhere, as a list of records; the broker applies them when they are durable.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from equipoise.security.acls import MAX_RECORDS_PER_USER_OP, Acl, StandardAuthorizer
from equipoise.security.sasl.scram import ScramCredential
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError
from equipoise.wire.schema import Message
from equipoise.wire.security_records import (
    AccessControlEntryKey,
    AccessControlEntryValue,
    ClientQuotaKey,
    ClientQuotaValue,
    SecurityRecord,
    UserScramCredentialKey,
    UserScramCredentialValue,
)

K = TypeVar("K")
V = TypeVar("V")
Entity = tuple[tuple[str, str | None], ...]  # types and names, ordered by type; a name of None is the default


def check_count(changes: int) -> None:
    """Raises POLICY_VIOLATION where a request asks for too many changes."""
    if changes > MAX_RECORDS_PER_USER_OP:
        why = f"{changes} changes; at most {MAX_RECORDS_PER_USER_OP} in one request"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, why)


class ScramMechanism(IntEnum):
    """Kafka's numbers for the mechanisms."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """As it stands in `sasl.mechanism`."""
        return self.name.replace("_", "-")


class SecurityState:
    """All of it, in memory."""

    def __init__(self) -> None:
        self.users: dict[str, dict[int, ScramCredential]] = {}  # by name, then by the mechanism's number
        self.acls: dict[bytes, AccessControlEntryValue] = {}  # by id
        self.acl_ids: dict[Acl, bytes] = {}  # of the same
        self.quotas: dict[Entity, dict[str, float]] = {}
        self.bounds: dict[str, dict[Entity, float]] = {}  # the same by key
        self.authorizer = StandardAuthorizer()  # has the same ACLs
        self.acls_epoch = 0  # of changes to `acls`, for caches of what follows from them
        self.quotas_epoch = 0

    def credentials(self, user: str, mechanism: str) -> ScramCredential | None:
        """What a user is authenticated by. `mechanism` is its name, for instance SCRAM-SHA-256."""
        for number, found in self.users.get(user, {}).items():
            if ScramMechanism(number).mechanism_name == mechanism:
                return found
        return None

    def apply(self, record: SecurityRecord) -> None:
        """The one way in which anything here changes."""
        key, value = record
        if isinstance(key, UserScramCredentialKey) and isinstance(value, UserScramCredentialValue | None):
            self._apply_credential(key, value)
        elif isinstance(key, AccessControlEntryKey) and isinstance(value, AccessControlEntryValue | None):
            self._apply_acl(key, value)
        elif isinstance(key, ClientQuotaKey) and isinstance(value, ClientQuotaValue | None):
            self._apply_quota(key, value)
            self.quotas_epoch += 1
        else:
            raise ProtocolError(f"{_name(key)} and {_name(value)} do not belong together")

    def _apply_credential(self, key: UserScramCredentialKey, value: UserScramCredentialValue | None) -> None:
        of_user = self.users.setdefault(key.name, {})
        _put(of_user, ScramMechanism(key.mechanism), None if value is None else _credential(value))
        if not of_user:
            del self.users[key.name]

    def _apply_acl(self, key: AccessControlEntryKey, value: AccessControlEntryValue | None) -> None:
        before = self.acls.get(key.id)
        if before is not None:
            removed = acl_of(before)
            self.authorizer.remove(removed)
            self.acl_ids.pop(removed, None)
        if value is not None:
            added = acl_of(value)
            self.authorizer.add(added)
            self.acl_ids[added] = key.id
        _put(self.acls, key.id, value)
        self.acls_epoch += 1

    def _apply_quota(self, key: ClientQuotaKey, value: ClientQuotaValue | None) -> None:
        entity = tuple((one.entity_type, one.entity_name) for one in key.entity)
        of_entity = self.quotas.setdefault(entity, {})
        _put(of_entity, key.key, None if value is None else value.value)
        _put(self.bounds.setdefault(key.key, {}), entity, None if value is None else value.value)
        if not of_entity:
            del self.quotas[entity]


def acl_of(value: AccessControlEntryValue) -> Acl:
    """The ACL that a record keeps."""
    return Acl.read(value, value.pattern_type, value)


def acl_record(acl_id: bytes, acl: Acl | None) -> SecurityRecord:
    """The record that keeps an ACL; None: that removes it."""
    key = AccessControlEntryKey(id=acl_id)
    if acl is None:
        return SecurityRecord(key, None)
    return SecurityRecord(key, AccessControlEntryValue(**acl.fields()))


def _credential(value: UserScramCredentialValue) -> ScramCredential:
    return ScramCredential(value.salt, value.stored_key, value.server_key, value.iterations)


def _put(into: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        into.pop(key, None)
    else:
        into[key] = value


def _name(message: Message | None) -> str:
    return type(message).__name__
