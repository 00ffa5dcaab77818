"""`cooperative-sticky` (KIP-429): the assignment of `sticky`, while members keep what they own. A partition that
moves is first left out: its owner revokes it and rejoins, and the second rebalance assigns it."""

from __future__ import annotations

import struct
from collections.abc import Collection

from equipoise.assignors.assignor import Assignments, Assignor, Cluster, Members, RebalanceProtocol
from equipoise.wire.consumer_protocol import NO_GENERATION, Assignment, StickyUserData, Subscription

_GENERATION = struct.Struct(">i")


class CooperativeStickyAssignor(Assignor):
    """The assignor `cooperative-sticky`."""

    name = "cooperative-sticky"
    protocols = frozenset(RebalanceProtocol)

    def __init__(self) -> None:
        self._generation_id = NO_GENERATION

    def assign(self, cluster: Cluster, members: Members) -> Assignments:
        from equipoise.assignors.sticky_core.plan import make_plan  # numpy, for the leader alone

        plan = make_plan(cluster, members, {name: _memory(member.subscription) for name, member in members.items()})
        return {
            member_id: Assignment(assigned_partitions=partitions)
            for member_id, partitions in plan.by_member(plan.without_handovers()).items()
        }

    def user_data(self, topics: Collection[str]) -> bytes:
        """For leaders that read a Subscription before v2, which has no generation."""
        return _GENERATION.pack(self._generation_id)

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self._generation_id = generation_id


def _memory(subscription: Subscription) -> StickyUserData:
    generation_id = subscription.generation_id
    data = subscription.user_data or b""
    if generation_id == NO_GENERATION and len(data) >= _GENERATION.size:
        (generation_id,) = _GENERATION.unpack_from(data)
    return StickyUserData(owned_partitions=subscription.owned_partitions, generation_id=generation_id)
