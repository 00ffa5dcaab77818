"""Records of `__transaction_state`: the transaction coordinator's memory, one record for each change of an id.

A key is an int16 0 and the transactional id, never flexible. A value is an int16 version and the value's fields. A null
value is a tombstone. Kafka: TransactionLog, TransactionLogKey, TransactionLogValue.
"""

from __future__ import annotations

import struct

from equipoise.wire.errors import ProtocolError
from equipoise.wire.offsets_records import CoordinatorRecord
from equipoise.wire.schema import Message, Struct, field


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = field("string")


class PartitionsSchema(Struct):
    topic: str = field("string")
    partition_ids: list[int] = field(["int32"])


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    """v1 is flexible. The coordinator writes it from transaction version 1 on."""

    producer_id: int = field("int64")
    previous_producer_id: int = field("int64", "1+", tag=0, default=-1)
    next_producer_id: int = field("int64", "1+", tag=1, default=-1)
    producer_epoch: int = field("int16")
    transaction_timeout_ms: int = field("int32")
    transaction_status: int = field("int8")
    transaction_partitions: list[PartitionsSchema] | None = field([PartitionsSchema], nullable=True)
    transaction_last_update_timestamp_ms: int = field("int64")
    transaction_start_timestamp_ms: int = field("int64")
    client_transaction_version: int = field("int16", "1+", tag=2, default=0)
    next_producer_epoch: int = field("int16", "1+", tag=3, default=-1)


_KEY_VERSION = 0
_INT16 = struct.Struct(">h")


def encode_transaction_key(key: TransactionLogKey) -> bytes:
    """The key with its version in front."""
    return _INT16.pack(_KEY_VERSION) + key.encode(_KEY_VERSION)


def encode_transaction_value(value: TransactionLogValue, version: int = 1) -> bytes:
    """The value with its version in front: 0 under transaction version 0, otherwise 1 (TransactionLog.valueToBytes)."""
    return _INT16.pack(version) + value.encode(version)


def decode_transaction_record(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """None: a version of key or value that a newer Kafka has written. ProtocolError: the bytes do not follow their
    table."""
    if _int16(key, "key") != _KEY_VERSION:
        return None
    decoded = TransactionLogKey.decode(key, _KEY_VERSION, 2)
    if value is None:
        return CoordinatorRecord(decoded, None)
    version = _int16(value, "value")
    if version not in TransactionLogValue.versions:
        return None
    return CoordinatorRecord(decoded, TransactionLogValue.decode(value, version, 2))


def _int16(buf: bytes, what: str) -> int:
    if len(buf) < 2:
        raise ProtocolError(f"{what} of a __transaction_state record has {len(buf)} bytes; its version takes 2")
    return int(_INT16.unpack_from(buf)[0])
