"""The source with isolation.level=read_committed: aborted rows are left out, open transactions are waited for, and
offsets, counts and lag stay right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from equipoise import Broker, Producer
from equipoise.spark.pipeline.progress import _json
from proving.brokers import KafkaBroker
from tests.client.transactions.stage import producer, version_of
from tests.client.writing import Reachable
from tests.spark.conftest import create
from tests.spark.engine import Engine
from tests.spark.engine import until as until_planned
from tests.spark.streams import Sink, committed, stream, until
from tests.spark.test_batch import reader

COMMITTED = {"kafka__isolation__level": "read_committed", "startingOffsets": "earliest"}
EACH = 5  # records of a transaction; its marker takes an offset too
GROUPS = pytest.mark.parametrize("group", [{}, {"group__id": "g", "group__mode": "commit"}, {"group__id": "g"}])


@contextmanager
def transactions(broker: Reachable, topic: str) -> Iterator[Producer]:
    """Of partition 0: one that is committed and one that is aborted, three times; and plain records of partition 1."""
    create(broker.bootstrap_servers, topic, 2)
    with (
        producer(broker, f"{topic}-writer", transaction_timeout_ms=900_000) as writing,
        Producer({"bootstrap.servers": broker.bootstrap_servers}) as plain,
    ):
        for _ in range(3):
            transaction(writing, topic, "kept", is_kept=True)
            transaction(writing, topic, "aborted", is_kept=False)
        for number in range(EACH):
            plain.send(topic, f"plain {number}", partition=1)
        plain.flush()
        yield writing


def transaction(writing: Producer, topic: str, value: str, *, is_kept: bool) -> None:
    begin(writing, topic, value)
    if is_kept:
        writing.commit_transaction()
    else:
        writing.abort_transaction()


def begin(writing: Producer, topic: str, value: str) -> None:
    writing.begin_transaction()
    for number in range(EACH):
        writing.send(topic, f"{value} {number}", partition=0)
    writing.flush()


def kept(turns: int) -> list[int]:
    """The offsets of partition 0 with rows that count."""
    return [2 * turn * (EACH + 1) + number for turn in range(turns) for number in range(EACH)]


def in_batches(spark: Any, broker: Reachable, topic: str) -> None:
    with transactions(broker, topic) as writing:
        begin(writing, topic, "open")  # a batch query ends before it, and does not wait
        for group in ({}, {"group__id": f"{topic}-group"}):
            rows = reader(spark, broker.bootstrap_servers, subscribe=topic, **COMMITTED, **group).load()
            found = sorted((row.partition, row.offset) for row in rows.select("partition", "offset").collect())
            assert found == [(0, at) for at in kept(3)] + [(1, at) for at in range(EACH)]
        every = reader(spark, broker.bootstrap_servers, subscribe=topic).load()
        assert every.count() == 7 * EACH + EACH
        writing.abort_transaction()


def test_a_batch_query(spark: Any, broker: Broker) -> None:
    in_batches(spark, broker, "t")


@pytest.mark.kafka
def test_a_batch_query_of_apache_kafka(spark: Any, kafka: KafkaBroker) -> None:
    assert version_of(kafka) == 2
    in_batches(spark, kafka, "committed-batch")


def in_a_stream(spark: Any, broker: Reachable, topic: str, home: Path, group: dict[str, str]) -> None:
    sink = Sink()
    with transactions(broker, topic) as writing:
        begin(writing, topic, "open")
        frame = stream(spark, broker.bootstrap_servers, subscribe=topic, **COMMITTED, **group)
        query = sink.start(frame, str(home / "checkpoint"))
        until("all that is committed is read", lambda: sum(sink.sizes) >= 4 * EACH, query)
        until("the query waits at the open transaction", lambda: is_at(query, topic, 6 * (EACH + 1), EACH), query)
        writing.abort_transaction()
        transaction(writing, topic, "last", is_kept=True)
        transaction(writing, topic, "aborted", is_kept=False)  # the end of the log has no rows
        end = 9 * (EACH + 1)
        until("the query is at the end", lambda: is_at(query, topic, end, EACH), query)
        if group:
            reached = {(topic, 0): end, (topic, 1): EACH}
            until("the group knows", lambda: committed(broker.bootstrap_servers, group["group__id"]) == reached, query)
        query.stop()
    last = [7 * (EACH + 1) + number for number in range(EACH)]
    places = [(topic, 0, at) for at in (*kept(3), *last)] + [(topic, 1, at) for at in range(EACH)]
    assert sorted(sink.places.elements()) == places


def is_at(query: Any, topic: str, *ends: int) -> bool:
    """By Spark's report of its progress: the ends of the last batch are these, and nothing lies behind them."""
    progress = query.lastProgress
    if progress is None:
        return False
    (source,) = progress["sources"]
    wanted = {topic: {f"{number}": end for number, end in enumerate(ends)}}
    reached, latest = (_json(source[name]) for name in ("endOffset", "latestOffset"))
    return bool(reached["to"] == latest["to"] == wanted and latest["lag"] == 0)


@GROUPS
def test_a_stream(spark: Any, broker: Broker, tmp_path: Path, group: dict[str, str]) -> None:
    in_a_stream(spark, broker, "t", tmp_path, group)


@pytest.mark.kafka
def test_a_stream_of_apache_kafka(spark: Any, kafka: KafkaBroker, tmp_path: Path) -> None:
    in_a_stream(spark, kafka, "committed-stream", tmp_path, {"group__id": "committed-stream"})


def test_rows_are_counted_as_they_are_read(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Offsets of aborted rows and of markers count for maxOffsetsPerTrigger, and are no rows."""
    sink = Sink()
    with transactions(broker, "t"):
        frame = stream(spark, broker.bootstrap_servers, **COMMITTED, maxOffsetsPerTrigger="6")
        query = sink.start(frame, str(tmp_path / "checkpoint"), availableNow=True)
        query.awaitTermination()
    assert sum(sink.sizes) == 4 * EACH
    assert max(sink.sizes) <= 6
    assert sink.places == dict.fromkeys([("t", 0, at) for at in kept(3)] + [("t", 1, at) for at in range(EACH)], 1)


# -- read_committed behind readers who wait for nothing


@GROUPS
def test_a_query_that_has_read_an_open_transaction_goes_on_with_read_committed(
    broker: Broker, group: dict[str, str]
) -> None:
    with transactions(broker, "t") as writing:
        begin(writing, "t", "open")
        first = Engine(broker.bootstrap_servers, startingOffsets="earliest", **group)
        at = 6 * (EACH + 1) + EACH
        until_planned("it has read the open one too", lambda: ("t", 0, 0, at) in first.read, first.batch)
        first.stop()
        again = Engine(broker.bootstrap_servers, first, **COMMITTED, **group)
        assert again.batch() == again.batch() == []
        writing.commit_transaction()
        transaction(writing, "t", "next", is_kept=True)
        until_planned("it goes on", lambda: again.read, again.batch)
        assert min(begin for _, _, begin, _ in again.read) == at
        again.stop()


def test_a_member_begins_where_one_that_reads_open_transactions_stood(broker: Broker) -> None:
    group = {"group__id": "g"}
    with transactions(broker, "t") as writing:
        begin(writing, "t", "open")
        first = Engine(broker.bootstrap_servers, startingOffsets="earliest", **group)
        at = 6 * (EACH + 1) + EACH
        place = {("t", 0): at, ("t", 1): EACH}
        until_planned("it is committed", lambda: committed(broker.bootstrap_servers, "g") == place, first.batch)
        first.stop()
        other = Engine(broker.bootstrap_servers, **COMMITTED, **group)
        until_planned("it has its share", lambda: other.owned == {0, 1}, other.batch)
        assert (other.batch(), other.read) == ([], [])
        assert committed(broker.bootstrap_servers, "g") == place
        other.stop()
        writing.abort_transaction()
