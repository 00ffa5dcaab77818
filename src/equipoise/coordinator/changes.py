"""Changes of `consumer` groups: records take effect when they are made, before they are durable. Rule A21.

The next request builds on them, as in Kafka, and is answered behind them. What each record has replaced is kept with
its write. If a write fails, every later write has built on what is not there: they are undone together, the last
first, and all fail with the same error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.consumer.assignment.epochs import arm_target_timer
from equipoise.coordinator.consumer.group import ConsumerGroup, TargetIndex
from equipoise.coordinator.consumer.holds import refuse, wake
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.membership.timers import arm_missing, cancel_guests, forget_calls
from equipoise.coordinator.consumer.records.replay import Part, Replaced, apply, restore
from equipoise.coordinator.consumer.story import note, undone
from equipoise.coordinator.incremental.syncs import wake as wake_classic_members
from equipoise.coordinator.metadata import Partitions, TopicPartition
from equipoise.coordinator.outcomes import Answered, Outcome
from equipoise.coordinator.parked import not_written
from equipoise.coordinator.reasons import Cause
from equipoise.coordinator.step import Caller, Step, Write, write_error
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import ConsumerGroupMetadataKey, CoordinatorRecord
from equipoise.wire.schema import Message

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_PAUSE_MS = 100  # after a failed write: a log that refuses must not be asked again and again, without a pause


class GroupReplaced(NamedTuple):
    """The group of that name was another one, or there was none."""

    before: Group | ConsumerGroup | None


class Early(NamedTuple):
    """Of a write whose records have taken effect: its place among such writes, its group, and the way back."""

    number: int
    group_id: str
    undo: tuple[Replaced | GroupReplaced, ...] = ()


class Changes:
    """The records of one input to one group."""

    def __init__(self, shard: Shard, group_id: str) -> None:
        self._shard = shard
        self.group_id = group_id
        self.records: list[CoordinatorRecord] = []
        self._undo: list[Replaced | GroupReplaced] = []
        self._retargeted: dict[str, Partitions | None] = {}  # by `put_targets`, as they were before
        self.causes: list[Cause] = []  # of a bump, for the journal
        self.silent_since: dict[str, int] = {}  # members that are gone without a word, for the journal

    @property
    def group(self) -> ConsumerGroup:
        """The `consumer` group of that name, which the first record makes. Rule A20.1."""
        group = self._shard.consumer_groups.get(self.group_id)
        if group is None:
            group = ConsumerGroup(self.group_id)
            self.install(group)
        return group

    def put(self, *records: CoordinatorRecord) -> None:
        """The records take effect. The tombstone of the group itself takes the group away."""
        group = self._shard.consumer_groups.get(self.group_id)  # of thousands of records, asked for once
        for record in records:
            if isinstance(record.key, ConsumerGroupMetadataKey) and record.value is None:
                self.install(None)
                group = None
            else:
                group = group or self.group
                self._undo.append(apply(group, record))
        self.records += records

    def put_targets(self, records: Mapping[str, CoordinatorRecord], index: TargetIndex) -> None:
        """The records of new targets, by member id, take effect at once. `index` is what they make of the group."""
        before = self.group.put_targets(index)
        self._undo.append(Replaced(Part.TARGETS, "", before))
        self._retargeted = {member_id: before.targets.get(member_id) for member_id in records}
        self.records += records.values()

    def note(self, records: Iterable[CoordinatorRecord]) -> None:
        """Records to be written whose effect is there by other means, as of a group that `install` has replaced."""
        self.records += records

    def install(self, group: Group | ConsumerGroup | None) -> None:
        """The group of that name is another one now, of any kind, or none."""
        self._undo.append(GroupReplaced(self._shard.find(self.group_id)))
        self._shard.install(self.group_id, group)

    def roll_back(self) -> None:
        """Nothing has happened: the input was refused on its way."""
        _undo(self._shard, self.group_id, self._undo)
        self._undo, self.records, self.causes, self._retargeted = [], [], [], {}

    def write(self, step: Step, outcome: Outcome | None) -> None:
        """The records go to the log; `outcome` follows when they are durable."""
        if self.records:
            self._begin(step, outcome)
            self._tell(step)

    def answer(self, step: Step, caller: Caller, response: Message) -> None:
        """Answers when all that the answer may rest on is durable. Rules A5.11 and A21.3."""
        if self.records or self.group_id in self._shard.unwritten_groups:
            self._begin(step, Answered(caller, response))
        else:
            step.reply(caller, response)
        if self.records:
            self._tell(step)

    def _tell(self, step: Step) -> None:
        """The journal, and whoever waits for news: members of the consumer protocol, and classic ones."""
        note(self._shard, self, step)
        wake(self._shard, self, step)
        wake_classic_members(self._shard, self, step)

    def members_before(self) -> dict[str, ConsumerGroupMember | None]:
        """The members that this input has changed, as they were before it; None: they are new."""
        return self._before(Part.MEMBER)

    def targets_before(self) -> dict[str, Partitions | None]:
        """The targets that this input has changed, by member id, as they were before it."""
        return {**self._retargeted, **self._before(Part.TARGET)}

    def _before(self, part: Part) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one in self._undo:
            if isinstance(one, Replaced) and one.part is part:
                found.setdefault(one.name, one.value)
        return found

    @property
    def has_upgraded(self) -> bool:
        """Whether a classic group with members has become this `consumer` group."""
        before = (one.before for one in self._undo if isinstance(one, GroupReplaced))
        return any(isinstance(one, Group) and not one.is_empty for one in before)

    @property
    def has_new_target(self) -> bool:
        """Whether a target was computed."""
        return any(isinstance(one, Replaced) and one.part is Part.TARGET_EPOCH for one in self._undo)

    def freed(self) -> Iterator[TopicPartition]:
        """The partitions that have become free."""
        owners = self.group.owners
        for before in self.members_before().values():
            if before is not None:
                yield from (one for one in (*before.assigned, *before.revoking) if one not in owners)

    def _begin(self, step: Step, outcome: Outcome | None) -> None:
        shard, name = self._shard, self.group_id
        shard.last_early_write += 1
        write = Write(self.records, outcome, Early(shard.last_early_write, name, tuple(self._undo)))
        shard.unwritten.append(write)
        shard.unwritten_groups[name] = shard.unwritten_groups.get(name, 0) + 1
        step.writes.append(write)


def end_write(shard: Shard, write: Write, error: ErrorCode, step: Step, *, is_lost: bool) -> ErrorCode:
    """A write is durable, or has failed, or an earlier one has failed before it: the error that counts.

    A write that came too late to be answered may still be in the log: its records stay in effect.
    """
    assert write.early is not None
    voided = shard.voided.pop(write.early.number, None)
    if voided is not None:
        return voided
    if error is ErrorCode.NONE or not is_lost:
        shard.unwritten.remove(write)
        _forget(shard, write.early.group_id)
    else:
        _fail_from(shard, write.early, error, step)
    return error


def _fail_from(shard: Shard, failed: Early, error: ErrorCode, step: Step) -> None:
    """Undoes this write and all later ones of its group; no other group has built on them. Rule A21.2."""
    undone_numbers, gone = set(), list[Group | ConsumerGroup]()
    for write in reversed(shard.unwritten):
        early = write.early
        if early is None or early.group_id != failed.group_id:
            continue
        if early.number < failed.number:
            break
        undone_numbers.add(early.number)
        gone += _undo(shard, early.group_id, early.undo)
        _forget(shard, early.group_id)
        if early.number > failed.number:
            shard.voided[early.number] = error
    shard.unwritten = deque(
        one for one in shard.unwritten if one.early is None or one.early.number not in undone_numbers
    )
    for one in gone:
        if one is not shard.find(failed.group_id):
            _let_go(shard, one, error, step)
    if (group := shard.consumer_groups.get(failed.group_id)) is not None:
        undone(group)
        _refuse_strangers(shard, group, error, step)
        group.computing = group.computed = None  # they may rest on what is undone
        forget_calls(shard, group)
        arm_missing(shard, group, step.now)
        arm_target_timer(shard, group, step.now + _PAUSE_MS)
    elif (classic := shard.groups.get(failed.group_id)) is not None:
        cancel_guests(shard, classic)
        shard.rebalancer.arm_missing(classic, step.now)


def _let_go(shard: Shard, group: Group | ConsumerGroup, error: ErrorCode, step: Step) -> None:
    """The group was there for as long as writes were under way that have failed: nobody would answer who waits in it.
    Rule A21.7."""
    if isinstance(group, Group):
        shard.rebalancer.release_all(group, not_written(error), step)
        return
    for member_id in _waiting(group):
        refuse(shard, group, member_id, step, error=write_error(error))


def _refuse_strangers(shard: Shard, group: ConsumerGroup, error: ErrorCode, step: Step) -> None:
    """A newcomer may have asked for more before its first write has failed. It is no member, and what it has said is
    forgotten: everything that looks at who waits looks for members. Rule C6.7."""
    for member_id in _waiting(group):
        if member_id not in group.members:
            refuse(shard, group, member_id, step, error=write_error(error))


def _waiting(group: ConsumerGroup) -> list[str]:
    """The ids with which somebody waits in the group, or has told what it has."""
    kept = group.incremental
    return [*group.held] if kept is None else [*group.held, *kept.heartbeats, *kept.syncs, *kept.stances]


def is_void(shard: Shard, write: Write) -> bool:
    """Whether the write must not be made, because an earlier one has failed."""
    return write.early is not None and write.early.number in shard.voided


def _forget(shard: Shard, group_id: str) -> None:
    left = shard.unwritten_groups.pop(group_id) - 1
    if left:
        shard.unwritten_groups[group_id] = left


def _undo(shard: Shard, group_id: str, undo: Iterable[Replaced | GroupReplaced]) -> list[Group | ConsumerGroup]:
    """Returns the groups that others have taken the place of."""
    gone: list[Group | ConsumerGroup] = []
    for one in reversed(tuple(undo)):
        if isinstance(one, GroupReplaced):
            if (made := shard.find(group_id)) is not None:
                gone.append(made)
            shard.install(group_id, one.before)
        elif (group := shard.consumer_groups.get(group_id)) is not None:
            restore(group, one)
    return gone
