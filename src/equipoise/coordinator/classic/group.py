"""A classic group and its members: the data, queries on it, and changes in a single step.

`rebalance` has the rules of rebalances; each request's own file has the rules of that request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

from equipoise.coordinator.classic.states import TRANSITIONS, State
from equipoise.coordinator.journal import Journal
from equipoise.coordinator.parked import ParkedRequests
from equipoise.coordinator.placement import java_hash
from equipoise.coordinator.reasons import Who
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.coordinator.wall_time import WallTime
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponseMember
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from equipoise.wire.errors import ErrorCode, IllegalTransition, KafkaError, ProtocolError
from equipoise.wire.offsets_records import CoordinatorRecord, GroupMetadataKey, GroupMetadataValue, MemberMetadata

_LARGEST_SUBSCRIPTIONS = 1 << 20  # bytes, of all members that differ
Protocols = list[tuple[str, bytes]]  # name and metadata, in order of preference


class MemberTimeouts(NamedTuple):
    """A member's two timeouts: for its silence, and for its return to a rebalance."""

    session_ms: int
    rebalance_ms: int


class InitialDelay(NamedTuple):
    """The part of the initial rebalance delay that runs, and what may still be added to it."""

    running_ms: int
    left_ms: int


class Former(NamedTuple):
    """A member that has not rejoined since the group was a `consumer` group: its epoch, at which it may still speak,
    and what it had (topic ids and partitions). Rule A16.11."""

    generation_id: int
    held: frozenset[tuple[bytes, int]]


class Loss(NamedTuple):
    """A member without a connection, since when. It may have come back."""

    at: int
    member_id: str


@dataclass(slots=True, kw_only=True)
class ClassicGroupMember:
    """A member, and what it said in its last JoinGroup. Kafka: ClassicGroupMember."""

    group_id: str
    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    former: Former | None = None  # what it was in a `consumer` group, until it rejoins
    is_new: bool = False  # until its first join is answered: then its timer is longer
    last_seen: int = 0
    longest_silence_ms: int = 0  # between two signs of life, while it was not kept waiting: its heartbeat interval
    lost_at: int | None = None  # since then it has no connection, and has not been heard of
    notes: object = field(default=None, compare=False)  # kept by the runner of the shard; opaque here
    timer: TimerKey = field(init=False)  # of its session
    hold_timer: TimerKey = field(init=False)  # of its held heartbeat

    @classmethod
    def of(cls, group_id: str, who: Who, timeouts: MemberTimeouts, protocols: Protocols) -> Self:
        """A member as it names itself."""
        member_id, client_id, client_host, group_instance_id = who
        return cls(
            group_id=group_id,
            member_id=member_id,
            group_instance_id=group_instance_id,
            client_id=client_id,
            client_host=client_host,
            session_timeout_ms=timeouts.session_ms,
            rebalance_timeout_ms=timeouts.rebalance_ms,
            protocols=protocols,
        )

    def __post_init__(self) -> None:
        self.named(self.member_id)

    def named(self, member_id: str) -> None:
        """The member id, and with it the keys of the timers that every heartbeat arms."""
        self.member_id = member_id
        self.timer = TimerKey(TimerKind.SESSION, self.group_id, member_id)
        self.hold_timer = TimerKey(TimerKind.HOLD, self.group_id, member_id)

    @property
    def lost_timer(self) -> TimerKey:
        """Of its return on another connection."""
        return TimerKey(TimerKind.LOST, self.group_id, self.member_id)

    @property
    def is_static(self) -> bool:
        """A static member has a group.instance.id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def who(self) -> Who:
        """The member as events and the journal name it."""
        return Who(self.member_id, self.client_id, self.client_host, self.group_instance_id)

    @property
    def timeouts(self) -> MemberTimeouts:
        """Both timeouts, to be kept when the member is replaced."""
        return MemberTimeouts(self.session_timeout_ms, self.rebalance_timeout_ms)

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol; empty if it does not offer that one.

        Kafka: ClassicGroupMember.metadata.
        """
        if self.protocols and self.protocols[0][0] == protocol:  # most often: a group of thousands is asked one by one
            return self.protocols[0][1]
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """The first of its protocols that all members have. Rule 2.5. Kafka: ClassicGroupMember.vote."""
        return _vote(self.protocols, candidates)


@dataclass(slots=True)
class Group:
    """A classic group. Kafka: ClassicGroup."""

    group_type: ClassVar[str] = "classic"

    group_id: str
    state_since: WallTime | None  # it is written down. None: loaded from a record too old to say
    state: State = State.EMPTY
    previous_state: State = State.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, ClassicGroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # group.instance.id to member id
    pending_members: set[str] = field(default_factory=set)  # told their id, not yet back with it
    pending_sync: set[str] = field(default_factory=set)  # joined, and have not asked for their assignment
    parked: ParkedRequests = field(default_factory=ParkedRequests)
    assigning: bool = False  # the leader's assignment is on its way to the log
    new_member_added: bool = False  # since the initial delay was last extended
    initial_delay: InitialDelay | None = None
    losses: list[Loss] = field(default_factory=list)  # of connections, lately; the last one stays
    not_before: int = 0  # the debounce of a rebalance: it does not complete earlier
    last_members: int = 0  # how many, and which static ones, it had when it was last complete
    last_static_members: frozenset[str] = frozenset()
    subscribed_topics: frozenset[str] | None = None
    journal: Journal = field(init=False)
    _supporters: Counter[str] = field(default_factory=Counter)  # members per protocol

    def __post_init__(self) -> None:
        self.journal = Journal(self.group_id)

    # -- state

    def transition(self, target: State, at: WallTime) -> None:
        """Every change of state. Rule 1.2. Kafka: ClassicGroup.transitionTo."""
        if (self.state, target) not in TRANSITIONS:
            raise IllegalTransition(f"group {self.group_id}", self.state, target)
        self.previous_state, self.state = self.state, target
        self.state_since = at

    @property
    def state_word(self) -> str:
        """The state as describe and list say it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether the group is Empty."""
        return self.state is State.EMPTY

    @property
    def is_simple(self) -> bool:
        """Made by offsets alone: only consumers that assign themselves have been here.

        Kafka: ClassicGroup.isSimpleGroup.
        """
        return self.state is State.EMPTY and self.protocol_type is None and not self.pending_members

    def is_in(self, *states: State) -> bool:
        """Whether the group is in one of these states."""
        return self.state in states

    def timer(self, kind: TimerKind) -> TimerKey:
        """The key of one of the group's own timers."""
        return TimerKey(kind, self.group_id)

    @property
    def in_initial_phase(self) -> bool:
        """The first join phase of an Empty group has a delay of its own (KIP-134). Rule 2.8.3."""
        return self.state is State.PREPARING_REBALANCE and self.previous_state is State.EMPTY

    # -- members

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """The first member leads, and gives the group its type. Rule 2.9. Kafka: ClassicGroup.add."""
        if not self.members:
            self.protocol_type = protocol_type
        self.leader = self.leader or member.member_id
        self.members[member.member_id] = member
        self.pending_members.discard(member.member_id)
        self._count_supporters(member.protocols, 1)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id

    def update(self, member: ClassicGroupMember, protocols: Protocols, timeouts: MemberTimeouts) -> None:
        """A rejoin may bring other protocols and timeouts. Kafka: ClassicGroup.updateMember."""
        if protocols != member.protocols:
            self._count_supporters(member.protocols, -1)
            self._count_supporters(protocols, 1)
            member.protocols = protocols
        member.session_timeout_ms, member.rebalance_timeout_ms = timeouts

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        """The first of the others leads if the leader goes. Its parked requests are the caller's to answer."""
        member = self.members.pop(member_id, None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)
        if member is None:
            return None
        self._count_supporters(member.protocols, -1)
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: ClassicGroupMember, member_id: str) -> None:
        """A static member under a new id; the leader's place moves along. Its place in the order stays."""
        old = member.member_id
        member.named(member_id)
        member.notes = None  # another process
        self.members = {(member_id if key == old else key): value for key, value in self.members.items()}
        self.pending_sync.discard(old)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member_id
        if self.leader == old:
            self.leader = member_id
        self.journal.renamed(old, member_id)

    def check_member(self, member_id: str, group_instance_id: str | None) -> ClassicGroupMember:
        """The member a request speaks for. Raises KafkaError: unknown, or fenced by a newer incarnation (KIP-345).

        Rules 2.2.15, 2.2.16 and 3.5. Kafka: ClassicGroup.validateMember.
        """
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation_id: int, member: ClassicGroupMember | None = None) -> None:
        """A request of another generation is of no more use, but for a member that has not rejoined since the group
        was a `consumer` group. Raises KafkaError. Rules 3.5 and A16.11."""
        former = None if member is None else member.former
        if generation_id != self.generation_id and (former is None or former.generation_id != generation_id):
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    @property
    def joined(self) -> int:
        """Members whose JoinGroup is parked."""
        return len(self.parked.joins)

    @property
    def has_all_joined(self) -> bool:
        """A member id that was given out holds the join phase open (KIP-394).

        Rule 2.8.4. Kafka: ClassicGroup.hasAllMembersJoined.
        """
        return self.joined == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members' (KIP-62). Kafka: ClassicGroup.rebalanceTimeoutMs."""
        return max([0, *[member.rebalance_timeout_ms for member in self.members.values()]])

    def assignments(self) -> dict[str, bytes]:
        """By member, if the members share partitions; what members of other protocol types share is theirs to know."""
        if self.protocol_type != PROTOCOL_TYPE:
            return {}
        return {member.member_id: member.assignment for member in self.members.values()}

    # -- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """A member must share a protocol with all others. Rule 2.4. Kafka: ClassicGroup.supportsProtocols."""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        if protocol_type == self.protocol_type:
            for name, _ in protocols:
                if self._supporters[name] == len(self.members):
                    return True
        return False

    def _count_supporters(self, protocols: Protocols, change: int) -> None:
        """A protocol that a client lists twice counts once: a member must not be two supporters."""
        for name in {name for name, _ in protocols} if len(protocols) > 1 else [name for name, _ in protocols]:
            self._supporters[name] += change
            if not self._supporters[name]:
                del self._supporters[name]

    def _candidates(self) -> set[str]:
        """The protocols that every member has."""
        return {name for name, count in self._supporters.items() if count == len(self.members)}

    def select_protocol(self) -> str | None:
        """Each member votes for the first of its protocols that all have; a tie ends as on Kafka, see `_tie_break`.

        Rule 2.5. Kafka: ClassicGroup.selectProtocol.
        """
        candidates = self._candidates()
        if len(candidates) == 1 and self.members:
            return next(iter(candidates))
        return count_votes((member.protocols for member in self.members.values()), candidates)

    def update_subscribed_topics(self) -> None:
        """What the members subscribe to, as far as their metadata can be read; None where it cannot.

        Kafka: ClassicGroup.computeSubscribedTopics.
        """
        self.subscribed_topics = self._read_subscriptions()

    def _read_subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        found = {member.metadata(self.protocol_name) for member in self.members.values()}
        if sum(map(len, found)) > _LARGEST_SUBSCRIPTIONS:
            return None  # they would take long to read, and the group's record has no room for them
        try:
            for metadata in found:
                topics.update(decode_subscription(metadata, newest=0).topics)
        except ProtocolError:
            return None
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """A topic that is in use keeps its offsets (KIP-496). Rule 4.4. Kafka: ClassicGroup.isSubscribedToTopic."""
        if self.subscribed_topics is None:
            return self.protocol_type == PROTOCOL_TYPE and self.state is not State.EMPTY
        return topic in self.subscribed_topics and self.state is not State.EMPTY

    # -- what is written and what is answered

    def apply(self, value: GroupMetadataValue, now: int) -> None:
        """What a durable record says of the group: after a restart all of it, in a live group the assignments."""
        self.protocol_type = value.protocol_type or None
        self.generation_id = value.generation
        self.protocol_name = value.protocol
        for row in value.members:
            if row.member_id not in self.members:
                self.add(_member(self.group_id, value.protocol or "", row, now), value.protocol_type)
            self.members[row.member_id].assignment = row.assignment
        self.leader = value.leader

    def record(self, assignments: dict[str, bytes] | None = None) -> CoordinatorRecord:
        """The group as it is to be remembered; `assignments` are those about to take effect."""
        members = [
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(self.protocol_name),
                assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        ]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=-1 if self.state_since is None else self.state_since,
            members=members,
        )
        return CoordinatorRecord(GroupMetadataKey(group=self.group_id), value)

    def tombstone(self) -> CoordinatorRecord:
        """The record that ends the group in the log."""
        return CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        """The members with their metadata, by which the leader assigns.

        Kafka: ClassicGroup.currentClassicGroupMembers.
        """
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]


def count_votes(offered: Iterable[Sequence[tuple[str, bytes]]], candidates: set[str]) -> str | None:
    """The protocol with most votes, of members with these protocols; None: there are no members.

    Rule 2.5. Kafka: ClassicGroup.selectProtocol.
    """
    votes: dict[str, int] = {}
    for protocols in offered:
        choice = _vote(protocols, candidates)
        votes[choice] = votes.get(choice, 0) + 1
    return min(votes, key=lambda name: (-votes[name], _tie_break(name)), default=None)


def _vote(protocols: Sequence[tuple[str, bytes]], candidates: set[str]) -> str:
    if protocols[0][0] in candidates:
        return protocols[0][0]
    return next(name for name, _ in protocols if name in candidates)


def _tie_break(name: str) -> int:
    """The bucket of a name in a small hash map of Java: of equals the first is taken, and members may have got used
    to which one that is, for instance on the way from one assignor to another."""
    value = java_hash(name) & 0xFFFFFFFF
    return (value ^ value >> 16) & 15


def check_request(
    groups: Mapping[str, Group], request: SyncGroupRequest | HeartbeatRequest
) -> tuple[Group, ClassicGroupMember]:
    """Only a member of the current generation may speak. Raises KafkaError. Rule 3.5.

    Kafka: GroupMetadataManager.validateSyncGroup and validateClassicGroupHeartbeat.
    """
    group = groups.get(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id, member)
    return group, member


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The protocols of a JoinGroup, in the order of preference."""
    return [(protocol.name, protocol.metadata) for protocol in request.protocols]


def load_group(group_id: str, value: GroupMetadataValue, now: int) -> Group:
    """A group from its record: Stable with members, else Empty. What was in flight is lost.

    Rule 5.3. Kafka: GroupMetadataManager.replay.
    """
    since = WallTime(value.current_state_timestamp) if value.current_state_timestamp >= 0 else None
    state = State.STABLE if value.members else State.EMPTY
    group = Group(group_id, since, state, state)
    group.apply(value, now)
    group.last_members = len(group.members)
    group.last_static_members = frozenset(group.static_members)
    group.update_subscribed_topics()
    group.journal.loaded(group.assignments())
    return group


def _member(group_id: str, protocol: str, row: MemberMetadata, now: int) -> ClassicGroupMember:
    """Only the protocol that was chosen is remembered, so a follower that comes with several will differ."""
    who = Who(row.member_id, row.client_id, row.client_host, row.group_instance_id)
    rebalance_ms = row.rebalance_timeout if row.rebalance_timeout >= 0 else row.session_timeout
    timeouts = MemberTimeouts(row.session_timeout, rebalance_ms)
    member = ClassicGroupMember.of(group_id, who, timeouts, [(protocol, row.subscription)])
    member.last_seen = now
    return member
