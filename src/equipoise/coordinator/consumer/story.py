"""The journal of a `consumer` group: one entry for each target epoch, from its first cause until every member has its
part, or until the next target overtakes it. Rule A23.4.

An entry says why the epoch was bumped, what moved from whom to whom, and who was waited for last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.states import GroupState, MemberState
from equipoise.coordinator.events import TargetReached
from equipoise.coordinator.journal import COMPARED, Rebalance, Room
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.coordinator.step import Step

if TYPE_CHECKING:
    from equipoise.coordinator.changes import Changes
    from equipoise.coordinator.consumer.group import ConsumerGroup
    from equipoise.coordinator.shard import Shard

_TopicPartition = tuple[str, int]


@dataclass(slots=True)
class Story:
    """What a group is in the middle of; lost on unload."""

    cause: Cause | None = None  # of the first bump since the last target
    began: int = 0
    entry: Rebalance | None = None  # of the target that members walk to
    owners: dict[_TopicPartition, str] = field(default_factory=dict)  # when the last entry ended


def note_cause(group: ConsumerGroup, cause: Cause, now: int) -> None:
    """The epoch of the group was bumped; the first cause counts until there is a target."""
    if group.story.cause is None:
        group.story.cause, group.story.began = cause, now


def note(shard: Shard, changes: Changes, step: Step) -> None:
    """After every change: a target begins, is reached, or is overtaken."""
    group = shard.consumer_groups.get(changes.group_id)
    if group is None:
        return
    story = group.story
    if changes.has_new_target:
        if story.entry is not None:
            _end(shard, group, step, overtaken=True)
        _begin(group, step)
    if story.entry is not None:
        _note_waits(changes, story.entry, step)
        if group.state in (GroupState.STABLE, GroupState.EMPTY):
            _end(shard, group, step, overtaken=False)


def _begin(group: ConsumerGroup, step: Step) -> None:
    story = group.story
    cause = story.cause or Cause(Trigger.MEMBER_JOINED)
    began = story.began if story.cause is not None else step.now
    before = max((one.generation for one in group.journal.entries), default=0)
    story.entry = Rebalance(group.group_id, cause, began, before, group.target_epoch)
    story.entry.joined_at = story.entry.assigned_at = step.now
    story.entry.members = len(group.members)
    story.cause = None


def _note_waits(changes: Changes, entry: Rebalance, step: Step) -> None:
    """Who has given up partitions was waited for; the last one counts."""
    for before, after in changes.moved_members():
        gave_up = before.state is MemberState.UNREVOKED_PARTITIONS and after is not before
        if gave_up and (after is None or after.state is not MemberState.UNREVOKED_PARTITIONS):
            entry.waited_for, entry.waited_ms = before.who, step.now - entry.started


def _end(shard: Shard, group: ConsumerGroup, step: Step, *, overtaken: bool) -> None:
    story = group.story
    entry, story.entry = story.entry, None
    assert entry is not None
    entry.ended, entry.overtaken = step.now, overtaken
    if len(group.owners) > COMPARED:
        entry.cut = len(group.owners)
    elif not overtaken:  # what moved until then counts with the target that is reached
        owners = _owners(shard, group)
        _compare(entry, story.owners, owners)
        story.owners = owners
    group.journal.add(entry)
    step.note(TargetReached(group.group_id, step.now, entry.generation, overtaken))


def _compare(entry: Rebalance, before: dict[_TopicPartition, str], after: dict[_TopicPartition, str]) -> None:
    room = Room(entry)  # a member chooses its id, and may choose a long one
    for partition, owner in after.items():
        old = before.get(partition)
        if old == owner:
            entry.kept += 1
        elif room.has(partition, old, owner):
            entry.moved[partition] = (old, owner)
    entry.revoked = sorted(one for one in before.keys() - after.keys() if room.has(one))


def _owners(shard: Shard, group: ConsumerGroup) -> dict[_TopicPartition, str]:
    found = {}
    for (topic_id, number), member_id in group.owners.items():
        name = shard.image.name_of(topic_id)
        if name is not None:
            found[name, number] = member_id
    return found
