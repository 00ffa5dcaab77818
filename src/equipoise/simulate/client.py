"""A client that sends what a script tells it to send, in any order and with any values.

It remembers what answers taught it and sends that by default. It never acts by itself: `Consumer` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from equipoise.coordinator.classic.group import ClassicGroupMember
from equipoise.simulate.calls import Call
from equipoise.simulate.coordinator import Coordinator
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from equipoise.wire.consumer_protocol import NO_GENERATION, PROTOCOL_TYPE
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message

Offsets = Mapping[str, Mapping[int, int]]  # by topic and partition
_FIRST_WITH_MEMBERS = 3  # version of LeaveGroup


@dataclass(eq=False)
class Client:
    """Settings, and what it knows of its membership. A request takes other values by the names of these fields:
    `client.heartbeat(generation_id=1)`."""

    coordinator: Coordinator
    client_id: str
    group_id: str = "g"
    group_instance_id: str | None = None
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    protocol_type: str | None = PROTOCOL_TYPE
    protocols: Sequence[tuple[str, bytes]] = (("range", b""),)
    version: int = 9  # of its JoinGroup
    host: str = "/127.0.0.1"
    member_id: str = ""
    generation_id: int = NO_GENERATION
    protocol_name: str | None = "range"
    leader: str = ""
    members: list[str] = field(default_factory=list)  # as the leader was told
    assignment: bytes = b""
    _original: Client | None = field(default=None, repr=False)  # of which this is a copy, for one request

    # -- requests

    def join(self, *, version: int | None = None, reason: str | None = None, **other: Any) -> Call:
        """JoinGroup."""
        sender = self._with(other)
        return sender.send(sender.join_request(reason), self.version if version is None else version)

    def join_request(self, reason: str | None = None) -> JoinGroupRequest:
        """JoinGroup as this client builds it."""
        return JoinGroupRequest(
            **self._identity(),
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocol_type=self.protocol_type or "",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in self.protocols],
            reason=reason,
        )

    def enter(self, **other: Any) -> Call:
        """A first JoinGroup, and a second one if the first was answered with a member id to join with."""
        call = self.join(**{"member_id": "", **other})
        if not call.is_parked and call.error is ErrorCode.MEMBER_ID_REQUIRED:
            call = self.join(**other)
        return call

    def sync(self, assignments: Mapping[str, bytes] | None = None, *, version: int = 5, **other: Any) -> Call:
        """SyncGroup; a leader's has the assignments by member id."""
        sender = self._with(other)
        request = SyncGroupRequest(
            **sender._identity(),
            generation_id=sender.generation_id,
            protocol_type=sender.protocol_type,
            protocol_name=sender.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in (assignments or {}).items()
            ],
        )
        return sender.send(request, version)

    def heartbeat(self, *, version: int = 4, hold_ms: int = 0, **other: Any) -> Call:
        """Heartbeat; the coordinator may hold it for `hold_ms`."""
        sender = self._with(other)
        return sender.send(sender.heartbeat_request(), version, hold_ms=hold_ms)

    def heartbeat_request(self) -> HeartbeatRequest:
        """Heartbeat as this client builds it."""
        return HeartbeatRequest(**self._identity(), generation_id=self.generation_id)

    def leave(self, *, version: int = 5, reason: str | None = None, **other: Any) -> Call:
        """LeaveGroup for itself."""
        sender = self._with(other)
        row = MemberIdentity(member_id=sender.member_id, group_instance_id=sender.group_instance_id, reason=reason)
        return sender.remove(row, version=version)

    def remove(self, *members: MemberIdentity, version: int = 5, **other: Any) -> Call:
        """LeaveGroup for any members, as an administrator sends it."""
        member_id = members[0].member_id if version < _FIRST_WITH_MEMBERS else ""
        sender = self._with(other)
        request = LeaveGroupRequest(group_id=sender.group_id, member_id=member_id, members=list(members))
        return sender.send(request, version)

    def commit(
        self,
        offsets: Offsets,
        *,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
        topic_ids: Mapping[str, bytes] | None = None,
        version: int = 9,
        **other: Any,
    ) -> Call:
        """OffsetCommit. `topic_ids`: of the topics, as the broker knows them."""
        sender = self._with(other)
        request = OffsetCommitRequest(
            **sender._identity(),
            generation_id_or_member_epoch=sender.generation_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                        for partition, offset in rows.items()
                    ],
                )
                for topic, rows in offsets.items()
            ],
        )
        return sender.send(request, version, topic_ids=topic_ids or {})

    def delete_offsets(self, partitions: Mapping[str, Sequence[int]], **other: Any) -> Call:
        """OffsetDelete."""
        rows = [
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for topic, indexes in partitions.items()
        ]
        sender = self._with(other)
        return sender.send(OffsetDeleteRequest(group_id=sender.group_id, topics=rows), 0)

    def delete_group(self, *, version: int = 2, **other: Any) -> Call:
        """DeleteGroups, for its group."""
        sender = self._with(other)
        return sender.send(DeleteGroupsRequest(groups_names=[sender.group_id]), version)

    def _identity(self) -> dict[str, Any]:
        """What every request of a member says."""
        return {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "group_instance_id": self.group_instance_id,
        }

    def _with(self, other: Mapping[str, Any]) -> Client:
        if not other:
            return self
        if unknown := other.keys() - vars(self).keys():
            raise TypeError(f"a client has no {', '.join(sorted(unknown))}")
        sender = copy(self)
        vars(sender).update(other, _original=self._original or self)
        return sender

    def send(self, request: Message, version: int, **handling: Any) -> Call:
        """Any request of a group; the coordinator has it at once. `handling`: see `Coordinator.receive`."""
        call = Call(request, version, client_id=self.client_id, host=self.host)
        call.on_reply = (self._original or self).learn
        self.coordinator.receive(call, **handling)
        return call

    # -- answers

    def learn(self, reply: Any) -> None:
        """What an answer teaches. An error teaches nothing, but for the member id to join with."""
        if getattr(reply, "error_code", ErrorCode.NONE) not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            return
        if isinstance(reply, JoinGroupResponse):
            self.member_id, self.generation_id = reply.member_id, reply.generation_id
            if not reply.error_code:
                self.protocol_name, self.leader = reply.protocol_name, reply.leader
                self.members = [row.member_id for row in reply.members]
        elif isinstance(reply, SyncGroupResponse):
            self.assignment = reply.assignment

    # -- as the coordinator sees it

    @property
    def member(self) -> ClassicGroupMember:
        """The coordinator's data of this member; KeyError if there is none."""
        return self.coordinator.group(self.group_id).members[self.member_id]
