"""Records of `__security`: users' SCRAM credentials, access rules, quotas.

A key is an int16 record type and the key's fields, never flexible; its type is the version in its table. A value is an
int16 version and the value's fields, flexible from the first version on, so that later fields can be added as tags. A
null value is a tombstone. Kafka keeps the same in its metadata log: UserScramCredentialRecord,
AccessControlEntryRecord, ClientQuotaRecord.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from equipoise.wire.apis.k48_describe_client_quotas import EntityData
from equipoise.wire.errors import ProtocolError
from equipoise.wire.schema import Message, field


class UserScramCredentialKey(Message, versions="0"):
    name: str = field("string")
    mechanism: int = field("int8")  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512


class UserScramCredentialValue(Message, versions="0", flexible="0+"):
    salt: bytes = field("bytes")
    stored_key: bytes = field("bytes")
    server_key: bytes = field("bytes")
    iterations: int = field("int32")


class AccessControlEntryKey(Message, versions="1"):
    id: bytes = field("uuid")


class AccessControlEntryValue(Message, versions="0", flexible="0+"):
    """The numbers are those of CreateAcls."""

    resource_type: int = field("int8")
    resource_name: str = field("string")
    pattern_type: int = field("int8")
    principal: str = field("string")
    host: str = field("string")
    operation: int = field("int8")
    permission_type: int = field("int8")


class QuotaEntity(EntityData):
    """As DescribeClientQuotas has it."""


class ClientQuotaKey(Message, versions="2"):
    """`entity` is ordered by type: the log keeps the last record of each key."""

    entity: list[QuotaEntity] = field([QuotaEntity])
    key: str = field("string")


class ClientQuotaValue(Message, versions="0", flexible="0+"):
    value: float = field("float64")


class SecurityRecord(NamedTuple):
    """A value of None is a tombstone."""

    key: Message
    value: Message | None


_TYPES: dict[int, tuple[type[Message], type[Message]]] = {
    0: (UserScramCredentialKey, UserScramCredentialValue),
    1: (AccessControlEntryKey, AccessControlEntryValue),
    2: (ClientQuotaKey, ClientQuotaValue),
}


def encode_record(record: SecurityRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they are written."""
    (key, value), record_type = record, record.key.versions.last
    head = struct.pack(">h", record_type) + key.encode(record_type)
    if value is None:
        return head, None
    version = value.versions.last
    return head, struct.pack(">h", version) + value.encode(version)


def decode_record(key: bytes, value: bytes | None) -> SecurityRecord:
    """ProtocolError: the bytes follow no table, or one of a newer version. None of them is skipped: what a record
    denies must not be allowed because it cannot be read."""
    record_type = _int16(key)
    if record_type not in _TYPES:
        raise ProtocolError(f"a record of __security has type {record_type}; types that can be read are 0 to 2")
    key_class, value_class = _TYPES[record_type]
    decoded_key = key_class.decode(key, record_type, 2)
    if value is None:
        return SecurityRecord(decoded_key, None)
    version = _int16(value)
    if version not in value_class.versions:
        raise ProtocolError(f"{value_class.__name__} v{version}; versions that can be read are {value_class.versions}")
    return SecurityRecord(decoded_key, value_class.decode(value, version, 2))


def _int16(buf: bytes) -> int:
    if len(buf) < 2:
        raise ProtocolError(f"a record of __security has {len(buf)} bytes; its type or version takes 2")
    return int.from_bytes(buf[:2], "big", signed=True)
