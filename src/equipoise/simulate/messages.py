"""Requests, answers and records of groups as a transcript shows them: each in one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import singledispatch

from equipoise.simulate.topic_ids import topic_name
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorResponse
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsResponse
from equipoise.wire.apis.k47_offset_delete import OffsetDeleteResponse
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from equipoise.wire.consumer_protocol import Partitions, decode_assignment, decode_subscription
from equipoise.wire.errors import ErrorCode, ProtocolError
from equipoise.wire.offsets_records import CoordinatorRecord, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from equipoise.wire.schema import Message
from equipoise.wire.text import partitions as listed

# -- parts


def api(message: Message) -> str:
    """The name of the API of a request or response."""
    return type(message).__name__.removesuffix("Request").removesuffix("Response")


def code(number: int) -> str:
    """The name of an error."""
    return ErrorCode(number).name


def partitions(found: Iterable[tuple[str, int]]) -> str:
    """As in "orders:0,1 payments:7"."""
    return listed(found) or "nothing"


def by_topic(found: Partitions) -> str:
    """The same, of partitions by topic."""
    return partitions((topic, number) for topic, numbers in found.items() for number in numbers)


def assignment(raw: bytes) -> str:
    """What is assigned; an assignment of no bytes is not one of no partitions."""
    if not raw:
        return "no bytes"
    try:
        return by_topic(decode_assignment(raw).assigned_partitions)
    except ProtocolError:
        return f"{len(raw)} bytes"


def is_routine(message: Message) -> bool:
    """A heartbeat without news."""
    match message:
        case HeartbeatRequest():
            return True
        case HeartbeatResponse():
            return message.error_code == ErrorCode.NONE
        case ConsumerGroupHeartbeatRequest():
            return message.member_epoch > 0 and not _asked(message).partition(" ")[2]
        case ConsumerGroupHeartbeatResponse():
            return message.error_code == ErrorCode.NONE and message.assignment is None and message.member_epoch >= 0
    return False


# -- requests


def asked(request: Message) -> str:
    """What a consumer sends."""
    return f"{api(request)} {_asked(request)}".rstrip()


@singledispatch
def _asked(request: Message) -> str:
    return ""


@_asked.register
def _(request: JoinGroupRequest) -> str:
    subscription = decode_subscription(request.protocols[0].metadata)
    parts = [f"member_id={request.member_id or '-'}"]
    if request.group_instance_id is not None:
        parts.append(f"instance={request.group_instance_id}")
    parts.append(f"generation={subscription.generation_id}" if subscription.generation_id >= 0 else "generation=-")
    parts.append(f"protocols={','.join(protocol.name for protocol in request.protocols)}")
    parts.append(f"topics={','.join(subscription.topics)} owning {by_topic(subscription.owned_partitions)}")
    return " ".join(parts) + (f" ({request.reason})" if request.reason else "")


@_asked.register
def _(request: SyncGroupRequest) -> str:
    shares = [f"{share.member_id}={assignment(share.assignment)}" for share in request.assignments]
    return f"generation={request.generation_id}" + (f" assign {'; '.join(shares)}" if shares else "")


@_asked.register
def _(request: ConsumerGroupHeartbeatRequest) -> str:
    parts = [f"epoch={request.member_epoch}"]
    if request.subscribed_topic_names is not None:
        parts.append(f"topics={','.join(request.subscribed_topic_names) or '-'}")
    if request.subscribed_topic_regex:
        parts.append(f"regex={request.subscribed_topic_regex}")
    if request.topic_partitions is not None:
        parts.append(f"owning {_by_id(request.topic_partitions)}")
    return " ".join(parts)


def _by_id(rows: Iterable[HeartbeatTopicPartitions]) -> str:
    return partitions((topic_name(row.topic_id), number) for row in rows for number in row.partitions)


@_asked.register
def _(request: LeaveGroupRequest) -> str:
    return f"{request.members[0].member_id} ({request.members[0].reason})"


@_asked.register
def _(request: OffsetCommitRequest) -> str:
    rows = [
        f"{topic.name}:{row.partition_index}={row.committed_offset}"
        for topic in request.topics
        for row in topic.partitions
    ]
    return f"generation={request.generation_id_or_member_epoch} {' '.join(rows)}"


# -- answers


def answered(request: Message, response: Message) -> str:
    """What a consumer hears."""
    return f"{api(response)} {reply(response, request)}"


@singledispatch
def reply(response: Message, request: Message) -> str:
    """An answer without the name of its API."""
    raise AssertionError(f"no words for {response!r}")


@reply.register
def _(response: FindCoordinatorResponse, request: Message) -> str:
    found = response.coordinators[0]
    return code(found.error_code) if found.error_code else f"node {found.node_id}"


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
    return f"{member_id} owning {by_topic(owned)}" if owned else member_id


@reply.register
def _(response: SyncGroupResponse, request: Message) -> str:
    return code(response.error_code) if response.error_code else f"synced {assignment(response.assignment)}"


@reply.register
def _(response: HeartbeatResponse, request: Message) -> str:
    return code(response.error_code) if response.error_code else "heartbeat ok"


@reply.register
def _(response: ConsumerGroupHeartbeatResponse, request: Message) -> str:
    if response.error_code:
        return code(response.error_code)
    given = "" if response.assignment is None else f" target {_by_id(response.assignment.topic_partitions)}"
    return f"epoch={response.member_epoch}{given}"


@reply.register
def _(response: LeaveGroupResponse, request: Message) -> str:
    rows = response.members
    if response.error_code or len(rows) < 2:
        error = response.error_code or (rows[0].error_code if rows else ErrorCode.NONE)
        return code(error) if error else "left"
    return ", ".join(f"{_identity(row)} {code(row.error_code) if row.error_code else 'left'}" for row in rows)


def _identity(row: MemberResponse) -> str:
    return row.member_id or f"@{row.group_instance_id}"


@reply.register
def _(response: OffsetCommitResponse, request: Message) -> str:
    return _by_error("committed", response)


@reply.register
def _(response: OffsetDeleteResponse, request: Message) -> str:
    return code(response.error_code) if response.error_code else _by_error("deleted", response)


def _by_error(done: str, response: OffsetCommitResponse | OffsetDeleteResponse) -> str:
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for topic in response.topics:
        for row in topic.partitions:
            found[row.error_code].append((topic.name, row.partition_index))
    return ", ".join(f"{code(error) if error else done} {listed(rows)}" for error, rows in found.items())


@reply.register
def _(response: DeleteGroupsResponse, request: Message) -> str:
    error = response.results[0].error_code
    return code(error) if error else "deleted"


# -- records


def records(rows: Iterable[CoordinatorRecord]) -> Mapping[str, str]:
    """What is written about each group."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        group_id, text = _record(row)
        groups.setdefault(group_id, []).append(text)
    return {group_id: ", ".join(texts) for group_id, texts in groups.items()}


def _record(row: CoordinatorRecord) -> tuple[str, str]:
    key, value = row
    if isinstance(key, OffsetCommitKey):
        text = f"{key.topic}:{key.partition}"
        return key.group, f"{text}={value.offset}" if isinstance(value, OffsetCommitValue) else f"tombstone of {text}"
    group_id: str = key.group  # type: ignore[attr-defined]
    if not isinstance(value, GroupMetadataValue):
        return group_id, "tombstone of the group"
    members = ", ".join(row.member_id for row in value.members) or "no members"
    return group_id, f"generation {value.generation} with {members}"
