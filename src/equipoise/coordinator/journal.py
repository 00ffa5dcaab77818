"""The journal of a group: the cause of each rebalance, the duration of each phase, and the partitions that moved.

While a rebalance runs, the journal notes only facts. `settle` does the expensive part, reading and comparing
assignments; the broker calls it when the replies have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

from equipoise.coordinator.reasons import NOBODY, Cause, Who
from equipoise.wire.consumer_protocol import MOST_ELEMENTS, decode_assignment, decode_subscription
from equipoise.wire.errors import ProtocolError

KEPT = 100  # rebalances remembered per group
COMPARED = 20_000  # partitions of a group: of more only the number is noted
_LARGEST = 1 << 20  # bytes of all assignments together that are looked into
_BYTES_A_PARTITION = 4
_LISTED_CHARACTERS = 500_000  # of names and numbers in one entry
_PUNCTUATION = 16
_STOPS = 4  # of one member, before it is given something again
_STOP_BYTES = 1 << 20  # of what all members say when they stop
_SHARED = 4096  # bytes
_STRIDE = 100  # members or partitions between two moments at which others may go on
_AT_ONCE = 2_000  # partitions and members of a target epoch that are listed when it ends
ARRIVALS = 50  # members noted in one rebalance
_TIMEOUTS = 10  # pairs of timeouts
TopicPartition = tuple[str, int]
Partitions = list[TopicPartition]
Owners = dict[TopicPartition, str]
_T = TypeVar("_T")


class Timeouts(NamedTuple):
    """Timeouts of members, in ms, and how many of them have these."""

    session_ms: int
    rebalance_ms: int
    members: int


class Wait(NamedTuple):
    """A member had to wait until another one had given up partitions."""

    waiter: str  # member id
    owner: str
    partitions: int
    waited_ms: int  # for the last of them


@dataclass(slots=True)
class Rebalance:
    """One rebalance, from its cause to Stable (or Empty, or the next rebalance that overtook it).

    Where the coordinator assigns, it is one target epoch, from the first cause until every member has its part.
    """

    group_id: str
    cause: Cause
    started: int
    old_generation: int
    generation: int = -1
    joined_at: int | None = None
    assigned_at: int | None = None
    ended: int | None = None
    members: int = 0
    waited_for: Who = NOBODY
    waited_ms: int = 0
    arrivals: dict[str, int] = field(default_factory=dict)  # ms from the start to a member's JoinGroup, the slowest
    unsynced: tuple[str, ...] = ()  # member ids: they had not asked for their assignment when it was there
    protocol: str | None = None
    timeouts: tuple[Timeouts, ...] = ()
    overtaken: bool = False
    moved: dict[TopicPartition, tuple[str | None, str]] = field(default_factory=dict)
    kept: int = 0
    revoked: list[TopicPartition] = field(default_factory=list)
    dark_ms: dict[TopicPartition, int] = field(default_factory=dict)
    longest_dark_ms: int = 0  # also of a partition that is not listed
    cut: int = 0
    # -- of a target epoch only
    is_target: bool = False
    further_causes: list[Cause] = field(default_factory=list)  # that came before there was a target
    called: dict[str, int] = field(default_factory=dict)  # by member id: when its partitions were first changed, in ms
    done: dict[str, int] = field(default_factory=dict)  # by member id: when they were last changed, in ms
    waits: list[Wait] = field(default_factory=list)  # the longest first

    @property
    def listed(self) -> int:
        """Partitions and members that the entry names."""
        of_target = len(self.further_causes) + len(self.called) + len(self.done) + len(self.waits)
        return len(self.moved) + len(self.revoked) + len(self.dark_ms) + of_target

    def note_dark(self, partition: TopicPartition, dark: int, room: Room) -> None:
        """A partition was without owner for so long."""
        self.longest_dark_ms = max(self.longest_dark_ms, dark)
        if room.has(*partition):
            self.dark_ms[partition] = dark

    @property
    def detect_ms(self) -> int:
        """From the last sign of life to the decision, where silence was the cause."""
        return self.cause.silent_ms

    @property
    def join_ms(self) -> int | None:
        """From the cause to the end of the join phase."""
        return None if self.joined_at is None else self.joined_at - self.started

    @property
    def assign_ms(self) -> int | None:
        """From the end of the join phase to the leader's assignment."""
        return None if self.joined_at is None or self.assigned_at is None else self.assigned_at - self.joined_at

    @property
    def sync_ms(self) -> int | None:
        """From the leader's assignment to Stable."""
        if self.overtaken or self.assigned_at is None or self.ended is None:
            return None
        return self.ended - self.assigned_at


class JoinedMember(Protocol):
    """What the journal notes of a member at the end of a join phase."""

    @property
    def session_timeout_ms(self) -> int:
        """Of the member's last JoinGroup."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """Of the member's last JoinGroup."""


# By member: when it stopped, and its metadata, which may say that it goes on with some partitions. Until a member
# is given something it may stop several times.
Stops = dict[str, list[tuple[int, bytes | None]]]


class _Facts(NamedTuple):
    """What there is to compare when a rebalance has ended."""

    entry: Rebalance
    ended: int
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    stops: Stops
    uncounted: int = 0  # stops that were not kept


class TargetFacts(NamedTuple):
    """What there is to list when a target epoch has ended. Topics are known by their ids."""

    entry: Rebalance
    owners: Mapping[tuple[bytes, int], tuple[str | None, str | None]]  # before, and now
    darkened: Mapping[tuple[bytes, int], int]
    names: Mapping[bytes, str]
    owned: int  # partitions of the group that somebody has
    cut: int  # partitions whose owners were not kept

    @property
    def is_small(self) -> bool:
        """Whether it is listed in a millisecond or two."""
        return len(self.owners) + len(self.darkened) + len(self.entry.called) <= _AT_ONCE

    def listing(self) -> Iterator[None]:
        """Completes the entry in small steps."""
        entry = self.entry
        room = Room(entry)  # a member chooses its id, and may choose a long one
        entry.further_causes = [one for one in entry.further_causes if room.has(*one.who, one.said)]
        entry.waits = [one for one in entry.waits if room.has(one.waiter, one.owner)]
        entry.called = {one: at for one, at in entry.called.items() if room.has(one)}
        entry.done = {one: at for one, at in entry.done.items() if one in entry.called and room.has(one)}
        yield from self._list_moves(room)
        for place, ((topic_id, number), dark) in enumerate(self.darkened.items()):
            if place % _STRIDE == 0:
                yield
            if topic_id in self.names:
                entry.note_dark((self.names[topic_id], number), dark, room)

    def _list_moves(self, room: Room) -> Iterator[None]:
        entry, names, changed = self.entry, self.names, self.cut
        for place, ((topic_id, number), (before, owner)) in enumerate(self.owners.items()):
            if place % _STRIDE == 0:
                yield
            changed += owner is not None and owner != before
            if owner == before or topic_id not in names or not room.has(names[topic_id], before, owner):
                continue
            if owner is None:
                entry.revoked.append((names[topic_id], number))
            else:
                entry.moved[names[topic_id], number] = (before, owner)
        entry.revoked.sort()
        entry.kept = max(0, self.owned - changed)
        entry.cut += self.cut


def _keep(kept: list[_T], new: _T) -> None:
    """The last ones stay. A list: an empty deque takes ten times its room, and there are thousands of quiet groups."""
    kept.append(new)
    del kept[:-KEPT]


@dataclass(slots=True)
class Journal:
    """The rebalances of one group."""

    group_id: str
    entries: list[Rebalance] = field(default_factory=list)
    _current: Rebalance | None = None
    _assignments: dict[str, bytes] = field(default_factory=dict)  # from when the group was last Stable or Empty
    _stops: Stops = field(default_factory=dict)
    _stop_bytes: int = 0
    _stops_cut: int = 0
    _listed: int = 0  # partitions, in `entries`
    _settled: Rebalance | None = None  # the last
    _unsettled: list[_Facts] = field(default_factory=list)
    _dark_since: dict[TopicPartition, int] = field(default_factory=dict)
    _partitions: dict[bytes, Partitions] = field(default_factory=dict)  # of the assignments last read: most stay
    _targets: list[TargetFacts] = field(default_factory=list)  # that were not given out yet
    _syncs: list[tuple[str, int]] = field(default_factory=list)  # that came after the end of the last rebalance

    # -- facts, noted as they come

    def loaded(self, assignments: dict[str, bytes]) -> None:
        """After a restart: the owners of partitions."""
        self._assignments = assignments

    def begin(self, cause: Cause, generation: int, now: int) -> None:
        """A rebalance begins; the one under way, if any, is overtaken."""
        if self._current is not None:
            self._current.overtaken = True
            self._close(self._current, now)
            _keep(self._unsettled, _Facts(self._current, now, {}, {}, {}))  # it has moved nothing
        self._current = Rebalance(self.group_id, cause, now, generation)

    def arrived(self, who: Who, metadata: bytes | None, now: int) -> None:
        """With its JoinGroup an eager member has stopped working; a cooperative one says what it goes on with."""
        self._stop(who.member_id, now, metadata)
        self._wait_for(who, now)
        if self._current is not None and self._current.joined_at is None:
            _note_arrival(self._current.arrivals, who.member_id, now - self._current.started)

    def stopped(self, member_id: str, at: int) -> None:
        """A member works no longer, since `at`."""
        self._stop(member_id, at, None)

    def released(self, who: Who, last_seen: int, now: int) -> None:
        """The member is gone; its partitions have been without owner since it was last heard of."""
        self.stopped(who.member_id, min(last_seen, now))
        if self._current is not None and now > self._current.started:
            self._wait_for(who, now)

    def renamed(self, old: str, new: str) -> None:
        """A static member under a new id owns what it owned."""
        self._assignments = {(new if key == old else key): value for key, value in self._assignments.items()}
        if old in self._stops:
            self._stops[new] = self._stops.pop(old)

    def joined(
        self,
        generation: int,
        members: Collection[JoinedMember],
        absent: Iterable[Who],
        now: int,
        *,
        protocol: str | None,
    ) -> None:
        """The join phase is over. A static member that has not rejoined was waited for to the end."""
        if self._current is not None:
            self._current.generation = generation
            self._current.protocol = protocol
            self._current.timeouts = _timeouts(members)
            self._current.members += len(members)
            for who in absent:
                self._wait_for(who, now)
            self._current.joined_at = now

    def assigned(self, now: int) -> None:
        """The leader has assigned."""
        if self._current is not None:
            self._current.assigned_at = now

    def stable(self, assignments: dict[str, bytes], now: int, unsynced: Iterable[str] = ()) -> None:
        """A rebalance ends with this assignment. Some members may not have asked for it yet."""
        if self._current is not None:
            arrivals = self._current.arrivals  # whoever is named there, and has not asked, must be named here
            self._current.unsynced = tuple(sorted(unsynced, key=lambda one: one not in arrivals)[:ARRIVALS])
        self._end(assignments, now)

    def synced(self, member_id: str, now: int) -> None:
        """A member has asked for its assignment, for the first time, after the end of the rebalance."""
        last = self.entries[-1] if self.entries and self._current is None else None
        if last is not None and member_id in last.unsynced:
            self._syncs.append((member_id, now - last.started))

    def take_syncs(self) -> tuple[tuple[str, int], ...]:
        """The members that have asked since, and when, in ms from the start of the rebalance."""
        taken, self._syncs = tuple(self._syncs), []
        return taken

    def completed_empty(self, generation: int, now: int) -> None:
        """A rebalance ends without members."""
        if self._current is not None:
            self._current.generation = generation
        self._end({}, now)

    def _end(self, assignments: dict[str, bytes], now: int) -> None:
        entry, self._current = self._current, None
        if entry is not None:
            self._close(entry, now)
            _keep(self._unsettled, _Facts(entry, now, self._assignments, assignments, self._stops, self._stops_cut))
        self._assignments, self._stops = assignments, {}
        self._stop_bytes = self._stops_cut = 0

    def _close(self, entry: Rebalance, now: int) -> None:
        entry.ended = now
        if len(self.entries) == KEPT:
            self._forget(self.entries.pop(0))
        self.entries.append(entry)

    def _stop(self, member_id: str, at: int, metadata: bytes | None) -> None:
        """Of those who have something to stop with. What they say can be long, and they can say it again and again."""
        if not self._assignments.get(member_id):
            return
        stops, size = self._stops.setdefault(member_id, []), len(metadata or b"")
        if len(stops) < _STOPS and self._stop_bytes + size <= _STOP_BYTES:
            stops.append((at, metadata))
            self._stop_bytes += size
        else:
            self._stops_cut += 1

    def _wait_for(self, who: Who, now: int) -> None:
        """Only the join phase waits for members."""
        if self._current is not None and self._current.joined_at is None:
            self._current.waited_for, self._current.waited_ms = who, now - self._current.started

    def go_on(self, before: Journal) -> None:
        """The group has become one of another kind: what happened before stays known. An incremental group that becomes
        a classic one keeps its journal."""
        if before is self:
            return
        self.entries = [*self.entries, *before.entries][-KEPT:]
        self._listed = before._listed

    def add(self, facts: TargetFacts) -> None:
        """An entry of a `consumer` group, whose coordinator knows who owns what. A small one is complete at once."""
        entry = facts.entry
        self._close(entry, entry.started if entry.ended is None else entry.ended)
        if facts.is_small:
            for _ in facts.listing():
                pass
            self._listed += entry.listed
        _keep(self._targets, facts)

    # -- what they mean, worked out afterwards

    def settle(self) -> Rebalance | None:
        """Completes the oldest entry that is not yet complete with what moved and what stood still. None: all are."""
        if not self.has_unsettled:
            return None
        for _ in self.settling():
            pass
        return self._settled

    @property
    def has_unsettled(self) -> bool:
        """Whether `settle` has something to do."""
        return bool(self._unsettled or self._targets)

    def settling(self) -> Iterator[Rebalance | None]:
        """`settle` in small steps, for groups of thousands; the entry comes last. Nothing, if all are complete."""
        if self._targets:
            yield from self._settle_target(self._targets.pop(0))
            return
        if not self._unsettled:
            return
        facts = self._unsettled.pop(0)
        entry = self._settled = facts.entry
        entry.cut += facts.uncounted
        known = _Known(self._partitions)
        yield from known.read(facts.after.values())
        yield from known.read(facts.before.values())
        if known.too_many:
            entry.cut += known.too_many
            self._partitions = {}
        else:
            yield from self._compare(entry, facts, known.partitions)
            self._partitions = {one: known.partitions[one] for one in facts.after.values()}
        self._forget_most(entry)
        yield entry

    def _settle_target(self, facts: TargetFacts) -> Iterator[Rebalance | None]:
        if not facts.is_small:
            yield from facts.listing()
        self._settled = facts.entry
        self._forget_most(facts.entry, is_counted=facts.is_small)
        yield facts.entry

    def _compare(self, entry: Rebalance, facts: _Facts, known: Mapping[bytes, Partitions]) -> Iterator[None]:
        old, new = Owners(), Owners()
        yield from _note_owners(old, facts.before, known)
        yield from _note_owners(new, facts.after, known)
        yield from self._note_darkness(old, new, facts.stops, facts.ended)
        room = Room(entry)
        for number, (partition, owner) in enumerate(new.items()):
            if number % _STRIDE == 0:
                yield
            before = old.get(partition)
            if before == owner:
                entry.kept += 1
            elif room.has(*partition, before, owner):
                entry.moved[partition] = (before, owner)
            since = self._dark_since.pop(partition, None)
            if since is not None:
                entry.note_dark(partition, facts.ended - since, room)
        gone = (partition for partition in old if partition not in new)
        entry.revoked = sorted(partition for partition in gone if room.has(*partition))

    def _note_darkness(self, old: Owners, new: Owners, stops: Stops, ended: int) -> Iterator[None]:
        """A partition is dark from when its owner stops with it, or, if it never said so, from when it loses it."""
        said: dict[str, list[tuple[int, frozenset[TopicPartition]]]] = {}
        for number, (member_id, rows) in enumerate(stops.items()):
            if number % _STRIDE == 0:
                yield
            said[member_id] = [(at, _owned(metadata)) for at, metadata in rows]
        for number, (partition, owner) in enumerate(old.items()):
            if number % _STRIDE == 0:
                yield
            since = ended if new.get(partition) != owner else None
            for at, goes_on in said.get(owner, ()):
                if partition not in goes_on:
                    since = at
                    break
            if since is not None and len(self._dark_since) < COMPARED:
                self._dark_since.setdefault(partition, since)

    def _forget_most(self, entry: Rebalance, *, is_counted: bool = False) -> None:
        """The more an entry lists, the fewer older ones are kept."""
        self._listed += 0 if is_counted else entry.listed
        while self._listed > COMPARED and len(self.entries) > 1 and self.entries[0] is not entry:
            self._forget(self.entries.pop(0))

    def _forget(self, entry: Rebalance) -> None:
        self._listed -= entry.listed


def _note_arrival(arrivals: dict[str, int], member_id: str, after_ms: int) -> None:
    """The last to come are the slowest. One that comes again counts when it comes last."""
    arrivals.pop(member_id, None)
    arrivals[member_id] = after_ms
    if len(arrivals) > ARRIVALS:
        del arrivals[next(iter(arrivals))]


def _timeouts(members: Iterable[JoinedMember]) -> tuple[Timeouts, ...]:
    """Most members of a group have the same."""
    found = Counter((one.session_timeout_ms, one.rebalance_timeout_ms) for one in members)
    return tuple(Timeouts(*pair, count) for pair, count in found.most_common(_TIMEOUTS))


class _Known:
    """Assignments and what they hold. Too much to be compared is only counted: it would take long, and much memory."""

    def __init__(self, known: Mapping[bytes, Partitions]) -> None:
        self._before = known
        self.partitions: dict[bytes, Partitions] = {}
        self.too_many = 0  # partitions, if there are more than can be compared

    def read(self, assignments: Collection[bytes]) -> Iterator[None]:
        size, count = sum(map(len, assignments)), 0
        if size > _LARGEST:
            self.too_many = max(self.too_many, size // _BYTES_A_PARTITION)
            return
        for number, one in enumerate(assignments):
            if number % _STRIDE == 0:
                yield
            if one not in self.partitions:
                self.partitions[one] = self._before[one] if one in self._before else _assigned(one)
            count += len(self.partitions[one])
        if count > COMPARED:
            self.too_many = max(self.too_many, count)


class Room:
    """What an entry may list, in characters; beyond it partitions and members are only counted."""

    def __init__(self, entry: Rebalance) -> None:
        self._entry = entry
        self._left = _LISTED_CHARACTERS

    def has(self, *names: str | int | None) -> bool:
        """Whether a row with these names fits in; if not, it is counted."""
        self._left -= _PUNCTUATION + sum([len(one) for one in names if isinstance(one, str)])
        if self._left < 0:
            self._entry.cut += 1
            return False
        return True


def _note_owners(owners: Owners, assignments: Mapping[str, bytes], known: Mapping[bytes, Partitions]) -> Iterator[None]:
    for number, (member_id, assignment) in enumerate(assignments.items()):
        if number % _STRIDE == 0:
            yield
        for partition in known[assignment]:
            owners[partition] = member_id


def _assigned(assignment: bytes) -> Partitions:
    try:
        partitions = decode_assignment(assignment).assigned_partitions if assignment else {}
    except ProtocolError:
        return []  # not the consumer protocol: nothing is known of what it hands out
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]


def _owned(metadata: bytes | None) -> frozenset[TopicPartition]:
    if metadata is None:
        return frozenset()
    return _owned_by_all(metadata) if len(metadata) <= _SHARED else _read_owned(metadata)


def _read_owned(metadata: bytes) -> frozenset[TopicPartition]:
    try:
        owned = decode_subscription(metadata, budget=MOST_ELEMENTS).owned_partitions
    except ProtocolError:
        return frozenset()
    return frozenset((topic, number) for topic, numbers in owned.items() for number in numbers)


_owned_by_all = lru_cache(maxsize=64)(_read_owned)  # eager members all say the same, and it is short
