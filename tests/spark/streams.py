"""Streaming queries of real Spark, and where their records go."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil
from kafka import KafkaAdminClient
from kafka.structs import TopicPartition as KafkaTopicPartition

from equipoise.client import Admin, Consumer, ConsumerRecord, TopicPartition
from equipoise.coordinator.placement import partition_for
from equipoise.spark.source.offset_commits import own_batch
from equipoise.wire.offsets_records import CoordinatorRecord, OffsetCommitKey, OffsetCommitValue, decode_record
from tests.spark.starting import Query

PATIENCE_S = 400.0  # for others who have the processors
Place = tuple[str, int, int]


def until(what: str, is_true: Callable[[], object], query: Any = None) -> None:
    """If the query ends meanwhile, it says why. A look that costs much is taken less often."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        began = time.monotonic()
        if is_true():
            return
        cost = time.monotonic() - began
        if query is not None and not query.isActive and not is_true():
            raise AssertionError(f"the query has ended before: {what}") from query.exception()
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s in vain: {what}"
        time.sleep(min(max(0.02, 3 * cost), 0.3))


def stream(spark: Any, servers: str, **options: str) -> Any:
    """Of topic t, if nothing else is chosen; two underscores in a name stand for a dot."""
    given = {name.replace("__", "."): value for name, value in options.items()}
    if not given.keys() & {"subscribe", "subscribePattern", "assign"}:
        given["subscribe"] = "t"
    return spark.readStream.format("equipoise").option("kafka.bootstrap.servers", servers).options(**given).load()


class Sink:
    """A function for foreachBatch that keeps where the records of each batch come from, as often as it is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, list[Place]]] = []
        self.fail_at: int | None = None

    def __call__(self, frame: Any, batch: int) -> None:
        places = sorted(tuple(row) for row in frame.select("topic", "partition", "offset").collect())
        self.calls.append((batch, places))
        if batch == self.fail_at:
            raise RuntimeError("the sink is full")

    @property
    def places(self) -> Counter[Place]:
        return Counter(place for _, places in self.calls for place in places)

    @property
    def sizes(self) -> list[int]:
        return [len(places) for _, places in self.calls]

    def start(self, frame: Any, checkpoint: str, **trigger: Any) -> Query:
        writer = frame.writeStream.foreachBatch(self).option("checkpointLocation", checkpoint)
        return Query((writer.trigger(**trigger) if trigger else writer).start)


def everything(partitions: int, count: int, topic: str = "t") -> Counter[Place]:
    """Each record of partitions with so many each, once."""
    return Counter((topic, partition, at) for partition in range(partitions) for at in range(count))


def processes(module: str) -> list[psutil.Process]:
    """Descendants of this process that run a module of PySpark's."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if any(module in part for part in process.cmdline()):
                found.append(process)
    return found


def kill_workers() -> int:
    """Those that run tasks, forked by Spark's daemon; how many there were."""
    killed = 0
    for daemon in processes("pyspark.daemon"):
        with suppress(psutil.NoSuchProcess):
            for worker in daemon.children():
                worker.kill()
                killed += 1
    return killed


# -- the group, as Kafka's tools see it


def members(servers: str, group: str = "g") -> list[Any]:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        return list(admin.describe_groups([group])[group]["members"])
    finally:
        admin.close()


def records_of(servers: str, partition: TopicPartition) -> list[ConsumerRecord]:
    """All that it holds now."""
    found: list[ConsumerRecord] = []
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as reading:
        reading.assign([partition])
        while reading.position(partition) < reading.end_offsets(partition)[partition]:
            found += reading.poll(1)
    return found


def departures(servers: str, group: str = "g") -> list[tuple[str, int]]:
    """By the journal of our broker: why members are none any more, and when, in ms."""
    rows = [json.loads(record.value or b"") for record in records_of(servers, TopicPartition("__rebalances", 0))]
    gone = [row for row in rows if (row["type"], row["group_id"]) == ("member_left", group)]
    return [(row["departure"], row["at"]) for row in gone]


def committed(servers: str, group: str = "g") -> dict[tuple[str, int], int]:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        found: dict[KafkaTopicPartition, Any] = admin.list_group_offsets(group)[group]
        return {(one.topic, one.partition): at.offset for one, at in found.items()}
    finally:
        admin.close()


def committed_by(servers: str, query: str, group: str = "g") -> dict[tuple[str, int], int]:
    """How far a query has committed by itself, whoever has committed since: by __consumer_offsets."""
    with Admin(servers) as admin:
        partitions = len(admin.topic("__consumer_offsets").partitions)
    reached: dict[tuple[str, int], int] = {}
    for record in records_of(servers, TopicPartition("__consumer_offsets", partition_for(group, partitions))):
        match decode_record(record.key or b"", record.value):
            case CoordinatorRecord(OffsetCommitKey() as key, OffsetCommitValue() as value):
                if key.group == group and own_batch(value.metadata, query) is not None:
                    place = key.topic, key.partition
                    reached[place] = max(reached.get(place, 0), value.offset)
    return reached
