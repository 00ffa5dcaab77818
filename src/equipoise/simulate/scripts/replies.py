"""Descriptions of groups and committed offsets as a transcript shows them."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.simulate.messages import assignment, code
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchResponseTopic
from equipoise.wire.apis.k15_describe_groups import DescribedGroup, DescribedGroupMember


def described(group: DescribedGroup) -> list[str]:
    """A group, and a line for each member."""
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
    """Committed offsets, in a line."""
    rows = [
        f"{topic.name}:{row.partition_index}={'-' if row.committed_offset < 0 else row.committed_offset}"
        + (f" ({row.metadata})" if row.metadata else "")
        for topic in topics
        for row in topic.partitions
    ]
    return " ".join(rows) or "nothing"
