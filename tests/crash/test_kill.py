"""The broker is killed by SIGKILL at random moments, and started again: what was acknowledged is there.

The moments come from a seed, which is printed; EQUIPOISE_SEED=N repeats it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.wire.records.build import Record
from tests.broker.calls import create_topic, read_partition
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.crash.warm import WarmBroker
from tests.crash.workload import Ledger, Workload

PARTITIONS = 3
LONGEST_LIFE = 0.3  # seconds from the first acknowledgements of a round to its end


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WarmBroker]:
    with WarmBroker(tmp_path / "data", tmp_path / "log") as served:
        yield served
        assert "Traceback" not in served.log.read_text()


def read_all(address: str, workloads: list[Workload]) -> list[tuple[str, int, list[Record]]]:
    with RawClient(address) as client:
        return [
            (workload.topic, partition, read_partition(client, workload.topic, partition))
            for workload in workloads
            for partition in range(workload.partitions)
        ]


def wait_for_progress(workloads: list[Workload]) -> None:
    before = [workload.acknowledged for workload in workloads]

    def all_moved() -> bool:
        for workload in workloads:
            workload.check()
        return all(workload.acknowledged > old for workload, old in zip(workloads, before, strict=True))

    eventually(all_moved, "every producer gets acknowledgements")


def check_once_and_in_order(found: list[tuple[str, int, list[Record]]], workload: Workload) -> None:
    """The idempotent producer's values stand in its partitions as they were sent: none twice, none missing between."""
    for topic, partition, records in found:
        if topic == workload.topic:
            values = [record.value for record in records]
            assert values == workload.sent[partition][: len(values)]


def hunt(broker: WarmBroker, moments: random.Random, rounds: int) -> None:
    ledger = Ledger()
    once = Workload(broker.address, "once", PARTITIONS, ledger, idempotent=True)
    plain = Workload(broker.address, "plain", PARTITIONS, ledger, idempotent=False)
    rolling = Workload(broker.address, "rolling", 1, ledger, idempotent=True)
    workloads = [once, plain, rolling]
    with RawClient(broker.address) as client:
        create_topic(client, "once", PARTITIONS)
        create_topic(client, "plain", PARTITIONS)
        create_topic(client, "rolling", 1, {"internal.segment.bytes": "3000"})
    for workload in workloads:
        workload.start()
    try:
        for _ in range(rounds):
            for workload in workloads:
                workload.resume()
            wait_for_progress(workloads)
            time.sleep(moments.uniform(0, LONGEST_LIFE))
            broker.kill()
            for workload in workloads:
                workload.pause()
            promised = ledger.places()
            broker.start()
            found = read_all(broker.address, workloads)
            ledger.check(found, promised)
            check_once_and_in_order(found, once)
            check_once_and_in_order(found, rolling)
    finally:
        for workload in workloads:
            workload.stop()
    found = read_all(broker.address, workloads)
    ledger.check(found, ledger.places())
    for workload in (once, rolling):
        check_once_and_in_order(found, workload)
    assert {topic for topic, _, records in found if records} == {"once", "plain", "rolling"}
    for topic, partition, records in found:
        workload = next(one for one in workloads if one.topic == topic)
        assert {record.value for record in records} == set(workload.sent[partition])


def test_twenty_kills_lose_nothing_and_double_nothing(broker: WarmBroker, moments: random.Random) -> None:
    hunt(broker, moments, rounds=20)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_kills(broker: WarmBroker, moments: random.Random) -> None:
    hunt(broker, moments, rounds=1000)
