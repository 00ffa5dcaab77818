"""The three epochs of a `consumer` group move: of the group (`bump`), of the target (`update_target`), of a member
(`advance_member`). Each makes records that take effect at once (`changes.py`). Rules A5.7, A5.8 and A5.9."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.assignment.reconcile import Situation, reconcile
from equipoise.coordinator.consumer.assignment.target import (
    ASSIGNORS,
    TargetMember,
    TargetRequest,
    Targets,
)
from equipoise.coordinator.consumer.group import Computed, ConsumerGroup, Gathering, TargetIndex
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
FORMING_QUIET_MS = 100  # shorter than that of classic groups: a target stops nobody, and the next one costs little
MADE_AT_ONCE = 300  # records of targets in one turn: a few milliseconds


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
        group.bumped_at = step.now
        if group.incremental is not None and group.incremental.bumped_at is None:
            group.incremental.bumped_at = step.now
    if group.has_old_metadata:
        changes.put(old_metadata_tombstone(group.group_id))
    step.needs_preparation |= group.is_shown_classic  # racks may count in its targets
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

    In a large group the target is computed in a turn of its own, or by the runner beside all turns; its records are
    made in the next ones, and then it takes effect: others are served in between. It is that of the epoch at which it
    was computed.
    """
    group = changes.group
    if not group.members or group.computing is not None:
        return
    if group.must_refresh:
        refresh(shard, changes, None, step)
    if _prepare_large(shard, group, step):
        return
    computed, group.computed = group.computed, None
    if computed is not None:
        _put_target(shard, changes, computed, step)
    else:
        update_target(shard, changes, step)
    if group.group_epoch > group.target_epoch:
        shard.timers.arm(group.timer(TimerKind.TARGET), step.now + max(1, target_due(shard, group, step.now)))


def _prepare_large(shard: Shard, group: ConsumerGroup, step: Step) -> bool:
    """The target of a large group is asked for, or more of its records are made. Whether it must still wait."""
    if group.computed is not None and group.computed.epoch <= group.target_epoch:
        group.computed = None  # another one was quicker, or the group was empty in between
    if group.computed is not None:
        _make_records(group, group.computed, MADE_AT_ONCE)
    elif _is_due(shard, group, step) and is_large(shard, group):
        request = _request(shard, group)
        if shard.computes_beside:
            group.computing = request.number
            step.compute(request)
            return True
        group.computed = _computed(request, request.compute())
    if group.computed is None or not group.computed.left:
        return False
    shard.timers.arm(group.timer(TimerKind.TARGET), step.now)
    return True


def update_target(shard: Shard, changes: Changes, step: Step) -> None:
    """The target follows the group epoch, unless the last one is too young. Rules A5.8, A12.2 and A12.5.

    Raises what the assignor raises; the caller rolls back. Kafka: GroupMetadataManager.maybeUpdateTargetAssignment.
    """
    group = changes.group
    if not _is_due(shard, group, step):
        return
    if is_large(shard, group):
        arm_target_timer(shard, group, step.now)
    else:
        request = _request(shard, group)
        computed = _computed(request, request.compute())
        _make_records(group, computed, len(computed.left))
        _put_target(shard, changes, computed, step)


def is_large(shard: Shard, group: ConsumerGroup) -> bool:
    """Whether the target is computed apart from heartbeats, which would wait for it: an addition. Only assignors of our
    own: who uses another one hears of its errors by a heartbeat. Rule A12.7."""
    return (
        len(group.members) >= LARGE_GROUP
        and shard.config.group_consumer_assignment_timer
        and _has_many_partitions(shard, group)
        and preferred_assignor(shard, group) in ASSIGNORS
    )


def _has_many_partitions(shard: Shard, group: ConsumerGroup) -> bool:
    found = (shard.image.topic(name) for name in set(group.subscribed_topics()))
    return sum(topic.partitions for topic in found if topic is not None) >= MANY_PARTITIONS


def _is_due(shard: Shard, group: ConsumerGroup, step: Step) -> bool:
    """With the timer, a target of different subscriptions waits until the runner is prepared for it. Rule A12.14."""
    if group.target_epoch >= group.group_epoch or target_due(shard, group, step.now) > 0:
        return False
    if shard.is_prepared or group.is_homogeneous:
        return True
    step.needs_preparation = True
    return not (shard.config.group_consumer_assignment_timer or group.incremental is not None)


def _request(shard: Shard, group: ConsumerGroup) -> TargetRequest:
    """By the assignor of `consumer` groups; in a group of classic members alone by the protocol they have chosen."""
    protocol = selected_protocol(offered_by(group)) if group.is_shown_classic else None
    shard.requested_targets += 1
    return TargetRequest(
        shard.requested_targets,
        group.group_id,
        group.group_epoch,
        preferred_assignor(shard, group) if protocol is None else protocol,
        _target_members(shard, group),
        shard.image,
        is_homogeneous=group.is_homogeneous,
        is_classic=protocol is not None,
    )


def _computed(request: TargetRequest, targets: Targets) -> Computed:
    return Computed(request.epoch, targets, deque(targets), {}, TargetIndex({}, {}))


def target_computed(shard: Shard, request: TargetRequest, targets: Targets | None, now: int) -> None:
    """What was computed beside goes on its way, unless nobody waits for it any more. After a failure the next heartbeat
    tries again. Rule A12.7."""
    group = shard.consumer_groups.get(request.group_id)
    if group is None or group.computing != request.number:
        return
    group.computing = None
    if targets is not None:
        group.computed = _computed(request, targets)
        shard.timers.arm(group.timer(TimerKind.TARGET), now)


def _make_records(group: ConsumerGroup, computed: Computed, most: int) -> None:
    """Of so many members, if their targets are others than before. Who has gone since has none."""
    targets, owners = computed.made
    for _ in range(min(most, len(computed.left))):
        member_id = computed.left.popleft()
        target, before = computed.targets[member_id], group.targets.get(member_id)
        if member_id not in group.members:
            continue
        if before == target:
            target = before
        else:
            computed.records[member_id] = target_record(group.group_id, member_id, target)
        targets[member_id] = target
        owners.update(dict.fromkeys(target, member_id))


def _put_target(shard: Shard, changes: Changes, computed: Computed, step: Step) -> None:
    """Who has gone since it was computed has no target; who has come waits for the next one."""
    group = changes.group
    if not group.targets:
        group.formed_at = step.now
    _follow(group, computed)
    changes.put_targets(computed.records, computed.made)
    changes.put(target_epoch_record(group.group_id, computed.epoch, shard.wall_time(step.now)))
    shard.timers.cancel(group.timer(TimerKind.TARGET))
    if group.incremental is not None:
        group.incremental.bumped_at = None


def _follow(group: ConsumerGroup, computed: Computed) -> None:
    """What has changed in the group since the records were made: members are gone, or came back without the target
    they had. A few of thousands."""
    records, (targets, owners) = computed.records, computed.made
    for member_id, target in list(targets.items()):
        has_record = member_id in records and member_id in group.members
        if not has_record and group.targets.get(member_id) is not target:
            del targets[member_id]
            records.pop(member_id, None)
            for partition in target:
                if owners.get(partition) == member_id:
                    del owners[partition]


def compute_anew(shard: Shard, group: ConsumerGroup, now: int) -> None:
    """A target on its way knows nothing of the successor of a static member, and the epoch does not tell of it: what it
    would give to the predecessor would be nobody's. Rule A12.7."""
    if group.computing is not None or group.computed is not None:
        group.computing = group.computed = None
        arm_target_timer(shard, group, now)


def target_due(shard: Shard, group: ConsumerGroup, now: int) -> int:
    """Milliseconds until the next target may be computed (KIP-1263); 0: now. In an incremental group the debounce of
    rebalances counts instead, from the first cause. A stamp of the future is of a clock that was ahead. Nobody
    waits until this clock is there: an addition.

    Rules A12.2 and C1.4. Kafka: GroupMetadataManager.canComputeNextTargetAssignment.
    """
    if group.incremental is not None:
        began = group.incremental.bumped_at
        return 0 if began is None else max(0, began + shard.config.group_rebalance_debounce_ms - now)
    interval = shard.settings_of(group.group_id).assignment_interval_ms
    if interval == 0:
        return 0
    if group.target_timestamp == 0:
        return _gathering_due(shard, group, now)
    due = max(0, group.target_timestamp + interval - shard.wall_time(now))
    if due > interval and shard.config.group_consumer_assignment_timer:
        return 0
    return min(due, _quiet_due(shard, group, interval, now)) if due else 0


def _quiet_due(shard: Shard, group: ConsumerGroup, interval: int, now: int) -> int:
    """A group that is forming has its next target when nobody has come or gone for the quiet time: an addition.

    Its first member got everything at once, and whoever starts together with it would wait for the whole interval. A
    large group has the interval: its targets take time. Rule A12.13.
    """
    quiet, formed_at = min(shard.config.group_initial_rebalance_delay_quiet_ms, FORMING_QUIET_MS), group.formed_at
    if not quiet or formed_at is None or now >= formed_at + interval or is_large(shard, group):
        return interval
    return max(0, min(group.bumped_at + quiet, formed_at + interval) - now)


def note_coming(group: ConsumerGroup, now: int) -> None:
    """A new member has come. Rule A12.15."""
    before = group.gathering if group.members else None
    group.gathering = Gathering(now if before is None else before.first, now) if group.target_timestamp == 0 else None


def _gathering_due(shard: Shard, group: ConsumerGroup, now: int) -> int:
    """The first target of a group with thousands of partitions waits until nobody has come for a short time, as the
    first generation of a classic group does: an addition. Who comes first would get all of them, only to give most of
    them up again. Rule A12.15."""
    quiet, config = shard.config.group_initial_rebalance_delay_quiet_ms, shard.config
    if group.gathering is None or not quiet or not config.group_consumer_assignment_timer:
        return 0
    first, last = group.gathering
    due = min(last + quiet, first + config.group_initial_rebalance_delay_ms)
    return due - now if due > now and _has_many_partitions(shard, group) else 0


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
