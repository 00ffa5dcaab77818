"""The clusters of the proving ground: what can be done to them, that they are whole again afterwards, and what becomes
of records meanwhile. One file, so that one process starts the clusters once."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from equipoise.proving.kafka_cluster import KafkaCluster
from equipoise.proving.spark_cluster import SparkCluster
from equipoise.proving.trials.accounts import Account, table
from equipoise.proving.trials.consumers import CLIENTS, consumers_through_faults
from equipoise.proving.trials.run import is_kept
from equipoise.proving.trials.truncation import consumers_of_a_log_that_is_cut
from tests.proving.needed import needed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1_500)]  # each takes about a minute, on a machine of its own


def named(what: str) -> str:
    """The cluster is shared: nothing has a name twice."""
    return f"{what}-{uuid.uuid4()}"


def test_a_killed_leader_is_replaced_and_comes_back(kafka_cluster: KafkaCluster) -> None:
    topic = named("killed")
    kafka_cluster.create_topic(topic, 3)
    killed = kafka_cluster.leader_of(topic)
    kafka_cluster.kill(killed)
    assert kafka_cluster.leader_of(topic) != killed
    kafka_cluster.start(killed)
    kafka_cluster.wait_in_sync(topic)
    kafka_cluster.elect(topic)
    assert kafka_cluster.leader_of(topic) == kafka_cluster.partition(topic).replica_nodes[0]


def test_a_hung_leader_is_replaced(kafka_cluster: KafkaCluster) -> None:
    topic = named("hung")
    kafka_cluster.create_topic(topic)
    hung = kafka_cluster.leader_of(topic)
    kafka_cluster.hang(hung)
    assert kafka_cluster.leader_of(topic) != hung
    kafka_cluster.resume(hung)
    kafka_cluster.wait_in_sync(topic)


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


def test_a_killed_worker_leaves_and_comes_back(spark_cluster: SparkCluster) -> None:
    spark_cluster.kill_worker(1)
    end = time.monotonic() + 60
    while spark_cluster.alive() != 1:
        assert time.monotonic() < end
        time.sleep(0.05)
    spark_cluster.start_worker(1)
    assert spark_cluster.alive() == 2


# -- records, while brokers, workers and executors die


def check(accounts: list[Account], *ours: str) -> None:
    """`make prove` shows the tables with -s, and those of a test that fails."""
    print(f"\n{table(accounts)}")
    found = {account.reader: account for account in accounts}
    assert set(ours) <= found.keys()
    assert all(map(is_kept, accounts)), table(accounts)
    assert all(account.acknowledged for account in accounts)


@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=pytest.mark.soak)])
def test_consumers_through_faults(kafka_cluster: KafkaCluster, tmp_path: Path, rounds: int) -> None:
    """Leaders and coordinators are killed, stopped and hung, partitions moved: ours lose and repeat nothing."""
    accounts = needed(lambda: consumers_through_faults(kafka_cluster, tmp_path / "log", rounds=rounds))
    check(accounts, *CLIENTS)


def test_consumers_of_a_log_that_is_cut(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    """An unclean election takes back what they have read: ours read what comes in its place, all of it and once."""
    accounts = needed(lambda: consumers_of_a_log_that_is_cut(kafka_cluster, tmp_path / "log"))
    check(accounts, *CLIENTS)
