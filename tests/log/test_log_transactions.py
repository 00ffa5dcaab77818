"""Transactions in a partition: docs/rules/transactions-log.md has the rules that the tests name."""

from __future__ import annotations

import json

import pytest

from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.log.producer_state import ProducerStateManager
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import iter_headers, read_header
from equipoise.wire.records.control import EndTransactionMarker, build_marker, read_marker
from tests.log.log_helpers import ALL, NOW, Medium, append, batch, offsets, put, read_log, values
from tests.log.txn_helpers import TxnProducer, append_verified, read_committed, transactional

SMALL = LogConfig(segment_bytes=300)


def refusal(log: PartitionLog, data: bytearray, *, verified: bool = False, version: int = 0) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(KafkaError) as error:
        append_verified(log, data, version=version) if verified else append(log, data)
    assert log.log_end_offset == end
    return error.value.code


def marker_refusal(log: PartitionLog, epoch: int, coordinator_epoch: int = 0, *, version: int = 0) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(KafkaError) as error:
        log.append_marker(7, epoch, True, coordinator_epoch, now=NOW, transaction_version=version)
    assert log.log_end_offset == end
    return error.value.code


# T40: markers on the wire


@pytest.mark.parametrize("commit", [False, True])
def test_t40a_a_marker_has_kafkas_bytes(commit: bool) -> None:
    data = build_marker(9, 3, EndTransactionMarker(commit, 5), NOW)
    assert len(data) == 78
    kind = "01" if commit else "00"
    assert data[61:].hex() == f"20000000080000 00{kind} 0c0000 00000005 00".replace(" ", "")
    header = read_header(data)
    assert (header.attributes, header.base_sequence, header.producer_id, header.producer_epoch) == (0x30, -1, 9, 3)
    assert (header.base_timestamp, header.max_timestamp, header.record_count) == (NOW, NOW, 1)
    assert read_marker(data, 0, header) == EndTransactionMarker(commit, 5)


def test_t40a_control_records_that_end_nothing_are_no_markers() -> None:
    for key, value in [(b"", b""), (b"\0\0\0\1", b"\0"), (b"\0\0\0\2", b"\0" * 6), (None, None)]:
        data = batch([(key, value)])
        assert read_marker(data, 0, read_header(data)) is None
    longer = batch([(b"\0\1\0\1more", b"\0\1\0\0\0\7more")])
    assert read_marker(longer, 0, read_header(longer)) == EndTransactionMarker(True, 7)


# T41, T42: appends


def test_t42_a_batch_outside_of_a_transaction_is_refused(medium: Medium) -> None:
    log = medium.open()
    assert refusal(log, transactional(["a"], 7, 0, 0)) is ErrorCode.INVALID_TXN_STATE
    TxnProducer(log, 7).write("a")
    append(log, transactional(["b"], 7, 0, 1))  # its transaction is open here: nobody has to be asked
    log.append_marker(7, 0, True, 0, now=NOW)
    assert refusal(log, transactional(["c"], 7, 0, 2)) is ErrorCode.INVALID_TXN_STATE


def test_t42_an_older_epoch_is_refused_before_its_transaction_is_looked_at(medium: Medium) -> None:
    log = medium.open()
    TxnProducer(log, 7, epoch=3).write("a")
    assert refusal(log, transactional(["b"], 7, 2, 0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(log, transactional(["b"], 7, 2, 0), verified=True) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_t42_a_newer_epoch_needs_a_new_word_of_the_coordinator(medium: Medium) -> None:
    log = medium.open()
    TxnProducer(log, 7).write("a")
    assert refusal(log, transactional(["b"], 7, 1, 0)) is ErrorCode.INVALID_TXN_STATE
    append_verified(log, transactional(["b"], 7, 1, 0))
    assert log.last_stable_offset == 0  # it is the same transaction here, as in Kafka
    assert log.producers.open_transactions == 1


def test_t41_other_records_of_a_producer_with_an_open_transaction_are_refused(medium: Medium) -> None:
    log = medium.open()
    producer = TxnProducer(log, 7)
    producer.write("a")
    plain = transactional(["b"], 7, 0, 1, is_transactional=False)
    assert refusal(log, bytearray(plain)) is ErrorCode.INVALID_TXN_STATE
    producer.end(commit=True)
    append(log, plain)


def test_t42_a_repeated_batch_is_answered_as_it_is_stored(medium: Medium) -> None:
    log = medium.open()
    producer = TxnProducer(log, 7)
    first = producer.write("a", "b")
    assert append(log, transactional(["a", "b"], 7, 0, 0)) == first._replace(duplicate=True)
    producer.end(commit=True)
    assert append(log, transactional(["a", "b"], 7, 0, 0)) == first._replace(duplicate=True)


def test_t42_sequences_go_on_within_an_epoch_and_begin_anew_with_the_next(medium: Medium) -> None:
    log = medium.open()
    TxnProducer(log, 7).write("a")
    log.append_marker(7, 0, True, 0, now=NOW)
    assert refusal(log, transactional(["b"], 7, 0, 2), verified=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append_verified(log, transactional(["b"], 7, 0, 1))
    log.append_marker(7, 1, True, 0, now=NOW)
    assert refusal(log, transactional(["c"], 7, 1, 2), verified=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append_verified(log, transactional(["c"], 7, 1, 0))


def test_t42_an_unknown_producer_begins_anywhere_but_not_in_version_2(medium: Medium) -> None:
    log = medium.open()
    data = transactional(["a"], 7, 0, 5)
    assert refusal(log, bytearray(data), verified=True, version=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append_verified(log, data, version=1)


def test_t67_batches_of_a_coordinator_have_no_sequence(medium: Medium) -> None:
    log = medium.open()
    for _ in range(3):
        info = append_verified(log, transactional(["a"], 7, 0, -1))
        assert not info.duplicate
    assert log.log_end_offset == 3
    assert log.last_stable_offset == 0


def test_open_transactions_are_bounded(medium: Medium, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.log.producer_state.MAX_OPEN_TRANSACTIONS", 2)
    log = medium.open()
    producers = [TxnProducer(log, number) for number in range(3)]
    producers[0].write("a")
    producers[1].write("a")
    assert refusal(log, transactional(["a"], 2, 0, 0), verified=True) is ErrorCode.INVALID_TXN_STATE
    producers[0].end(commit=True)
    producers[2].write("a")


# T43 to T46: markers


def test_t43_a_marker_of_an_older_epoch_or_coordinator_is_refused(medium: Medium) -> None:
    log = medium.open()
    TxnProducer(log, 7, epoch=3).write("a")
    assert marker_refusal(log, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    log.append_marker(7, 3, True, 4, now=NOW)
    assert marker_refusal(log, 3, 3) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    log.append_marker(7, 3, True, 5, now=NOW)


def test_t43_a_repeated_marker_is_written_again(medium: Medium) -> None:
    log = medium.open()
    TxnProducer(log, 7).write("a")
    first = log.append_marker(7, 0, False, 0, now=NOW)
    second = log.append_marker(7, 0, False, 0, now=NOW)
    assert (first.base_offset, second.base_offset, second.duplicate) == (1, 2, False)
    assert len(log.aborted_transactions(0, 3)) == 1


def test_t43_version_2_markers_have_a_newer_epoch(medium: Medium) -> None:
    log = medium.open()
    TxnProducer(log, 7, epoch=3).write("a")
    assert marker_refusal(log, 3, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    log.append_marker(7, 4, True, 0, now=NOW, transaction_version=2)
    log.append_marker(7, 4, True, 0, now=NOW, transaction_version=2)  # again: the answer was lost
    TxnProducer(log, 7, epoch=32767).write("a")
    log.append_marker(7, 32767, True, 0, now=NOW, transaction_version=2)  # the epoch cannot rise any more
    assert log.last_stable_offset == log.log_end_offset


def test_t45_a_marker_without_a_transaction_only_tells_its_epoch(medium: Medium) -> None:
    log = medium.open()
    log.append_marker(7, 5, False, 0, now=NOW)
    assert (log.log_end_offset, log.last_stable_offset) == (1, 1)
    assert log.aborted_transactions(0, 1) == []
    assert refusal(log, transactional(["a"], 7, 4, 0), verified=True) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_t46_a_producer_with_an_open_transaction_does_not_expire(medium: Medium) -> None:
    log = medium.open(LogConfig(producer_id_expiration_ms=1000, retention_ms=-1))
    producer = TxnProducer(log, 7)
    producer.write("a")
    log.enforce_retention(NOW + 5000)
    assert log.producers.is_open(7, 0)
    producer.end(commit=True, now=NOW + 6000)
    log.enforce_retention(NOW + 6500)
    assert dict(log.producers.items()).keys() == {7}
    log.enforce_retention(NOW + 7001)
    assert not dict(log.producers.items())


# T47 to T50: the last stable offset, and the index of aborted transactions


def test_t47_the_oldest_open_transaction_holds_the_last_stable_offset(medium: Medium) -> None:
    log = medium.open()
    put(log, "before")
    one, two = TxnProducer(log, 1), TxnProducer(log, 2)
    one.write("a")
    two.write("b")
    put(log, "plain")
    assert log.last_stable_offset == 1
    two.end(commit=True)
    assert log.last_stable_offset == 1
    one.end(commit=True)
    assert log.last_stable_offset == log.high_watermark == 6


def test_t47_it_waits_until_the_marker_is_durable(disk: Medium) -> None:
    disk.flush = "commit"
    log = disk.open()
    producer = TxnProducer(log, 7)
    producer.write("a")
    log.flush()
    producer.end(commit=True)
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    seen: list[int] = []
    log.subscribe(lambda log: seen.append(log.last_stable_offset))
    log.flush()
    assert seen == [2]


def test_t47_deleted_records_do_not_hold_it_back(medium: Medium) -> None:
    log = medium.open(SMALL)
    producer = TxnProducer(log, 7)
    for _ in range(20):
        producer.write("a")
    log.delete_records(10)
    assert log.last_stable_offset == 10
    producer.end(commit=False)
    assert log.last_stable_offset == log.log_end_offset
    assert read_committed(log) == []


def test_t48_the_index_tells_the_next_open_transaction(medium: Medium) -> None:
    log = medium.open()
    one, two = TxnProducer(log, 1), TxnProducer(log, 2)
    one.write("a")
    two.write("b")
    one.end(commit=False)
    two.end(commit=False)
    assert log.aborted_transactions(0, 4) == [(1, 0, 2, 1), (2, 1, 3, 4)]


def test_t50_a_transaction_aborted_later_is_listed_for_a_fetch_from_its_middle(medium: Medium) -> None:
    log = medium.open(SMALL)
    producer = TxnProducer(log, 7)
    for _ in range(30):
        producer.write("a")
    producer.end(commit=False)
    put(log, "after")
    assert [txn[:3] for txn in log.aborted_transactions(15, 16)] == [(7, 0, 30)]
    assert log.aborted_transactions(31, 32) == []
    for start in range(31):
        assert offsets(read_committed(log, 100, from_offset=start)) == [31]


def test_t49_the_end_of_a_read_is_known(medium: Medium) -> None:
    log = medium.open(SMALL)
    for number in range(30):
        put(log, f"{number}", f"{number}")
    for offset in range(60):
        for size in (1, 100, 200, ALL):
            views = log.read(offset, size, log.high_watermark)
            last = [header.last_offset for _, header in iter_headers(b"".join(views))][-1]
            assert log.offset_behind(views) == last + 1


def test_t46_snapshots_of_producers_keep_transactions() -> None:
    producers = ProducerStateManager()
    data = transactional(["a"], 7, 2, 0)
    producers.replay(read_header(data))
    copy = ProducerStateManager.from_json(json.loads(json.dumps(producers.to_json())))
    assert copy.first_unstable_offset == 0
    assert copy.is_open(7, 2)
    assert dict(copy.items()) == dict(producers.items())


def test_t76_snapshots_from_before_transactions_are_read() -> None:
    producers = ProducerStateManager.from_json([[7, 2, [[0, 1, 5, 6, NOW]], NOW]])
    assert producers.first_unstable_offset is None
    assert dict(producers.items())[7].txn_first_offset == -1


# T56: compaction

COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=400,
    delete_retention_ms=1000,
    min_cleanable_dirty_ratio=0.0,
)


def roll(log: PartitionLog, medium: Medium) -> None:
    append(log, batch(values("filler"), timestamps=[NOW]))
    log._roll()
    medium.settle(log)


def markers(log: PartitionLog) -> list[tuple[int, int]]:
    """(offset, producer id) of each control batch."""
    found, offset = [], log.log_start_offset
    while views := log.read(offset, ALL, log.log_end_offset):
        for view in views:
            for _, header in iter_headers(view):
                offset = header.last_offset + 1
                if header.is_control:
                    found.append((header.base_offset, header.producer_id))
    return found


def test_t56_aborted_records_go_and_do_not_hide_older_ones(medium: Medium) -> None:
    log = medium.open(COMPACT)
    append(log, batch(values("a")))
    producer = TxnProducer(log, 7)
    producer.write("a")
    producer.end(commit=False)
    TxnProducer(log, 7, sequence=1).write("other")
    log.append_marker(7, 0, True, 0, now=NOW)
    roll(log, medium)
    log.compact(NOW)
    assert [record.offset for record in read_log(log) if record.key == b"a"] == [0]


def test_t56_nothing_at_or_above_the_last_stable_offset_is_cleaned(medium: Medium) -> None:
    log = medium.open(COMPACT)
    append(log, batch(values("a")))
    TxnProducer(log, 7).write("a")
    append(log, batch(values("a")))
    roll(log, medium)
    assert log.compact(NOW) == 0
    assert offsets(read_log(log))[:3] == [0, 1, 2]
    log.append_marker(7, 0, True, 0, now=NOW)
    roll(log, medium)
    log.compact(NOW)
    assert 0 not in offsets(read_log(log))


@pytest.mark.parametrize("commit", [True, False])
def test_t56_a_marker_goes_when_its_records_are_gone_and_time_has_passed(medium: Medium, commit: bool) -> None:
    log = medium.open(COMPACT)
    producer = TxnProducer(log, 7)
    producer.write("a")
    marker = producer.end(commit=commit).base_offset
    producer.write("b")
    producer.end(commit=True)
    append(log, batch(values("a")))
    found = []
    for now in (NOW, NOW + 100, NOW + 1099, NOW + 1100):
        roll(log, medium)
        log.compact(now)
        found.append((marker, 7) in markers(log))
        assert [record.key for record in read_committed(log)].count(b"a") == 1
    # The first pass drops the records, the second notes the time, and only the last may drop the marker.
    assert found == [True, True, True, False]


def test_t56_the_last_marker_of_a_producer_stays_for_its_epoch(medium: Medium) -> None:
    log = medium.open(COMPACT)
    producer = TxnProducer(log, 7, bumps=True)
    producer.write("a")
    marker = producer.end(commit=False).base_offset
    append(log, batch(values("a")))
    for now in (NOW, NOW + 5000, NOW + 10000):
        roll(log, medium)
        log.compact(now)
    assert (marker, 7) in markers(log)
