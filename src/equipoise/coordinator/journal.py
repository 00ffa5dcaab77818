"""The journal of a group: for each rebalance why it began, how long each phase took, and what it moved.

While a rebalance runs only facts are noted. What costs time, reading assignments and comparing them, is done
by `settle`, which the broker calls when the replies have left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from equipoise.coordinator.reasons import NOBODY, Cause, Who
from equipoise.wire.consumer_protocol import decode_assignment, decode_subscription
from equipoise.wire.errors import ProtocolError

if TYPE_CHECKING:
    from equipoise.coordinator.group import Member

KEPT = 100  # rebalances remembered per group
TopicPartition = tuple[str, int]
Partitions = list[TopicPartition]
Owners = dict[TopicPartition, str]


@dataclass(slots=True)
class Rebalance:
    """One rebalance, from its cause to Stable (or Empty, or the next rebalance that overtook it)."""

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
    overtaken: bool = False
    moved: dict[TopicPartition, tuple[str | None, str]] = field(default_factory=dict)
    kept: int = 0
    revoked: list[TopicPartition] = field(default_factory=list)
    dark_ms: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def detect_ms(self) -> int:
        """From the last sign of life to the decision, where silence was the cause."""
        return self.cause.silent_ms

    @property
    def join_ms(self) -> int | None:
        return None if self.joined_at is None else self.joined_at - self.started

    @property
    def assign_ms(self) -> int | None:
        return None if self.joined_at is None or self.assigned_at is None else self.assigned_at - self.joined_at

    @property
    def sync_ms(self) -> int | None:
        if self.overtaken or self.assigned_at is None or self.ended is None:
            return None
        return self.ended - self.assigned_at


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


class Journal:
    def __init__(self, group_id: str) -> None:
        self.entries: deque[Rebalance] = deque(maxlen=KEPT)
        self._group_id = group_id
        self._current: Rebalance | None = None
        self._assignments: dict[str, bytes] = {}  # by member, from when the group was last Stable or Empty
        self._stops: Stops = {}
        self._unsettled: deque[_Facts] = deque(maxlen=KEPT)
        self._dark_since: dict[TopicPartition, int] = {}
        self._partitions: dict[bytes, Partitions] = {}  # of the assignments last looked at: most stay as they are

    # -- facts, noted as they come

    def loaded(self, members: Iterable[Member]) -> None:
        self._assignments = {member.member_id: member.assignment for member in members}

    def begin(self, cause: Cause, generation: int, now: int) -> None:
        if self._current is not None:
            self._current.overtaken = True
            self._close(self._current, now)
            self._unsettled.append(_Facts(self._current, now, {}, {}, {}))  # it has moved nothing
        self._current = Rebalance(self._group_id, cause, now, generation)

    def arrived(self, member: Member, now: int) -> None:
        """With its JoinGroup an eager member has stopped working; a cooperative one says what it goes on with."""
        self._stop(member.member_id, now, member.protocols[0][1] if member.protocols else None)
        self._wait_for(member.who, now)

    def stopped(self, member_id: str, at: int) -> None:
        self._stop(member_id, at, None)

    def released(self, member: Member, now: int) -> None:
        """The member is gone; its partitions have been without owner since it was last heard of."""
        self.stopped(member.member_id, min(member.last_seen, now))
        if self._current is not None and now > self._current.started:
            self._wait_for(member.who, now)

    def renamed(self, old: str, new: str) -> None:
        """A static member under a new id owns what it owned."""
        self._assignments = {(new if key == old else key): value for key, value in self._assignments.items()}
        if old in self._stops:
            self._stops[new] = self._stops.pop(old)

    def joined(self, generation: int, members: Iterable[Member], now: int) -> None:
        """A static member that has not rejoined was waited for to the end."""
        if self._current is not None:
            self._current.generation = generation
            for member in members:
                self._current.members += 1
                if member.awaiting_join is None:
                    self._wait_for(member.who, now)
            self._current.joined_at = now

    def assigned(self, now: int) -> None:
        if self._current is not None:
            self._current.assigned_at = now

    def stable(self, members: Iterable[Member], now: int) -> None:
        self._end({member.member_id: member.assignment for member in members}, now)

    def completed_empty(self, generation: int, now: int) -> None:
        if self._current is not None:
            self._current.generation = generation
        self._end({}, now)

    def _end(self, assignments: dict[str, bytes], now: int) -> None:
        entry, self._current = self._current, None
        if entry is not None:
            self._close(entry, now)
            self._unsettled.append(_Facts(entry, now, self._assignments, assignments, self._stops))
        self._assignments, self._stops = assignments, {}

    def _close(self, entry: Rebalance, now: int) -> None:
        entry.ended = now
        self.entries.append(entry)

    def _stop(self, member_id: str, at: int, metadata: bytes | None) -> None:
        self._stops.setdefault(member_id, []).append((at, metadata))

    def _wait_for(self, who: Who, now: int) -> None:
        """Only the join phase waits for members."""
        if self._current is not None and self._current.joined_at is None:
            self._current.waited_for, self._current.waited_ms = who, now - self._current.started

    # -- what they mean, worked out afterwards

    def settle(self) -> Rebalance | None:
        """Completes the oldest entry that is not yet complete with what moved and what stood still. None: all are."""
        if not self._unsettled:
            return None
        entry, ended, before, after, stops = self._unsettled.popleft()
        known = self._partitions | {one: _assigned(one) for one in {*after.values()} - self._partitions.keys()}
        old, new = _owners(before, known), _owners(after, known)
        self._partitions = {one: known[one] for one in after.values()}
        self._note_darkness(old, new, stops, ended)
        for partition, owner in new.items():
            if old.get(partition) == owner:
                entry.kept += 1
            else:
                entry.moved[partition] = (old.get(partition), owner)
            since = self._dark_since.pop(partition, None)
            if since is not None:
                entry.dark_ms[partition] = ended - since
        entry.revoked = sorted(partition for partition in old if partition not in new)
        return entry

    def _note_darkness(self, old: Owners, new: Owners, stops: Stops, ended: int) -> None:
        """A partition is dark from when its owner stops with it, or, if it never said so, from when it loses it."""
        said = {one: [(at, _owned(metadata)) for at, metadata in rows] for one, rows in stops.items()}
        for partition, owner in old.items():
            since = next((at for at, goes_on in said.get(owner, ()) if partition not in goes_on), None)
            if since is None and new.get(partition) != owner:
                since = ended
            if since is not None:
                self._dark_since.setdefault(partition, since)


def _owners(assignments: Mapping[str, bytes], known: Mapping[bytes, Partitions]) -> Owners:
    owners: Owners = {}
    for member_id, assignment in assignments.items():
        for partition in known[assignment] if assignment in known else _assigned(assignment):
            owners[partition] = member_id
    return owners


def _assigned(assignment: bytes) -> Partitions:
    try:
        partitions = decode_assignment(assignment).assigned_partitions if assignment else {}
    except ProtocolError:
        return []  # not the consumer protocol: nothing is known of what it hands out
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]


@lru_cache(maxsize=64)  # eager members all say the same
def _owned(metadata: bytes | None) -> frozenset[TopicPartition]:
    if metadata is None:
        return frozenset()
    try:
        owned = decode_subscription(metadata).owned_partitions
    except ProtocolError:
        return frozenset()
    return frozenset((topic, number) for topic, numbers in owned.items() for number in numbers)
