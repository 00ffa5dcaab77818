"""A classic group whose members are bare connections: they do what the test says, on any broker, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest
from equipoise.wire.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from equipoise.wire.errors import ErrorCode
from tests.broker.rawclient import RawClient

SESSION_MS = 600_000  # nobody beats here unless the test says so
COORDINATOR_SECONDS = 30.0
Partitions = dict[str, list[int]]


def await_coordinator(address: str, *groups: str) -> None:
    """Until the groups are served: on Kafka the topic for them may have to be made first, on both it is loaded."""
    deadline = time.monotonic() + COORDINATOR_SECONDS
    with RawClient(address) as client:
        for group in groups:
            client.call(FindCoordinatorRequest(coordinator_keys=[group]))
            stranger = HeartbeatRequest(group_id=group, generation_id=0, member_id="nobody")
            while (code := client.call(stranger).error_code) != ErrorCode.UNKNOWN_MEMBER_ID:
                assert time.monotonic() < deadline, f"{group} has no coordinator: {ErrorCode(code).name}"
                time.sleep(0.05)
                client.call(FindCoordinatorRequest(coordinator_keys=[group]))


class RawMember:
    def __init__(self, address: str, group: str, topics: Sequence[str], instance: str | None = None) -> None:
        self.client = RawClient(address)
        self.group = group
        self.topics = list(topics)
        self.instance = instance
        self.member_id = ""
        self.generation = -1

    def ask_for_id(self) -> None:
        """A dynamic member gets its id by a first join; a static one needs none."""
        if self.instance is None:
            reply = self.client.call(self._join())
            assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self.member_id = reply.member_id

    def send_join(self) -> None:
        self.client.send(self._join())

    def _join(self) -> JoinGroupRequest:
        metadata = encode_subscription(Subscription(topics=self.topics), 1)
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )

    def close(self) -> None:
        """The connection that it has now."""
        self.client.close()

    def joined(self) -> Any:
        reply = self.client.receive()
        assert reply.error_code == ErrorCode.NONE
        self.member_id, self.generation = reply.member_id, reply.generation_id
        return reply

    def send_sync(self, assignments: Mapping[str, Partitions]) -> None:
        """The leader's carries the assignments, by member id."""
        given = [
            SyncGroupRequestAssignment(
                member_id=member, assignment=encode_assignment(Assignment(assigned_partitions=partitions), 1)
            )
            for member, partitions in assignments.items()
        ]
        self.client.send(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocol_name="range",
                assignments=given,
            )
        )

    def synced(self) -> bytes:
        reply = self.client.receive()
        assert reply.error_code == ErrorCode.NONE
        return bytes(reply.assignment)

    def heartbeat(self) -> ErrorCode:
        beat = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return ErrorCode(self.client.call(beat).error_code)

    def commit(self, topic: str, offsets: Mapping[int, int], metadata: str = "") -> set[ErrorCode]:
        return commit(self.client, self.group, topic, offsets, metadata, member=self)

    def leave(self) -> ErrorCode:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        (member,) = self.client.call(LeaveGroupRequest(group_id=self.group, members=[identity])).members
        return ErrorCode(member.error_code)

    def move_to(self, address: str) -> None:
        """The same member, from now on at another broker."""
        self.client.close()
        self.client = RawClient(address)


class RawGroup:
    """Members of one generation, the first of them with the assignments to give. Stable when made."""

    def __init__(self, address: str, group: str, assignments: Sequence[Partitions], static: Sequence[str] = ()) -> None:
        topics = sorted({topic for partitions in assignments for topic in partitions})
        instances = [*[None] * (len(assignments) - len(static)), *static]
        self._open = ExitStack()
        self.members: list[RawMember] = []
        for instance in instances:
            member = RawMember(address, group, topics, instance)
            self._open.callback(member.close)
            self.members.append(member)
        await_coordinator(address, group)
        self._form(assignments)

    def _form(self, assignments: Sequence[Partitions]) -> None:
        for member in self.members:
            member.ask_for_id()
        for member in self.members:
            member.send_join()
        leader = next(reply.leader for reply in [member.joined() for member in self.members])
        by_member = dict(zip([member.member_id for member in self.members], assignments, strict=True))
        for member in self.members:
            member.send_sync(by_member if member.member_id == leader else {})
        self.assignments = [member.synced() for member in self.members]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()


def commit(
    client: RawClient,
    group: str,
    topic: str,
    offsets: Mapping[int, int],
    metadata: str = "",
    *,
    member: RawMember | None = None,
    retention_ms: int | None = None,
    leader_epoch: int = -1,
) -> set[ErrorCode]:
    """The errors, one or many. With a retention in the last version that carries it."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )
        for index, offset in offsets.items()
    ]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1 if member is None else member.generation,
        member_id="" if member is None else member.member_id,
        group_instance_id=None if member is None else member.instance,
        retention_time_ms=-1 if retention_ms is None else retention_ms,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )
    (answer,) = client.call(request, 9 if retention_ms is None else 4).topics
    return {ErrorCode(partition.error_code) for partition in answer.partitions}


def view_of_groups(address: str, groups: Sequence[str]) -> dict[str, Any]:
    """What a broker tells of groups: state, protocol, members with all they have, committed offsets."""
    with RawClient(address) as client:
        described = client.call(DescribeGroupsRequest(groups=list(groups)), 5).groups
        asked = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
        offsets = {group.group_id: group.topics for group in client.call(OffsetFetchRequest(groups=asked), 9).groups}
    return {
        group.group_id: (
            (group.group_state, group.protocol_type, group.protocol_data),
            {member.member_id: member for member in group.members},
            {(topic.name, one.partition_index): one for topic in offsets[group.group_id] for one in topic.partitions},
        )
        for group in described
    }
