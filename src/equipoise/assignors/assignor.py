"""What an assignor is: from topics and subscriptions to assignments. The leader of a group calls it between JoinGroup
and SyncGroup; every member calls its two hooks. Custom assignors are written against this file: docs/assignors.md.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from equipoise.wire.consumer_protocol import Assignment, Subscription


class RebalanceProtocol(enum.IntEnum):
    """How members hand over: EAGER gives up all before joining, COOPERATIVE only what another member is to have."""

    EAGER = 0
    COOPERATIVE = 1


EAGER_ONLY = frozenset({RebalanceProtocol.EAGER})


@dataclass(frozen=True, slots=True)
class Topic:
    """What the leader's metadata say of a topic."""

    partitions: int
    racks: Sequence[AbstractSet[str]] = ()  # of each partition's replicas, offline ones too; empty: not known


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member as the JoinGroup response tells the leader."""

    subscription: Subscription
    group_instance_id: str | None = None


Cluster = Mapping[str, Topic]  # by name; a topic that is not in the metadata is not assigned
Members = Mapping[str, GroupMember]  # by member id
Assignments = dict[str, Assignment]  # by member id; each member has one, even if it is empty


class Assignor(Protocol):
    """One strategy of `partition.assignment.strategy`. A subclass needs a name and `assign`."""

    name: str  # as members of a group offer it to each other
    protocols: AbstractSet[RebalanceProtocol] = EAGER_ONLY

    def assign(self, cluster: Cluster, members: Members) -> Assignments:
        """Who gets what. Of a COOPERATIVE assignor: nothing that another member still owns."""
        ...

    def user_data(self, topics: Collection[str]) -> bytes | None:
        """What this member's next Subscription carries for the assignor of the leader."""
        return None

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """What this member has been given, after every SyncGroup."""
        return


def common_protocol(assignors: Collection[Assignor]) -> RebalanceProtocol:
    """The highest protocol that all of a member's assignors support; EAGER is always among them."""
    common = set(RebalanceProtocol).intersection(*(assignor.protocols for assignor in assignors))
    return max(common, default=RebalanceProtocol.EAGER)
