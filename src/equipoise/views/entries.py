"""Entries: what a record of `__consumer_offsets` says of a classic group, in the form of the journal's rows."""

from __future__ import annotations

from typing import Any

from equipoise.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from equipoise.wire.errors import ProtocolError
from equipoise.wire.offsets_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    UnknownRecordType,
    decode_record,
)

Entry = dict[str, Any]


def group_entry(key: bytes, value: bytes | None, at: int) -> tuple[str, Entry] | None:
    """The group of a GroupMetadata record, and its entry. None: another record, or one that cannot be read."""
    try:
        record = decode_record(key, value)
    except ProtocolError:
        return None
    if isinstance(record, UnknownRecordType) or not isinstance(record.key, GroupMetadataKey):
        return None
    group = record.key.group
    if not isinstance(record.value, GroupMetadataValue):
        return group, {"type": "deleted", "at": at}
    return group, _generation(record.value, at)


def _generation(value: GroupMetadataValue, at: int) -> Entry:
    return {
        "type": "generation",
        "at": at,
        "joined_at": value.current_state_timestamp if value.current_state_timestamp >= 0 else None,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "members": [_member(one, value.protocol_type) for one in value.members],
    }


def _member(member: MemberMetadata, protocol_type: str) -> Entry:
    topics, partitions = _subscribed(member, protocol_type)
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "topics": topics,
        "partitions": partitions,
    }


def _subscribed(member: MemberMetadata, protocol_type: str) -> tuple[list[str], list[tuple[str, int]]]:
    """The topics and the partitions of a consumer. Other protocols, such as Connect's, have neither."""
    if protocol_type != PROTOCOL_TYPE:
        return [], []
    try:
        topics = decode_subscription(member.subscription, newest=0).topics
        assigned = decode_assignment(member.assignment).assigned_partitions if member.assignment else {}
    except ProtocolError:
        return [], []
    return topics, [(topic, number) for topic, numbers in assigned.items() for number in numbers]
