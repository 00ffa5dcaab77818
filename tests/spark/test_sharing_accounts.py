"""The accounts by which test_sharing.py tells what may come twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from equipoise.client import Admin
from proving.brokers import EquipoiseBroker
from tests.client.writing import produce
from tests.spark.applications import Application
from tests.spark.streams import committed, everything, until
from tests.spark.test_sharing import CONSUMER_GROUPS, OF_PROTOCOL, Plain


@pytest.mark.timeout(1_200)
def test_a_batch_that_was_stopped_before_its_commit_opens_a_window(tmp_path: Path) -> None:
    """Also if another member has read it again, and has committed that, before anybody looks."""
    with EquipoiseBroker(CONSUMER_GROUPS) as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topic("t", 2)
        produce(broker, "t", 40, partitions=2)
        options = {"startingOffsets": "earliest", "group__id": "g", "maxOffsetsPerTrigger": "10"}
        stopped = Application(tmp_path / "a", servers, **options, **OF_PROTOCOL["consumer"])
        other = Plain(tmp_path / "plain", servers)
        stopped.start(stop_at=20)
        stopped.wait("the second batch is written", lambda: len(stopped.places) == 20)
        other.start()
        assert stopped.process.stdin is not None
        stopped.process.stdin.close()
        until("the other one has read on", lambda: sum(committed(servers).values()) == 40)
        stopped.stop()
        other.stop()
        assert stopped.windows == Counter(("t", partition, at) for partition in (0, 1) for at in range(5, 10))
        assert stopped.places + other.places == everything(2, 20) + stopped.windows
