"""Unclean elections on three brokers of Apache Kafka: nothing is lost behind the place where the logs part."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest

from equipoise.client import TopicPartition
from equipoise.client.fetch.subscription_state import LogTruncationError
from equipoise.wire.errors import ErrorCode, KafkaError
from proving.kafka_cluster import KafkaCluster, Servers
from tests.client.truncated import COMMON, LOST, PATIENCE_S, read, reading
from tests.client.writing import produce

pytestmark = pytest.mark.kafka

FIRST, SECOND = 1, 2  # the brokers with replicas; the first leads


def make_topic(cluster: KafkaCluster) -> str:
    """Two replicas, of which the second will lack the last records."""
    topic = f"truncated-{uuid.uuid4()}"
    cluster.create_topic(topic, replicas=2, configs={"min.insync.replicas": "1"})
    cluster.reassign(topic, {0: [FIRST, SECOND]})
    cluster.elect(topic)
    assert cluster.leader_of(topic) == FIRST
    write(cluster, topic, COMMON)
    cluster.wait_in_sync(topic)
    cluster.kill(SECOND)
    wait(lambda: cluster.partition(topic).isr_nodes == [FIRST])
    write(cluster, topic, LOST)
    return topic


def elect_uncleanly(cluster: KafkaCluster, topic: str) -> None:
    cluster.kill(FIRST)
    cluster.start(SECOND)
    wait(lambda: cluster.partition(topic).leader_id == -1)
    cluster.elect(topic, unclean=True)
    assert cluster.leader_of(topic) == SECOND


def write(cluster: KafkaCluster, topic: str, count: int) -> None:
    produce(Servers(",".join(one.address for one in cluster.live)), topic, count, partitions=1)


def is_made(cluster: KafkaCluster, topic: str) -> bool:
    """Not before the last broker has heard that the old one is gone."""
    try:
        cluster.create_topic(topic)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def wait(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("new", [50, 250])
def test_a_reader_goes_on_where_the_logs_part(kafka_cluster: KafkaCluster, new: int) -> None:
    """With fewer new records than were lost, and with more: with `latest` none of them is passed over."""
    topic = make_topic(kafka_cluster)
    with reading(kafka_cluster, topic, auto_offset_reset="latest") as consumer:
        consumer.seek((topic, 0), 0)
        assert [one.offset for one in read(consumer, COMMON + LOST)] == list(range(COMMON + LOST))
        elect_uncleanly(kafka_cluster, topic)
        write(kafka_cluster, topic, new)
        taken = read(consumer, new)
        assert [one.offset for one in taken] == list(range(COMMON, COMMON + new))
        assert [int(one.value or b"") for one in taken] == list(range(new))
        assert consumer.poll(1.0) == []
    kafka_cluster.mend()
    kafka_cluster.delete_topic(topic)


def test_a_commit_from_before_the_election_is_checked_and_without_a_policy_raised(kafka_cluster: KafkaCluster) -> None:
    topic = make_topic(kafka_cluster)
    with reading(kafka_cluster, topic, auto_offset_reset="earliest") as consumer:
        read(consumer, COMMON + LOST)
        consumer.commit()
        committed = consumer.committed()[TopicPartition(topic, 0)]
        assert (committed.offset, committed.leader_epoch >= 0) == (COMMON + LOST, True)
    elect_uncleanly(kafka_cluster, topic)
    write(kafka_cluster, topic, 250)
    with reading(kafka_cluster, topic, auto_offset_reset="none") as consumer:
        with pytest.raises(LogTruncationError) as told:
            read(consumer, 1)
        assert (told.value.offset, told.value.divergent_offset is not None) == (COMMON + LOST, True)
        assert told.value.divergent_offset is not None
        assert told.value.divergent_offset.offset == COMMON
        consumer.seek((topic, 0), told.value.divergent_offset)
        assert [one.offset for one in read(consumer, 250)] == list(range(COMMON, COMMON + 250))
    with reading(kafka_cluster, topic, auto_offset_reset="latest") as consumer:
        assert [one.offset for one in read(consumer, 250)] == list(range(COMMON, COMMON + 250))
    kafka_cluster.mend()
    kafka_cluster.delete_topic(topic)


def test_a_topic_made_anew_is_read_by_the_policy(kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = f"anew-{uuid.uuid4()}"
    kafka_cluster.create_topic(topic)
    write(kafka_cluster, topic, 50)
    settings = {"metadata_max_age_ms": 1000, "allow_auto_create_topics": False}  # the test makes it, and nobody else
    with reading(kafka_cluster, topic, auto_offset_reset="earliest", **settings) as consumer:
        read(consumer, 50)
        kafka_cluster.delete_topic(topic)
        wait(lambda: is_made(kafka_cluster, topic))
        write(kafka_cluster, topic, 80)
        assert [one.offset for one in read(consumer, 80)] == list(range(80))
    assert "its topic was deleted and created anew" in caplog.text
    kafka_cluster.delete_topic(topic)
