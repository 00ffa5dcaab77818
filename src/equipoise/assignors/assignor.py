"""The interface of an assignor: from topics and subscriptions to assignments. The leader of a group calls `assign`
between JoinGroup and SyncGroup; every member calls the two hooks. docs/assignors.md shows how to write an assignor."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

from equipoise.wire.consumer_protocol import Assignment, Subscription
from equipoise.wire.schema import ZERO_UUID


class RebalanceProtocol(enum.IntEnum):
    """What a member revokes before it rejoins. EAGER: all its partitions. COOPERATIVE: those that move (KIP-429)."""

    EAGER = 0
    COOPERATIVE = 1


EAGER_ONLY = frozenset({RebalanceProtocol.EAGER})


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the leader's metadata."""

    partitions: int
    racks: Sequence[AbstractSet[str]] = ()  # of each partition's replicas, offline ones too; empty: not known
    topic_id: bytes = field(default=ZERO_UUID, compare=False)  # an assignor goes by names


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member, as the JoinGroup response describes it to the leader."""

    subscription: Subscription
    group_instance_id: str | None = None


Cluster = Mapping[str, Topic]  # by name; a topic that is not in the metadata is not assigned
Members = Mapping[str, GroupMember]  # by member id
Assignments = dict[str, Assignment]  # by member id; each member has one, even if it is empty


class Assignor(Protocol):
    """One strategy of `partition.assignment.strategy`. A subclass defines `name` and `assign`."""

    name: str  # as members of a group offer it to each other
    protocols: AbstractSet[RebalanceProtocol] = EAGER_ONLY

    def assign(self, cluster: Cluster, members: Members) -> Assignments:
        """Assigns partitions to members. A COOPERATIVE assignor leaves out what another member still owns."""
        ...

    def user_data(self, topics: Collection[str]) -> bytes | None:
        """Returns the user data of this member's next Subscription, for the leader's assignor."""
        return None

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Receives this member's assignment, after every SyncGroup."""
        return


def common_protocol(assignors: Collection[Assignor]) -> RebalanceProtocol:
    """Returns the highest protocol that all of a member's assignors support. All support EAGER."""
    common = set(RebalanceProtocol).intersection(*(assignor.protocols for assignor in assignors))
    return max(common, default=RebalanceProtocol.EAGER)
