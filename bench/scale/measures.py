"""What `bench scale` measures: CPU of the broker, of a consumer, and of the reading half of the Spark source."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.consumer import produce
from bench.versus.run import create_topic
from equipoise.client import AsyncConsumer, Connection, Consumer, TopicPartition
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from equipoise.wire.errors import EquipoiseError
from proving.brokers import BrokerProcess

_PATIENCE_S = 600.0
_MICRO = 1e6
Costs = dict[str, float]  # CPU seconds, or microseconds for each unit, by part


class Records(NamedTuple):
    """A topic that is read to its end."""

    topic: str
    partitions: int
    size: int
    total: int


@contextmanager
def _cpu_of(broker: BrokerProcess, spent: Costs) -> Iterator[None]:
    before = broker.cpu_seconds(), time.process_time()
    yield
    spent["broker"] = broker.cpu_seconds() - before[0]
    spent["own"] = time.process_time() - before[1]


def read_records(broker: BrokerProcess, records: Records) -> Costs:
    """What a record costs: the consumer by poll_arrow(), the source in one task, and the broker for the consumer."""
    create_topic(broker, records.topic, records.partitions)
    produce(broker, records.topic, records.size, records.total, records.partitions)
    by_consumer: Costs = {}
    by_source: Costs = {}
    with _cpu_of(broker, by_consumer):
        _consume(broker, records)
    with _cpu_of(broker, by_source):
        _read(broker, records)
    each = _MICRO / records.total
    return {
        "broker": by_consumer["broker"] * each,
        "consumer": by_consumer["own"] * each,
        "source": by_source["own"] * each,
    }


def _consume(broker: BrokerProcess, records: Records) -> None:
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(records.topic, number) for number in range(records.partitions)])
        consumer.seek_to_beginning()
        found, deadline = 0, time.monotonic() + _PATIENCE_S
        while found < records.total:
            table = consumer.poll_arrow()
            found += 0 if table is None else table.num_rows
            _check(deadline, f"{found} of {records.total} records")


def _read(broker: BrokerProcess, records: Records) -> None:
    from equipoise.spark.executor.leaders import forget_all
    from equipoise.spark.executor.reading import read
    from equipoise.spark.options import SourceOptions
    from equipoise.spark.schema import spark_schema
    from equipoise.spark.source.batch_reader import BatchReader

    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": records.topic}
    columns = tuple(spark_schema(include_headers=False).names)
    tasks = BatchReader(SourceOptions.parse(options, streaming=False), columns).partitions()
    found = sum(batch.num_rows for task in tasks for batch in read(task))
    forget_all()
    if found != records.total:
        raise EquipoiseError(f"the source has read {found} of {records.total} records")


def commit(broker: BrokerProcess, groups: int, commits: int) -> Costs:
    """What a commit of one partition costs, when so many groups commit in turn, over one connection."""
    host, port = broker.bootstrap_servers.rsplit(":", 1)
    spent: Costs = {}
    with Connection(host, int(port), timeout=_PATIENCE_S) as connection:
        requests = [_commit_request(f"scale-{groups}-{number}") for number in range(groups)]
        for request in requests:
            connection.send(request, OffsetCommitResponse)
        with _cpu_of(broker, spent):
            for number in range(commits):
                connection.send(requests[number % groups], OffsetCommitResponse)
    return {"broker": spent["broker"] * _MICRO / commits}


def _commit_request(group: str) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="groups", partitions=[row])])


def join(broker: BrokerProcess, members: int, topic: str, partitions: int) -> Costs:
    """What a member costs, from its start until all members of its group have their partitions."""
    spent: Costs = {}
    with _cpu_of(broker, spent):
        asyncio.run(_join(broker, members, topic, partitions))
    return {"broker": spent["broker"] * _MICRO / members, "consumer": spent["own"] * _MICRO / members}


async def _join(broker: BrokerProcess, members: int, topic: str, partitions: int) -> None:
    servers = broker.bootstrap_servers
    group = [AsyncConsumer(bootstrap_servers=servers, group_id=f"scale-{members}") for _ in range(members)]
    deadline = time.monotonic() + _PATIENCE_S
    try:
        for one in group:
            one.subscribe([topic])
        while not _is_shared([len(one.assignment()) for one in group], partitions):
            await asyncio.gather(*(one.poll(0.05) for one in group))
            _check(deadline, f"the group of {members} members")
    finally:
        await asyncio.gather(*(one.close() for one in group))


def _is_shared(owned: list[int], partitions: int) -> bool:
    return sum(owned) == partitions and max(owned) - min(owned) <= 1


def _check(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise EquipoiseError(f"{what} after {_PATIENCE_S:.0f} s")
