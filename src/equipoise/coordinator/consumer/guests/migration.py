"""A group changes its kind while it has members: a classic group becomes a `consumer` group with guests when the first
member of the new protocol comes (upgrade), and a `consumer` group becomes classic again when the last one has gone
(downgrade). Offsets stay. All records of a change are one batch. Rule A16.

`group.consumer.migration.policy` says which way is open. A group without members changes in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

from equipoise.coordinator.changes import Changes
from equipoise.coordinator.classic.group import ClassicGroupMember, Former, Group, MemberTimeouts
from equipoise.coordinator.classic.join import Joining
from equipoise.coordinator.classic.replies import join_error
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.guests.guest_data import (
    Claim,
    encoded_assignment,
    read_subscription,
    version_of,
    with_ids,
)
from equipoise.coordinator.consumer.member import ClassicMetadata, ConsumerGroupMember
from equipoise.coordinator.consumer.membership.timers import cancel_all, keep_guest_alive
from equipoise.coordinator.consumer.records.build import (
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    target_epoch_record,
    target_record,
)
from equipoise.coordinator.incremental.hand_back import hand_back, note_empty
from equipoise.coordinator.metadata import MetadataImage, Partitions, TopicPartition
from equipoise.coordinator.parked import REBALANCE
from equipoise.coordinator.reasons import Cause
from equipoise.coordinator.step import Caller, Step
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.consumer_protocol import MOST_ELEMENTS, PROTOCOL_TYPE, decode_assignment
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


class Policy(Enum):
    """Which changes of a group with members are allowed."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        """From classic to consumer."""
        return self in (Policy.BIDIRECTIONAL, Policy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        """From consumer to classic."""
        return self in (Policy.BIDIRECTIONAL, Policy.DOWNGRADE)

    @property
    def is_disabled(self) -> bool:
        """Not even guests are taken in. Rule A15.2."""
        return self is Policy.DISABLED


def policy_of(config: GroupConfig) -> Policy:
    """`group.consumer.migration.policy`."""
    return Policy(config.group_consumer_migration_policy)


# -- upgrade


def upgrade(shard: Shard, changes: Changes, classic: Group) -> ConsumerGroup:
    """A classic group with members becomes a `consumer` group. Its members keep generation and assignment, and hear of
    the next target by their heartbeats. Raises KafkaError, and nothing has happened.

    Rules A16.1, A16.3 and A16.4. Kafka: GroupMetadataManager.convertToConsumerGroup, ConsumerGroup.fromClassicGroup.
    """
    _check_upgrade(shard, classic)
    return make_guests(shard, changes, classic)


def take_over(shard: Shard, classic: Group, group: ConsumerGroup, step: Step) -> None:
    """Who waits in the classic group is told to rejoin, and sessions begin. An answer cannot be taken back: this comes
    when the newcomer can no longer be refused, where Kafka answers with the upgrade itself. The newcomer may have taken
    the place of one of the members.

    Rule A16.2. Kafka: GroupMetadataManager.convertToConsumerGroup.
    """
    shard.rebalancer.release_all(classic, REBALANCE, step)
    for member in classic.members.values():
        guest = group.members.get(member.member_id)
        if guest is not None:
            group.presence_of(guest.member_id).notes = member.notes
        if guest is not None and guest.classic is not None:
            keep_guest_alive(shard, group, guest, step.now)


def make_guests(shard: Shard, changes: Changes, classic: Group) -> ConsumerGroup:
    """The `consumer` group with the members of a classic one. Raises KafkaError, and nothing has happened. Rule A16.3.

    Kafka: ConsumerGroup.fromClassicGroup.
    """
    members, taken, given = dict[str, ConsumerGroupMember](), set[TopicPartition](), _given(shard, classic)
    for one in sorted(classic.members.values(), key=lambda member: member.is_static):
        guest = _guest(shard, classic, one, given)
        members[one.member_id] = guest._replace(assigned={p: at for p, at in guest.assigned.items() if p not in taken})
        taken.update(guest.assigned)
    members = {one: members[one] for one in classic.members}
    group = ConsumerGroup(classic.group_id)
    group.journal.go_on(classic.journal)
    changes.install(group)
    changes.note([classic.tombstone()])
    _write_guests(shard, changes, classic.generation_id, members)
    return group


def _write_guests(shard: Shard, changes: Changes, epoch: int, members: dict[str, ConsumerGroupMember]) -> None:
    """Records 5, 3, 7, 6 and 8, in Kafka's order. Rule A16.4. Kafka: ConsumerGroup.createConsumerGroupRecords."""
    group = changes.group
    name = group.group_id
    changes.put(*(member_record(name, one) for one in members.values()))
    changes.put(epoch_record(name, epoch, shard.image.hash_of(set(group.subscribed_topics()))))
    changes.put(*(target_record(name, one.member_id, frozenset(one.assigned)) for one in members.values()))
    changes.put(target_epoch_record(name, epoch, 0))
    changes.put(*(current_record(name, one) for one in members.values()))
    group.refreshed_at_epoch = epoch


def check_upgrade_of_incremental(shard: Shard, group: ConsumerGroup) -> ConsumerGroup:
    """A group that is shown as a classic one is a `consumer` group already; it may be shown so. Raises KafkaError.

    Rule C7.6.
    """
    _check_policy(shard, group)
    return group


def _check_policy(shard: Shard, classic: Group | ConsumerGroup) -> None:
    if not policy_of(shard.config).allows_upgrade:
        raise _refused(classic, "online upgrade is disabled.")


def _check_upgrade(shard: Shard, classic: Group) -> None:
    """Raises KafkaError. Rule A16.1. Kafka: GroupMetadataManager.validateOnlineUpgrade."""
    _check_policy(shard, classic)
    if classic.protocol_type != PROTOCOL_TYPE:
        raise _refused(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > shard.config.group_consumer_max_size:
        raise _refused(classic, "the group size exceeds the consumer group maximum size.")
    if classic.protocol_name is None and shard.config.strict:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka, which looks for a value that is not there


def _refused(classic: Group | ConsumerGroup, why: str) -> KafkaError:
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _guest(
    shard: Shard, classic: Group, member: ClassicGroupMember, given: Mapping[TopicPartition, str]
) -> ConsumerGroupMember:
    """A classic member as a guest. In its first rebalance a group has no protocol yet: then by the first of each.

    Rules A16.3 and A16.7. Kafka: ConsumerGroup.fromClassicGroup.
    """
    epoch, protocol = classic.generation_id, classic.protocol_name or member.protocols[0][0]
    if member.former is not None:
        epoch = member.former.generation_id
    try:
        assigned = _assigned(member, shard.image)
        claim = read_subscription(member.metadata(protocol), shard.image, ErrorCode.GROUP_ID_NOT_FOUND)
    except (ProtocolError, KafkaError):
        raise _refused(classic, "the embedded consumer protocol is malformed.") from None
    if assigned is None:
        raise _refused(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    if not shard.config.strict:
        assigned = _held(classic, member, claim=claim, assigned=assigned, given=given)
    return ConsumerGroupMember(
        member.member_id,
        instance_id=member.group_instance_id,
        rack_id=claim.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=claim.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, tuple(member.protocols)),
        member_epoch=epoch,
        previous_member_epoch=epoch,
        assigned=dict.fromkeys(assigned, epoch),
    )


def _held(
    classic: Group,
    member: ClassicGroupMember,
    *,
    claim: Claim,
    assigned: Partitions,
    given: Mapping[TopicPartition, str],
) -> Partitions:
    """What the member may use at this moment, which in a rebalance need not be its last assignment.

    An addition: Kafka takes the assignment, which a rebalance that was overtaken has reset, and which after a downgrade
    is what the member is to have. A cooperative member goes on with what it claims, and on Kafka another one may get
    the same partitions. Static members may have been absent: they also have what they had, unless others claim it.
    What a cooperative member has claimed and was not given, it gives up now: until it rejoins, it may commit.
    Rule A16.3.
    """
    if classic.state is State.COMPLETING_REBALANCE:
        return claim.owned | assigned if member.is_static else claim.owned
    if member.member_id in classic.parked.joins:
        return claim.owned
    if member.former is not None:
        return member.former.held
    mine = frozenset(one for one in claim.owned if given.get(one, member.member_id) == member.member_id)
    return assigned | mine


def _given(shard: Shard, classic: Group) -> dict[TopicPartition, str]:
    """Who was assigned each partition. What cannot be read is refused later."""
    found = {}
    for member in classic.members.values():
        with suppress(ProtocolError):
            found.update(dict.fromkeys(_assigned(member, shard.image) or (), member.member_id))
    return found


def _assigned(member: ClassicGroupMember, image: MetadataImage) -> Partitions | None:
    """None: its assignor has user data, which a `consumer` group could not keep. Raises ProtocolError. Rule A16.1."""
    if not member.assignment:
        return frozenset()
    found = decode_assignment(member.assignment, budget=MOST_ELEMENTS)
    return None if found.user_data else with_ids(found.assigned_partitions, image)


# -- downgrade


def all_are_guests(group: ConsumerGroup, without: Collection[str]) -> bool:
    """Whether all members but these speak the classic protocol, and there is at least one of any kind left or coming.

    Kafka: ConsumerGroup.allMembersUseClassicProtocolExcept.
    """
    return all(one.classic is not None for one in group.members.values() if one.member_id not in without)


def may_downgrade(shard: Shard, members: int) -> bool:
    """Rule A16.12. Kafka: GroupMetadataManager.validateOnlineDowngradeWithFencedMembers."""
    return policy_of(shard.config).allows_downgrade and 0 < members <= shard.config.group_max_size


def is_downgrade_due(shard: Shard, group: ConsumerGroup, leaving: Collection[str]) -> bool:
    """Whether only guests are left when these have gone. Rules A16.9 and A16.13. An incremental group is kept as it is
    as long as it has members. Rules C7.6 and C1.3."""
    if group.incremental is not None:
        return group.is_shown_classic and len(group.members) == len(leaving)
    return may_downgrade(shard, len(group.members) - len(leaving)) and all_are_guests(group, leaving)


def downgrade(
    shard: Shard,
    changes: Changes,
    leaving: Collection[str],
    step: Step,
    *,
    cause: Cause | None,
    epoch: int | None = None,
) -> None:
    """A `consumer` group in which only guests are left is a classic group. Its generation is the group epoch, each has
    its target as its assignment, and all rejoin unless there is no `cause`.

    Rules A16.9 and A16.10. Kafka: GroupMetadataManager.convertToClassicGroup, ClassicGroup.fromConsumerGroup.
    """
    group = changes.group
    classic = _classic_group(shard, group, leaving, step, epoch=epoch)
    changes.note([*group_tombstones(group), classic.record()])
    for member in classic.members.values():
        member.notes = group.presence_of(member.member_id).notes
    if group.incremental is not None:
        hand_back(shard, group, classic, step)
    for member_id in list(group.members):
        cancel_all(shard, group, member_id)
    changes.install(classic)
    for member in classic.members.values():
        shard.rebalancer.begin_session(member, step.now)
    classic.journal.go_on(group.journal)
    classic.journal.loaded(classic.assignments())
    if not classic.members:
        note_empty(classic, cause, step)
    elif cause is not None:
        shard.rebalancer.prepare(classic, cause, step)


def _classic_group(
    shard: Shard, group: ConsumerGroup, leaving: Collection[str], step: Step, *, epoch: int | None
) -> Group:
    """Kafka: ClassicGroup.fromConsumerGroup."""
    classic = Group(group.group_id, shard.wall_time(step.now), State.STABLE, State.STABLE)
    classic.generation_id = group.group_epoch if epoch is None else epoch
    for member in group.members.values():
        if member.member_id not in leaving:
            classic.add(_classic_member(shard, classic, member), PROTOCOL_TYPE)
    classic.protocol_name = classic.select_protocol()
    if not classic.members:  # the last of an incremental group have gone
        classic.state, classic.protocol_type = State.EMPTY, PROTOCOL_TYPE
        classic.generation_id += 1
    classic.update_subscribed_topics()
    for one in classic.members.values():
        version = version_of(one.metadata(classic.protocol_name))
        one.assignment = encoded_assignment(group.target_of(one.member_id), shard.image, version)
    classic.last_members = len(classic.members)
    classic.last_static_members = frozenset(classic.static_members)
    return classic


def _classic_member(shard: Shard, classic: Group, member: ConsumerGroupMember) -> ClassicGroupMember:
    """It may speak at the epoch it has until it rejoins, though that may not be the generation: an addition, for Kafka
    refuses it, and it would lose its partitions. Rule A16.11."""
    assert member.classic is not None
    timeouts = MemberTimeouts(member.classic.session_timeout_ms, member.rebalance_timeout_ms)
    made = ClassicGroupMember.of(classic.group_id, member.who, timeouts, list(member.classic.protocols))
    if not shard.config.strict:
        made.former = Former(member.member_epoch, frozenset((*member.assigned, *member.revoking)))
    return made


# -- without members


def join_empty(shard: Shard, request: JoinGroupRequest, caller: Caller, step: Step) -> None:
    """A JoinGroup finds a `consumer` group without members: it gives way, and its offsets stay. Nobody knows an id.

    Rule A16.8. Kafka: GroupMetadataManager.maybeDeleteEmptyConsumerGroup.
    """
    if request.member_id:
        step.reply(caller, join_error(caller, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        return
    changes = Changes(shard, request.group_id)
    changes.put(*group_tombstones(changes.group))
    changes.write(step, None)
    Joining(shard, request, caller, step).run()
