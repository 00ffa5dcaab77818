"""Few file descriptors: what needs one is refused or waits, nothing goes offline, and all is well when there are more.

What waits for a descriptor on another thread is in tests/log/test_log_flusher.py.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from equipoise.wire.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import ALL, BY_NAME, append, batch_of, create_topic, produce, read_partition
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.crash.served import ServedBroker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are set by Linux's prlimit")
LIMIT = 256
PARTITIONS = 400


class FewDescriptors(ServedBroker):
    def __init__(self, path: Path, limit: int) -> None:
        limits = (limit, limit)
        super().__init__(
            path / "data", path / "log", preexec_fn=partial(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        )

    def limit(self, number: int) -> None:
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (number, LIMIT))

    @property
    def open_descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def said(self, text: str) -> int:
        return self.log.read_text().count(text)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[FewDescriptors]:
    with FewDescriptors(tmp_path, LIMIT) as broker:
        yield broker
        assert "Traceback" not in broker.log.read_text()


def to_all(client: RawClient, value: bytes) -> list[int]:
    """One Produce to every partition; the error codes."""
    rows = [PartitionProduceData(index=number, records=bytes(batch_of(value))) for number in range(PARTITIONS)]
    request = ProduceRequest(acks=ALL, timeout_ms=60_000, topic_data=[TopicProduceData(name="t", partition_data=rows)])
    (topic,) = client.call(request, BY_NAME).responses
    return [row.error_code for row in topic.partition_responses]


def test_more_partitions_than_descriptors(served: FewDescriptors) -> None:
    """Written all at once and one by one, read, killed and read again, without a single error."""
    with RawClient(served.address) as client:
        create_topic(client, partitions=PARTITIONS)
        assert to_all(client, b"all at once") == [ErrorCode.NONE] * PARTITIONS
        for number in range(PARTITIONS):
            assert append(client, b"one by one", partition=number) == 1
        assert to_all(client, b"all again") == [ErrorCode.NONE] * PARTITIONS
        assert served.open_descriptors < LIMIT
    served.kill()
    served.start()
    assert served.said(f"{LIMIT} file descriptors: 108 connections, and 54 segment files open at a time, for 400") == 1
    with RawClient(served.address) as client:
        for number in range(PARTITIONS):
            values = [record.value for record in read_partition(client, partition=number)]
            assert values == [b"all at once", b"one by one", b"all again"]
    assert served.said("no file descriptors left") == 0


def test_without_a_descriptor_left_records_are_refused_and_partitions_stay_online(served: FewDescriptors) -> None:
    with RawClient(served.address) as client:
        create_topic(client, partitions=2)
        assert append(client, b"before") == 0
        served.limit(10)  # all of them in use, and none by a segment
        for number in (1, 0, 1):  # the second finds its file closed in favour of the first
            answer = produce(client, batch_of(b"refused"), partition=number)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "ulimit -n" in (answer.error_message or "")
        served.limit(LIMIT)
        assert [append(client, b"after", partition=number) for number in (0, 1)] == [1, 0]
        assert [record.value for record in read_partition(client)] == [b"before", b"after"]
        eventually(lambda: append(client, b"more") and _is_over(served), "it is said to be over")
    assert served.said("no file descriptors left: ") == 2  # one line when it began, one when it ended


def _is_over(served: FewDescriptors) -> bool:
    time.sleep(0.2)  # a record now and then, until the fault has not been met for a while
    return served.said("no file descriptors left: over after") == 1


def test_more_connections_than_descriptors(served: FewDescriptors) -> None:
    """They are refused without a spin of the loop, and those there are go on."""
    host, port = served.address.split(":")
    with RawClient(served.address) as client:
        create_topic(client)
        with ExitStack() as many:
            for _ in range(2 * LIMIT):
                many.enter_context(socket.create_connection((host, int(port))))
            eventually(lambda: served.said("refused, as is everybody") == 1, "the refusal is said")
            before = cpu_seconds(served.pid)
            assert [append(client, b"meanwhile") for _ in range(10)] == list(range(10))
            assert cpu_seconds(served.pid) - before < 1
        eventually(lambda: served.said("connections are accepted again") == 1, "the end is said")
        with RawClient(served.address) as new:
            assert append(new, b"afterwards") == 10
    assert served.said("refused, as is everybody") == 1


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
