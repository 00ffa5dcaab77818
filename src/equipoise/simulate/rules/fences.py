"""Stale generations and epochs are never accepted.

The rule is worked out here once more, from the data of the shard at the moment in which the request came in.
"""

from __future__ import annotations

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status
from equipoise.simulate.calls import Call
from equipoise.simulate.observer import Observer
from equipoise.simulate.topic_ids import topic_id
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message

_Fenced = HeartbeatRequest | SyncGroupRequest | OffsetCommitRequest


class Fences(Observer):
    """Remembers of each call whether it may succeed, until it is answered."""

    def __init__(self) -> None:
        self._refusals: dict[Call, str] = {}
        self._epochs: dict[str, int] = {}  # by member id, as clients have seen them

    def arrived(self, call: Call, shard: Shard) -> None:
        """Looks at the group before the coordinator does."""
        request = call.request
        if shard.status is not Status.ACTIVE:
            return
        if isinstance(request, _Fenced):
            refusal = _classic_refusal(shard, request)
        elif isinstance(request, ConsumerGroupHeartbeatRequest):
            refusal = _epoch_refusal(shard, request)
        else:
            return
        if refusal is not None:
            self._refusals[call] = refusal

    def answered(self, call: Call) -> None:
        """Who was to be refused is refused."""
        refusal = self._refusals.pop(call, None)
        if refusal is None:
            return
        reply = call.reply
        if isinstance(reply, OffsetCommitResponse):
            is_refused = all(row.error_code for topic in reply.topics for row in topic.partitions)
        else:
            is_refused = reply.error_code != ErrorCode.NONE
        assert is_refused, f"{call.api} of {call.client_id} is accepted: {refusal}"

    def received(self, name: str, request: Message, response: Message) -> None:
        """The epochs that a member sees do not go down, except for a new beginning. An answer to a request that another
        one has overtaken says nothing: it may be of a coordinator that is none any more."""
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        if request.member_epoch == 0:
            self._epochs.pop(request.member_id, None)
        if response.error_code == ErrorCode.NONE and response.member_epoch > 0:
            before = self._epochs.get(request.member_id, 0)
            if 0 < request.member_epoch < before:
                return
            assert response.member_epoch >= before, f"{name} hears of epoch {response.member_epoch} after {before}"
            self._epochs[request.member_id] = response.member_epoch


def _classic_refusal(shard: Shard, request: _Fenced) -> str | None:
    group = shard.find(request.group_id)
    if isinstance(group, ConsumerGroup):
        return _refusal_in_consumer_group(group, request)
    if group is None or request.member_id not in group.members:
        return "it is no member"
    instance = request.group_instance_id
    if instance is not None and group.static_members.get(instance) != request.member_id:
        return f"{instance} is another member now"
    return _stale(group, request)


def _stale(group: Group, request: _Fenced) -> str | None:
    former = group.members[request.member_id].former
    said = _generation(request)
    if said == group.generation_id or (former is not None and former.generation_id == said):
        return None
    return f"its generation is {said}, that of the group {group.generation_id}"


def _generation(request: _Fenced) -> int:
    if isinstance(request, OffsetCommitRequest):
        return request.generation_id_or_member_epoch
    return request.generation_id


def _refusal_in_consumer_group(group: ConsumerGroup, request: _Fenced) -> str | None:
    """Of a commit, an older epoch may speak of what the member has had since then."""
    member = group.members.get(request.member_id)
    if member is None:
        return "it is no member"
    said = _generation(request)
    if said == member.member_epoch:
        return None
    if isinstance(request, OffsetCommitRequest) and said < member.member_epoch:
        owned = {**member.assigned, **member.revoking}
        wanted = [(topic_id(one.name), row.partition_index) for one in request.topics for row in one.partitions]
        if all(one in owned and owned[one] <= said for one in wanted):
            return None
    if not isinstance(request, OffsetCommitRequest) and said == member.previous_member_epoch:
        return None
    return f"its epoch is {said}, and should be {member.member_epoch}"


def _epoch_refusal(shard: Shard, request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.member_epoch <= 0:
        return None
    group = shard.consumer_groups.get(request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if member is None:
        return "it is no member"
    if request.member_epoch in (member.member_epoch, member.previous_member_epoch):
        return None
    return f"its epoch is {request.member_epoch}, and should be {member.member_epoch}"
