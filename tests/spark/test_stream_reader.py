"""The source as Spark calls it, called by a test instead: what comes back, and what travels."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.spark.options import SourceOptions
from equipoise.spark.source.offset_ranges import OffsetRange
from equipoise.spark.source.source_offset import Json
from equipoise.spark.source.stream_reader import StreamReader
from equipoise.wire.errors import UsageError
from tests.client.writing import produce


@pytest.fixture
def broker(broker: Broker) -> Broker:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 2)
    produce(broker, "t", 20, partitions=2)
    return broker


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def reader(broker: Broker) -> Iterator[StreamReader]:
    made = reader_of(broker, startingOffsets="earliest")
    yield made
    made.stop()


def reader_of(broker: Broker, **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", **options}
    return StreamReader(SourceOptions.parse(given, streaming=True), ("value",))


def ranges(reader: StreamReader, start: Json, end: Json) -> list[OffsetRange]:
    return sorted(one for task in reader.partitions(start, end) for one in task.ranges)


def test_a_batch_after_the_other(reader: StreamReader, broker: Broker) -> None:
    start = reader.initialOffset()
    assert reader.initialOffset() == start
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert ranges(reader, start, end) == [OffsetRange("t", 0, 0, 10, 0), OffsetRange("t", 1, 0, 10, 0)]
    assert reader.latestOffset(end, ReadAllAvailable()) is end  # nothing new: the very same
    reader.commit(end)
    produce(broker, "t", 2, partitions=1)
    after = reader.latestOffset(end, ReadAllAvailable())
    assert ranges(reader, end, after) == [OffsetRange("t", 0, 10, 12, 0)]
    report = reader.reportLatestOffset()
    assert report is not None
    assert report["to"] == {"t": {"0": 12, "1": 10}}


def test_limits(reader: StreamReader, broker: Broker) -> None:
    assert isinstance(reader.getDefaultReadLimit(), ReadAllAvailable)
    assert reader_of(broker, maxOffsetsPerTrigger="7").getDefaultReadLimit() == ReadMaxRows(7)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(4))
    assert [one.size for one in ranges(reader, reader.initialOffset(), end)] == [2, 2]


def test_what_is_there_and_no_more(reader: StreamReader, broker: Broker) -> None:
    reader.prepareForTriggerAvailableNow()
    produce(broker, "t", 20, partitions=2)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert [one.size for one in ranges(reader, reader.initialOffset(), end)] == [10, 10]
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_it_opens_nothing_before_it_is_asked_and_travels_without_what_it_has_opened(reader: StreamReader) -> None:
    assert reader.reportLatestOffset() is None
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    travelled = pickle.loads(pickle.dumps(reader))
    assert travelled._reader is None
    assert ranges(travelled, travelled.initialOffset(), end) == ranges(reader, reader.initialOffset(), end)


def test_a_batch_of_an_earlier_run_is_named(
    reader: StreamReader, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    again = reader_of(broker, startingOffsets="earliest")
    with caplog.at_level(logging.WARNING):
        ranges(reader, reader.initialOffset(), end)
        assert not caplog.text
        ranges(again, again.initialOffset(), end)
    assert "was under way when the query ended, and is read again: t-0 [0, 10), t-1 [0, 10)" in caplog.text


def test_sigterm_unwinds_once_and_stop_may_take_its_time(reader: StreamReader) -> None:
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)  # Spark sends two
    reader.stop()
    reader.stop()


def test_sigterm_does_not_interrupt_a_stop(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark interrupts the query, which closes the connection: the reader may stop before the signal comes."""
    reader = reader_of(broker, **{"group.id": "g", "startingOffsets": "earliest"})
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    planner = reader._planner
    assert planner is not None
    close = planner.close

    async def slow() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        await close()

    monkeypatch.setattr(planner, "close", slow)
    reader.stop()
    assert broker.groups["g"].members == []


LEAVES_LATE = """
import os, signal, sys
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.spark.test_stream_reader import StreamReader, SourceOptions

class Interrupted(StreamReader):
    def stop(self):
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
            os.kill(os.getpid(), signal.SIGTERM)  # before its first line
        super().stop()

given = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": "t", "group.id": "g"}
reader = Interrupted(SourceOptions.parse(given, streaming=True), ("value",))
try:
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
finally:
    reader.stop()
"""


def test_who_is_interrupted_before_it_stops_leaves_at_the_end_of_the_process(broker: Broker) -> None:
    ended = subprocess.run([sys.executable, "-c", LEAVES_LATE, broker.bootstrap_servers], check=False, timeout=60)
    assert ended.returncode == 0
    assert broker.groups["g"].members == []


def test_stop_without_a_start(broker: Broker) -> None:
    reader_of(broker).stop()


def test_errors_come_out(broker: Broker) -> None:
    reader = reader_of(broker, subscribe="nowhere")
    with pytest.raises(UsageError, match="topic 'nowhere' does not exist"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    reader.stop()


def test_a_checkpoint_from_a_newer_release(reader: StreamReader) -> None:
    newer: dict[str, Any] = {"v": 2}
    with pytest.raises(UsageError, match="this release knows 1"):
        reader.latestOffset(newer, ReadAllAvailable())
