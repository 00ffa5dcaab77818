"""Answers that no broker of ours gives: transactions, leaders that move, throttling, empty answers, damage."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from equipoise.client.net.blocking import InFlightRequest
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.member.partitions import TopicPartition
from equipoise.spark.executor import reading
from equipoise.spark.executor.leaders import FetchedSizes, LeaderEndpoint
from equipoise.spark.executor.reading import read
from equipoise.spark.source.offset_ranges import OffsetRange
from equipoise.wire.apis.k01_fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.schema import ZERO_UUID
from tests.client.records import TIME
from tests.spark.reads import IN_VAIN, task

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = b"t" * 16
END = 1_000_000

Answer = dict[TopicPartition, PartitionData]


def data(partition: int, *batches: bytes | bytearray, error: int = 0, end: int = END, **more: Any) -> PartitionData:
    joined = memoryview(b"".join(batches))
    more = {"last_stable_offset": end, **more}
    return PartitionData(partition_index=partition, error_code=error, high_watermark=end, records=joined, **more)


def batch(*offsets: int, **more: Any) -> bytearray:
    records = [Record(offset, TIME, None, b"%d" % offset) for offset in offsets]
    return build_batch(records, base_offset=offsets[0], **more)


def control(offset: int, kind: int, producer_id: int) -> bytearray:
    record = Record(offset, TIME, struct.pack(">hh", 0, kind), b"\0" * 6)
    options: dict[str, Any] = {"transactional": True, "control": True, "producer_id": producer_id}
    return build_batch([record], base_offset=offset, producer_epoch=0, **options)


class FakeLeaders:
    """In place of the cluster: answers fetches from a list, and remembers what was asked of whom."""

    def __init__(self, *replies: Answer | Exception) -> None:
        self.replies = list(replies)
        self.leaders = {T0: 1, T1: 1}
        self.topic_id = TOPIC_ID
        self.sizes: dict[TopicPartition, FetchedSizes] = {}
        self.asked: list[tuple[int, dict[TopicPartition, int]]] = []  # the node, and the offset of each partition
        self.waits: list[int] = []
        self.versions: list[int | None] = []
        self.refreshed = 0
        self.held = (0, END)
        self.local = 0  # the first offset that is not in remote storage

    def leader(self, partition: TopicPartition) -> LeaderEndpoint:
        return LeaderEndpoint(("node", self.leaders[partition]), 0, self.topic_id)

    known = leader

    def refresh(self, topics: Iterable[str]) -> None:
        assert set(topics) == {"t"}
        self.refreshed += 1

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        return self.held

    def local_start(self, partition: TopicPartition) -> int:
        return self.local

    def connection(self, address: tuple[str, int]) -> FakeConnection:
        return FakeConnection(self, address[1])

    def give_back(self, address: tuple[str, int], connection: FakeConnection) -> None:
        assert not connection.is_closed


class FakeConnection:
    address = "node:1"
    is_closed = False

    def __init__(self, leaders: FakeLeaders, node: int) -> None:
        self.leaders = leaders
        self.node = node

    def ask(self, request: FetchRequest, newest: int | None) -> InFlightRequest:
        offsets = {
            TopicPartition(topic.topic, one.partition): one.fetch_offset
            for topic in request.topics
            for one in topic.partitions
        }
        self.leaders.asked.append((self.node, offsets))
        self.leaders.waits.append(request.max_wait_ms)
        self.leaders.versions.append(newest)
        return InFlightRequest(1, 18, 1)

    def is_answered(self, seconds: float) -> bool:
        return True

    def answer(self, asked: InFlightRequest, response: type[FetchResponse]) -> FetchResponse:
        reply = self.leaders.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        found = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[one]) for one in reply.values()]
        return FetchResponse(responses=found)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeLeaders]:
    def make(*replies: Answer | Exception) -> FakeLeaders:
        leaders = FakeLeaders(*replies)
        monkeypatch.setattr(reading, "leaders_of", lambda config: leaders)
        return leaders

    return make


Scripted = Callable[..., FakeLeaders]


def read_offsets(*ranges: OffsetRange, **options: str) -> list[int]:
    batches = list(read(task("node:1", ranges, ("offset",), **options)))
    found: list[int] = pa.Table.from_batches(batches, pa.schema([("offset", pa.int64())]))["offset"].to_pylist()
    return found


COMMITTED = {"kafka__isolation__level": "read_committed"}


def test_aborted_transactions_are_left_out_of_what_is_committed(scripted: Scripted) -> None:
    fetched = [
        batch(0, 1),
        batch(2, 3, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0),
        batch(4, transactional=True, producer_id=8, producer_epoch=0, base_sequence=0),
        control(5, 0, 7),
        batch(6, transactional=True, producer_id=7, producer_epoch=0, base_sequence=2),
        control(7, 1, 8),
        control(8, 1, 7),
    ]
    aborted = [AbortedTransaction(producer_id=7, first_offset=2)]
    scripted({T0: data(0, *fetched, aborted_transactions=aborted)})
    assert read_offsets(OffsetRange("t", 0, 0, 9), **COMMITTED) == [0, 1, 4, 6]
    scripted({T0: data(0, *fetched)})
    assert read_offsets(OffsetRange("t", 0, 0, 9)) == [0, 1, 2, 3, 4, 6]


def test_a_range_of_which_nothing_is_delivered_ends(scripted: Scripted) -> None:
    fetched = batch(0, 1, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0), control(2, 0, 7)
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    leaders = scripted({T0: data(0, *fetched, aborted_transactions=aborted)})
    assert read_offsets(OffsetRange("t", 0, 0, 3), **COMMITTED) == []
    assert len(leaders.asked) == 1


def test_batches_behind_a_gap_end_the_range(scripted: Scripted) -> None:
    """Compaction has taken all that lay between: what comes begins behind the range."""
    leaders = scripted({T0: data(0, batch(3, 5))}, {T0: data(0, batch(50, 51))})
    assert read_offsets(OffsetRange("t", 0, 0, 20)) == [3, 5]
    assert leaders.asked == [(1, {T0: 0}), (1, {T0: 6})]


def test_a_batch_that_kept_its_range_but_no_records(scripted: Scripted) -> None:
    scripted({T0: data(0, build_batch([], base_offset=4, last_offset_delta=9))})
    assert read_offsets(OffsetRange("t", 0, 0, 14)) == []


def test_nothing_is_left_only_if_a_broker_that_may_wait_says_so(scripted: Scripted) -> None:
    leaders = scripted({T0: data(0, batch(0))}, {T0: data(0)}, {T0: data(0)})
    assert read_offsets(OffsetRange("t", 0, 0, 5)) == [0]
    assert leaders.waits == [0, 0, 20]


def test_what_remote_storage_is_slow_to_give_is_not_lost(scripted: Scripted) -> None:
    """A broker that has waited for it in vain answers without records, and without an error."""
    leaders = scripted({T0: data(0)}, {T0: data(0)}, {T0: data(0)}, {T0: data(0, batch(0, 1))})
    leaders.local = 2
    assert read_offsets(OffsetRange("t", 0, 0, 2)) == [0, 1]


def test_remote_storage_that_does_not_answer_is_told(scripted: Scripted) -> None:
    leaders = scripted(*[{T0: data(0)}] * 1000)
    leaders.local = 2
    with pytest.raises(KafkaError, match="t-0: the records from offset 0 on are in remote storage"):
        read_offsets(OffsetRange("t", 0, 0, 2), **IN_VAIN)


def test_what_comes_late_is_not_lost(scripted: Scripted) -> None:
    scripted({T0: data(0)}, {T0: data(0, batch(0, 1))})
    assert read_offsets(OffsetRange("t", 0, 0, 2)) == [0, 1]


def test_an_answer_without_the_partition_is_no_answer(scripted: Scripted) -> None:
    """So brokers answer who is over his quota."""
    leaders = scripted({}, {}, {T0: data(0, batch(0, 1))})
    assert read_offsets(OffsetRange("t", 0, 0, 2)) == [0, 1]
    assert leaders.waits == [0, 0, 0]


def test_nor_is_one_with_other_records(scripted: Scripted) -> None:
    leaders = scripted({T0: data(0, batch(0, 1))}, {T0: data(0, batch(7, 8))})
    assert read_offsets(OffsetRange("t", 0, 7, 9)) == [7, 8]
    assert leaders.refreshed == 1


def test_an_open_transaction_is_waited_for(scripted: Scripted) -> None:
    waiting = {T0: data(0, last_stable_offset=1)}
    scripted(waiting, waiting, {T0: data(0, batch(1, 2))})
    assert read_offsets(OffsetRange("t", 0, 1, 3), **COMMITTED) == [1, 2]


def test_but_not_for_ever(scripted: Scripted) -> None:
    scripted(*[{T0: data(0, last_stable_offset=1)}] * 1000)
    with pytest.raises(KafkaError, match="t-0 has its last stable offset at 1"):
        read_offsets(OffsetRange("t", 0, 1, 3), **COMMITTED, **IN_VAIN)


@pytest.mark.parametrize(
    "trouble",
    [
        {T0: data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)},
        {T0: data(0, error=ErrorCode.FENCED_LEADER_EPOCH)},
        {T0: data(0, error=ErrorCode.UNKNOWN_SERVER_ERROR)},
        KafkaConnectionError("gone"),
    ],
)
def test_trouble_that_passes_with_newer_metadata(scripted: Scripted, trouble: Answer | Exception) -> None:
    leaders = scripted(trouble, {T0: data(0, batch(0, 1))})
    assert read_offsets(OffsetRange("t", 0, 0, 2)) == [0, 1]
    assert leaders.refreshed == 1


def test_trouble_that_does_not(scripted: Scripted) -> None:
    scripted({T0: data(0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)})
    with pytest.raises(KafkaError, match=r"t-0 cannot be fetched \(TOPIC_AUTHORIZATION_FAILED\)"):
        read_offsets(OffsetRange("t", 0, 0, 2))


def test_a_broker_that_knows_less_than_it_says(scripted: Scripted) -> None:
    """Out of range, and yet within: it will learn."""
    scripted({T0: data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)}, {T0: data(0, batch(0))})
    assert read_offsets(OffsetRange("t", 0, 0, 1)) == [0]


def test_one_range_waits_while_another_goes_on(scripted: Scripted) -> None:
    leaders = scripted(
        {T0: data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), T1: data(1, batch(0, 1))},
        {T0: data(0, batch(0, 1))},
    )
    ranges = OffsetRange("t", 0, 0, 2), OffsetRange("t", 1, 0, 2)
    assert read_offsets(*ranges) == [0, 1, 0, 1]
    assert leaders.asked == [(1, {T0: 0, T1: 0}), (1, {T0: 0})]


def test_each_leader_is_asked_for_its_own(scripted: Scripted) -> None:
    leaders = scripted({T0: data(0, batch(0, 1))}, {T1: data(1, batch(5))})
    leaders.leaders[T1] = 2
    assert read_offsets(OffsetRange("t", 0, 0, 2), OffsetRange("t", 1, 5, 6)) == [0, 1, 5]
    assert leaders.asked == [(1, {T0: 0}), (2, {T1: 5})]


def test_the_next_fetch_leaves_before_the_last_is_decoded(scripted: Scripted) -> None:
    leaders = scripted({T0: data(0, batch(0, 1))}, {T0: data(0, batch(2, 3))})
    batches = read(task("node:1", [OffsetRange("t", 0, 0, 4)], ("offset",)))
    next(batches)
    assert leaders.asked == [(1, {T0: 0}), (1, {T0: 2})]
    assert len(list(batches)) == 1


def test_topics_without_an_id_are_asked_for_by_name(scripted: Scripted) -> None:
    leaders = scripted({T0: data(0, batch(0))})
    leaders.topic_id = ZERO_UUID

    def by_name(self: FakeConnection, asked: InFlightRequest, response: type[FetchResponse]) -> FetchResponse:
        (one,) = leaders.replies.pop(0).values()  # type: ignore[union-attr]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[one])])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeConnection, "answer", by_name)
        assert read_offsets(OffsetRange("t", 0, 0, 1)) == [0]
    assert leaders.versions == [12]


def test_damage_is_told_with_its_place(scripted: Scripted) -> None:
    damaged = batch(0, 1)
    damaged[-1] ^= 1
    scripted({T0: data(0, damaged)})
    with pytest.raises(KafkaError, match="t-0, fetched from offset 0: the batch carries CRC32C") as caught:
        read_offsets(OffsetRange("t", 0, 0, 2))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_damage_within_records_too(scripted: Scripted) -> None:
    damaged = batch(0, 1)
    damaged[61] = 0xFF
    scripted({T0: data(0, damaged)})
    with pytest.raises(KafkaError, match="t-0 from offset 0 on: "):
        read_offsets(OffsetRange("t", 0, 0, 2), kafka__check__crcs="false")


def test_a_time_that_spark_cannot_hold(scripted: Scripted) -> None:
    records = [Record(0, TIME, None, b""), Record(1, 2**62, None, b"")]
    for columns in (("timestamp",), ("offset",)):
        scripted({T0: data(0, build_batch(records))})
        batches = read(task("node:1", [OffsetRange("t", 0, 0, 2)], columns))
        if columns == ("offset",):
            assert sum(one.num_rows for one in batches) == 2
        else:
            with pytest.raises(KafkaError, match="offset 1 has timestamp 4611686018427387904 ms"):
                list(batches)


def test_pandas_is_not_imported() -> None:
    """It would cost every worker of Spark 0.3 s and 60 MB, and Arrow imports it on slight occasions."""
    script = """
import sys
import pyspark_equipoise
from equipoise.spark.executor.decoding import FetchedRange, decode
from equipoise.member.partitions import TopicPartition
from equipoise.wire.records.batch import read_header
from equipoise.wire.records.build import Record, build_batch

data = build_batch([Record(at, 5, None, b"v", (("a", b""),)) for at in range(3)])
columns = "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"
part = FetchedRange(TopicPartition("t", 0), 0, 2, memoryview(data), [(0, read_header(data))])
(found,) = decode([part], columns)
assert found.num_rows == 2
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
