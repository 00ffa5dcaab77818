"""The walk of one commit, as docs/design.md tells it: a real commit takes these hops, in this order, to the disk."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.spark.options import SourceOptions
from equipoise.spark.source.stream_reader import StreamReader
from tests.client.writing import produce
from tests.spark.engine import until
from tests.spark.members import SETTINGS
from tests.test_documents import ROOT, table

Hop = tuple[str, str]  # a file of the package, and a function in it
WALK: list[Hop] = [(row[1], row[2]) for row in table("docs/design.md", "The walk of one commit, from Spark to disk")]


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@contextmanager
def noted_calls() -> Iterator[list[Hop]]:
    """Each call of a function of the walk, by this thread and by those that are started meanwhile."""
    wanted = {(str(ROOT / "src" / "equipoise" / file), function): (file, function) for file, function in WALK}
    calls: list[Hop] = []

    def note(frame: FrameType, event: str, arg: object) -> None:
        found = wanted.get((frame.f_code.co_filename, frame.f_code.co_qualname)) if event == "call" else None
        if found is not None:
            calls.append(found)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def follows(walk: list[Hop], calls: list[Hop]) -> bool:
    remaining = iter(calls)
    return all(hop in remaining for hop in walk)


def test_a_commit_goes_to_the_disk_and_back_as_the_design_says(tmp_path: Path) -> None:
    with noted_calls() as calls, Broker(SETTINGS, data=tmp_path) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 1)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "group.id": "g"}
        source = StreamReader(SourceOptions.parse(options, streaming=True), ("value",))
        end = source.initialOffset()
        for _ in range(2):  # the first batch may be empty: it notes where the query begins
            produce(broker, "t", 10, partitions=1)
            start = end
            while (end := source.latestOffset(start, ReadAllAvailable())) == start:
                pass
        calls.clear()
        produce(broker, "t", 10, partitions=1)
        source.latestOffset(end, ReadAllAvailable())  # Spark's commit log has the batch that ended at `end`
        until("the walk is done", lambda: follows(WALK, calls))
        source.stop()
