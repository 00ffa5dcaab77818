"""The three epochs of a `consumer` group move: of the group (`bump`), of the target (`update_target`), of a member
(`advance_member`). Each makes records that take effect at once (`changes.py`). Rules A5.7, A5.8 and A5.9."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.assignment.reconcile import Situation, reconcile
from equipoise.coordinator.consumer.assignment.target import (
    ASSIGNORS,
    TargetMember,
    compute_classic_target,
    compute_target,
)
from equipoise.coordinator.consumer.group import Computed, ConsumerGroup
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.membership.timers import update_rebalance_timer
from equipoise.coordinator.consumer.records.build import (
    current_record,
    epoch_record,
    old_metadata_tombstone,
    target_epoch_record,
    target_record,
)
from equipoise.coordinator.incremental.eligibility import offered_by, selected_protocol
from equipoise.coordinator.metadata import NO_PARTITIONS, Partitions
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.coordinator.step import Step
from equipoise.coordinator.timers import TimerKind
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.changes import Changes
    from equipoise.coordinator.shard import Shard

LARGE_GROUP, MANY_PARTITIONS = 200, 4_000  # members and partitions whose target takes more than some milliseconds


def check_room(shard: Shard, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """`group.consumer.max.size` bounds a group; a known static member takes no further room. Raises KafkaError.

    Rules A3.13 and A15.3. Kafka: GroupMetadataManager.throwIfConsumerGroupIsFull.
    """
    limit = shard.config.group_consumer_max_size
    if len(group.members) < limit or member_id in group.members:
        return
    if instance_id is None or instance_id not in group.static_members:
        message = f"The consumer group has reached its maximum capacity of {limit} members."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def bump(shard: Shard, changes: Changes, cause: Cause, step: Step) -> None:
    """The group epoch grows by one, with the hash of the topics as they are now. Rule A6.1."""
    refresh(shard, changes, cause, step)


def refresh(shard: Shard, changes: Changes, cause: Cause | None, step: Step) -> None:
    """Looks at the topics of the group. There is a cause to bump its epoch, or one of them has changed.

    Rules A5.7 and A13.4. Kafka: GroupMetadataManager.updateSubscriptionMetadata.
    """
    group = changes.group
    found = shard.image.hash_of(set(group.subscribed_topics()))
    if cause is None and found != group.metadata_hash:
        cause = Cause(Trigger.TOPICS_CHANGED)
    if cause is not None:
        changes.causes.append(cause)
        changes.put(epoch_record(group.group_id, group.group_epoch + 1, found))
        if group.incremental is not None and group.incremental.bumped_at is None:
            group.incremental.bumped_at = step.now
    if group.has_old_metadata:
        changes.put(old_metadata_tombstone(group.group_id))
    group.refreshed_at_epoch = group.group_epoch
    arm_target_timer(shard, group, step.now)


def arm_target_timer(shard: Shard, group: ConsumerGroup, now: int) -> None:
    """The next target comes when its time has come, and not with somebody's next heartbeat: an addition.

    Rule A11.
    """
    has_timer = shard.config.group_consumer_assignment_timer or group.incremental is not None
    if has_timer and group.group_epoch > group.target_epoch:
        shard.timers.arm(group.timer(TimerKind.TARGET), now + target_due(shard, group, now))


def on_target_timer(shard: Shard, changes: Changes, step: Step) -> None:
    """Topics are looked at, and the target is computed, without a heartbeat. Raises what the assignor raises.

    In a large group the target is computed in one turn and takes effect in the next: others are served in between. It
    is that of the epoch at which it was computed.
    """
    group = changes.group
    if not group.members:
        return
    if group.must_refresh:
        refresh(shard, changes, None, step)
    if group.computed is not None:
        computed, group.computed = group.computed, None
        _put_target(shard, changes, computed, step)
    elif _is_due(shard, group, step.now) and is_large(shard, group):
        group.computed = _compute(shard, group)
        shard.timers.arm(group.timer(TimerKind.TARGET), step.now)
        return
    else:
        update_target(shard, changes, step)
    if group.group_epoch > group.target_epoch:
        shard.timers.arm(group.timer(TimerKind.TARGET), step.now + max(1, target_due(shard, group, step.now)))


def update_target(shard: Shard, changes: Changes, step: Step) -> None:
    """The target follows the group epoch, unless the last one is too young. Rules A5.8, A12.2 and A12.5.

    Raises what the assignor raises; the caller rolls back. Kafka: GroupMetadataManager.maybeUpdateTargetAssignment.
    """
    group = changes.group
    if not _is_due(shard, group, step.now):
        return
    if is_large(shard, group):
        arm_target_timer(shard, group, step.now)
    else:
        _put_target(shard, changes, _compute(shard, group), step)


def is_large(shard: Shard, group: ConsumerGroup) -> bool:
    """Whether the target is computed apart from heartbeats, which would wait for it: an addition. Only assignors of our
    own: who uses another one hears of its errors by a heartbeat. Rule A12.7."""
    if len(group.members) < LARGE_GROUP or not shard.config.group_consumer_assignment_timer:
        return False
    found = (shard.image.topic(name) for name in set(group.subscribed_topics()))
    partitions = sum(topic.partitions for topic in found if topic is not None)
    return partitions >= MANY_PARTITIONS and preferred_assignor(shard, group) in ASSIGNORS


def _is_due(shard: Shard, group: ConsumerGroup, now: int) -> bool:
    return group.target_epoch < group.group_epoch and target_due(shard, group, now) == 0


def _compute(shard: Shard, group: ConsumerGroup) -> Computed:
    """By the assignor of `consumer` groups; in a group of classic members alone by the protocol they have chosen."""
    members, is_homogeneous = _target_members(shard, group), group.is_homogeneous
    protocol = selected_protocol(offered_by(group)) if group.is_shown_classic else None
    if protocol is not None:
        targets = compute_classic_target(protocol, members, shard.image, is_homogeneous=is_homogeneous)
    else:
        assignor = preferred_assignor(shard, group)
        targets = compute_target(assignor, members, shard.image, is_homogeneous=is_homogeneous)
    return Computed(group.group_epoch, targets)


def _put_target(shard: Shard, changes: Changes, computed: Computed, step: Step) -> None:
    """Who has gone since it was computed has no target; who has come waits for the next one."""
    group = changes.group
    for member_id, target in computed.targets.items():
        if group.targets.get(member_id) != target and member_id in group.members:
            changes.put(target_record(group.group_id, member_id, target))
    changes.put(target_epoch_record(group.group_id, computed.epoch, shard.wall_time(step.now)))
    shard.timers.cancel(group.timer(TimerKind.TARGET))
    if group.incremental is not None:
        group.incremental.bumped_at = None


def target_due(shard: Shard, group: ConsumerGroup, now: int) -> int:
    """Milliseconds until the next target may be computed (KIP-1263); 0: now. In an incremental group the debounce of
    rebalances counts instead, from the first cause.

    Rules A12.2 and C1.4. Kafka: GroupMetadataManager.canComputeNextTargetAssignment.
    """
    if group.incremental is not None:
        began = group.incremental.bumped_at
        return 0 if began is None else max(0, began + shard.config.group_rebalance_debounce_ms - now)
    interval = shard.settings_of(group.group_id).assignment_interval_ms
    if group.target_timestamp == 0 or interval == 0:
        return 0
    return max(0, group.target_timestamp + interval - shard.wall_time(now))


def preferred_assignor(shard: Shard, group: ConsumerGroup) -> str:
    """The one that most members prefer; of equals the one named first in `group.consumer.assignors`.

    Rule A12.1. Kafka: ConsumerGroup.preferredServerAssignor.
    """
    names = shard.config.consumer_assignors
    votes = [(-count, names.index(name)) for name, count in group.assignors.items() if name in names]
    return names[min(votes)[1]] if votes else names[0]


def _target_members(shard: Shard, group: ConsumerGroup) -> dict[str, TargetMember]:
    ids: dict[frozenset[str], frozenset[bytes]] = {}  # most members share a subscription
    found = {}
    for member_id, member in group.members.items():
        names = group.topics_of(member)
        if names not in ids:
            ids[names] = shard.image.ids_of(names)
        target = group.target_of(member_id)
        found[member_id] = TargetMember(ids[names], target, member.instance_id, member.rack_id)
    return found


def advance_member(
    shard: Shard,
    changes: Changes,
    member_id: str,
    step: Step,
    *,
    owned: Partitions | None,
    subscription_changed: bool = False,
    begins_anew: bool = False,
    is_full: bool = False,
) -> ConsumerGroupMember:
    """One step of a member towards its target; what it is afterwards. Rules A5.9 and A8.11. Raises KafkaError.

    Kafka: GroupMetadataManager.maybeReconcile.
    """
    group = changes.group
    member = group.members[member_id]
    unconfirmed = _confirm(shard, group, member, owned, begins_anew=begins_anew)
    if group.is_settled(member) and not subscription_changed:
        return member
    situation = Situation(
        group.target_epoch,
        group.target_of(member_id),
        owned,
        group.owners,
        shard.image.ids_of(group.topics_of(member)),
        subscription_changed,
        unconfirmed,
        is_full,
    )
    moved = reconcile(member, situation)
    if moved is not member:
        given = moved.assigned.keys() - member.assigned.keys()
        group.presence_of(member_id).unconfirmed = frozenset((unconfirmed & moved.assigned.keys()) | given)
        changes.put(current_record(group.group_id, moved))
        moved = group.members[member_id]
        update_rebalance_timer(shard, group, moved, step.now)
    return moved


def _confirm(
    shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember, owned: Partitions | None, *, begins_anew: bool
) -> Partitions:
    """What the member was given and has never named. Who begins anew has nothing; a classic member names all it has."""
    presence = group.presence_of(member.member_id)
    if begins_anew or member.classic is not None or shard.config.strict:
        presence.unconfirmed = NO_PARTITIONS
    elif owned is not None:
        presence.unconfirmed = presence.unconfirmed - owned
    return presence.unconfirmed
