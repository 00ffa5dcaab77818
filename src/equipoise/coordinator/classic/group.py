"""A classic group and its members: the data, the questions asked of it, and the changes that are single moves.

What makes a rebalance stands in `rebalance`; what a request may do stands with the request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from equipoise.coordinator.classic.states import TRANSITIONS, IllegalTransition, State
from equipoise.coordinator.journal import Journal
from equipoise.coordinator.placement import java_hash
from equipoise.coordinator.reasons import Who
from equipoise.coordinator.step import Caller
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponseMember
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError
from equipoise.wire.offsets_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata, Record

_LARGEST_SUBSCRIPTIONS = 1 << 20  # bytes, of all members that differ
Protocols = list[tuple[str, bytes]]  # name and metadata, in order of preference
WallTime = Callable[[int], int]  # from a `now` to milliseconds since 1970


class Member:
    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "held_heartbeat",
        "is_new",
        "last_seen",
        "member_id",
        "notes",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "timer",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        client: tuple[str, str],
        timeouts: tuple[int, int],
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id, self.client_host = client
        self.session_timeout_ms, self.rebalance_timeout_ms = timeouts
        self.protocols = protocols
        self.assignment = b""
        self.is_new = False  # until its first join is answered: then its timer is longer
        self.awaiting_join: Caller | None = None
        self.awaiting_sync: Caller | None = None
        self.held_heartbeat: Caller | None = None
        self.last_seen = 0
        self.notes: object = None  # whatever the one who runs the shard keeps of this member; opaque here
        self.timer = ("session", group_id, member_id)

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_waiting(self) -> bool:
        return self.awaiting_join is not None or self.awaiting_sync is not None

    @property
    def who(self) -> Who:
        return Who(self.member_id, self.client_id, self.client_host, self.group_instance_id)

    def metadata(self, protocol: str | None) -> bytes:
        if self.protocols and self.protocols[0][0] == protocol:  # most often: a group of thousands is asked one by one
            return self.protocols[0][1]
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        if self.protocols[0][0] in candidates:
            return self.protocols[0][0]
        return next(name for name, _ in self.protocols if name in candidates)


def unchanged(now: int) -> int:
    """The wall time where it is all the time there is."""
    return now


class Group:
    def __init__(self, group_id: str, now: int, wall_time: WallTime = unchanged) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.previous_state = State.EMPTY
        self.state_since: int | None = wall_time(now)  # it is written down. None: loaded from a record too old to say
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # group.instance.id to member id
        self.pending_members: set[str] = set()  # told their id, not yet back with it
        self.pending_sync: set[str] = set()
        self.assigning = False  # the leader's assignment is on its way to the log
        self.new_member_added = False  # since the initial delay was last extended
        self.initial_delay: tuple[int, int] | None = None  # the delay running, and what may still be added to it
        self.not_before = 0  # the debounce of a rebalance: it does not complete earlier
        self.last_members = 0  # how many, and which static ones, it had when it was last complete
        self.last_static_members: frozenset[str] = frozenset()
        self.subscribed_topics: frozenset[str] | None = None
        self.journal = Journal(group_id)
        self.joined = 0  # members whose JoinGroup is parked
        self._supporters: Counter[str] = Counter()  # members per protocol
        self._wall_time = wall_time

    # -- state

    def transition(self, target: State, now: int) -> None:
        if (self.state, target) not in TRANSITIONS:
            raise IllegalTransition(self.group_id, self.state, target)
        self.previous_state, self.state = self.state, target
        self.state_since = self._wall_time(now)

    def is_in(self, *states: State) -> bool:
        return self.state in states

    @property
    def in_initial_phase(self) -> bool:
        return self.state is State.PREPARING_REBALANCE and self.previous_state is State.EMPTY

    # -- members

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.leader = self.leader or member.member_id
        self.members[member.member_id] = member
        self.pending_members.discard(member.member_id)
        self._count_supporters(member.protocols, 1)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id

    def update(self, member: Member, protocols: Protocols, timeouts: tuple[int, int]) -> None:
        self._count_supporters(member.protocols, -1)
        self._count_supporters(protocols, 1)
        member.protocols = protocols
        member.session_timeout_ms, member.rebalance_timeout_ms = timeouts

    def park_join(self, member: Member, caller: Caller) -> Caller | None:
        """Returns the caller of an older JoinGroup of the same member, which this one takes the place of."""
        older, member.awaiting_join = member.awaiting_join, caller
        self.joined += older is None
        return older

    def unpark_join(self, member: Member) -> Caller | None:
        caller, member.awaiting_join = member.awaiting_join, None
        self.joined -= caller is not None
        return caller

    def remove(self, member_id: str) -> Member | None:
        member = self.members.pop(member_id, None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)
        if member is None:
            return None
        self.joined -= member.awaiting_join is not None
        self._count_supporters(member.protocols, -1)
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: Member, member_id: str) -> None:
        """A static member under a new id; the leader's place moves along. Its place in the order stays."""
        old, member.member_id = member.member_id, member_id
        member.notes = None  # another process
        member.timer = ("session", self.group_id, member_id)
        self.members = {(member_id if key == old else key): value for key, value in self.members.items()}
        self.pending_sync.discard(old)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member_id
        if self.leader == old:
            self.leader = member_id
        self.journal.renamed(old, member_id)

    def check_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member a request speaks for. Raises KafkaError: unknown, or fenced by a newer incarnation."""
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

    def check_generation(self, generation_id: int) -> None:
        if generation_id != self.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    @property
    def has_all_joined(self) -> bool:
        return self.joined == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max(0, max((member.rebalance_timeout_ms for member in self.members.values()), default=0))

    def consumers(self) -> Iterable[Member]:
        """The members, if they share partitions; what members of other protocol types share is theirs to know."""
        return self.members.values() if self.protocol_type == PROTOCOL_TYPE else ()

    # -- protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols can be in this group."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and any(
            self._supporters[name] == len(self.members) for name in names
        )

    def _count_supporters(self, protocols: Protocols, change: int) -> None:
        """A protocol that a client lists twice counts once: a member must not be two supporters."""
        for name in {name for name, _ in protocols}:
            self._supporters[name] += change
            if not self._supporters[name]:
                del self._supporters[name]

    def _candidates(self) -> set[str]:
        """The protocols that every member has."""
        return {name for name, count in self._supporters.items() if count == len(self.members)}

    def select_protocol(self) -> str | None:
        """Each member votes for the first of its protocols that all have; a tie ends as on Kafka, see `_tie_break`."""
        candidates = self._candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return min(votes, key=lambda name: (-votes[name], _tie_break(name)), default=None)

    def update_subscribed_topics(self) -> None:
        """What the members subscribe to, as far as their metadata can be read; None where it cannot."""
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

    def record(self, assignments: dict[str, bytes] | None = None) -> Record:
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
        return Record(GroupMetadataKey(group=self.group_id), value)

    def tombstone(self) -> Record:
        return Record(GroupMetadataKey(group=self.group_id), None)

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]


def _tie_break(name: str) -> int:
    """The bucket of a name in a small hash map of Java: of equals the first is taken, and members may have got used
    to which one that is, for instance on the way from one assignor to another."""
    value = java_hash(name) & 0xFFFFFFFF
    return (value ^ value >> 16) & 15


def protocols_of(request: JoinGroupRequest) -> Protocols:
    return [(protocol.name, protocol.metadata) for protocol in request.protocols]


def load_group(group_id: str, value: GroupMetadataValue, now: int, wall_time: WallTime = unchanged) -> Group:
    """A group from its record: Stable with members, else Empty. What was in flight is lost, as in Kafka."""
    group = Group(group_id, now, wall_time)
    group.apply(value, now)
    group.state = group.previous_state = State.STABLE if value.members else State.EMPTY
    group.state_since = value.current_state_timestamp if value.current_state_timestamp >= 0 else None
    group.last_members = len(group.members)
    group.last_static_members = frozenset(group.static_members)
    group.update_subscribed_topics()
    group.journal.loaded(group.consumers())
    return group


def _member(group_id: str, protocol: str, row: MemberMetadata, now: int) -> Member:
    """Only the protocol that was chosen is remembered, so a follower that comes with several will differ."""
    rebalance_timeout = row.rebalance_timeout if row.rebalance_timeout >= 0 else row.session_timeout
    client = row.client_id, row.client_host
    timeouts = row.session_timeout, rebalance_timeout
    member = Member(group_id, row.member_id, row.group_instance_id, client, timeouts, [(protocol, row.subscription)])
    member.last_seen = now
    return member
