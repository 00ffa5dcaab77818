"""The journal of a group: for each rebalance why it began, how long each phase took, and what it moved.

While a rebalance runs only facts are noted. What costs time, reading assignments and comparing them, is done
by `settle`, which the broker calls when the replies have left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from equipoise.coordinator.reasons import NOBODY, Cause, Who
from equipoise.wire.consumer_protocol import decode_assignment, decode_subscription
from equipoise.wire.errors import ProtocolError

if TYPE_CHECKING:
    from equipoise.coordinator.group import Member

KEPT = 100  # rebalances remembered per group
TopicPartition = tuple[str, int]


class Participant(Protocol):
    member_id: str
    assignment: bytes


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
        return None if self.assigned_at is None or self.ended is None else self.ended - self.assigned_at


class Journal:
    def __init__(self, group_id: str) -> None:
        self.entries: deque[Rebalance] = deque(maxlen=KEPT)
        self._group_id = group_id
        self._current: Rebalance | None = None
        self._owners: dict[TopicPartition, str] = {}
        self._dark_since: dict[TopicPartition, int] = {}
        self._stopped: dict[str, tuple[int, bytes | None]] = {}  # when a member stopped, and what it says it still owns
        self._unsettled: tuple[Rebalance, list[tuple[str, bytes]]] | None = None

    # -- facts, noted as they come

    def begin(self, cause: Cause, generation: int, now: int) -> None:
        if self._current is not None:
            self._current.overtaken = True
            self._close(self._current, now)
        self._current = Rebalance(self._group_id, cause, now, generation)

    def rejoined(self, member: Member, now: int) -> None:
        """With its JoinGroup an eager member has stopped working; a cooperative one says what it goes on with."""
        metadata = member.protocols[0][1] if member.protocols else None
        self._stopped[member.member_id] = (now, metadata)
        if self._current is not None:
            self._current.waited_for = member.who
            self._current.waited_ms = now - self._current.started

    def released(self, member: Member, now: int) -> None:
        """The member is gone; its partitions have been without owner since it was last heard of."""
        self._stopped[member.member_id] = (min(member.last_seen, now), None)
        if self._current is not None and now > self._current.started:
            self._current.waited_for, self._current.waited_ms = member.who, now - self._current.started

    def joined(self, generation: int, members: Iterable[Member], now: int) -> None:
        if self._current is not None:
            self._current.generation = generation
            self._current.joined_at = now
            self._current.members = sum(1 for _ in members)

    def assigned(self, now: int) -> None:
        if self._current is not None:
            self._current.assigned_at = now

    def stable(self, members: Iterable[Participant], now: int) -> None:
        if self._current is not None:
            entry = self._current
            self._close(entry, now)
            self._current = None
            self._unsettled = entry, [(member.member_id, member.assignment) for member in members]

    def completed_empty(self, generation: int, now: int) -> None:
        if self._current is not None:
            self._current.generation = generation
            self._close(self._current, now)
            self._unsettled = self._current, []
            self._current = None

    def _close(self, entry: Rebalance, now: int) -> None:
        entry.ended = now
        self.entries.append(entry)

    # -- what they mean, worked out afterwards

    def settle(self) -> Rebalance | None:
        """Completes the newest entry with what moved and what stood still. None if that is done already."""
        if self._unsettled is None:
            return None
        (entry, assignments), self._unsettled = self._unsettled, None
        ended = entry.ended or entry.started
        owners = _owners(assignments)
        for partition, owner in self._owners.items():
            self._note_end_of_ownership(partition, owner, owners, ended)
        for partition, owner in owners.items():
            before = self._owners.get(partition)
            if before == owner:
                entry.kept += 1
            else:
                entry.moved[partition] = (before, owner)
            since = self._dark_since.pop(partition, None)
            if since is not None:
                entry.dark_ms[partition] = ended - since
        entry.revoked = sorted(partition for partition in self._owners if partition not in owners)
        self._owners = owners
        self._stopped.clear()
        return entry

    def _note_end_of_ownership(
        self, partition: TopicPartition, owner: str, owners: dict[TopicPartition, str], ended: int
    ) -> None:
        stopped = self._stopped.get(owner)
        if stopped is not None and partition not in _owned(stopped[1]):
            self._dark_since.setdefault(partition, stopped[0])
        elif owners.get(partition) != owner:
            self._dark_since.setdefault(partition, ended)


def _owners(assignments: Iterable[tuple[str, bytes]]) -> dict[TopicPartition, str]:
    owners: dict[TopicPartition, str] = {}
    for member_id, assignment in assignments:
        try:
            partitions = decode_assignment(assignment).assigned_partitions if assignment else {}
        except ProtocolError:
            continue  # not the consumer protocol: nothing is known of what it hands out
        for topic, numbers in partitions.items():
            owners.update(((topic, number), member_id) for number in numbers)
    return owners


def _owned(metadata: bytes | None) -> set[TopicPartition]:
    if metadata is None:
        return set()
    try:
        owned = decode_subscription(metadata).owned_partitions
    except ProtocolError:
        return set()
    return {(topic, number) for topic, numbers in owned.items() for number in numbers}
