"""What becomes of records of Spark's queries while brokers, workers and executors die."""

from __future__ import annotations

from pathlib import Path

import pytest

from proving.kafka_cluster import KafkaCluster
from proving.spark_cluster import SparkCluster
from proving.trials.spark import MEMBERS, PIPELINE, QUERIES, QUERIES_OF_BOTH, SINK, spark_through_faults
from tests.proving.kept import check_kept
from tests.proving.needed import needed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1_500)]  # each takes minutes, on a machine of its own


@pytest.mark.parametrize(("app", "rounds"), [(QUERIES, 1), pytest.param(QUERIES_OF_BOTH, 6, marks=pytest.mark.soak)])
def test_spark_through_faults(
    kafka_cluster: KafkaCluster, spark_cluster: SparkCluster, tmp_path: Path, app: str, rounds: int
) -> None:
    """Executors, workers and brokers are killed, partitions moved: members lose and repeat nothing, and our sink loses
    nothing. The soak has queries of Spark's own connector beside them."""
    accounts = needed(lambda: spark_through_faults(kafka_cluster, spark_cluster, tmp_path, app=app, rounds=rounds))
    check_kept(accounts, MEMBERS, SINK)


@pytest.mark.soak
def test_a_pipeline_through_faults(kafka_cluster: KafkaCluster, spark_cluster: SparkCluster, tmp_path: Path) -> None:
    """The same with `equipoise run`, whose members are those of the queries above: they lose and repeat nothing."""
    accounts = needed(lambda: spark_through_faults(kafka_cluster, spark_cluster, tmp_path, app=PIPELINE, rounds=6))
    check_kept(accounts, PIPELINE)
