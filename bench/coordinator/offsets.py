"""Committed offsets over a plain connection; also the way to learn that a coordinator is there."""

from __future__ import annotations

import time
from collections.abc import Sequence

from equipoise.client.net.blocking import Connection
from equipoise.coordinator.placement import partition_for
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.errors import EquipoiseError, ErrorCode

_SHARDS = 50  # offsets.topic.num.partitions
_PATIENCE = 60.0
_NOT_YET = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


def await_coordinator(connection: Connection, group_ids: Sequence[str]) -> None:
    """Until all of these groups are loaded, of a broker that is the only one."""
    deadline = time.monotonic() + _PATIENCE
    one_of_each_shard = {partition_for(group_id, _SHARDS): group_id for group_id in group_ids}.values()
    # The question makes Kafka create the topic of offsets.
    connection.send(FindCoordinatorRequest(coordinator_keys=list(group_ids[:1])), FindCoordinatorResponse)
    for group_id in one_of_each_shard:
        while fetch_offsets(connection, group_id) is None:
            if time.monotonic() > deadline:
                raise EquipoiseError(f"group {group_id} has no coordinator after {_PATIENCE:.0f} s")
            time.sleep(0.005)


def fetch_offsets(connection: Connection, group_id: str) -> list[int] | None:
    """None: the group is not loaded yet."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    (group,) = connection.send(request, OffsetFetchResponse).groups
    if group.error_code in _NOT_YET:
        return None
    return sorted(row.committed_offset for topic in group.topics for row in topic.partitions)
