"""Requests of groups as they go over a socket, and what is read out of their answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from equipoise.wire.schema import Message
from tests.broker.rawclient import RawClient

BATCHED = 8  # the first version of OffsetFetch that asks for several groups
WITH_IDS = 10  # the first of OffsetCommit and OffsetFetch that names topics by id

Topics = dict[str | bytes, list[int]]


def join(member_id: str = "", group: str = "g", **fields: Any) -> JoinGroupRequest:
    values: dict[str, Any] = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, **fields}
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")]
    return JoinGroupRequest(
        group_id=group, member_id=member_id, protocol_type="consumer", protocols=protocols, **values
    )


def sync(member_id: str = "m", group: str = "g", **fields: Any) -> SyncGroupRequest:
    values: dict[str, Any] = {"generation_id": 1, "protocol_type": "consumer", "protocol_name": "range", **fields}
    return SyncGroupRequest(group_id=group, member_id=member_id, **values)


def heartbeat(member_id: str = "m", group: str = "g") -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)


def leave(member_id: str = "m", group: str = "g") -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=group, member_id="", members=[MemberIdentity(member_id=member_id)])


def commit(topics: Topics, group: str = "g", offset: int = 1, generation_id: int = -1) -> OffsetCommitRequest:
    """Topics by name, or, as bytes, by id."""
    rows = [
        OffsetCommitRequestTopic(
            **_named(topic),
            partitions=[OffsetCommitRequestPartition(partition_index=one, committed_offset=offset) for one in indexes],
        )
        for topic, indexes in topics.items()
    ]
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=generation_id, topics=rows)


def fetch(topics: Topics | None, version: int, *groups: str, require_stable: bool = False) -> OffsetFetchRequest:
    asked = None
    if topics is not None:
        asked = [OffsetFetchRequestTopic(**_named(topic), partition_indexes=rows) for topic, rows in topics.items()]
    names = groups or ("g",)
    if version < BATCHED:
        return OffsetFetchRequest(group_id=names[0], topics=asked, require_stable=require_stable)
    rows = [OffsetFetchRequestGroup(group_id=name, topics=asked) for name in names]
    return OffsetFetchRequest(groups=rows, require_stable=require_stable)


def _named(topic: str | bytes) -> dict[str, Any]:
    return {"name": topic} if isinstance(topic, str) else {"topic_id": topic}


def delete_offsets(topics: dict[str, list[int]], group: str = "g") -> OffsetDeleteRequest:
    rows = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in topics.items()
    ]
    return OffsetDeleteRequest(group_id=group, topics=rows)


def delete_groups(*groups: str) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=list(groups or ("g",)))


def describe(*groups: str, **fields: Any) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=list(groups or ("g",)), **fields)


def list_groups() -> ListGroupsRequest:
    return ListGroupsRequest()


def find(version: int, *keys: str, key_type: int = 0) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(key=keys[0], key_type=key_type)
    return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)


def call_together(client: RawClient, *calls: tuple[Message, int]) -> list[Any]:
    """Sends the requests, with their versions, in one piece, so that the broker serves all in one turn."""
    frames: list[bytes] = []
    send, client.send_bytes = client.send_bytes, frames.append  # type: ignore[method-assign, assignment]
    for request, version in calls:
        client.send(request, version)
    client.send_bytes = send  # type: ignore[method-assign]
    client.send_bytes(b"".join(frames))
    return [client.receive() for _ in calls]


# -- answers


def rows_of(topics: Iterable[Any]) -> dict[tuple[str | bytes, int], Any]:
    """Partitions by topic (its name, or its id where it has no name) and index; each must be there once."""
    found: dict[tuple[str | bytes, int], Any] = {}
    names = set()
    for topic in topics:
        name = topic.name or getattr(topic, "topic_id", "")
        assert name not in names, "a topic stands twice in the answer: clients look at one of them"
        names.add(name)
        for row in topic.partitions:
            assert (name, row.partition_index) not in found
            found[name, row.partition_index] = row
    return found


def errors_of(topics: Iterable[Any]) -> dict[tuple[str | bytes, int], int]:
    return {key: row.error_code for key, row in rows_of(topics).items()}


def offsets_of(topics: Iterable[Any]) -> dict[tuple[str | bytes, int], int]:
    return {key: row.committed_offset for key, row in rows_of(topics).items()}


def top_error(request: Message, response: Any) -> int:
    """The error of an answer that has only one, wherever the API puts it."""
    kind = type(request).__name__
    if kind == "OffsetCommitRequest":
        (code,) = set(errors_of(response.topics).values())
        return code
    if kind in ("OffsetFetchRequest", "DescribeGroupsRequest"):
        return int(response.groups[0].error_code)
    if kind == "DeleteGroupsRequest":
        return int(response.results[0].error_code)
    return int(response.error_code)
