"""`sticky` (KIP-54): best balance, and as few moved partitions as possible. Members own nothing when they join; the
user data carries their last assignment."""

from __future__ import annotations

from collections.abc import Collection

from equipoise.assignors.assignor import Assignments, Assignor, Cluster, Members
from equipoise.wire.consumer_protocol import (
    Assignment,
    StickyUserData,
    Subscription,
    decode_sticky_user_data,
    encode_sticky_user_data,
)

_KAFKA_PYTHON = b"\x00\x01"  # kafka-python 3 puts a version before its user data; Java would read 65,536 topics


class StickyAssignor(Assignor):
    """The assignor `sticky`."""

    name = "sticky"

    def __init__(self) -> None:
        self._remembered: StickyUserData | None = None

    def assign(self, cluster: Cluster, members: Members) -> Assignments:
        from equipoise.assignors.sticky_core.plan import make_plan  # numpy, for the leader alone

        plan = make_plan(cluster, members, {name: _memory(member.subscription) for name, member in members.items()})
        return {
            member_id: Assignment(assigned_partitions=partitions)
            for member_id, partitions in plan.by_member(plan.owner).items()
        }

    def user_data(self, topics: Collection[str]) -> bytes | None:
        return None if self._remembered is None else encode_sticky_user_data(self._remembered)

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self._remembered = StickyUserData(owned_partitions=assignment.assigned_partitions, generation_id=generation_id)


def _memory(subscription: Subscription) -> StickyUserData:
    data = subscription.user_data or b""
    found = decode_sticky_user_data(data)
    if found is None and data.startswith(_KAFKA_PYTHON):
        found = decode_sticky_user_data(data[len(_KAFKA_PYTHON) :])
    return found or StickyUserData(owned_partitions={})
