"""DescribeLogDirs (35): the one data directory of this broker, its partitions, and the room on its disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.broker.topics.topics import Topic
from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.wire.apis.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_MEMORY = "memory"  # in place of a path, for a broker that keeps nothing on disk


def handle(server: Server, request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse | None:
    """Describes the data directory (KafkaApis.handleDescribeLogDirsRequest)."""
    try:
        server.authorize(call, AclOperation.DESCRIBE, CLUSTER)
    except KafkaError as error:
        return DescribeLogDirsResponse(error_code=error.code, results=[])
    result = _directory(server.directory.path)
    steps = _describe(server, request, result.topics, call.connection.listener.node_id)
    server.turns.run(call, steps, lambda: DescribeLogDirsResponse(results=[result]))
    return None


def _directory(path: Path | None) -> DescribeLogDirsResult:
    if path is None:
        return DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=_MEMORY, topics=[])
    result = DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=str(path.absolute()), topics=[])
    try:
        disk = shutil.disk_usage(path)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        result.total_bytes, result.usable_bytes = disk.total, disk.free
    return result


def _describe(
    server: Server, request: DescribeLogDirsRequest, found: list[DescribeLogDirsTopic], node_id: int
) -> Iterator[None]:
    """Of what was asked for only that which is here, each once, as on Kafka: of which this broker is a replica."""
    if request.topics is None:
        asked: dict[str, set[int] | None] = dict.fromkeys(topic.name for topic in server.topics)
    else:
        asked = {row.topic: set() for row in request.topics}
        for row in request.topics:
            asked[row.topic] = (asked[row.topic] or set()) | set(row.partitions)
    for name, indexes in asked.items():
        topic = server.topics.get(name)
        if topic is not None:
            yield from _sizes(topic, indexes, found, node_id)


def _sizes(topic: Topic, indexes: set[int] | None, found: list[DescribeLogDirsTopic], node_id: int) -> Iterator[None]:
    described = DescribeLogDirsTopic(name=topic.name, partitions=[])
    for partition in list(topic.partitions):
        if (indexes is None or partition.index in indexes) and node_id in partition.placement.replicas:
            row = DescribeLogDirsPartition(
                partition_index=partition.index, partition_size=partition.log.size, offset_lag=0, is_future_key=False
            )
            described.partitions.append(row)
        yield
    if described.partitions:
        found.append(described)
