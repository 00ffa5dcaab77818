"""The buffer between fetching and the application, fed by hand: turns, positions, epochs, and what cannot be read."""

from __future__ import annotations

import gc
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.fetch import records as records_module
from equipoise.client.fetch.completed_fetch import CompletedFetch
from equipoise.client.fetch.fetch_buffer import FetchBuffer
from equipoise.client.fetch.records import ConsumerRecord
from equipoise.client.fetch.subscription_state import FetchFailure, NoOffsetForPartitionError, SubscriptionState
from equipoise.client.metadata.leader_epochs import LogPosition
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k01_fetch import AbortedTransaction
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.records.batch import Codec
from equipoise.wire.records.build import Record, build_batch

A, B, C = (TopicPartition("t", number) for number in range(3))
Take = Callable[[FetchBuffer, int], list[tuple[TopicPartition, int]]]


def by_records(fetch_buffer: FetchBuffer, limit: int) -> list[tuple[TopicPartition, int]]:
    return [(TopicPartition(one.topic, one.partition), one.offset) for one in fetch_buffer.take(limit)]


def by_table(fetch_buffer: FetchBuffer, limit: int) -> list[tuple[TopicPartition, int]]:
    table = fetch_buffer.take_arrow(limit)
    if table is None:
        return []
    rows = table.to_pylist()
    return [(TopicPartition(row["topic"], row["partition"]), row["offset"]) for row in rows]


both = pytest.mark.parametrize("take", [by_records, by_table])


class Buffer:
    """Positions and what is fetched for them, without brokers."""

    def __init__(self, *partitions: TopicPartition, **settings: object) -> None:
        config = ConsumerConfig.from_keywords(bootstrap_servers="a:1", **settings)
        self.room = 0
        self.subscriptions = SubscriptionState()
        self.fetch_buffer = FetchBuffer(self.subscriptions, config, self._made_room)
        self.subscriptions.assign(partitions)
        for partition in partitions:
            self.subscriptions.seek(partition, 0)

    def _made_room(self) -> None:
        self.room += 1

    def add(self, partition: TopicPartition, *batches: bytes, aborted: Iterable[tuple[int, int]] = ()) -> None:
        gone = [AbortedTransaction(producer_id=pid, first_offset=first) for pid, first in aborted]
        self.add_view(partition, memoryview(b"".join(batches)), gone)

    def add_view(self, partition: TopicPartition, data: memoryview, gone: Sequence[AbortedTransaction] = ()) -> None:
        state = self.subscriptions.assignment[partition]
        with self.subscriptions.lock:
            self.subscriptions.add_completed_fetch(state, CompletedFetch(data, state.fetch_offset, gone))

    def failure(self, partition: TopicPartition, failure: FetchFailure) -> None:
        self.subscriptions.fail(partition, self.subscriptions.assignment[partition].epoch, failure)


def batch(first: int, count: int, padding: int = 0, **options: object) -> bytes:
    made = [Record(first + at, 1000 + at, b"k%d" % at, b"v%0*d" % (padding, first + at)) for at in range(count)]
    return bytes(build_batch(made, base_offset=first, **options))  # type: ignore[arg-type]


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    """The control batch that ends a transaction."""
    key = struct.pack(">hh", 0, int(commit))
    return bytes(
        build_batch(
            [Record(offset, 1000, key, b"\0" * 6)],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
    )


@both
def test_records_come_in_order_and_positions_follow(take: Take) -> None:
    buffer = Buffer(A)
    buffer.add(A, batch(0, 3), batch(3, 2))
    assert take(buffer.fetch_buffer, 2) == [(A, 0), (A, 1)]
    assert buffer.subscriptions.position(A) == 2
    assert take(buffer.fetch_buffer, 100) == [(A, 2), (A, 3), (A, 4)]
    assert buffer.subscriptions.position(A) == 5
    assert take(buffer.fetch_buffer, 100) == []
    assert buffer.subscriptions.queued_bytes == 0


@both
def test_partitions_have_their_turns(take: Take) -> None:
    buffer = Buffer(A, B, C)
    for partition in (A, B, C):
        buffer.add(partition, batch(0, 100))
    served = [take(buffer.fetch_buffer, 10)[0][0] for _ in range(6)]
    assert served == [A, B, C, A, B, C]


@both
def test_a_take_reaches_over_partitions_and_chunks(take: Take) -> None:
    buffer = Buffer(A, B)
    buffer.add(A, batch(0, 3))
    buffer.add(B, batch(0, 3))
    buffer.add(A, batch(3, 3))
    taken = take(buffer.fetch_buffer, 100)
    assert len(taken) == 9
    for partition, count in ((A, 6), (B, 3)):
        assert [offset for owner, offset in taken if owner == partition] == list(range(count))
        assert buffer.subscriptions.position(partition) == count


@both
@pytest.mark.parametrize("per_chunk", [3, 900])
def test_chunks_of_one_answer_and_of_several(take: Take, per_chunk: int) -> None:
    """Large ones are decoded where they stand, in whatever order their turns come; small ones are put together."""
    buffer = Buffer(A, B, C)
    for first in (0, per_chunk):
        answers = [batch(first, per_chunk, padding=500) for _ in range(3)]
        frame = bytearray(b"head" + b"--".join(answers) + b"tail")
        for number, partition in ((2, A), (0, B), (1, C)):
            begin = 4 + number * (len(answers[0]) + 2)
            buffer.add_view(partition, memoryview(frame)[begin : begin + len(answers[number])])
    taken = take(buffer.fetch_buffer, 10**6)
    for partition in (A, B, C):
        assert [offset for one, offset in taken if one == partition] == list(range(2 * per_chunk))
    assert not buffer.subscriptions.queued_bytes


@both
def test_a_chunk_larger_than_a_take_is_decoded_once(take: Take) -> None:
    buffer = Buffer(A)
    buffer.add(A, batch(0, 1000))
    take(buffer.fetch_buffer, 1)
    decoded = buffer.subscriptions.assignment[A].completed_fetches[0].decoded
    for _ in range(5):
        take(buffer.fetch_buffer, 100)
    assert buffer.subscriptions.assignment[A].completed_fetches[0].decoded is decoded
    assert buffer.subscriptions.position(A) == 501


def test_records_and_tables_may_be_taken_in_turns() -> None:
    buffer = Buffer(A)
    buffer.add(A, batch(0, 100))
    taken: list[tuple[TopicPartition, int]] = []
    while some := by_records(buffer.fetch_buffer, 7) + by_table(buffer.fetch_buffer, 5):
        taken += some
    assert [offset for _, offset in taken] == list(range(100))


@both
def test_batches_that_begin_before_the_position_are_cut(take: Take) -> None:
    buffer = Buffer(A)
    buffer.subscriptions.seek(A, 5)
    buffer.add(A, batch(0, 10))
    assert [offset for _, offset in take(buffer.fetch_buffer, 100)] == [5, 6, 7, 8, 9]


@both
def test_gaps_left_by_compaction_are_passed_over(take: Take) -> None:
    some = [Record(offset, 1000, None, b"x") for offset in (3, 7, 8)]
    buffer = Buffer(A)
    buffer.add(
        A,
        bytes(build_batch(some, base_offset=0, last_offset_delta=20)),
        bytes(build_batch([], base_offset=21, last_offset_delta=9)),
    )
    assert [offset for _, offset in take(buffer.fetch_buffer, 2)] == [3, 7]
    assert [offset for _, offset in take(buffer.fetch_buffer, 2)] == [8]
    assert buffer.subscriptions.position(A) == 31
    assert buffer.subscriptions.assignment[A].fetch_offset == 31


@both
def test_a_torn_last_batch_is_fetched_again(take: Take) -> None:
    buffer = Buffer(A)
    buffer.add(A, batch(0, 3), batch(3, 3)[:-1])
    assert len(take(buffer.fetch_buffer, 100)) == 3
    assert buffer.subscriptions.assignment[A].fetch_offset == 3


@both
@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec(take: Take, codec: Codec) -> None:
    buffer = Buffer(A, B)
    buffer.add(A, batch(0, 50, codec=codec), batch(50, 3, codec=codec))
    buffer.add(B, batch(0, 2, codec=codec))
    assert sorted(take(buffer.fetch_buffer, 100)) == [(A, at) for at in range(53)] + [(B, 0), (B, 1)]


# -- transactions


@both
def test_aborted_transactions_and_markers_are_left_out(take: Take) -> None:
    open_batch = {"transactional": True, "producer_epoch": 0}
    buffer = Buffer(A)
    buffer.add(
        A,
        batch(0, 2, producer_id=7, **open_batch),  # aborted
        batch(2, 1, producer_id=8, **open_batch),  # committed, in between
        batch(3, 1),  # no transaction
        marker(4, 7, commit=False),
        batch(5, 2, producer_id=7, **open_batch),  # the next transaction of 7, committed
        marker(7, 8, commit=True),
        marker(8, 7, commit=True),
        aborted=[(7, 0)],
    )
    assert [offset for _, offset in take(buffer.fetch_buffer, 100)] == [2, 3, 5, 6]
    assert buffer.subscriptions.position(A) == 9


@both
def test_a_chunk_without_anything_for_the_application_moves_the_position(take: Take) -> None:
    buffer = Buffer(A)
    buffer.add(A, batch(0, 2, producer_id=7, producer_epoch=0, transactional=True), aborted=[(7, 0)])
    buffer.add(A, marker(2, 7, commit=False), aborted=[(7, 0)])
    buffer.add(A, batch(3, 1))
    assert take(buffer.fetch_buffer, 100) == [(A, 3)]
    assert buffer.subscriptions.position(A) == 4


# -- what cannot be read


def damaged(whole: bytes, at: int = -1) -> bytes:
    changed = bytearray(whole)
    changed[at] ^= 0xFF
    return bytes(changed)


@both
def test_a_wrong_crc_is_raised_in_its_place_and_loses_nothing(take: Take) -> None:
    buffer = Buffer(A)
    buffer.add(A, batch(0, 3), damaged(batch(3, 2)), batch(5, 2))
    assert [offset for _, offset in take(buffer.fetch_buffer, 100)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(KafkaError, match=r"t-0: the record at offset 3 .*CRC.*; seek\(\) to 5 to go on") as caught:
            take(buffer.fetch_buffer, 100)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert buffer.subscriptions.position(A) == 3
    buffer.subscriptions.seek(A, 5)
    buffer.add(A, batch(5, 2))
    assert [offset for _, offset in take(buffer.fetch_buffer, 100)] == [5, 6]


@both
def test_without_check_crcs_nobody_looks(take: Take) -> None:
    buffer = Buffer(A, check_crcs=False)
    wrong = bytearray(batch(0, 3))
    wrong[17] ^= 0xFF  # in the CRC itself
    buffer.add(A, bytes(wrong))
    assert len(take(buffer.fetch_buffer, 100)) == 3


@both
@pytest.mark.parametrize("count", [3, 100])
def test_a_broken_record_is_named_and_those_before_it_are_taken(take: Take, count: int) -> None:
    """The last record claims a longer value than it has; the CRC is right, as from a producer with a bug."""
    whole = bytearray(batch(10, count))
    last_value = len(b"v%d" % (9 + count))
    assert whole[-last_value - 2] == 2 * last_value
    whole[-last_value - 2] += 2
    buffer = Buffer(A, check_crcs=False)
    buffer.subscriptions.seek(A, 10)
    buffer.add(A, bytes(whole))
    assert len(take(buffer.fetch_buffer, 1000)) == count - 1
    with pytest.raises(KafkaError, match=rf"the record at offset {9 + count} .*seek\(\) to {10 + count} to go on"):
        take(buffer.fetch_buffer, 1000)


@both
def test_a_failing_partition_does_not_stop_the_others(take: Take) -> None:
    buffer = Buffer(A, B)
    buffer.add(A, damaged(batch(0, 3)))
    buffer.add(B, batch(0, 100))
    taken: list[tuple[TopicPartition, int]] = []
    failures = 0
    while len(taken) < 100:
        try:
            taken += take(buffer.fetch_buffer, 10)
        except KafkaError:
            failures += 1
    assert failures > 0
    assert [offset for _, offset in taken] == list(range(100))


def test_bytes_that_are_no_batch_are_refused_at_the_door() -> None:
    old_format = bytearray(batch(0, 1))
    old_format[16] = 1
    for bad in (b"\0" * 100, bytes(old_format), batch(0, 1)[:-1]):
        with pytest.raises(KafkaError):
            CompletedFetch(memoryview(bad), 0, ())


def test_what_nobody_can_read_is_met_after_what_stands_before_it() -> None:
    old_format = bytearray(batch(3, 1))
    old_format[16] = 1
    fetch = CompletedFetch(memoryview(batch(0, 3) + bytes(old_format)), 0, ())
    assert fetch.next_offset == 3


@both
def test_a_failure_waits_until_what_was_fetched_before_is_taken(take: Take) -> None:
    buffer = Buffer(A)
    buffer.add(A, batch(0, 2))
    buffer.failure(A, FetchFailure(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"), passes=True))
    assert len(take(buffer.fetch_buffer, 1)) == 1
    assert len(take(buffer.fetch_buffer, 5)) == 1
    with pytest.raises(KafkaError, match="no"):
        take(buffer.fetch_buffer, 5)
    assert take(buffer.fetch_buffer, 5) == []


def test_a_failure_that_does_not_pass_is_told_until_somebody_seeks() -> None:
    buffer = Buffer(A)
    buffer.failure(A, FetchFailure(NoOffsetForPartitionError([A]), passes=False))
    for _ in range(2):
        with pytest.raises(NoOffsetForPartitionError, match="no offset is committed for t-0"):
            buffer.fetch_buffer.take(1)
    buffer.subscriptions.seek(A, 0)
    assert buffer.fetch_buffer.take(1) == []


# -- epochs


@both
def test_a_seek_drops_what_was_fetched(take: Take) -> None:
    buffer = Buffer(A)
    buffer.add(A, batch(0, 100))
    take(buffer.fetch_buffer, 1)
    buffer.subscriptions.seek(A, 50)
    assert take(buffer.fetch_buffer, 100) == []
    assert buffer.subscriptions.position(A) == 50
    assert buffer.subscriptions.queued_bytes == 0


@both
def test_what_is_revoked_is_not_taken(take: Take) -> None:
    buffer = Buffer(A, B)
    buffer.add(A, batch(0, 5))
    buffer.add(B, batch(0, 5))
    buffer.subscriptions.revoke([A])
    assert {partition for partition, _ in take(buffer.fetch_buffer, 100)} == {B}
    assert buffer.subscriptions.assigned() == {B}


@both
def test_a_partition_moved_in_the_middle_of_a_take_gives_nothing(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the choice of a fetch and its end the lock is free, since decoding takes time."""
    buffer = Buffer(A, B)
    buffer.add(A, batch(0, 5))
    buffer.add(B, batch(0, 5))
    choose = CompletedFetch.deliverable

    def seeks_meanwhile(fetch: CompletedFetch, position: int) -> object:
        if buffer.subscriptions.position(A) == 0:
            buffer.subscriptions.seek(A, 3)
        return choose(fetch, position)

    monkeypatch.setattr(CompletedFetch, "deliverable", seeks_meanwhile)
    assert {partition for partition, _ in take(buffer.fetch_buffer, 100)} == {B}
    assert buffer.subscriptions.position(A) == 3


@both
def test_pauses_keep_what_was_fetched(take: Take) -> None:
    buffer = Buffer(A, B)
    buffer.add(A, batch(0, 5))
    buffer.add(B, batch(0, 5))
    buffer.subscriptions.pause([A])
    assert {partition for partition, _ in take(buffer.fetch_buffer, 100)} == {B}
    assert buffer.subscriptions.paused() == {A}
    buffer.subscriptions.resume([A])
    assert len(take(buffer.fetch_buffer, 100)) == 5


@both
def test_what_is_held_is_not_for_the_application_yet(take: Take) -> None:
    buffer = Buffer(A)
    buffer.subscriptions.assign([B], held=True)
    buffer.subscriptions.seek(B, 0)
    buffer.add(B, batch(0, 5))
    assert take(buffer.fetch_buffer, 100) == []
    buffer.subscriptions.hold([A], [B])
    assert len(take(buffer.fetch_buffer, 100)) == 5


def test_room_is_told_once_when_a_chunk_is_gone() -> None:
    buffer = Buffer(A)
    buffer.add(A, batch(0, 10))
    buffer.subscriptions.is_short_of_room = True
    buffer.fetch_buffer.take(5)
    assert buffer.room == 0
    buffer.fetch_buffer.take(5)
    assert buffer.room == 1
    buffer.add(A, batch(10, 10))
    buffer.fetch_buffer.take(10)
    assert buffer.room == 1  # nobody waits for it


def test_positions_that_are_not_there_are_named() -> None:
    buffer = Buffer(A)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: buffer.subscriptions.seek(B, 0),
        lambda: buffer.subscriptions.position(B),
        lambda: buffer.subscriptions.pause([B]),
        lambda: buffer.subscriptions.request_reset([B]),
    )
    for attempt in attempts:
        with pytest.raises(UsageError, match=r"t-1 is not assigned to this consumer; it has t-0"):
            attempt()
    with pytest.raises(UsageError, match="offset -1 of t-0 is negative"):
        buffer.subscriptions.seek(A, -1)


def test_a_committed_offset_does_not_undo_a_seek() -> None:
    subscriptions = SubscriptionState()
    subscriptions.assign([A, B, C])
    lacking = subscriptions.needs_position()
    assert lacking.keys() == {A, B, C}
    subscriptions.seek(A, 5)
    subscriptions.begin(lacking, {A: LogPosition(9), B: LogPosition(9)})
    assert subscriptions.positions() == {A: 5, B: 9}
    assert subscriptions.needs_position() == {}
    assert subscriptions.partitions_needing_reset().keys() == {C}


def test_a_reset_that_comes_late_is_forgotten() -> None:
    subscriptions = SubscriptionState()
    subscriptions.assign([A])
    subscriptions.request_reset([A], -2)
    ((timestamp, epoch),) = subscriptions.partitions_needing_reset().values()
    assert timestamp == -2
    subscriptions.seek(A, 5)
    subscriptions.reset_to(A, epoch, LogPosition(0))
    assert subscriptions.position(A) == 5
    assert subscriptions.partitions_needing_reset() == {}


# -- records and tables are the same


names = st.text(max_size=3)
some_bytes = st.none() | st.binary(max_size=4)


@st.composite
def batches(draw: st.DrawFn) -> list[bytes]:
    made, offset = [], 0
    for _ in range(draw(st.integers(1, 4))):
        rows = []
        base = offset
        for _ in range(draw(st.sampled_from([1, 2, 3, 60]))):
            headers = tuple(draw(st.lists(st.tuples(names, some_bytes), max_size=2)))
            rows.append(Record(offset, draw(st.integers(0, 2**40)), draw(some_bytes), draw(some_bytes), headers))
            offset += draw(st.integers(1, 3))
        append_time = draw(st.none() | st.integers(0, 2**40))
        codec = draw(st.sampled_from(Codec))
        last = offset - 1 - base
        made.append(
            bytes(build_batch(rows, base_offset=base, last_offset_delta=last, codec=codec, log_append_time=append_time))
        )
    return made


@settings(max_examples=60, deadline=None)
@given(batches(), st.integers(1, 70), st.integers(0, 20))
def test_records_tables_and_records_one_by_one_agree(made: list[bytes], step: int, position: int) -> None:
    def all_of_it() -> Buffer:
        buffer = Buffer(A)
        buffer.subscriptions.seek(A, position)
        buffer.add(A, *made)
        return buffer

    buffer, found = all_of_it(), []
    while some := buffer.fetch_buffer.take(step):
        found += some
    for kinds in ([False], [True], [True, False]):  # of tables, in turn
        tabled, rows, kind = all_of_it(), [], cycle(kinds)
        while (table := tabled.fetch_buffer.take_arrow(step, views=next(kind))) is not None:
            table.validate(full=True)
            rows += table.to_pylist()
        assert [as_row(one) for one in found] == [{**row, "timestamp": as_ms(row["timestamp"])} for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records_module, "_FEW", 10**6)
        plain = all_of_it().fetch_buffer.take(10**6)
    assert plain == found


def as_row(one: ConsumerRecord) -> dict[str, object]:
    row = one._asdict()
    del row["leader_epoch"]
    row["headers"] = [{"key": key, "value": value} for key, value in one.headers] or None
    return row


def as_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def test_a_thread_that_seeks_and_one_that_takes_lose_nothing_after_the_last_seek() -> None:
    """Pauses, seeks and revocations against takes: positions never go back but by a seek, and fetches never leak."""
    buffer = Buffer(A, B)
    done = threading.Event()

    def disturb() -> None:
        for turn in range(400):
            buffer.subscriptions.pause([A])
            buffer.subscriptions.seek(A, turn)
            buffer.subscriptions.resume([A])
            buffer.subscriptions.revoke([B])
            buffer.subscriptions.assign([B])
            buffer.subscriptions.seek(B, turn)
        done.set()

    def feed() -> None:
        for partition in (A, B):
            with buffer.subscriptions.lock:
                state = buffer.subscriptions.assignment.get(partition)
                if state is not None and state.position is not None and not state.completed_fetches:
                    first = state.fetch_offset
                    buffer.subscriptions.add_completed_fetch(
                        state, CompletedFetch(memoryview(batch(first, 50)), first, ())
                    )

    thread = threading.Thread(target=disturb)
    thread.start()
    while not done.is_set():
        feed()
        for one in buffer.fetch_buffer.take(20):
            assert one.value == b"v%d" % one.offset
    thread.join()
    for partition in (A, B):
        buffer.subscriptions.seek(partition, 1000)
    assert buffer.subscriptions.queued_bytes == 0
    assert buffer.subscriptions.ready == {}
    feed()
    assert sorted(one.offset for one in buffer.fetch_buffer.take(100)) == sorted(2 * list(range(1000, 1050)))


def test_the_collector_rests_while_records_are_made() -> None:
    collections = 0

    def count(phase: str, info: dict[str, int]) -> None:
        nonlocal collections
        collections += phase == "start"

    buffer = Buffer(A)
    buffer.add(A, batch(0, 5000))
    gc.callbacks.append(count)
    try:
        assert len(buffer.fetch_buffer.take(5000)) == 5000
        assert collections <= 1  # where it begins again
        assert gc.isenabled()
    finally:
        gc.callbacks.remove(count)


def test_a_failure_leaves_the_collector_as_it_was() -> None:
    buffer = Buffer(A)
    buffer.failure(A, FetchFailure(NoOffsetForPartitionError([A]), passes=False))
    with pytest.raises(NoOffsetForPartitionError):
        buffer.fetch_buffer.take(1)
    assert gc.isenabled()
    gc.disable()
    try:
        with pytest.raises(NoOffsetForPartitionError):
            buffer.fetch_buffer.take(1)
        assert not gc.isenabled()
    finally:
        gc.enable()
