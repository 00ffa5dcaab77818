"""Records of `__transaction_state`: bytes written out by hand from Kafka's tables, all versions, faulty bytes."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.wire.errors import ProtocolError
from equipoise.wire.offsets_records import CoordinatorRecord
from equipoise.wire.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    decode_transaction_record,
    encode_transaction_key,
    encode_transaction_value,
)
from tests.property.strategies import sample

KEY = TransactionLogKey(transactional_id="orders")
KEY_BYTES = bytes.fromhex("0000 0006 6f7264657273")
TIME = 1700000000000  # 0x18bcfe56800


def value(**values: Any) -> TransactionLogValue:
    usual: dict[str, Any] = {
        "producer_id": 9,
        "producer_epoch": 3,
        "transaction_timeout_ms": 60000,
        "transaction_status": 1,
        "transaction_partitions": [PartitionsSchema(topic="t", partition_ids=[0, 7])],
        "transaction_last_update_timestamp_ms": TIME,
        "transaction_start_timestamp_ms": TIME - 1,
    }
    return TransactionLogValue(**(usual | values))


HEAD = "0000000000000009 0003 0000ea60"  # producer id, epoch, timeout
TIMES = "0000018bcfe56800 0000018bcfe567ff"
VECTORS = [
    (0, value(), f"0000 {HEAD} 01 00000001 0001 74 00000002 00000000 00000007 {TIMES}"),
    (1, value(), f"0001 {HEAD} 01 02 02 74 03 00000000 00000007 00 {TIMES} 00"),
    (
        1,
        value(transaction_status=0, transaction_partitions=None, transaction_start_timestamp_ms=-1),
        f"0001 {HEAD} 00 00 0000018bcfe56800 ffffffffffffffff 00",
    ),
    (  # two tagged fields: what the producer had before, and the client's transaction version
        1,
        value(previous_producer_id=9, client_transaction_version=2),
        f"0001 {HEAD} 01 02 02 74 03 00000000 00000007 00 {TIMES} 02 00 08 0000000000000009 02 02 0002",
    ),
    (
        1,
        value(transaction_status=2, transaction_partitions=[], previous_producer_id=9, next_producer_id=12),
        f"0001 {HEAD} 02 01 {TIMES} 02 00 08 0000000000000009 01 08 000000000000000c",
    ),
]


def test_keys_are_never_flexible() -> None:
    assert encode_transaction_key(KEY) == KEY_BYTES


@pytest.mark.parametrize(("version", "record", "data"), VECTORS)
def test_values_are_written_and_read_as_kafka_does(version: int, record: TransactionLogValue, data: str) -> None:
    assert encode_transaction_value(record, version).hex(" ") == bytes.fromhex(data).hex(" ")
    assert decode_transaction_record(KEY_BYTES, bytes.fromhex(data)) == CoordinatorRecord(KEY, record)


def test_a_tombstone_has_no_value() -> None:
    assert decode_transaction_record(KEY_BYTES, None) == CoordinatorRecord(KEY, None)


@pytest.mark.parametrize("version", [0, 1])
def test_every_field_comes_back(version: int) -> None:
    record = sample(TransactionLogValue, version)
    assert decode_transaction_record(KEY_BYTES, encode_transaction_value(record, version)) == (KEY, record)


def test_versions_of_a_newer_kafka_are_passed_over() -> None:
    """TransactionLog.readTxnRecordKey: unknown ones are skipped, the others of the partition are loaded."""
    assert decode_transaction_record(bytes.fromhex("0001 0001 61"), None) is None
    assert decode_transaction_record(KEY_BYTES, bytes.fromhex("0002 00")) is None


def test_unknown_tagged_fields_are_passed_over() -> None:
    data = bytes.fromhex(f"0001 {HEAD} 01 02 02 74 03 00000000 00000007 00 {TIMES} 01 09 01 ff")
    assert decode_transaction_record(KEY_BYTES, data) == CoordinatorRecord(KEY, value())


@pytest.mark.parametrize(("key", "data"), [(b"", None), (b"\0", None), (KEY_BYTES, b"\0"), (KEY_BYTES, b"\0\1\0")])
def test_faulty_bytes_are_refused(key: bytes, data: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode_transaction_record(key, data)
