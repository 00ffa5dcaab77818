"""What an executor reads from our broker: every record of its ranges once, whatever their number and size."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from multiprocessing import get_context
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.client.fetch import fetch_request
from equipoise.client.fetch.completed_fetch import CompletedFetch
from equipoise.client.fetch.fetch_request import FetchLimits, PartitionFetch
from equipoise.member.partitions import TopicPartition
from equipoise.server_process import free_port
from equipoise.spark.executor import decoding, reading
from equipoise.spark.executor.reading import read
from equipoise.spark.source.offset_ranges import OffsetRange
from equipoise.wire.apis.k01_fetch import FetchRequest
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import Codec
from equipoise.wire.records.build import Record, build_batch
from proving.brokers import EquipoiseBroker
from tests.client.records import TIME, fill, numbered, produce
from tests.spark.conftest import create, delete_before
from tests.spark.engine import until
from tests.spark.reads import IN_VAIN, all_of, places, table, task


def test_the_columns_of_a_record(broker: Broker) -> None:
    create(broker.bootstrap_servers, "t")
    headers = (("a", b"1"), ("b", None), ("a", b""))
    records = [
        Record(0, TIME, b"k", b"v", headers),
        Record(1, TIME + 1, None, None),
        Record(2, -1, b"", b"\xff"),
    ]
    produce(broker.bootstrap_servers, "t", 0, records)
    columns = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    found = table(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 3)], columns).to_pylist()
    written = datetime.fromtimestamp(TIME / 1000, UTC)
    assert found[0] == {
        "key": b"k",
        "value": b"v",
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": written,
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": "a", "value": b""}],
    }
    assert (found[1]["key"], found[1]["value"], found[1]["headers"]) == (None, None, None)
    assert found[1]["timestamp"].microsecond - written.microsecond == 1000
    assert (found[2]["key"], found[2]["value"]) == (b"", b"\xff")
    assert found[2]["timestamp"] == datetime.fromtimestamp(-0.001, UTC), "no timestamp is -1, as in Spark's connector"


def test_only_the_columns_asked_for(broker: Broker) -> None:
    fill(broker, "t", 10)
    found = table(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 10)], ("offset", "value"))
    assert found.schema == pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    assert found["value"].to_pylist() == [one.value for one in numbered(10)]


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec(broker: Broker, codec: Codec) -> None:
    create(broker.bootstrap_servers, "t")
    produce(broker.bootstrap_servers, "t", 0, numbered(3000, 50), codec=codec, per_batch=700)
    found = table(broker.bootstrap_servers, [OffsetRange("t", 0, 10, 2990)])
    assert found["offset"].to_pylist() == list(range(10, 2990))
    assert found["value"].to_pylist() == [one.value for one in numbered(3000, 50)[10:2990]]


@pytest.mark.parametrize(("codec", "expected"), [(Codec.ZSTD, [50, 50, 30]), (Codec.NONE, [130])])
def test_compressed_batches_are_expanded_a_few_at_a_time(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, codec: Codec, expected: list[int]
) -> None:
    create(broker.bootstrap_servers, "t")
    noise = Random(1)
    records = [Record(at, TIME, None, noise.randbytes(100)) for at in range(150)]
    produce(broker.bootstrap_servers, "t", 0, records, codec=codec, per_batch=25)
    size = len(build_batch(records[:25], codec=codec))
    monkeypatch.setattr(decoding, "_MOST_PACKED", 2 * size + size // 2)
    batches = list(read(task(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 130)])))
    assert [one.num_rows for one in batches] == expected
    assert places(pa.Table.from_batches(batches)) == all_of(OffsetRange("t", 0, 0, 130))


def test_ranges_are_clipped_within_batches(broker: Broker) -> None:
    fill(broker, "t", 100, partitions=3, per_batch=30)
    ranges = [OffsetRange("t", 0, 7, 8), OffsetRange("t", 1, 29, 61), OffsetRange("t", 2, 60, 100)]
    assert places(table(broker.bootstrap_servers, ranges)) == all_of(*ranges)


def test_many_small_ranges_come_in_few_batches(broker: Broker) -> None:
    fill(broker, "t", 20, partitions=40)
    ranges = [OffsetRange("t", number, 5, 20) for number in range(40)]
    batches = list(read(task(broker.bootstrap_servers, ranges)))
    assert places(pa.Table.from_batches(batches)) == all_of(*ranges)
    assert len(batches) == 2


def test_several_topics(broker: Broker) -> None:
    fill(broker, "a", 10, partitions=2)
    fill(broker, "b", 10)
    ranges = [OffsetRange("a", 0, 0, 5), OffsetRange("a", 1, 0, 5), OffsetRange("b", 0, 2, 9)]
    assert places(table(broker.bootstrap_servers, ranges)) == all_of(*ranges)


def test_large_ranges_take_many_fetches(broker: Broker) -> None:
    fill(broker, "t", 5000, partitions=2, size=100)
    ranges = [OffsetRange("t", 0, 1, 4999), OffsetRange("t", 1, 0, 5000)]
    batches = list(read(task(broker.bootstrap_servers, ranges, kafka__max__partition__fetch__bytes="60000")))
    assert sorted(places(pa.Table.from_batches(batches))) == all_of(*ranges)
    assert len(batches) > 10


def test_a_record_larger_than_a_fetch(broker: Broker) -> None:
    create(broker.bootstrap_servers, "t")
    records = [Record(0, TIME, None, bytes(size)) for size in (10, 50_000, 10, 70_000)]
    produce(broker.bootstrap_servers, "t", 0, records, per_batch=1)
    ranges = [OffsetRange("t", 0, 0, 4)]
    options = {"kafka__max__partition__fetch__bytes": "1000", "kafka__fetch__max__bytes": "1000"}
    found = table(broker.bootstrap_servers, ranges, **options)
    assert [len(value) for value in found["value"].to_pylist()] == [10, 50_000, 10, 70_000]


def test_two_ranges_of_one_partition(broker: Broker) -> None:
    fill(broker, "t", 100)
    ranges = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 0, 50, 60)]
    assert places(table(broker.bootstrap_servers, ranges)) == all_of(*ranges)


def test_nothing_to_read(broker: Broker) -> None:
    assert list(read(task(broker.bootstrap_servers, []))) == []


def test_record_batches_are_of_moderate_size(broker: Broker) -> None:
    create(broker.bootstrap_servers, "t")
    produce(broker.bootstrap_servers, "t", 0, numbered(70_000, 1), codec=Codec.ZSTD, per_batch=10_000)
    batches = list(read(task(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 70_000)])))
    assert sum(batch.num_rows for batch in batches) == 70_000
    assert max(batch.num_rows for batch in batches) <= 32_768


def test_no_more_is_fetched_than_the_range_should_take(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is known how large records are: a fetch has no end."""
    fill(broker, "t", 20_000, size=100, per_batch=100)
    fetched: list[int] = []

    def noting(data: memoryview, *more: Any) -> CompletedFetch:
        fetched.append(len(data))
        return CompletedFetch(data, *more)

    monkeypatch.setattr(fetch_request, "CompletedFetch", noting)
    for start in (0, 100):
        assert table(broker.bootstrap_servers, [OffsetRange("t", 0, start, start + 100)]).num_rows == 100
    assert fetched[0] > 1_000_000
    assert fetched[1] < 50_000


def test_parts_of_large_batches_of_several_partitions_come_with_one_fetch(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker gives a batch that is larger than asked for only of the first partition."""
    create(broker.bootstrap_servers, "t", 3)
    for number in range(3):
        produce(broker.bootstrap_servers, "t", number, numbered(1000, 100), per_batch=1000)
    fetches: list[int] = []

    def noting(limits: FetchLimits, asked: Mapping[TopicPartition, PartitionFetch]) -> FetchRequest:
        fetches.append(len(asked))
        return fetch_request.fetch_request(limits, asked)

    monkeypatch.setattr(reading, "fetch_request", noting)
    for start in (0, 500):
        fetches.clear()
        ranges = [OffsetRange("t", number, start, start + 2) for number in range(3)]
        assert places(table(broker.bootstrap_servers, ranges)) == all_of(*ranges)
    assert fetches == [3]


# -- connections


def connections(broker: Broker) -> int:
    return broker.call(lambda server: len(server.connections))


def test_connections_outlive_a_task(broker: Broker) -> None:
    fill(broker, "t", 100)
    until("the broker has seen the producer go", lambda: connections(broker) == 0)
    for _ in range(5):
        table(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 100)])
    assert connections(broker) == 1


def test_a_connection_with_an_answer_under_way_is_not_used_again(broker: Broker) -> None:
    fill(broker, "t", 5000, size=100)
    options = {"kafka__max__partition__fetch__bytes": "60000"}
    abandoned = read(task(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 5000)], **options))
    next(abandoned)
    assert isinstance(abandoned, Generator)
    abandoned.close()
    found = table(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 5000)], **options)
    assert found["offset"].to_pylist() == list(range(5000))


def test_a_broker_that_was_started_again_between_tasks() -> None:
    with EquipoiseBroker() as broker:
        create(broker.bootstrap_servers, "t")
        produce(broker.bootstrap_servers, "t", 0, numbered(100))
        for _ in range(2):
            assert table(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 100)]).num_rows == 100
            broker.restart()


def test_a_broker_that_is_away_for_a_moment() -> None:
    with EquipoiseBroker() as broker:
        create(broker.bootstrap_servers, "t")
        produce(broker.bootstrap_servers, "t", 0, numbered(20_000, 100))
        options = {"kafka__max__partition__fetch__bytes": "60000"}
        under_way = read(task(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 20_000)], **options))
        batches = [next(under_way)]
        broker.kill()
        back = threading.Timer(0.3, broker.start)
        back.start()
        batches += under_way
        back.join()
    assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(20_000))


def _read_in_child(mine: object, answer: object) -> None:
    answer.put([batch.num_rows for batch in read(mine)])  # type: ignore[attr-defined,arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_has_connections_of_its_own(broker: Broker) -> None:
    fill(broker, "t", 100)
    mine = task(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 100)])
    assert sum(batch.num_rows for batch in read(mine)) == 100
    context = get_context("fork")
    answer = context.SimpleQueue()
    child = context.Process(target=_read_in_child, args=(mine, answer))
    child.start()
    assert answer.get() == [100]
    child.join()
    assert sum(batch.num_rows for batch in read(mine)) == 100


# -- what is not there


def test_records_that_were_deleted_are_an_error(broker: Broker) -> None:
    fill(broker, "t", 100)
    delete_before(broker.bootstrap_servers, "t", 40)
    with pytest.raises(KafkaError) as caught:
        table(broker.bootstrap_servers, [OffsetRange("t", 0, 10, 90)])
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert "t-0 [10, 90): offsets 10 to 39 cannot be read: the log holds [40, 100) only" in str(caught.value)
    assert "set failOnDataLoss to false" in str(caught.value)


def test_or_left_out_with_a_warning(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    fill(broker, "t", 100, partitions=2)
    delete_before(broker.bootstrap_servers, "t", 40)
    ranges = [OffsetRange("t", 0, 10, 90), OffsetRange("t", 1, 0, 5)]
    found = table(broker.bootstrap_servers, ranges, failOnDataLoss="false")
    assert sorted(places(found)) == all_of(OffsetRange("t", 0, 40, 90), ranges[1])
    assert "offsets 10 to 39 cannot be read" in caplog.text


@pytest.mark.parametrize(("start", "end"), [(5, 30), (200, 300)])
def test_a_range_that_is_gone_altogether(broker: Broker, start: int, end: int) -> None:
    fill(broker, "t", 100)
    delete_before(broker.bootstrap_servers, "t", 40)
    assert not table(broker.bootstrap_servers, [OffsetRange("t", 0, start, end)], failOnDataLoss="false").num_rows
    with pytest.raises(KafkaError, match=f"offsets {start} to {end - 1} cannot be read"):
        table(broker.bootstrap_servers, [OffsetRange("t", 0, start, end)])


def test_a_log_that_ends_before_the_range_does(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    fill(broker, "t", 100)
    with pytest.raises(KafkaError, match=r"t-0 \[50, 120\): offsets 100 to 119 cannot be read: t-0 has its end at 100"):
        table(broker.bootstrap_servers, [OffsetRange("t", 0, 50, 120)], **IN_VAIN)
    found = table(broker.bootstrap_servers, [OffsetRange("t", 0, 50, 120)], failOnDataLoss="false", **IN_VAIN)
    assert found["offset"].to_pylist() == list(range(50, 100))
    assert "left out" in caplog.text


def test_records_that_come_while_it_waits(broker: Broker) -> None:
    fill(broker, "t", 100)
    under_way = read(task(broker.bootstrap_servers, [OffsetRange("t", 0, 50, 120)]))
    batches = [next(under_way)]
    late = threading.Timer(0.1, produce, (broker.bootstrap_servers, "t", 0, numbered(50)))
    late.start()
    batches += under_way
    late.join()
    assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(50, 120))


def test_a_topic_that_is_gone(broker: Broker) -> None:
    fill(broker, "t", 100)
    assert table(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 10)]).num_rows == 10
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("t")
    with pytest.raises(KafkaError, match=r"offsets 10 to 19 cannot be read: t-0 .*UNKNOWN_TOPIC"):
        table(broker.bootstrap_servers, [OffsetRange("t", 0, 10, 20)], **IN_VAIN)
    with pytest.raises(KafkaError, match=r"offsets 0 to 4 cannot be read: u-3 .*UNKNOWN_TOPIC"):
        table(broker.bootstrap_servers, [OffsetRange("u", 3, 0, 5)], **IN_VAIN)
    left = table(broker.bootstrap_servers, [OffsetRange("t", 0, 10, 20)], failOnDataLoss="false", **IN_VAIN)
    assert left.num_rows == 0


def test_a_topic_that_is_gone_is_waited_for_once(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """Not once for each of its partitions. What else the task reads is there."""
    fill(broker, "t", 10, partitions=3)
    fill(broker, "u", 10)
    ranges = [OffsetRange("t", partition, 0, 10) for partition in range(3)] + [OffsetRange("u", 0, 0, 10)]
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("t")
    left = table(broker.bootstrap_servers, ranges, failOnDataLoss="false", **IN_VAIN)
    assert places(left) == all_of(ranges[3])
    told = [record.getMessage() for record in caplog.records if "are left out" in record.getMessage()]
    assert [one.split(" ")[0] for one in told] == ["t-0", "t-1", "t-2"]
    assert all("t-0 has no leader" in one for one in told)


def test_a_topic_made_anew_with_fewer_partitions(broker: Broker) -> None:
    fill(broker, "t", 10, partitions=3)
    ranges = [OffsetRange("t", partition, 0, 10) for partition in range(3)]
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("t")
    fill(broker, "t", 10)
    with pytest.raises(KafkaError, match=r"offsets 0 to 9 cannot be read: t-1 .*UNKNOWN_TOPIC.*set failOnDataLoss"):
        table(broker.bootstrap_servers, ranges, **IN_VAIN)
    left = table(broker.bootstrap_servers, ranges, failOnDataLoss="false", **IN_VAIN)
    assert places(left) == all_of(ranges[0])


def test_nobody_answers() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(KafkaError, match=rf"t-0 \[3, 9\) cannot be read: cannot connect to {address}.*for 0.5 s"):
        table(address, [OffsetRange("t", 0, 3, 9)], failOnDataLoss="false", **IN_VAIN)


def test_a_compacted_topic(caplog: pytest.LogCaptureFixture) -> None:
    """Most offsets are gone, those at the end of the range too: nobody waits for them."""
    settings = {"log.cleaner.backoff.ms": "10", "internal.log.segment.bytes": "20000"}
    caplog.set_level(logging.INFO)
    with Broker(settings) as broker:
        create(broker.bootstrap_servers, "t", cleanup_policy="compact", internal_segment_bytes="20000")
        records = [Record(0, TIME, b"%d" % (number % 7), b"%d" % number) for number in range(5000)]
        produce(broker.bootstrap_servers, "t", 0, records, per_batch=50)
        most = [OffsetRange("t", 0, 0, 4000)]
        until("it is compacted", lambda: table(broker.bootstrap_servers, most).num_rows < 1000)
        found = table(broker.bootstrap_servers, most)
        whole = table(broker.bootstrap_servers, [OffsetRange("t", 0, 0, 5000)])
    offsets = found["offset"].to_pylist()
    assert len(offsets) < 1000
    assert offsets == sorted(set(offsets))
    last = dict(zip(whole["key"].to_pylist(), whole["value"].to_pylist(), strict=True))
    assert last == {b"%d" % key: b"%d" % max(n for n in range(5000) if n % 7 == key) for key in range(7)}
