"""Administration of groups: list and describe them, read and change their offsets, remove members, delete.

Each group is asked for at its coordinator. A question about many groups has an answer for each: what it is, or the
error that its coordinator gave. One group that cannot be described hides no other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from equipoise.client.admin_connections import AdminConnections
from equipoise.client.arguments import as_mapping, as_names, as_offset
from equipoise.client.net.blocking import Connection
from equipoise.client.net.errors import KafkaConnectionError, error_from
from equipoise.member.commits import OffsetAndMetadata
from equipoise.member.coordination import GROUP
from equipoise.member.partitions import TopicPartition, by_topic
from equipoise.security.acls import AclOperation
from equipoise.security.denials import on_cluster, on_group, on_topic
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from equipoise.wire.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from equipoise.wire.apis.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from equipoise.wire.apis.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from equipoise.wire.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
)
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError, UsageError
from equipoise.wire.liveness import (
    AWAITS_JOIN,
    AWAITS_REVOCATION,
    AWAITS_SYNC,
    GroupLiveness,
    LiveConsumerGroupDescribeResponse,
    LiveDescribeGroupsResponse,
    MemberLiveness,
)

DESCRIBE, READ, DELETE = AclOperation.DESCRIBE, AclOperation.READ, AclOperation.DELETE
CLASSIC, CONSUMER = "classic", "consumer"
_LOOK_AGAIN_S = 0.05
_ASKED_TOGETHER = 100  # groups in a request
_NO_MEMBER = -1  # the generation of a commit from outside the group
_NEWEST_WITH_NAMES = 9  # of OffsetCommit and OffsetFetch: later versions have topic ids
_FIRST_WITH_MANY_KEYS, _FIRST_WITH_MANY_GROUPS, _FIRST_WITH_MANY_MEMBERS = 4, 8, 3
_PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_NOTHING_COMMITTED = -1
_UNKNOWN_STATES = {"", "Dead"}


class GroupListing(NamedTuple):
    """A group as its coordinator lists it. Old brokers know neither state nor type."""

    group_id: str
    group_type: str | None
    group_state: str | None
    protocol_type: str
    coordinator_id: int


class GroupListings(NamedTuple):
    """All groups, and the brokers that could not be asked: their groups are not in the list."""

    groups: list[GroupListing]
    failures: dict[int, Exception]


class Deadlines(NamedTuple):
    """How long a member still has, in milliseconds from the answer; only a broker of ours tells. None: not known, or
    no such clock runs. `awaiting`: what the group waits for: "join", "sync" or "revocation"."""

    last_seen_ms_ago: int | None
    session_ms_left: int | None
    awaiting: str | None
    awaited_ms_left: int | None


class MemberDescription(NamedTuple):
    """A member, and what it has at this moment."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: frozenset[TopicPartition]
    topics: tuple[str, ...]  # that it subscribes to
    member_epoch: int | None = None  # of a member of a `consumer` group
    target: frozenset[TopicPartition] | None = None  # what such a group wants it to have
    deadlines: Deadlines | None = None  # from our broker only


class GroupDescription(NamedTuple):
    """A group and its members. `generation` is the epoch of a `consumer` group; DescribeGroups tells none."""

    group_id: str
    group_type: str
    group_state: str
    protocol_type: str
    protocol: str | None
    generation: int | None
    coordinator_id: int
    members: list[MemberDescription]
    state_ms_ago: int | None = None  # for how long it has had its state; from our broker only


Committed = dict[TopicPartition, OffsetAndMetadata]
CommittedOrErrors = dict[TopicPartition, OffsetAndMetadata | KafkaError]
Answer = TypeVar("Answer")


class GroupAdmin(AdminConnections):
    """The calls about groups."""

    def list_groups(self) -> GroupListings:
        """Every broker's groups, by name. KafkaError: no broker lists them."""
        found: dict[str, GroupListing] = {}
        failures: dict[int, Exception] = {}
        brokers = self._metadata([]).brokers
        for broker in brokers:
            try:
                answer = self._connection((broker.host, broker.port)).send(ListGroupsRequest(), ListGroupsResponse)
                self._check(answer.error_code, None, "the groups cannot be listed", on_cluster(DESCRIBE))
            except (KafkaError, KafkaConnectionError) as error:
                failures[broker.node_id] = error
                continue
            for one in answer.groups:
                group_type, state = one.group_type.lower() or None, one.group_state or None
                found[one.group_id] = GroupListing(one.group_id, group_type, state, one.protocol_type, broker.node_id)
        if failures and len(failures) == len(brokers):
            raise next(iter(failures.values()))
        return GroupListings([found[name] for name in sorted(found)], failures)

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
        """Each group, or why it cannot be described: GROUP_ID_NOT_FOUND is a group that does not exist."""
        wanted = as_names("describe_groups()", group_ids)
        found: dict[str, GroupDescription | KafkaError] = {}
        for coordinator, groups in self._by_coordinator(wanted, found).items():
            for first in range(0, len(groups), _ASKED_TOGETHER):
                found |= self._describe_at(coordinator, groups[first : first + _ASKED_TOGETHER])
        return {name: found[name] for name in wanted}

    def describe_group(self, group_id: str) -> GroupDescription:
        """The group. KafkaError: it does not exist, or may not be described."""
        described = self.describe_groups([group_id])[group_id]
        if isinstance(described, KafkaError):
            raise described
        return described

    def committed(self, group_id: str) -> Committed:
        """All offsets that the group has committed. KafkaError also if a single one cannot be read."""
        committed: Committed = {}
        for partition, one in self.committed_or_errors(group_id).items():
            if isinstance(one, KafkaError):
                raise one
            committed[partition] = one
        return committed

    def committed_or_errors(self, group_id: str) -> CommittedOrErrors:
        """All offsets that the group has committed; for a partition that cannot be read, the error."""
        return self._committed(
            self._at_coordinator(group_id, lambda connection: self._fetch_offsets(connection, group_id))
        )

    def committed_of_groups(self, group_ids: Iterable[str]) -> dict[str, CommittedOrErrors | KafkaError]:
        """All offsets of each group, or why they cannot be read. Many groups are asked for in one request (KIP-709);
        a broker older than Kafka 3.0 is asked for each."""
        wanted = as_names("committed_of_groups()", group_ids)
        failed: dict[str, GroupDescription | KafkaError] = {}
        coordinators = self._by_coordinator(wanted, failed)
        found: dict[str, CommittedOrErrors | KafkaError] = {
            name: one for name, one in failed.items() if isinstance(one, KafkaError)
        }
        for (_, host, port), groups in coordinators.items():
            connection = self._connection((host, port))
            has_many = connection.version(OffsetFetchRequest) >= _FIRST_WITH_MANY_GROUPS
            step = _ASKED_TOGETHER if has_many else 1
            for first in range(0, len(groups), step):
                found |= self._committed_at(connection, groups[first : first + step])
        return {name: found[name] for name in wanted}

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Commits from outside the group. The coordinator refuses while it has members (UNKNOWN_MEMBER_ID).
        KafkaError names the first partition that was refused; the others are committed."""
        places = {one: as_offset(one, at) for one, at in as_mapping("commit_offsets()", offsets).items()}

        def commit(connection: Connection) -> OffsetCommitResponse:
            asked = connection.ask(_commit_request(group_id, places), _NEWEST_WITH_NAMES)
            answer = connection.answer(asked, OffsetCommitResponse)
            for topic in answer.topics:
                for row in topic.partitions:
                    what = f"the offset of {TopicPartition(topic.name, row.partition_index)} was not committed"
                    self._check_group(row.error_code, what, group_id, topic.name)
            return answer

        if places:
            self._at_coordinator(group_id, commit)

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        """Deletes groups without members. For each: None, or why it was not deleted."""
        results: dict[str, KafkaError | None] = {}
        for group_id in as_names("delete_groups()", group_ids):
            try:
                self._at_coordinator(group_id, partial(self._delete, group_id))
                results[group_id] = None
            except KafkaError as error:
                results[group_id] = error
        return results

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forgets committed offsets. For each: None, or why not: GROUP_SUBSCRIBED_TO_TOPIC, if members read it."""
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
            )
            for name, numbers in by_topic(partitions).items()
        ]

        def delete(connection: Connection) -> OffsetDeleteResponse:
            answer = connection.send(OffsetDeleteRequest(group_id=group_id, topics=topics), OffsetDeleteResponse)
            self._check_group(answer.error_code, f"offsets of {group_id!r} were not deleted", group_id)
            return answer

        results: dict[TopicPartition, KafkaError | None] = {}
        for topic in self._at_coordinator(group_id, delete).topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                what = f"the offset of {partition} was not deleted"
                results[partition] = self._error(row.error_code, what, group_id, topic.name) if row.error_code else None
        return results

    def remove_members(
        self, group_id: str, members: Iterable[tuple[str, str | None]], reason: str | None = None
    ) -> list[KafkaError | None]:
        """Removes members, each a member id and an instance id; by the instance id alone, the member id is empty.
        For each: None, or why it was not removed. A member that runs joins again with its next heartbeat."""
        wanted = [MemberIdentity(member_id=one, group_instance_id=name, reason=reason) for one, name in members]

        def remove(connection: Connection) -> LeaveGroupResponse:
            if connection.version(LeaveGroupRequest) < _FIRST_WITH_MANY_MEMBERS:
                raise UsageError(f"{connection.address} cannot remove members of a group: it is older than Kafka 2.4")
            request = LeaveGroupRequest(group_id=group_id, members=wanted)
            answer = connection.send(request, LeaveGroupResponse)
            self._check_group(answer.error_code, f"members of {group_id!r} were not removed", group_id)
            return answer

        rows = self._at_coordinator(group_id, remove).members
        what = f"the member was not removed from {group_id!r}"
        return [self._error(row.error_code, what, group_id) if row.error_code else None for row in rows]

    # -- coordinators

    def _by_coordinator(
        self, group_ids: list[str], failed: dict[str, GroupDescription | KafkaError]
    ) -> dict[tuple[int, str, int], list[str]]:
        """The groups of each coordinator. Those that have none go to `failed`."""
        found: dict[tuple[int, str, int], list[str]] = {}
        for row in self._coordinators(group_ids):
            if row.error_code:
                what = row.error_message or f"the coordinator of group {row.key!r} cannot be found"
                failed[row.key] = self._error(row.error_code, what, row.key)
            else:
                found.setdefault((row.node_id, row.host, row.port), []).append(row.key)
        return found

    def _coordinators(self, names: list[str], key_type: int = GROUP) -> list[Coordinator]:
        """Asks again, for as long as the timeout, while a coordinator is being found."""
        deadline = time.monotonic() + self._timeout
        rows = self._ask_coordinators(names, key_type)
        while any(row.error_code in _PASSING for row in rows) and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN_S)
            rows = self._ask_coordinators(names, key_type)
        return rows

    def _ask_coordinators(self, names: list[str], key_type: int) -> list[Coordinator]:
        rows: list[Coordinator] = []
        has_many = self._bootstrap.version(FindCoordinatorRequest) >= _FIRST_WITH_MANY_KEYS
        step = _ASKED_TOGETHER if has_many else 1
        for first in range(0, len(names), step):
            keys = names[first : first + step]
            request = FindCoordinatorRequest(key=keys[0], key_type=key_type, coordinator_keys=keys)
            answer = self._bootstrap.send(request, FindCoordinatorResponse)
            rows += answer.coordinators or [
                Coordinator(
                    key=keys[0],
                    node_id=answer.node_id,
                    host=answer.host,
                    port=answer.port,
                    error_code=answer.error_code,
                    error_message=answer.error_message,
                )
            ]
        return rows

    def _at_coordinator(self, group_id: str, ask: Callable[[Connection], Answer]) -> Answer:
        """Asks the coordinator, and again while the group is being loaded or moves to another broker."""
        deadline = time.monotonic() + self._timeout
        while True:
            (row,) = self._coordinators([group_id])
            what = row.error_message or f"the coordinator of group {group_id!r} cannot be found"
            self._check_group(row.error_code, what, group_id)
            try:
                return ask(self._connection((row.host, row.port)))
            except KafkaError as error:
                if error.code not in _PASSING or time.monotonic() >= deadline:
                    raise
            time.sleep(_LOOK_AGAIN_S)

    # -- questions

    def _describe_at(
        self, coordinator: tuple[int, str, int], group_ids: list[str]
    ) -> dict[str, GroupDescription | KafkaError]:
        node_id, host, port = coordinator
        connection = self._connection((host, port))
        answer = connection.send(DescribeGroupsRequest(groups=group_ids), LiveDescribeGroupsResponse)
        told = {one.group_id: one for one in answer.liveness}
        found: dict[str, GroupDescription | KafkaError] = {}
        others: list[str] = []
        for row in answer.groups:
            if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (
                not row.error_code and row.group_state in _UNKNOWN_STATES
            ):
                others.append(row.group_id)
            elif row.error_code:
                what = row.error_message or f"group {row.group_id!r} cannot be described"
                found[row.group_id] = self._error(row.error_code, what, row.group_id)
            else:
                found[row.group_id] = _with_deadlines(_classic(row, node_id), told)
        return found | self._describe_consumer_groups(connection, node_id, others)

    def _describe_consumer_groups(
        self, connection: Connection, node_id: int, group_ids: list[str]
    ) -> dict[str, GroupDescription | KafkaError]:
        """Of groups that DescribeGroups does not know (KIP-1043)."""
        missing: dict[str, GroupDescription | KafkaError] = {
            name: KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {name!r} ({_NOT_FOUND})")
            for name in group_ids
        }
        if not group_ids or not connection.serves(ConsumerGroupDescribeRequest):
            return missing
        request = ConsumerGroupDescribeRequest(group_ids=group_ids)
        answer = connection.send(request, LiveConsumerGroupDescribeResponse)
        told = {one.group_id: one for one in answer.liveness}
        for row in answer.groups:
            if not row.error_code:
                missing[row.group_id] = _with_deadlines(_consumer(row, node_id), told)
            elif row.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                what = row.error_message or f"group {row.group_id!r} cannot be described"
                missing[row.group_id] = self._error(row.error_code, what, row.group_id)
        return missing

    def _committed_at(self, connection: Connection, group_ids: list[str]) -> dict[str, CommittedOrErrors | KafkaError]:
        """Of groups that this broker coordinates. One that is being loaded, or has moved, is asked for again alone."""
        found: dict[str, CommittedOrErrors | KafkaError] = {}
        for group in self._ask_offsets(connection, group_ids):
            try:
                self._check_offsets(group)
                found[group.group_id] = self._committed(group)
            except KafkaError as error:
                found[group.group_id] = error
        for name, one in found.items():
            if isinstance(one, KafkaError) and one.code in _PASSING:
                try:
                    found[name] = self.committed_or_errors(name)
                except KafkaError as error:
                    found[name] = error
        return found

    def _committed(self, answer: OffsetFetchResponseGroup) -> CommittedOrErrors:
        found: CommittedOrErrors = {}
        for topic in answer.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if row.error_code:
                    what = f"the committed offset of {partition} cannot be read"
                    found[partition] = self._error(row.error_code, what, answer.group_id, topic.name)
                elif row.committed_offset != _NOTHING_COMMITTED:
                    found[partition] = OffsetAndMetadata(
                        row.committed_offset, row.metadata or "", row.committed_leader_epoch
                    )
        return found

    def _fetch_offsets(self, connection: Connection, group_id: str) -> OffsetFetchResponseGroup:
        (found,) = self._ask_offsets(connection, [group_id])
        self._check_offsets(found)
        return found

    def _ask_offsets(self, connection: Connection, group_ids: list[str]) -> list[OffsetFetchResponseGroup]:
        """One request. A broker that knows no list of groups reads the first alone."""
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in group_ids]
        request = OffsetFetchRequest(group_id=group_ids[0], topics=None, groups=groups)
        answer = connection.answer(connection.ask(request, _NEWEST_WITH_NAMES), OffsetFetchResponse)
        return answer.groups or [
            OffsetFetchResponseGroup(group_id=group_ids[0], topics=answer.topics, error_code=answer.error_code)
        ]

    def _check_offsets(self, answer: OffsetFetchResponseGroup) -> None:
        what = f"the offsets of group {answer.group_id!r} cannot be read"
        self._check_group(answer.error_code, what, answer.group_id)

    def _delete(self, group_id: str, connection: Connection) -> None:
        answer = connection.send(DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse)
        for row in answer.results:
            if row.error_code:
                what = row.error_message or f"group {group_id!r} was not deleted"
                raise error_from(row.error_code, what, on_group(DELETE, group_id), principal=self._security.principal)

    def _check_group(self, code: int, what: str, group_id: str, topic: str | None = None) -> None:
        if code:
            raise self._error(code, what, group_id, topic)

    def _error(self, code: int, what: str, group_id: str, topic: str | None = None) -> KafkaError:
        actions = [on_group(DESCRIBE, group_id), *([] if topic is None else [on_topic(READ, topic)])]
        return error_from(code, what, *actions, principal=self._security.principal)


_NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND.name


def _commit_request(group_id: str, places: Mapping[TopicPartition, OffsetAndMetadata]) -> OffsetCommitRequest:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for partition, place in sorted(places.items()):
        topic = topics.setdefault(partition.topic, OffsetCommitRequestTopic(name=partition.topic, partitions=[]))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=place.offset,
                committed_leader_epoch=place.leader_epoch,
                committed_metadata=place.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=_NO_MEMBER, topics=list(topics.values())
    )


_AWAITED = {AWAITS_JOIN: "join", AWAITS_SYNC: "sync", AWAITS_REVOCATION: "revocation"}


def _with_deadlines(group: GroupDescription, told: Mapping[str, GroupLiveness]) -> GroupDescription:
    """A group as its coordinator describes it, with what only a coordinator of ours tells."""
    found = told.get(group.group_id)
    if found is None:
        return group
    by_member = {one.member_id: _deadlines(one) for one in found.members}
    members = [one._replace(deadlines=by_member.get(one.member_id)) for one in group.members]
    return group._replace(members=members, state_ms_ago=_known(found.state_ms_ago))


def _deadlines(told: MemberLiveness) -> Deadlines:
    return Deadlines(
        _known(told.last_seen_ms_ago),
        _known(told.session_ms_left),
        _AWAITED.get(told.awaiting),
        _known(told.awaited_ms_left),
    )


def _known(span: int) -> int | None:
    return None if span < 0 else span


def _classic(group: DescribedGroup, coordinator_id: int) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        CLASSIC,
        group.group_state,
        group.protocol_type,
        group.protocol_data or None,
        None,
        coordinator_id,
        [_classic_member(one, group.protocol_type) for one in group.members],
    )


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    topics, partitions = _payloads(member) if protocol_type == PROTOCOL_TYPE else ((), frozenset())
    host = member.client_host.lstrip("/")
    return MemberDescription(member.member_id, member.group_instance_id, member.client_id, host, partitions, topics)


def _payloads(member: DescribedGroupMember) -> tuple[tuple[str, ...], frozenset[TopicPartition]]:
    """The topics and partitions of a consumer. During a rebalance it has neither."""
    try:
        metadata, assignment = member.member_metadata, member.member_assignment
        topics = decode_subscription(metadata, newest=0).topics if metadata else []
        assigned = decode_assignment(assignment).assigned_partitions if assignment else {}
    except ProtocolError:
        return (), frozenset()
    return tuple(topics), frozenset(TopicPartition(topic, one) for topic, rows in assigned.items() for one in rows)


def _consumer(group: DescribedConsumerGroup, coordinator_id: int) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name or None,
        group.group_epoch,
        coordinator_id,
        [_consumer_member(one) for one in group.members],
    )


def _consumer_member(member: DescribedConsumerGroupMember) -> MemberDescription:
    assigned, target = (
        frozenset(TopicPartition(topic.topic_name, one) for topic in rows.topic_partitions for one in topic.partitions)
        for rows in (member.assignment, member.target_assignment)
    )
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host.lstrip("/"),
        assigned,
        tuple(member.subscribed_topic_names),
        member.member_epoch,
        target,
    )
