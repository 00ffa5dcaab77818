"""A group turns incremental, and classic again.

A classic group turns incremental when it is Stable and eligible: its members keep generation and assignment, their
heartbeats stay held, and they notice nothing. It turns classic again when a member comes that it is not eligible with,
when its setting says so, or when it has no members left. Rules C1.3, C2.7, C2.8 and C7.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from equipoise.coordinator.changes import Changes
from equipoise.coordinator.classic.group import ClassicGroupMember, Group, protocols_of
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.guests.guest_data import read_subscription, with_ids
from equipoise.coordinator.consumer.guests.migration import downgrade, make_guests, may_downgrade
from equipoise.coordinator.consumer.membership.timers import arm_missing, arm_sync_timer
from equipoise.coordinator.incremental.data import Incremental
from equipoise.coordinator.incremental.eligibility import MODES, Mode, Offered, eligible_protocol, offered_by
from equipoise.coordinator.metadata import MetadataImage, TopicPartition
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.coordinator.step import Step
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.consumer_protocol import MOST_ELEMENTS, PROTOCOL_TYPE, Partitions, decode_assignment
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def mode_of(shard: Shard, group_id: str) -> Mode:
    """The group's own setting, or the broker's. Rule C1.1."""
    return MODES[shard.settings_of(group_id).incremental]


# -- classic to incremental


def maybe_turn(shard: Shard, group_id: str, step: Step, joiner: JoinGroupRequest | None = None) -> None:
    """A Stable classic group that is eligible, with the member that joins, turns incremental. Rule C2.8.

    A JoinGroup that is parked in a Stable group is a static member's, whose new id is not durable yet. The classic
    group answers it first: an incremental group parks none, and would forget it.
    """
    group = shard.groups.get(group_id)
    if group is None or group.state is not State.STABLE or group.protocol_type != PROTOCOL_TYPE or group.parked.joins:
        return
    mode = mode_of(shard, group_id)
    if mode is Mode.OFF:
        return
    if len(group.members) > shard.config.group_max_size or (joiner and joiner.protocol_type != PROTOCOL_TYPE):
        return
    offered: list[Offered] = [one.protocols for one in group.members.values()]
    if joiner is not None:
        offered.append(protocols_of(joiner))
    if not offered[-1] or eligible_protocol(mode, offered) is None or not _is_complete(shard, group):
        return
    changes = Changes(shard, group_id)
    try:
        made = make_guests(shard, changes, group)
    except KafkaError:
        return  # bytes that cannot be read, or user data in assignments: its leader knows more
    _carry_over(shard, group, made, step)
    changes.write(step, None)


def _is_complete(shard: Shard, classic: Group) -> bool:
    """Whether nobody has anything to give up, or to get. After the first round of a cooperative rebalance members still
    have what they have claimed and were not assigned, until they rejoin for the second. A leader that did not know a
    topic yet has assigned nothing of it, and rejoins for that (kafka-python). Rule C2.8."""
    topics: set[str] = set()
    assigned: set[TopicPartition] = set()
    for member in classic.members.values():
        try:
            metadata = member.metadata(classic.protocol_name)
            claim = read_subscription(metadata, shard.image, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            given = _given(member.assignment)
        except (KafkaError, ProtocolError):
            return False
        partitions = with_ids(given, shard.image)
        if not claim.owned <= partitions:
            return False
        topics |= claim.topics
        assigned |= partitions
    return assigned >= _partitions_of(topics, shard.image)


def _given(assignment: bytes) -> Partitions:
    return decode_assignment(assignment, budget=MOST_ELEMENTS).assigned_partitions if assignment else {}


def _partitions_of(topics: Iterable[str], image: MetadataImage) -> set[TopicPartition]:
    found = (image.topic(name) for name in topics)
    return {(topic.topic_id, number) for topic in found if topic is not None for number in range(topic.partitions)}


def _carry_over(shard: Shard, classic: Group, group: ConsumerGroup, step: Step) -> None:
    """What the log does not have. Timers of members have the same keys in both kinds of groups, and run on."""
    held = dict(classic.parked.heartbeats)
    classic.parked.heartbeats.clear()
    group.keep_incremental(Incremental(pending_members=set(classic.pending_members), heartbeats=held))
    group.journal, group.losses = classic.journal, classic.losses
    for member in classic.members.values():
        _carry_over_member(group, member)
    for member_id in classic.pending_sync:
        arm_sync_timer(shard, group, group.members[member_id], step.now)
    shard.timers.cancel(classic.timer(TimerKind.SYNC))


def _carry_over_member(group: ConsumerGroup, member: ClassicGroupMember) -> None:
    presence = group.presence_of(member.member_id)
    presence.last_seen, presence.longest_silence_ms = member.last_seen, member.longest_silence_ms
    presence.lost_at, presence.notes = member.lost_at, member.notes


# -- incremental to classic


def turn_classic(shard: Shard, group: ConsumerGroup, step: Step, cause: Cause | None = None) -> None:
    """Its generation is the group epoch, each has its target as its assignment, and all rejoin: by the `cause`, or by
    what follows. A member whose epoch lags behind keeps its partitions until then. Rules C2.7 and A16.11."""
    changes = Changes(shard, group.group_id)
    downgrade(shard, changes, set(), step, cause=cause)
    changes.write(step, None)


def activate(shard: Shard, group: ConsumerGroup, step: Step) -> None:
    """A group of classic members alone was incremental, and is again, if its setting and members allow it; else it is
    turned classic. Topics may have changed meanwhile. Rule C7.2."""
    arm_missing(shard, group, step.now)
    if not group.members or group.classic_members < len(group.members):
        return
    if eligible_protocol(mode_of(shard, group.group_id), offered_by(group)) is not None:
        group.keep_incremental(Incremental())
        shard.timers.arm(TimerKey(TimerKind.TARGET, group.group_id), step.now)
    elif may_downgrade(shard, len(group.members)):
        turn_classic(shard, group, step, Cause(Trigger.ASSIGNOR_CHANGED))
