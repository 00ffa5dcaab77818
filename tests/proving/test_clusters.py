"""The clusters of the proving ground: what can be done to them, that they are whole again afterwards, and what becomes
of records meanwhile. `test_spark_clusters.py` has the trials of Spark, so that two processes share the minutes."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from proving.kafka_cluster import KafkaCluster
from proving.trials.consumers import CLIENTS, consumers_through_faults
from proving.trials.spark import MEMBERS
from proving.trials.truncation import readers_of_a_log_that_is_cut
from tests.client.transactions.killing import a_cluster_is_killed
from tests.proving.kept import check_kept
from tests.proving.needed import needed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1_500)]  # each takes about a minute, on a machine of its own


def named(what: str) -> str:
    """The cluster is shared: nothing has a name twice."""
    return f"{what}-{uuid.uuid4()}"


def test_partitions_are_moved(kafka_cluster: KafkaCluster) -> None:
    topic = named("moved")
    kafka_cluster.create_topic(topic, 2, replicas=2)
    plan = {0: [3, 1], 1: [1, 2]}
    kafka_cluster.reassign(topic, plan)
    assert {index: kafka_cluster.partition(topic, index).replica_nodes for index in plan} == plan


def test_a_hung_process_can_be_stopped(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.hang(2)
    kafka_cluster.stop(2)
    assert [broker.node_id for broker in kafka_cluster.live] == [1, 3]


# -- records, while brokers die


@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=pytest.mark.soak)])
def test_consumers_through_faults(kafka_cluster: KafkaCluster, tmp_path: Path, rounds: int) -> None:
    """Leaders and coordinators are killed, stopped and hung, partitions moved: ours lose and repeat nothing."""
    accounts = needed(lambda: consumers_through_faults(kafka_cluster, tmp_path / "log", rounds=rounds))
    check_kept(accounts, *CLIENTS)


@pytest.mark.parametrize("kills", [2, pytest.param(60, marks=[pytest.mark.soak, pytest.mark.timeout(7_200)])])
def test_orders_are_billed_once_while_brokers_are_killed(kafka_cluster: KafkaCluster, kills: int) -> None:
    """Here and not on a single node: after its kill Apache Kafka takes its own partitions for deleted, leaves out their
    markers, and a transaction's records then count as its successor's do (4.3.1)."""
    a_cluster_is_killed(kafka_cluster, kills)


@pytest.mark.soak
def test_readers_of_a_log_that_is_cut(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    """An unclean election takes back what they have read: our consumer and our Spark source read what comes in its
    place, all of it and once. `make prove` has client/test_truncation_kafka.py of the same, without other clients."""
    accounts = needed(lambda: readers_of_a_log_that_is_cut(kafka_cluster, tmp_path))
    check_kept(accounts, *CLIENTS, MEMBERS)
