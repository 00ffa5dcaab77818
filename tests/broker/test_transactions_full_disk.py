"""Transactions while the disk is full: each request has its answer, and what is decided is done when there is room."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.log.partition import PartitionLog
from equipoise.log.producer_state import TxnMarker
from equipoise.log.segment import LogSegment
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import create_topic, delete_topic
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.test_transactions import T0, is_stable, markers
from tests.broker.transactional import TV2, TransactionalProducer
from tests.broker.txn_calls import RawProducer, committed, settled

OK = ErrorCode.NONE
STATE, OFFSETS = "__transaction_state", "__consumer_offsets"
SETTINGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
AGAIN_MS = 1_000


class FullDisk:
    """No room for appends to the logs of these topics. `follow`: topics that have none either from the first refusal
    on."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.follow: set[str] = set()
        self.refused: list[str] = []

    def check(self, log: str) -> None:
        if log.rpartition("-")[0] in self.topics:
            self.refused.append(log)
            self.topics |= self.follow
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def has_room(self) -> None:
        self.topics.clear()
        self.follow.clear()


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    full, write = FullDisk(), PartitionLog._write

    def written(log: PartitionLog, *given: Any) -> None:
        append = LogSegment.append

        def checked(segment: LogSegment, *parts: Any) -> None:
            full.check(log.name)
            append(segment, *parts)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LogSegment, "append", checked)
            write(log, *given)

    monkeypatch.setattr(PartitionLog, "_write", written)
    return full


class Served:
    """A broker whose time stands still, with topic t."""

    def __init__(self, start: Start, connect: Connect, data: Path) -> None:
        self._start, self._connect, self._data = start, connect, data
        self.clock = StandingClock()
        self.begin()
        create_topic(self.client, partitions=2)

    def begin(self) -> None:
        self.broker: Broker = self._start(SETTINGS, clock=self.clock, data=self._data)
        self.client = self._connect(self.broker)

    def producer(self) -> TransactionalProducer:
        one = TransactionalProducer(self.client)
        eventually(lambda: one.init() == OK, "the coordinator serves")
        return one

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Time passes."""

        def holds() -> Any:
            advance(self.broker, self.clock, AGAIN_MS)
            return condition()

        eventually(holds, what)


@pytest.fixture
def served(start: Start, connect: Connect, tmp_path: Path) -> Served:
    return Served(start, connect, tmp_path)


# -- decisions


def test_a_marker_that_found_no_room_is_written_when_there_is_some(served: Served, full: FullDisk) -> None:
    """Its id stayed in PrepareCommit until the next start, and its topic was read no further."""
    producer = served.producer()
    assert producer.produce(T0) == [OK]
    full.topics.add("t")
    assert producer.end() == OK
    eventually(lambda: full.refused, "the marker was refused")
    advance(served.broker, served.clock, AGAIN_MS)
    assert (producer.describe().transaction_state, len(full.refused)) == ("PrepareCommit", 2)
    full.has_room()
    served.until(lambda: is_stable(served.broker), "the marker is durable")
    assert [row[2] for row in markers(served.broker)] == [True]
    eventually(lambda: producer.describe().transaction_state == "CompleteCommit", "it is over")
    assert producer.produce(T0) == [OK]


def test_a_marker_whose_topic_is_deleted_meanwhile_is_done(served: Served, full: FullDisk) -> None:
    producer = served.producer()
    assert producer.produce(T0) == [OK]
    full.topics.add("t")
    assert producer.end() == OK
    eventually(lambda: full.refused, "the marker was refused")
    assert delete_topic(served.client, "t") == OK
    served.until(lambda: producer.describe().transaction_state == "CompleteCommit", "it is over")


def test_the_end_of_a_transaction_that_found_no_room_is_written_when_there_is_some(
    served: Served, full: FullDisk
) -> None:
    """The markers were there; the id stayed in PrepareCommit until the next start."""
    producer = served.producer()
    assert producer.produce(T0) == [OK]
    full.follow.add(STATE)
    full.topics.add("t")
    assert producer.end() == OK
    eventually(lambda: full.refused, "the marker was refused")
    full.topics.discard("t")
    served.until(lambda: f"{STATE}-0" in full.refused, "the end was refused")
    assert producer.describe().transaction_state == "PrepareCommit"
    full.has_room()
    served.until(lambda: producer.describe().transaction_state == "CompleteCommit", "it is over")
    assert producer.produce(T0) == [OK]


# -- records that no coordinator knows of


def refused_with_its_marker(served: Served, full: FullDisk) -> TransactionalProducer:
    producer = served.producer()
    full.topics.add(STATE)
    full.follow.add("t")
    assert producer.produce(T0) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert full.refused == [f"{STATE}-0", "t-0"]
    assert not is_stable(served.broker)
    return producer


def test_a_refused_producer_has_its_answer_and_its_records_are_taken_back_later(served: Served, full: FullDisk) -> None:
    """The request had no answer, and readers of committed records waited for the next start."""
    refused_with_its_marker(served, full)
    full.has_room()
    served.until(lambda: is_stable(served.broker), "the records are taken back")
    assert [row[2] for row in markers(served.broker)] == [False]


def test_what_is_to_be_taken_back_is_not_taken_for_stored(served: Served, full: FullDisk) -> None:
    producer = refused_with_its_marker(served, full)
    full.topics.discard(STATE)
    assert producer.produce(T0) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    full.has_room()
    assert producer.produce(T0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert [row[2] for row in markers(served.broker)] == [False]
    assert producer.end(commit=False) == OK
    assert producer.produce(T0) == [OK]
    assert producer.end() == OK
    eventually(lambda: is_stable(served.broker), "the marker is durable")
    assert [row[2] for row in markers(served.broker)][-1] is True


def test_what_is_to_be_taken_back_is_not_committed_by_an_older_client(served: Served, full: FullDisk) -> None:
    """It adds the partition to its transaction, and commits."""
    producer = refused_with_its_marker(served, full)
    full.topics.discard(STATE)
    assert producer.add(T0) == {T0: OK}
    assert producer.end() == OK
    full.has_room()
    served.until(lambda: is_stable(served.broker), "the records are taken back")
    assert not markers(served.broker)[0][2]
    served.until(lambda: producer.describe().transaction_state == "CompleteCommit", "it is over")


def test_the_marker_of_a_refused_producer_has_the_epoch_of_its_last_coordinator(served: Served, full: FullDisk) -> None:
    """With an older one it was fenced off: the request had no answer, and the records stayed."""
    producer = served.producer()

    def mark(server: Server) -> None:
        marker = TxnMarker(producer.producer_id, producer.epoch, False, coordinator_epoch=3)
        server.append_marker(server.topics.partition(*T0), marker)

    served.broker.call(mark)
    full.topics.add(STATE)
    assert producer.produce(T0) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    eventually(lambda: is_stable(served.broker), "the records are taken back")
    assert [row[2:] for row in markers(served.broker)] == [(False, 3), (False, 3)]


# -- offsets that no coordinator knows of


def test_refused_offsets_have_their_answer_and_are_taken_back_later(served: Served, full: FullDisk) -> None:
    """The request had no answer, and the group's offset was unstable until the next start."""
    producer = RawProducer(served.client)
    full.topics.add(STATE)
    full.follow.add(OFFSETS)
    assert producer.commit_offset("g", 7) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert full.refused == [f"{STATE}-0", f"{OFFSETS}-0"]
    assert committed(served.client, "g") == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    full.topics.discard(STATE)
    assert producer.commit_offset("g", 8) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    full.has_room()
    served.until(lambda: committed(served.client, "g") == (OK, -1), "the offset is taken back")
    assert producer.commit_offset("g", 9) == OK
    producer.end(commit=True)
    assert settled(served.client, "g") == 9


def test_offsets_that_come_again_are_not_taken_back_with_the_first(served: Served, full: FullDisk) -> None:
    producer = RawProducer(served.client)
    full.topics.add(STATE)
    full.follow.add(OFFSETS)
    assert producer.commit_offset("g", 7) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    full.has_room()
    assert producer.commit_offset("g", 9) == OK
    advance(served.broker, served.clock, AGAIN_MS)
    producer.end(commit=True)
    assert settled(served.client, "g") == 9


# -- the sweep


def test_a_transaction_that_the_sweep_could_not_abort_is_aborted_when_there_is_room(
    served: Served, full: FullDisk
) -> None:
    """It stayed open until the next start."""
    refused_with_its_marker(served, full)
    full.topics = {"t"}
    served.broker.stop()
    refused = len(full.refused)
    served.begin()
    eventually(lambda: len(full.refused) > refused, "the sweep was refused")
    assert not is_stable(served.broker)
    full.has_room()
    served.until(lambda: is_stable(served.broker), "the records are taken back")
    producer = served.producer()
    assert (producer.version, producer.produce(T0)) == (TV2, [OK])
