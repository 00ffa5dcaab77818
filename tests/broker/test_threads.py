"""Work on other threads that dies of something nobody thought of: who waits is answered, and the log says it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker.server import Server
from equipoise.log.compaction import Compaction
from equipoise.log.storage import disk as disk_module
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import ALL, append, batch_of, create_topic, produce, read_partition
from tests.broker.conftest import Connect, Start, eventually
from tests.spec.requests import commit

BY_NAME = 9  # the last version of OffsetCommit in which topics have names


@pytest.mark.parametrize("failure", [RuntimeError("broken"), MemoryError(), SystemExit(1)])
def test_acks_all_is_answered_when_the_sync_dies(
    start: Start,
    connect: Connect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    synced_by_threads: None,
    failure: BaseException,
) -> None:
    def fails(descriptor: int) -> None:
        raise failure

    client = connect(start({"offsets.topic.num.partitions": 1}, data=tmp_path))
    create_topic(client, partitions=2)
    append(client, b"before")
    with monkeypatch.context() as patch:
        patch.setattr(disk_module, "fdatasync", fails)
        assert produce(client, batch_of(b"lost"), acks=ALL).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        (topic,) = client.call(commit({"t": [0]}), BY_NAME).topics
        assert topic.partitions[0].error_code != ErrorCode.NONE
    assert produce(client, batch_of(b"offline")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert append(client, b"another partition", partition=1) == 0
    assert [record.value for record in read_partition(client)] == [b"before"]
    assert "t-0: data could not be made durable" in caplog.text


def test_a_compaction_that_dies_is_tried_again(
    start: Start, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start({"log.cleaner.backoff.ms": 20}, data=tmp_path)
    client = connect(broker)
    create_topic(client, configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    broker.call(with_small_segments)
    died: list[Compaction] = []
    real = Compaction.run

    def run(compaction: Compaction, *arguments: Any) -> None:
        if len(died) < 3:
            died.append(compaction)
            raise RuntimeError("died")
        real(compaction, *arguments)

    monkeypatch.setattr(Compaction, "run", run)
    for number in range(20):
        append(client, b"%0100d" % number, key=b"key")
    eventually(lambda: len(read_partition(client)) < 10, "it is compacted in the end")
    assert len(died) == 3
    assert caplog.text.count("t-0: compaction failed and will be tried again: died") == 3
    eventually(lambda: not list((tmp_path / "t-0").glob("*.cleaned")), "nothing half-made is left")
    caplog.clear()  # tracebacks that were asked for


def with_small_segments(server: Server) -> None:
    log = server.topics.partition("t", 0).log
    log.config = dataclasses.replace(log.config, segment_bytes=500)
