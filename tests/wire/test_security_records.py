"""Records of `__security`: their bytes, which later versions must still read, and bytes that are none."""

from __future__ import annotations

import pytest

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
    decode_record,
    encode_record,
)

CREDENTIAL = SecurityRecord(
    UserScramCredentialKey(name="al", mechanism=1),
    UserScramCredentialValue(salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096),
)
ACL = SecurityRecord(
    AccessControlEntryKey(id=bytes(range(16))),
    AccessControlEntryValue(
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    ),
)
QUOTA = SecurityRecord(
    ClientQuotaKey(
        entity=[
            QuotaEntity(entity_type="client-id", entity_name=None),
            QuotaEntity(entity_type="user", entity_name=""),
        ],
        key="k",
    ),
    ClientQuotaValue(value=1.5),
)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (CREDENTIAL, "0000 0002 616c 01", "0000 0273 026b 0276 00001000 00"),
        (ACL, "0001" + bytes(range(16)).hex(), "0000 02 0274 03 07 557365723a61 022a 03 03 00"),
        (QUOTA, "0002 00000002 0009 636c69656e742d6964 ffff 0004 75736572 0000 0001 6b", "0000 3ff8000000000000 00"),
    ],
)
def test_vectors(record: SecurityRecord, key: str, value: str) -> None:
    assert encode_record(record) == (bytes.fromhex(key), bytes.fromhex(value))
    assert decode_record(bytes.fromhex(key), bytes.fromhex(value)) == record
    assert decode_record(bytes.fromhex(key), None) == SecurityRecord(record.key, None)
    assert encode_record(SecurityRecord(record.key, None)) == (bytes.fromhex(key), None)


def test_a_field_of_a_later_version_is_a_tag_that_can_be_skipped() -> None:
    key, value = encode_record(QUOTA)
    assert value is not None
    assert decode_record(key, value[:-1] + b"\x01\x07\x03abc") == QUOTA


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"", None, "has 0 bytes"),
        (b"\0", None, "has 1 bytes"),
        (b"\0\x03", None, "type 3; types that can be read are 0 to 2"),
        (b"\0\0\0\x02al\x01", b"\0\x01", "UserScramCredentialValue v1; versions that can be read are 0-0"),
        (b"\0\0\0\x02al\x01", b"\0", "has 1 bytes"),
        (b"\0\0\0\x02al", None, "mechanism: .*missing"),
    ],
)
def test_what_cannot_be_read_is_refused_and_never_skipped(key: bytes, value: bytes | None, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_record(key, value)
