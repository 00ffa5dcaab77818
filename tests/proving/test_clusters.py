"""The clusters of the proving ground: what can be done to them, and that they are whole again afterwards."""

from __future__ import annotations

import time
import uuid

import pytest

from equipoise.proving.kafka_cluster import KafkaCluster
from equipoise.proving.spark_cluster import SparkCluster

pytestmark = pytest.mark.kafka


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
