"""What becomes of records of Spark's queries while brokers, workers and executors die."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from proving.kafka_cluster import KafkaCluster
from proving.spark_cluster import SparkCluster
from proving.trials.spark import APPS, MEMBERS, PIPELINE, SINK, spark_through_faults
from tests.proving.kept import check_kept
from tests.proving.needed import needed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1_500)]  # it takes minutes, on a machine of its own

OURS = {"queries": (MEMBERS, SINK), "pipeline": (PIPELINE,)}


_ONCE = pytest.param(APPS, 1, id="both, 1 round")
_OFTEN = [pytest.param((app,), 6, id=f"{app}, 6 rounds", marks=pytest.mark.soak) for app in APPS]


@pytest.mark.parametrize(("apps", "rounds"), [_ONCE, *_OFTEN])
def test_spark_through_faults(
    kafka_cluster: KafkaCluster, spark_cluster: SparkCluster, tmp_path: Path, apps: Sequence[str], rounds: int
) -> None:
    """Executors, workers and brokers are killed, partitions moved: members lose and repeat nothing, those of
    `equipoise run` neither, and our sink loses nothing."""
    accounts = needed(lambda: spark_through_faults(kafka_cluster, spark_cluster, tmp_path, apps=apps, rounds=rounds))
    check_kept(accounts, *(reader for app in apps for reader in OURS[app]))
