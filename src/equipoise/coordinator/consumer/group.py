"""A `consumer` group: the data, the indexes that follow from it, and queries.

Data change in four places only: `put_member`, `drop_member`, `put_target` and `put_regex`, and the plain fields of
records 3, 4 and 6. Only `replay.py` calls them: what is in the log and what is in memory is one thing. Rule A4.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from equipoise.coordinator.classic.group import Loss
from equipoise.coordinator.consumer.member import LEFT_EPOCH, ConsumerGroupMember
from equipoise.coordinator.consumer.states import GroupState, MemberState
from equipoise.coordinator.consumer.story import Story
from equipoise.coordinator.incremental.data import Incremental, state_word
from equipoise.coordinator.journal import Journal
from equipoise.coordinator.metadata import NO_PARTITIONS, Partitions, TopicPartition
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.offsets_records import CoordinatorRecord

if TYPE_CHECKING:
    from equipoise.coordinator.consumer.holds import Held

INITIAL_EPOCH = 1  # of a new group and of its target. Rule A4.2


class ResolvedRegex(NamedTuple):
    """The topics that match a regular expression, from record 16. Kafka: ResolvedRegularExpression."""

    topics: frozenset[str]
    version: int  # of the image that was looked at
    timestamp: int  # wall time


class Resolution(NamedTuple):
    """The last resolution of a group's regular expressions by this shard. Rule A14.6."""

    is_under_way: bool
    begun_at: int
    version: int  # of the image that it looked at


class TargetIndex(NamedTuple):
    """The targets of a group by member id, and who is to have each partition."""

    targets: dict[str, Partitions]
    owners: dict[TopicPartition, str]


class Computed(NamedTuple):
    """Targets on their way, in a large group for some turns: they take effect together, when all records are made."""

    epoch: int  # of the group when they were computed
    targets: Mapping[str, Partitions]
    left: deque[str]  # members whose records are not yet made
    records: dict[str, CoordinatorRecord]  # by member id, if the target is another than before
    made: TargetIndex  # of the members whose records are made


class Gathering(NamedTuple):
    """The members of a new group come. Times."""

    first: int
    last: int


NEVER_RESOLVED = Resolution(False, 0, -1)


@dataclass(slots=True)
class Presence:
    """What is known of a member that the log does not have: lost with the shard."""

    timer: TimerKey  # of its session; every heartbeat arms it
    last_seen: int = 0
    longest_silence_ms: int = 0  # of a classic member: its heartbeat interval
    lost_at: int | None = None  # since then it has no connection, and has not been heard of
    told_interval_ms: int = 0  # with the last answer; 0: nothing yet
    hastened_at: int = 0  # when it was last asked to come soon, for what ended its hold. Rule A23.9
    rebalance_epoch: int = 0  # of the member when its rebalance timer was armed. Rule A11
    unconfirmed: Partitions = NO_PARTITIONS  # given to it, and never named by it as its own. Rule A8.12
    notes: object = field(default=None, compare=False)  # kept by the runner of the shard; opaque here


@dataclass(slots=True)
class ConsumerGroup:
    """A `consumer` group. Kafka: ConsumerGroup."""

    protocol_type: ClassVar[str] = PROTOCOL_TYPE

    group_id: str
    group_epoch: int = INITIAL_EPOCH  # record 3
    metadata_hash: int = 0
    target_epoch: int = INITIAL_EPOCH  # record 6
    target_timestamp: int = 0  # wall time
    targets: dict[str, Partitions] = field(default_factory=dict)  # records 7, by member id
    members: dict[str, ConsumerGroupMember] = field(default_factory=dict)  # records 5 and 8
    resolved: dict[str, ResolvedRegex] = field(default_factory=dict)  # records 16
    has_old_metadata: bool = False  # a record 4 was seen, and wants its tombstone
    # -- indexes, recomputed as records are applied
    static_members: dict[str, str] = field(default_factory=dict)  # instance id to member id
    target_owners: dict[TopicPartition, str] = field(default_factory=dict)  # who is to have each partition
    owners: dict[TopicPartition, str] = field(default_factory=dict)  # of what is assigned, or not yet given up
    names: Counter[str] = field(default_factory=Counter)  # members that subscribe to a topic by its name
    regexes: Counter[str] = field(default_factory=Counter)  # members by regular expression
    assignors: Counter[str] = field(default_factory=Counter)  # members by the assignor they prefer
    classic_members: int = 0
    classic_protocols: Counter[str] = field(default_factory=Counter)  # classic members by protocol
    # -- soft: lost on unload
    refreshed_at_epoch: int | None = field(default=None, compare=False)  # None: look at the topics again. Rule A13.4
    losses: list[Loss] = field(default_factory=list, compare=False)  # of connections, lately; the last one stays
    presence: dict[str, Presence] = field(default_factory=dict, compare=False)
    resolution: Resolution = field(default_factory=lambda: NEVER_RESOLVED, compare=False)
    held: dict[str, Held] = field(default_factory=dict, compare=False)  # heartbeats, by member id
    to_wake: list[str] = field(default_factory=list, compare=False)  # members of a crowd to look at, the last first
    gathering: Gathering | None = field(default=None, compare=False)  # before the first target
    computing: int | None = field(default=None, compare=False)  # the number of the request
    computed: Computed | None = field(default=None, compare=False)
    formed_at: int | None = field(default=None, compare=False)  # when those who had no target got their first one
    bumped_at: int = field(default=0, compare=False)  # when the group epoch grew last
    incremental: Incremental | None = field(default=None, compare=False)  # of a group that is kept so. Rule C3
    story: Story = field(default_factory=Story, compare=False)
    journal: Journal = field(init=False, compare=False)
    _unsettled: int | None = field(default=None, compare=False)  # members; None: to be counted

    def __post_init__(self) -> None:
        self.journal = Journal(self.group_id)

    # -- state

    @property
    def state(self) -> GroupState:
        """Derived, never stored. Rule A7. Kafka: ConsumerGroup.maybeUpdateGroupState."""
        if not self.members:
            return GroupState.EMPTY
        if self.group_epoch > self.target_epoch:
            return GroupState.ASSIGNING
        if self._unsettled is None:
            self._unsettled = sum(not self.is_settled(member) for member in self.members.values())
        return GroupState.RECONCILING if self._unsettled else GroupState.STABLE

    @property
    def is_shown_classic(self) -> bool:
        """Whether the group is one to its members that all clients and tools see as a classic group. Rule C7.3."""
        return self.incremental is not None and self.classic_members == len(self.members)

    @property
    def group_type(self) -> str:
        """As ListGroups says it."""
        return "classic" if self.is_shown_classic else "consumer"

    @property
    def state_word(self) -> str:
        """The state as describe and list say it."""
        return state_word(self) if self.is_shown_classic else self.state.value

    @property
    def is_empty(self) -> bool:
        """No members. Rule A4.3."""
        return not self.members

    @property
    def generation_id(self) -> int:
        """The epoch, for everything that speaks generations. Rule A6.6."""
        return self.group_epoch

    @property
    def must_refresh(self) -> bool:
        """Whether the topics must be looked at: they have changed, or the epoch of the last look was never written.

        Rules A13.2, A13.4 and A13.5. Kafka: ModernGroup.hasMetadataExpired.
        """
        return self.refreshed_at_epoch is None or self.group_epoch < self.refreshed_at_epoch

    def is_settled(self, member: ConsumerGroupMember) -> bool:
        """Whether the member has nothing to do on its way to the target. The epochs of the classic members of an
        incremental group may lag behind for ever. Rule C3.1."""
        if self.incremental is not None and member.classic is not None:
            return not member.revoking and self.target_of(member.member_id) == member.assigned.keys()
        return member.state is MemberState.STABLE and member.member_epoch == self.target_epoch

    def timer(self, kind: TimerKind, member_id: str = "") -> TimerKey:
        """The key of one of the timers of the group, or of a member."""
        return TimerKey(kind, self.group_id, member_id)

    # -- members

    def check_member(self, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
        """The member a request speaks for. Raises KafkaError: unknown, or fenced by a newer incarnation.

        Rules A3.14, A3.17, A3.22 and A10.5. Kafka: ConsumerGroup.getOrMaybeCreateMember, staticMember.
        """
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
            if known != member_id:
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance_id} was fenced by member {known}.",
                )
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def presence_of(self, member_id: str) -> Presence:
        """What the log does not have of a member; begun at the first call."""
        found = self.presence.get(member_id)
        if found is None:
            found = self.presence[member_id] = Presence(self.timer(TimerKind.SESSION, member_id))
        return found

    def keep_incremental(self, incremental: Incremental | None) -> None:
        """The group is kept as an incremental one from here on; None: as any other."""
        self.incremental = incremental
        self._unsettled = None

    # -- subscriptions

    def topics_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """The names a member subscribes to, by name and by a regular expression that is resolved. Rule A14.1."""
        resolved = self.resolved.get(member.subscribed_topic_regex)
        return member.subscribed_topic_names if resolved is None else member.subscribed_topic_names | resolved.topics

    def subscribed_topics(self) -> Iterator[str]:
        """All names the group subscribes to; a name may come twice. Those that do not exist yet too. Rule A13.1."""
        yield from self.names
        for regex in self.regexes:
            if (resolved := self.resolved.get(regex)) is not None:
                yield from resolved.topics

    def is_subscribed_to(self, topic: str) -> bool:
        """By name or by a regular expression (KAFKA-18916). Rule A17.10. Kafka: ModernGroup.isSubscribedToTopic."""
        if topic in self.names:
            return True
        found = (self.resolved.get(regex) for regex in self.regexes)
        return any(one is not None and topic in one.topics for one in found)

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members have the same subscription. Rule A12.4. Kafka: ConsumerGroup.subscriptionType."""
        if not self.regexes:
            return all(count == len(self.members) for count in self.names.values())
        return len(self.regexes) == 1 and not self.names and next(iter(self.regexes.values())) == len(self.members)

    # -- changes, for `replay.py`

    def put_member(self, member: ConsumerGroupMember) -> None:
        """A member is new, or another than it was; the indexes follow."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._unindex(old)
        self.members[member.member_id] = member
        self._index(member)
        self._unsettled = None if self._unsettled is None else self._unsettled + self._change_in_unsettled(old, member)

    def drop_member(self, member_id: str) -> None:
        """A member is gone, with its target and what is known of it."""
        old = self.members.pop(member_id, None)
        if old is not None:
            self._unindex(old)
            self._unsettled = None
        self.put_target(member_id, None)

    def _change_in_unsettled(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember) -> int:
        was = old is not None and not self.is_settled(old)
        return (not self.is_settled(new)) - was

    def put_target(self, member_id: str, target: Partitions | None) -> None:
        """The target of a member; None takes it away. Of two claims on a partition the last one counts."""
        before, after = self.target_of(member_id), target or NO_PARTITIONS
        for partition in before - after if before else ():
            if self.target_owners.get(partition) == member_id:
                del self.target_owners[partition]
        self.target_owners.update(dict.fromkeys(after - before if before else after, member_id))
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target
        if self.incremental is not None:
            self._unsettled = None

    def put_targets(self, index: TargetIndex) -> TargetIndex:
        """All targets at once; what they were before."""
        before = TargetIndex(self.targets, self.target_owners)
        self.targets, self.target_owners = index
        self._unsettled = None
        return before

    def put_target_epoch(self, epoch: int, timestamp: int) -> None:
        """The epoch of the targets, and when they were computed."""
        self.target_epoch, self.target_timestamp = epoch, timestamp
        self._unsettled = None

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """What a regular expression matches; None takes it away."""
        if resolved is None:
            self.resolved.pop(regex, None)
        else:
            self.resolved[regex] = resolved

    def _index(self, member: ConsumerGroupMember) -> None:
        """A second claim on a partition overwrites the first: in a compacted log the record that took the partition
        away may be gone (KAFKA-19862). Rule A9.3."""
        self._count(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for partition in member.assigned:
            self.owners[partition] = member.member_id
        for partition in member.revoking:
            self.owners[partition] = member.member_id

    def _unindex(self, member: ConsumerGroupMember) -> None:
        """What is no longer the member's is left alone. Rules A9.3 and A10.1."""
        self._count(member, -1)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        for partition in (*member.assigned, *member.revoking):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    def _count(self, member: ConsumerGroupMember, change: int) -> None:
        _add(self.names, member.subscribed_topic_names, change)
        if member.subscribed_topic_regex:
            _add(self.regexes, (member.subscribed_topic_regex,), change)
        if member.server_assignor is not None:
            _add(self.assignors, (member.server_assignor,), change)
        if member.classic is not None:
            self.classic_members += change
            _add(self.classic_protocols, {name for name, _ in member.classic.protocols}, change)

    # -- what the classic requests ask of any group

    def target_of(self, member_id: str) -> Partitions:
        """The target of a member; nothing for a member without one."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def is_gone(self, member: ConsumerGroupMember) -> bool:
        """Whether the member's current assignment has its tombstone already."""
        return member.member_epoch == LEFT_EPOCH


def _add(counts: Counter[str], names: Iterable[str], change: int) -> None:
    """Without zeroes: what was never there and what is gone must look the same."""
    for name in names:
        counts[name] += change
        if not counts[name]:
            del counts[name]
