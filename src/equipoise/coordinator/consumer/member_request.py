"""What the requests by which a member joins or stays have in common: a ConsumerGroupHeartbeat, a guest's JoinGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from equipoise.coordinator.changes import Changes
from equipoise.coordinator.reasons import Trigger
from equipoise.coordinator.step import Caller, Step
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

Request = TypeVar("Request", bound=ConsumerGroupHeartbeatRequest | JoinGroupRequest)


class MemberRequest(Generic[Request]):
    """One request on its way. If it is refused, nothing has happened: neither a change nor an event."""

    def __init__(self, shard: Shard, request: Request, caller: Caller, step: Step) -> None:
        self.shard = shard
        self.request = request
        self.caller = caller
        self.step = step
        self.changes = Changes(shard, request.group_id)
        self.trigger: Trigger | None = None  # of a member that is new, or the successor of another
        self._noted = len(step.events)

    def roll_back(self) -> None:
        """The request is refused on its way."""
        self.changes.roll_back()
        del self.step.events[self._noted :]
