"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.classic.replies import described_member
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.records.build import group_tombstones
from equipoise.coordinator.events import GroupDeleted
from equipoise.coordinator.incremental.describe import describe
from equipoise.coordinator.outcomes import GroupTombstoned
from equipoise.coordinator.step import Caller, Step, Write, write_error
from equipoise.wire.apis.k15_describe_groups import DescribedGroup
from equipoise.wire.apis.k16_list_groups import ListedGroup
from equipoise.wire.apis.k42_delete_groups import DeletableGroupResult, DeleteGroupsResponse
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

GROUP_TYPES = ("classic", "consumer")
_NOT_FOUND_FROM = 6


def describe_group(shard: Shard, group_id: str, version: int) -> DescribedGroup:
    """Only a Stable group has a protocol to show; an unknown group is Dead, and an error since KIP-1043. Rule 1.4.

    A `consumer` group is not for this request: unknown here, described by ConsumerGroupDescribe. Rule A18.4.
    Kafka: GroupMetadataManager.describeGroups.
    """
    group, kept = shard.groups.get(group_id), shard.consumer_groups.get(group_id)
    if kept is not None and kept.is_shown_classic:
        return describe(kept, shard.image)
    if group is None:
        is_error = version >= _NOT_FOUND_FROM
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
            error_message=f"Group {group_id} not found." if is_error else None,
            group_id=group_id,
            group_state=State.DEAD.value,
        )
    is_stable = group.state is State.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            described_member(member.who, member.metadata(group.protocol_name) if is_stable else b"", member.assignment)
            for member in group.members.values()
        ],
    )


def list_groups(shard: Shard, states: list[str], types: list[str]) -> Iterator[ListedGroup]:
    """By state (KIP-518) and by type (KIP-848). Rules 1.4 and A18.5. Kafka: GroupMetadataManager.listGroups."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.lower() for kind in types}  # unlike states with their blanks, as on Kafka
    for group in shard.all_groups():
        if wanted_types and group.group_type not in wanted_types:
            continue
        word = group.state_word
        if not wanted_states or word.lower() in wanted_states:
            yield ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=word,
                group_type=group.group_type,
            )


def delete_group(
    shard: Shard, group_id: str, caller: Caller, step: Step, *, under_way: Iterable[tuple[str, int]] = ()
) -> None:
    """An Empty group goes with its offsets (KIP-229), also those that are not yet durable: nobody could delete them
    later. Rule 1.4. Kafka: ClassicGroup.validateDeleteGroup.

    The answer is a whole response, which the broker joins with those of other shards.
    """
    group = shard.find(group_id)
    if group is None:
        step.reply(caller, _deleted(group_id, ErrorCode.GROUP_ID_NOT_FOUND))
        return
    if not group.is_empty:
        step.reply(caller, _deleted(group_id, ErrorCode.NON_EMPTY_GROUP))
        return
    forget(shard, group, shard.offsets.tombstones(group_id, under_way), step, caller=caller)


def _deleted(group_id: str, error: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=error)])


def forget(
    shard: Shard,
    group: Group | ConsumerGroup,
    records: list[CoordinatorRecord],
    step: Step,
    *,
    caller: Caller | None = None,
) -> None:
    """At once: a join that comes before the tombstone is durable makes a new group, written behind it. Offsets that
    have expired may go before their group; who deletes a group hears of all or nothing.

    Rule 4.6. Kafka: ClassicGroup.createGroupTombstoneRecords.
    """
    shard.install(group.group_id, None)
    tombstones = [group.tombstone()] if isinstance(group, Group) else group_tombstones(group)
    step.writes.append(Write([*records, *tombstones], GroupTombstoned(group, caller), is_atomic=caller is not None))


def group_tombstoned(shard: Shard, outcome: GroupTombstoned, error: ErrorCode, step: Step, *, is_lost: bool) -> None:
    """`is_lost`: False of a tombstone that may yet be durable. The group stays away, for it may not be in the log."""
    if is_lost:
        group_gone(shard, outcome, error, step)
    if outcome.caller is not None:
        step.reply(outcome.caller, _deleted(outcome.group.group_id, write_error(error)))


def group_gone(shard: Shard, outcome: GroupTombstoned, error: ErrorCode, step: Step) -> None:
    """If the tombstone cannot be written the group is back, unless a new one has its name by then."""
    group = outcome.group
    if error is ErrorCode.NONE:
        step.note(GroupDeleted(group.group_id, step.now, expired=outcome.caller is None))
    elif shard.unavailable is ErrorCode.NONE and shard.find(group.group_id) is None:
        shard.install(group.group_id, group)
