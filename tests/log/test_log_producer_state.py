"""Idempotent producers: Kafka's rules for sequence numbers and epochs, without a log around them."""

from __future__ import annotations

import json

import pytest

from equipoise.log.producer_state import BatchMetadata, ProducerStateManager
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import BatchHeader

MAX_SEQUENCE = 2**31 - 1


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, offset: int = 0) -> BatchHeader:
    return BatchHeader(offset, 100, 0, 2, 0, 0, count - 1, 1000, 1000, producer_id, epoch, sequence, count)


def duplicate(producers: ProducerStateManager, *headers: BatchHeader) -> BatchMetadata | None:
    return producers.duplicate_of([(0, header) for header in headers])


def accept(producers: ProducerStateManager, *headers: BatchHeader, now: int = 1000) -> None:
    assert duplicate(producers, *headers) is None
    producers.commit(producers.prepare(headers, now))


def refusal(producers: ProducerStateManager, *headers: BatchHeader) -> ErrorCode:
    assert duplicate(producers, *headers) is None
    with pytest.raises(KafkaError) as caught:
        producers.prepare(headers, 1000)
    return caught.value.code


def test_a_sequence_goes_on_where_the_last_batch_ended() -> None:
    producers = ProducerStateManager()
    accept(producers, header(0, 3))
    accept(producers, header(3, 2))
    assert refusal(producers, header(6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, header(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    accept(producers, header(5))


def test_an_unknown_producer_may_begin_anywhere() -> None:
    producers = ProducerStateManager()
    accept(producers, header(41))
    accept(producers, header(42))


def test_batches_without_a_producer_id_are_not_looked_at() -> None:
    producers = ProducerStateManager()
    accept(producers, header(-1, producer_id=-1, epoch=-1))
    accept(producers, header(-1, producer_id=-1, epoch=-1))


def test_a_repeated_batch_is_found_with_its_offset_among_the_last_five() -> None:
    producers = ProducerStateManager()
    for sequence in range(6):
        accept(producers, header(sequence, offset=100 + sequence))
    for sequence in range(1, 6):
        found = duplicate(producers, header(sequence))
        assert found is not None
        assert (found.base_offset, found.last_offset) == (100 + sequence, 100 + sequence)
    assert refusal(producers, header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_only_overlaps_is_no_duplicate() -> None:
    producers = ProducerStateManager()
    accept(producers, header(0, 3))
    assert refusal(producers, header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_sequence_wraps_to_zero() -> None:
    producers = ProducerStateManager()
    accept(producers, header(MAX_SEQUENCE - 1, 2))
    accept(producers, header(0))
    producers = ProducerStateManager()
    accept(producers, header(MAX_SEQUENCE, 3))  # MAX, 0, 1
    assert duplicate(producers, header(MAX_SEQUENCE, 3)) is not None
    accept(producers, header(2))


def test_a_lower_epoch_is_fenced() -> None:
    producers = ProducerStateManager()
    accept(producers, header(0, epoch=3))
    assert refusal(producers, header(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_with_sequence_zero_and_forgets_the_old_batches() -> None:
    producers = ProducerStateManager()
    accept(producers, header(0, epoch=0))
    assert refusal(producers, header(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    accept(producers, header(0, epoch=1))
    assert refusal(producers, header(0, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_batches_of_one_append_follow_each_other() -> None:
    producers = ProducerStateManager()
    accept(producers, header(0, 2), header(2, 2), header(0, producer_id=8))
    assert refusal(producers, header(4), header(6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    accept(producers, header(4), header(5))


def test_what_is_prepared_but_not_committed_leaves_no_trace() -> None:
    producers = ProducerStateManager()
    producers.prepare([header(0)], 1000)
    accept(producers, header(5))


def test_idle_producers_are_forgotten() -> None:
    producers = ProducerStateManager()
    accept(producers, header(0), now=1000)
    accept(producers, header(0, producer_id=8), now=1500)
    producers.expire(now=2000, after_ms=1000)
    assert duplicate(producers, header(0)) is None
    assert duplicate(producers, header(0, producer_id=8)) is not None


def test_state_survives_json() -> None:
    producers = ProducerStateManager()
    for sequence in range(3):
        accept(producers, header(sequence, offset=sequence))
    copy = ProducerStateManager.from_json(json.loads(json.dumps(producers.to_json())))
    assert copy.to_json() == producers.to_json()
    assert copy.last_records().offsets == {2}
    assert refusal(copy, header(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_replay_rebuilds_the_same_state() -> None:
    live, replayed = ProducerStateManager(), ProducerStateManager()
    for one in [header(0, 2), header(2, offset=2), header(0, epoch=1, offset=3)]:
        accept(live, one)
        replayed.replay(one)
    assert replayed.to_json() == live.to_json()
