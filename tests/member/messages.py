"""What members and coordinator say to each other, as lines to read. Heartbeats are shown when they bring news."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from equipoise.console import words
from equipoise.member import TopicPartition
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorResponse
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.consumer_protocol import decode_subscription
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message
from tests.transcripts import replies


def name(message: Message) -> str:
    return type(message).__name__.removesuffix("Request").removesuffix("Response")


def places(partitions: Iterable[TopicPartition]) -> str:
    return words.partitions((one.topic, one.partition) for one in partitions) or "nothing"


def asked(request: Message) -> str:
    return "" if isinstance(request, HeartbeatRequest) else f" -> {name(request)} {_asked(request)}".rstrip()


def answered(request: Message, response: Message) -> str:
    if isinstance(response, FindCoordinatorResponse):
        found = response.coordinators[0]
        return f" <- FindCoordinator {replies.code(found.error_code) if found.error_code else f'node {found.node_id}'}"
    if isinstance(response, HeartbeatResponse) and response.error_code == ErrorCode.NONE:
        return ""
    return f" <- {name(response)} {replies.reply(response, request)}"


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
    parts.append(f"topics={','.join(subscription.topics)} owning {replies.partitions(subscription.owned_partitions)}")
    return " ".join(parts) + (f" ({request.reason})" if request.reason else "")


@_asked.register
def _(request: SyncGroupRequest) -> str:
    shares = [f"{share.member_id}={replies.assignment(share.assignment)}" for share in request.assignments]
    return f"generation={request.generation_id}" + (f" assign {'; '.join(shares)}" if shares else "")


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
