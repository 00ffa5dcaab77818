"""A full disk: an error for what does not fit, nothing acknowledged is lost, and work goes on when there is room."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import append, batch_of, create_topic, delete_topic, produce, read_partition
from tests.broker.rawclient import RawClient
from tests.broker.test_offsets import delete_records
from tests.broker.test_topic_configs import SET, change
from tests.broker.test_topics import grow
from tests.crash.served import RLIM_INFINITY
from tests.crash.warm import WarmBroker
from tests.spec.requests import commit, join

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are set by Linux's prlimit")
VALUE = bytes(1000)


def fill(client: RawClient, topic: str = "t") -> list[int]:
    """Produces until the disk is full; the offsets that were acknowledged."""
    acknowledged: list[int] = []
    for _ in range(10_000):
        answer = produce(client, batch_of(VALUE), topic=topic)
        if answer.error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "disk" in (answer.error_message or "")
            return acknowledged
        acknowledged.append(answer.base_offset)
    raise AssertionError("the disk was never full")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[WarmBroker]:
    with WarmBroker(tmp_path / "data", tmp_path / "log") as broker:
        yield broker
        assert "Traceback" not in broker.log.read_text()


def test_records_that_do_not_fit_are_refused_until_there_is_room(served: WarmBroker) -> None:
    with RawClient(served.address) as client, RawClient(served.address) as other:
        create_topic(client, partitions=2)
        append(client, b"elsewhere", partition=1)
        served.limit_file_size(20_000)
        acknowledged = fill(client)
        assert acknowledged == list(range(len(acknowledged)))
        assert len(acknowledged) >= 15
        assert produce(client, batch_of(VALUE)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert append(other, b"small enough for another file", partition=1) == 1
        served.limit_file_size(RLIM_INFINITY)
        assert append(client, b"room again") == len(acknowledged)
        values = [record.value for record in read_partition(other)]
        assert values == [VALUE] * len(acknowledged) + [b"room again"]


def test_one_line_when_the_disk_is_full_and_one_when_it_is_not(served: WarmBroker) -> None:
    with RawClient(served.address) as client:
        create_topic(client)
        served.limit_file_size(10_500)
        fill(client)
        for _ in range(20):
            assert produce(client, batch_of(VALUE)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        served.limit_file_size(RLIM_INFINITY)
        append(client, VALUE)
        append(client, VALUE)
    began, ended = [line for line in served.log.read_text().splitlines() if "disk full" in line]
    assert str(served.data / "t-0") in began
    assert "Remedy: free space" in began
    assert "over after" in ended
    assert "21 refusals" in ended


def test_nothing_acknowledged_is_lost_when_a_full_broker_is_killed(served: WarmBroker) -> None:
    with RawClient(served.address) as client:
        create_topic(client)
        served.limit_file_size(10_500)
        acknowledged = fill(client)
    served.kill()
    served.start()
    with RawClient(served.address) as client:
        assert [record.offset for record in read_partition(client)] == acknowledged
        assert append(client, b"next") == len(acknowledged)


def test_every_request_that_writes_has_its_error(served: WarmBroker) -> None:
    with RawClient(served.address) as client:
        create_topic(client)
        append(client, b"before")
        served.limit_file_size(0)
        topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
        (created,) = client.call(CreateTopicsRequest(topics=[topic])).topics
        codes = [
            created.error_code,
            grow(client, 2),
            change(client, ("retention.ms", SET, "1000")).error_code,
            delete_topic(client, "t"),
            client.call(InitProducerIdRequest(transaction_timeout_ms=1)).error_code,
        ]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 5
        assert [record.value for record in read_partition(client)] == [b"before"]
        served.limit_file_size(RLIM_INFINITY)
        create_topic(client, "new")
        assert append(client, b"after") == 1
        assert grow(client, 2) == ErrorCode.NONE
        assert delete_topic(client, "t") == ErrorCode.NONE


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    path = tmp_path / "disk"
    path.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], capture_output=True, check=False)
    if mount.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {mount.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


def test_a_disk_that_is_really_full(small_disk: Path, tmp_path: Path) -> None:
    with WarmBroker(small_disk / "data", tmp_path / "log") as served, RawClient(served.address) as client:
        for name in ("kept", "given-up"):
            create_topic(client, name)
        append(client, bytes(400_000), topic="given-up")
        acknowledged = fill(client, "kept")
        assert produce(client, batch_of(bytes(10_000)), topic="given-up").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert delete_records(client, -1, topic="given-up")[0] in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
        served.kill()
        (tmp_path / "disk" / "data" / "given-up-0" / "00000000000000000000.log").unlink()
        served.start()
        with RawClient(served.address) as again:
            assert [record.offset for record in read_partition(again, "kept")] == acknowledged
            assert append(again, b"room again", topic="kept") == len(acknowledged)


def test_groups_and_housekeeping_do_not_repeat_what_is_known(tmp_path: Path) -> None:
    """A full disk with a group at work and topics to compact and to expire: some lines, however long it lasts."""
    settings = {"log.cleaner.backoff.ms": 5, "log.retention.check.interval.ms": 5, "offsets.topic.num.partitions": 1}
    with WarmBroker(tmp_path / "data", tmp_path / "log", settings) as served, RawClient(served.address) as client:
        create_topic(client, configs={"retention.ms": "1"})
        append(client, b"expired", timestamp=1)
        append(client, b"a commit before", topic="t")
        assert client.call(commit({"t": [0]}), 9).topics[0].partitions[0].error_code == ErrorCode.NONE
        served.limit_file_size(0)
        for _ in range(50):
            assert client.call(commit({"t": [0]}), 9).topics[0].partitions[0].error_code != ErrorCode.NONE
            client.call(join())  # each makes an event for the journal
        served.limit_file_size(RLIM_INFINITY)
    assert len(served.log.read_text().splitlines()) <= 6, served.log.read_text()
