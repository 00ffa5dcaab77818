"""Topics with records in them, made quickly: batches go straight into the log of a broker in this process."""

from __future__ import annotations

import time
from collections.abc import Sequence

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.client.net.addresses import parse_bootstrap_servers
from equipoise.client.net.blocking import Connection
from equipoise.wire.apis.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import Codec
from equipoise.wire.records.build import Record, build_batch

TIME = 1_700_000_000_000
PATIENCE_S = 120.0
# A new partition of Apache Kafka is known a moment before its leader is ready for it.
NOT_READY = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID)


def fill(broker: Broker, topic: str, count: int, *, partitions: int = 1, size: int = 10, per_batch: int = 500) -> bytes:
    """A new topic with `count` records in each partition; returns its id."""
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions)
        topic_id = admin.topic(topic).topic_id
    for partition in range(partitions):
        produce(broker.bootstrap_servers, topic, partition, numbered(count, size), per_batch=per_batch)
    return topic_id


def numbered(count: int, size: int = 10, first: int = 0) -> list[Record]:
    return [
        Record(at, TIME + at, b"key-%d" % (first + at), (b"%d-" % (first + at)).ljust(size, b"x"))
        for at in range(count)
    ]


def produce(
    bootstrap_servers: str,
    topic: str,
    partition: int,
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    per_batch: int = 500,
) -> None:
    """Offsets within `records` are made anew for each batch."""
    ((host, port),) = parse_bootstrap_servers(bootstrap_servers)
    with Connection(host, port) as connection, Admin(bootstrap_servers) as admin:
        topic_id = admin.topic(topic).topic_id
        for at in range(0, len(records), per_batch):
            part = [one._replace(offset=number) for number, one in enumerate(records[at : at + per_batch])]
            data = PartitionProduceData(index=partition, records=bytes(build_batch(part, codec=codec)))
            topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])]
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
            _deliver(connection, request)


def _deliver(connection: Connection, request: ProduceRequest) -> None:
    end = time.monotonic() + PATIENCE_S
    while (code := _attempt(connection, request)) in NOT_READY and time.monotonic() < end:
        time.sleep(0.02)
    assert code == ErrorCode.NONE, ErrorCode(code)


def _attempt(connection: Connection, request: ProduceRequest) -> int:
    return connection.send(request, ProduceResponse).responses[0].partition_responses[0].error_code
