"""Answers and records as a transcript shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import singledispatch

from equipoise.console import words
from equipoise.wire.apis.k08_offset_commit import OffsetCommitResponse
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchResponseTopic
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupResponse, MemberResponse
from equipoise.wire.apis.k14_sync_group import SyncGroupResponse
from equipoise.wire.apis.k15_describe_groups import DescribedGroup, DescribedGroupMember
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsResponse
from equipoise.wire.apis.k47_offset_delete import OffsetDeleteResponse
from equipoise.wire.consumer_protocol import decode_assignment, decode_subscription
from equipoise.wire.errors import ErrorCode, ProtocolError
from equipoise.wire.offsets_records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, Record
from equipoise.wire.schema import Message


def code(number: int) -> str:
    return ErrorCode(number).name


def partitions(by_topic: Mapping[str, Sequence[int]]) -> str:
    return words.partitions((topic, number) for topic, numbers in by_topic.items() for number in numbers) or "nothing"


def assignment(raw: bytes) -> str:
    """What is assigned; an assignment of no bytes is not one of no partitions."""
    if not raw:
        return "no bytes"
    try:
        return partitions(decode_assignment(raw).assigned_partitions)
    except ProtocolError:
        return f"{len(raw)} bytes"


@singledispatch
def reply(response: Message, request: Message) -> str:
    raise AssertionError(f"no words for {response!r}")


@reply.register
def _(response: JoinGroupResponse, request: JoinGroupRequest) -> str:
    """The member id where it is news; the members where there are any, that is to the leader."""
    if response.error_code:
        return f"{code(response.error_code)} member_id={response.member_id or '-'}"
    parts = [f"joined generation={response.generation_id} protocol={response.protocol_name}"]
    if response.member_id != request.member_id:
        parts.append(f"member_id={response.member_id}")
    parts.append("leader" if response.leader == response.member_id else f"leader={response.leader}")
    if response.members:
        members = ", ".join(_with_owned(row.member_id, row.metadata) for row in response.members)
        parts.append(f"members=[{members}]")
    if response.skip_assignment:
        parts.append("skip_assignment")
    return " ".join(parts)


def _with_owned(member_id: str, metadata: bytes) -> str:
    try:
        owned = decode_subscription(metadata).owned_partitions
    except ProtocolError:
        return member_id
    return f"{member_id} owning {partitions(owned)}" if owned else member_id


@reply.register
def _(response: SyncGroupResponse, request: Message) -> str:
    return code(response.error_code) if response.error_code else f"synced {assignment(response.assignment)}"


@reply.register
def _(response: HeartbeatResponse, request: Message) -> str:
    return code(response.error_code) if response.error_code else "heartbeat ok"


@reply.register
def _(response: LeaveGroupResponse, request: Message) -> str:
    if response.error_code or not response.members:
        return code(response.error_code) if response.error_code else "left"
    if len(response.members) == 1:
        error = response.members[0].error_code
        return code(error) if error else "left"
    return ", ".join(
        f"{_identity(row)} {code(row.error_code) if row.error_code else 'left'}" for row in response.members
    )


def _identity(row: MemberResponse) -> str:
    return row.member_id or f"@{row.group_instance_id}"


@reply.register
def _(response: OffsetCommitResponse, request: Message) -> str:
    return _by_error(
        "committed", {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
    )


@reply.register
def _(response: OffsetDeleteResponse, request: Message) -> str:
    if response.error_code:
        return code(response.error_code)
    return _by_error(
        "deleted", {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
    )


def _by_error(done: str, errors: Mapping[tuple[str, int], int]) -> str:
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for partition, error in errors.items():
        found[error].append(partition)
    return ", ".join(f"{code(error) if error else done} {words.partitions(rows)}" for error, rows in found.items())


@reply.register
def _(response: DeleteGroupsResponse, request: Message) -> str:
    error = response.results[0].error_code
    return code(error) if error else "deleted"


def described(group: DescribedGroup) -> list[str]:
    if group.error_code:
        return [f"{group.group_id}: {group.group_state} {code(group.error_code)}, {group.error_message}"]
    head = f"{group.group_id}: {group.group_state} protocol_type={group.protocol_type or '-'}"
    return [f"{head} protocol={group.protocol_data or '-'}", *map(_described_member, group.members)]


def _described_member(row: DescribedGroupMember) -> str:
    static = f" instance={row.group_instance_id}" if row.group_instance_id is not None else ""
    metadata = "metadata" if row.member_metadata else "no metadata"
    head = f"   {row.member_id}{static} client={row.client_id} {row.client_host}"
    return f"{head} {metadata}, {assignment(row.member_assignment)}"


def fetched(topics: Sequence[OffsetFetchResponseTopic]) -> str:
    rows = [
        f"{topic.name}:{row.partition_index}={'-' if row.committed_offset < 0 else row.committed_offset}"
        + (f" ({row.metadata})" if row.metadata else "")
        for topic in topics
        for row in topic.partitions
    ]
    return " ".join(rows) or "nothing"


def record(row: Record) -> tuple[str, str]:
    """The group, and what is written about it."""
    key, value = row
    if isinstance(key, OffsetCommitKey):
        text = f"{key.topic}:{key.partition}"
        return key.group, f"{text}={value.offset}" if isinstance(value, OffsetCommitValue) else f"tombstone of {text}"
    group_id: str = key.group  # type: ignore[attr-defined]
    if not isinstance(value, GroupMetadataValue):
        return group_id, "tombstone of the group"
    members = ", ".join(row.member_id for row in value.members) or "no members"
    return group_id, f"generation {value.generation} with {members}"
