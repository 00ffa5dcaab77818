"""What an incremental group has beside the log: the coordinator's knowledge of its members' last requests.

Theory of operation
-------------------
An incremental group is a `consumer` group whose members speak the classic protocol. The coordinator assigns; nobody
leads, and nobody waits for everybody. A member's generation is its own: the group epoch at its last JoinGroup.

Join. A JoinGroup is answered at once. What the member claims is still its own; what it does not claim it has given up.
    If it claims something that it is to lose, it gets the smaller assignment at its old generation, gives the rest up,
    and joins again by itself, as cooperative clients do.
Sync. A SyncGroup is answered at once with what the member has, unless the member has nothing yet and waits for what
    others have to give up: then it is parked for a moment, so that one answer brings everything.
Call. A heartbeat is answered REBALANCE_IN_PROGRESS only to a member that is to lose something, or for which all that it
    is to gain is free. All others never hear of the rebalance.

The group begins as a classic one, with the initial delay and a leader, and turns incremental when it is Stable; without
members it is a classic group again (`turning.py`). Rule C3. Nothing of this is in Kafka, but every record is: Apache
Kafka reads such a group as a `consumer` group of classic members.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.metadata import NO_PARTITIONS, Partitions
from equipoise.coordinator.step import Caller, Step
from equipoise.coordinator.timers import TimerKey, TimerKind

if TYPE_CHECKING:
    from equipoise.coordinator.consumer.group import ConsumerGroup
    from equipoise.coordinator.shard import Shard


@dataclass(slots=True)
class Stance:
    """What is known of a member since its last JoinGroup."""

    claimed: Partitions = NO_PARTITIONS  # what it said that it has, of what is its own
    protocol: str = ""  # as its answer named it
    told: bool = False  # to rejoin, since then
    synced_at: int | None = None  # its SyncGroup was answered
    some_free_since: int | None = None  # of what it is to gain, while the rest is not


class ParkedSync(NamedTuple):
    """A SyncGroup that waits, with what its answer repeats."""

    caller: Caller
    protocol_type: str | None
    protocol_name: str | None


@dataclass(slots=True)
class Incremental:
    """Lost on unload; members begin it anew with their requests. Rule C3."""

    pending_members: set[str] = field(default_factory=set)  # told their id, not yet back with it
    stances: dict[str, Stance] = field(default_factory=dict)  # by member id, since the shard was loaded
    syncs: dict[str, ParkedSync] = field(default_factory=dict)
    heartbeats: dict[str, Caller] = field(default_factory=dict)  # that are held
    is_waking: bool = False  # within one input: parked SyncGroups go on, one after the other
    has_freed: bool = False  # within that: one of them has given something up
    bumped_at: int | None = None  # the group epoch, since the last target: the debounce counts from then


class Turn(NamedTuple):
    """One input to one group that is kept incremental."""

    shard: Shard
    group: ConsumerGroup
    step: Step

    @property
    def now(self) -> int:
        """When the input came."""
        return self.step.now

    @property
    def incremental(self) -> Incremental:
        """What the group has beside the log."""
        assert self.group.incremental is not None
        return self.group.incremental

    def timer(self, kind: TimerKind, member_id: str = "") -> TimerKey:
        """The key of one of the timers of the group, or of a member."""
        return self.group.timer(kind, member_id)

    def stance_of(self, member_id: str) -> Stance:
        """A member that has not joined since the shard was loaded has its assignment."""
        return self.incremental.stances.setdefault(member_id, Stance(synced_at=self.now))

    @property
    def is_pending(self) -> bool:
        """Whether there is a newer target to come."""
        return self.group.target_epoch < self.group.group_epoch


def state_word(group: ConsumerGroup) -> str:
    """The state as classic clients and tools know it.

    PreparingRebalance: there is no target yet, or somebody who was told to rejoin has not. CompletingRebalance: a
    member does not have its target yet. Rule C7.5.
    """
    assert group.incremental is not None
    if not group.members:
        return State.EMPTY.value
    stances = group.incremental.stances.values()
    if group.group_epoch > group.target_epoch or any(stance.told for stance in stances):
        return State.PREPARING_REBALANCE.value
    is_settled = not group.incremental.syncs and all(map(group.is_settled, group.members.values()))
    return State.STABLE.value if is_settled else State.COMPLETING_REBALANCE.value
