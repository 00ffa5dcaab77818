"""The journal of a `consumer` group: one entry for each target epoch, from its first cause until every member has its
part, or until the next target overtakes it. Rule A23.4.

An entry says why the epoch was bumped, with all causes since the last target. It says what moved from whom to whom, who
was called, how long each waited for whom, and for how long each partition was without owner. The story follows the
changes of the group one by one: it costs as much as changes, and never a look at the whole group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.member import NOTHING, Assigned, ConsumerGroupMember
from equipoise.coordinator.consumer.states import GroupState, MemberState
from equipoise.coordinator.events import TargetReached
from equipoise.coordinator.journal import COMPARED, Rebalance, TargetFacts, Wait
from equipoise.coordinator.metadata import NO_PARTITIONS, TopicPartition
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.coordinator.step import Step

if TYPE_CHECKING:
    from equipoise.coordinator.changes import Changes
    from equipoise.coordinator.consumer.group import ConsumerGroup
    from equipoise.coordinator.shard import Shard

_CAUSES = 100  # of one target that are kept, behind the first
_TOPICS = 10_000  # whose names are kept


@dataclass(slots=True)
class Story:
    """What a group is in the middle of; lost on unload. Each part is bounded by the partitions an entry may list."""

    causes: list[Cause] = field(default_factory=list)  # since the last target
    began: int = 0  # the first of them
    entry: Rebalance | None = None  # of the target that members walk to
    causes_cut: int = 0  # that the entry will not list
    cut: int = 0  # partitions that the entry will not list
    owners: dict[TopicPartition, tuple[str | None, str | None]] = field(default_factory=dict)  # before this entry, now
    dark: dict[TopicPartition, int] = field(default_factory=dict)  # since when nobody works on it
    darkened: dict[TopicPartition, int] = field(default_factory=dict)  # for how long nobody did, in this entry
    awaited: dict[TopicPartition, tuple[str, int]] = field(default_factory=dict)  # by whom, since when
    waits: dict[tuple[str, str], Wait] = field(default_factory=dict)  # by waiter and owner, in this entry
    names: dict[bytes, str] = field(default_factory=dict)  # of topics, also of those that are gone by now

    def call(self, member_id: str, now: int) -> None:
        """A member is called: it is told to change what it has. The first time counts."""
        if self.entry is not None:
            self.entry.called.setdefault(member_id, now - self.entry.started)
            self.change(member_id, now)

    def change(self, member_id: str, now: int) -> None:
        """What a member has is another now. Of one that was called the last time counts."""
        if self.entry is not None and member_id in self.entry.called:
            self.entry.done[member_id] = now - self.entry.started


def note(shard: Shard, changes: Changes, step: Step) -> None:
    """After every change: a target begins, members move towards it, it is reached, or it is overtaken."""
    group = shard.consumer_groups.get(changes.group_id)
    if group is None or (changes.has_upgraded and group.is_shown_classic):  # nothing moves, and nobody is to know
        return
    story = group.story
    _note_causes(story, changes.causes, step.now)
    if changes.has_new_target:
        if story.entry is not None:
            _end(group, step, overtaken=True)
        _begin(group, step)
    before = changes.members_before()
    if changes.has_upgraded:  # who was there has what it had
        before = {one: old for one, old in before.items() if old is not None or not _is_guest(group, one)}
    _note_waiting(group, changes, step.now)
    _note_moves(shard, group, before, changes, now=step.now)
    if story.entry is not None:
        _note_last(story.entry, group, before, step.now)
        if group.state in (GroupState.STABLE, GroupState.EMPTY):
            _end(group, step, overtaken=False)


def undone(group: ConsumerGroup) -> None:
    """What could not be written has not happened; the entry goes on without the times that it rested on."""
    story = group.story
    story.causes, story.owners, story.dark, story.awaited = [], {}, {}, {}


# -- an entry


def _note_causes(story: Story, causes: Iterable[Cause], now: int) -> None:
    for cause in causes:
        if not story.causes:
            story.began = now
        if len(story.causes) <= _CAUSES:
            story.causes.append(cause)
        else:
            story.causes_cut += 1


def _begin(group: ConsumerGroup, step: Step) -> None:
    story = group.story
    cause, *further = story.causes or [Cause(Trigger.MEMBER_JOINED)]
    began = story.began if story.causes else step.now
    before = max((one.generation for one in group.journal.entries), default=0)
    story.entry = Rebalance(group.group_id, cause, began, before, group.target_epoch, is_target=True)
    story.entry.joined_at = story.entry.assigned_at = step.now
    story.entry.members = len(group.members)
    story.entry.further_causes, story.entry.cut = further, story.causes_cut
    story.causes, story.causes_cut = [], 0


def _end(group: ConsumerGroup, step: Step, *, overtaken: bool) -> None:
    story = group.story
    entry, story.entry = story.entry, None
    assert entry is not None
    entry.ended, entry.overtaken = step.now, overtaken
    entry.waits = sorted(story.waits.values(), key=lambda one: (-one.waited_ms, one))
    names = dict(story.names)  # it grows, and is read later
    group.journal.add(TargetFacts(entry, story.owners, story.darkened, names, len(group.owners), story.cut))
    story.owners, story.darkened, story.waits, story.cut = {}, {}, {}, 0
    if len(story.names) > _TOPICS:
        story.names = {}
    step.note(TargetReached(group.group_id, step.now, entry.generation, overtaken))


# -- what it says


def _note_waiting(group: ConsumerGroup, changes: Changes, now: int) -> None:
    """A target gives a member what another one has: from now on it waits for it."""
    awaited, owners, before = group.story.awaited, group.owners, changes.targets_before()
    for member_id, old in before.items() if awaited else ():
        for partition in (old or NO_PARTITIONS) - group.target_of(member_id):
            if partition in awaited and awaited[partition][0] == member_id:
                del awaited[partition]
    for member_id, old in before.items() if owners else ():
        for partition in group.target_of(member_id) - (old or NO_PARTITIONS):
            owner = owners.get(partition)
            if owner is not None and owner != member_id and len(awaited) < COMPARED:
                awaited[partition] = (member_id, now)


def _note_moves(
    shard: Shard,
    group: ConsumerGroup,
    before: dict[str, ConsumerGroupMember | None],
    changes: Changes,
    *,
    now: int,
) -> None:
    """First what members have lost, then what they have got: it may be the same."""
    for member_id, old in before.items():
        new = group.members.get(member_id)
        _note_lost(group.story, member_id, _without(_held(old), _held(new)), now)
        stopped = changes.silent_since.get(member_id, now)
        _note_dark(group.story, _without(_working(old), _working(new)), stopped)
    for member_id, old in before.items():
        new = group.members.get(member_id)
        _note_got(shard, group.story, member_id, _without(_held(new), _held(old)))
        _note_light(group.story, _without(_working(new), _working(old)), now)
        if new is not None and _working(new).keys() != _working(old).keys():
            group.story.call(member_id, now)
        elif _held(new).keys() != _held(old).keys():
            group.story.change(member_id, now)


def _note_lost(story: Story, member_id: str, partitions: Collection[TopicPartition], now: int) -> None:
    for partition in partitions:
        _note_owner(story, partition, member_id, None)
        waiter, since = story.awaited.pop(partition, (None, now))
        if waiter is not None:
            known = story.waits.get((waiter, member_id), Wait(waiter, member_id, 0, 0))
            longest = max(known.waited_ms, now - since)
            story.waits[waiter, member_id] = Wait(waiter, member_id, known.partitions + 1, longest)


def _note_got(shard: Shard, story: Story, member_id: str, partitions: Collection[TopicPartition]) -> None:
    for partition in partitions:
        topic_id = partition[0]
        if topic_id not in story.names and (name := shard.image.name_of(topic_id)) is not None:
            story.names[topic_id] = name
        _note_owner(story, partition, None, member_id)


def _note_owner(story: Story, partition: TopicPartition, before: str | None, owner: str | None) -> None:
    """Of the owners before, the first counts: who had it when the last entry ended."""
    if partition in story.owners:
        story.owners[partition] = (story.owners[partition][0], owner)
    elif len(story.owners) < COMPARED:
        story.owners[partition] = (before, owner)
    else:
        story.cut += 1


def _note_dark(story: Story, partitions: Collection[TopicPartition], since: int) -> None:
    """From when the owner was told to stop, has left for a while, or was last heard of."""
    for partition in partitions:
        if len(story.dark) < COMPARED:
            story.dark.setdefault(partition, since)


def _note_light(story: Story, partitions: Collection[TopicPartition], now: int) -> None:
    for partition in partitions:
        since = story.dark.pop(partition, now)
        if since < now and story.entry is not None and len(story.darkened) < COMPARED:
            story.darkened[partition] = story.darkened.get(partition, 0) + now - since


def _note_last(entry: Rebalance, group: ConsumerGroup, before: dict[str, ConsumerGroupMember | None], now: int) -> None:
    """Who has given up partitions was waited for; the last one counts."""
    for member_id, old in before.items():
        new = group.members.get(member_id)
        if old is None or old.state is not MemberState.UNREVOKED_PARTITIONS or new is old:
            continue
        if new is None or new.state is not MemberState.UNREVOKED_PARTITIONS:
            entry.waited_for, entry.waited_ms = old.who, now - entry.started


def _held(member: ConsumerGroupMember | None) -> Assigned:
    if member is None:
        return NOTHING
    return {**member.assigned, **member.revoking} if member.revoking else member.assigned


def _without(partitions: Assigned, others: Assigned) -> list[TopicPartition]:
    """In their own order: that of a set would be chance."""
    return [one for one in partitions if one not in others]


def _working(member: ConsumerGroupMember | None) -> Assigned:
    """What a member may work on: not what it was told to give up, and nothing while it is away."""
    return NOTHING if member is None or member.is_away else member.assigned


def _is_guest(group: ConsumerGroup, member_id: str) -> bool:
    member = group.members.get(member_id)
    return member is not None and member.classic is not None
