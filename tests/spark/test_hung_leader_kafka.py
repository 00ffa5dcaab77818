"""The sink on a leader that hangs: a query goes on with the next leader, and each record is stored once."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.wire.errors import EquipoiseError
from proving.kafka_cluster import KafkaCluster
from tests.client.writing import produce
from tests.spark.conftest import create
from tests.spark.starting import Query
from tests.spark.streams import stream, until
from tests.spark.test_sink import to_topic
from tests.spark.test_writing import read

pytestmark = pytest.mark.kafka

EACH = 300
REQUEST_TIMEOUT_S = 300.0  # no wait for it: whoever writes must find the next leader before


def written(cluster: KafkaCluster, topic: str) -> int:
    """As the brokers that live say it; as long as the leader is one that hangs, nobody does."""
    with suppress(EquipoiseError, TimeoutError), cluster.admin() as admin:
        return sum(one.latest for one in admin.offsets(topic).values())
    return -1


def test_the_sink_leaves_a_leader_that_hangs(
    spark: Any, broker: Broker, kafka_cluster: KafkaCluster, checkpoint: str
) -> None:
    """The source reads from another cluster, so that only the sink meets the leader that hangs (SIGSTOP)."""
    topic = f"hung-sink-{uuid.uuid4()}"
    kafka_cluster.create_topic(topic, 1)
    create(broker.bootstrap_servers, "t")
    rows = stream(spark, broker.bootstrap_servers, startingOffsets="earliest").select("key", "value")
    writer = rows.writeStream.option("checkpointLocation", checkpoint)
    patient = {"kafka.request.timeout.ms": str(int(REQUEST_TIMEOUT_S * 1000))}
    query = Query(to_topic(writer, kafka_cluster, topic, **patient).start)
    try:
        produce(broker, "t", EACH, partitions=1)
        until("the first records are written", lambda: written(kafka_cluster, topic) == EACH, query)
        began = time.monotonic()
        kafka_cluster.hang(kafka_cluster.leader_of(topic))
        produce(broker, "t", EACH, partitions=1)
        until("the second records are written", lambda: written(kafka_cluster, topic) == 2 * EACH, query)
        took = time.monotonic() - began
    finally:
        query.stop()
    assert took < REQUEST_TIMEOUT_S / 4, f"{took:.0f} s"
    kafka_cluster.mend()
    values = [int(message.value() or b"") for message in read(kafka_cluster, topic, 1)[0]]
    assert values == [*range(EACH), *range(EACH)]
    kafka_cluster.delete_topic(topic)
