"""A group of a running broker as a test sees it, and what the test can do to it: `broker.groups["g"].kick("client-3")`.

A member is named by its member id, its client id or its group.instance.id.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from equipoise.broker import group_actions
from equipoise.broker.control import Delay, Fail, Lose, Standing, error_code
from equipoise.broker.inspect import GroupSnapshot
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.running import Broker


@dataclass(frozen=True, slots=True)
class LiveGroup(GroupSnapshot):
    """The values are of the moment at which it was asked for; what is done is done to the group as it is."""

    broker: Broker = field(repr=False, compare=False)

    @classmethod
    def of(cls, snapshot: GroupSnapshot, broker: Broker) -> LiveGroup:
        """The same values."""
        values: dict[str, Any] = {one.name: getattr(snapshot, one.name) for one in fields(GroupSnapshot)}
        return cls(**values, broker=broker)

    # -- at once

    def kick(self, who: str) -> None:
        """The member is removed, as by an administrator. Its next request is answered UNKNOWN_MEMBER_ID."""
        self.broker.call(lambda server: group_actions.kick(server, self.group_id, who))

    def expire(self, who: str) -> None:
        """The member's session is over, as after `session.timeout.ms` of silence."""
        self.broker.call(lambda server: group_actions.expire(server, self.group_id, who))

    def rebalance(self) -> None:
        """A rebalance begins, without a cause in the group."""
        self.broker.call(lambda server: group_actions.rebalance(server, self.group_id))

    # -- until it is ended

    def pause_heartbeats(self, who: str) -> Standing:
        """The member's heartbeats are answered as if all were well, and count for nothing: its session runs out."""
        return self.broker.control_by(lambda server: group_actions.pause_heartbeats(server, self.group_id, who))

    def fence(self, who: str) -> Standing:
        """A static member is told that another one has its group.instance.id, whatever it asks."""
        return self.broker.control_by(lambda server: group_actions.fence(server, self.group_id, who))

    def cut(self, who: str) -> Standing:
        """The member's connections end, and every new one with its first request, until the fault is ended."""
        return self.broker.control_by(lambda server: group_actions.cut(server, self.group_id, who))

    def delay(self, api: str, ms: int, *, who: str | None = None, times: int | None = None) -> Standing:
        """Answers of an API leave so many milliseconds late: JoinGroup, SyncGroup, Heartbeat, OffsetCommit ..."""
        return self.broker.control(Delay(apis=(api,), group=self.group_id, who=who, times=times, ms=ms))

    def lose(self, api: str, *, who: str | None = None, times: int | None = 1) -> Standing:
        """Requests are served, and their answers are lost with the connection."""
        return self.broker.control(Lose(apis=(api,), group=self.group_id, who=who, times=times))

    def fail(self, api: str, error: ErrorCode | str, *, who: str | None = None, times: int | None = 1) -> Standing:
        """Requests are answered with an error, which may be given by its name, and not served."""
        return self.broker.control(
            Fail(apis=(api,), group=self.group_id, who=who, times=times, error=error_code(error))
        )
