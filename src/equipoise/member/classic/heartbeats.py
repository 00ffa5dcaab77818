"""Two clocks of a member: its next heartbeat, and its session as the coordinator counts it.

Kafka keeps them in the class Heartbeat (KIP-62) and looks at them in AbstractCoordinator.HeartbeatThread.
"""

from __future__ import annotations

from equipoise.member.config import MemberConfig
from equipoise.member.step import NEVER
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest


class Heartbeats:
    """Enabled while the member is part of a generation (AbstractCoordinator.HeartbeatThread.enable)."""

    def __init__(self, config: MemberConfig) -> None:
        self._config = config
        self.in_flight: HeartbeatRequest | None = None
        self._due = NEVER
        self._session_ends = NEVER

    def enable(self, now: int) -> None:
        """At the answer to JoinGroup, which counts as a sign of life."""
        self.in_flight = None
        self._due = now + self._config.heartbeat_interval_ms
        self.heard(now)

    def disable(self) -> None:
        """Outside a generation there is nothing to keep alive; a parked JoinGroup is a sign of life of its own."""
        self.in_flight = None
        self._due = self._session_ends = NEVER

    def sent(self, request: HeartbeatRequest, now: int) -> None:
        """One at a time; the next is due an interval after this one left (Heartbeat.sentHeartbeat)."""
        self.in_flight = request
        self._due = now + self._config.heartbeat_interval_ms

    def heard(self, now: int) -> None:
        """The coordinator has answered, if only that the group rebalances (Heartbeat.receiveHeartbeat)."""
        self._session_ends = now + self._config.session_timeout_ms

    def retry(self, at: int) -> None:
        """The next one at this time, if there is to be one at all (Heartbeat.failHeartbeat)."""
        if self._session_ends != NEVER:
            self._due = at

    def is_due(self, now: int) -> bool:
        """Whether one may leave now (Heartbeat.shouldHeartbeat)."""
        return self.in_flight is None and now >= self._due

    def session_has_ended(self, now: int) -> bool:
        """No answer for a whole session: the coordinator may be another by now (Heartbeat.sessionTimeoutExpired)."""
        return now >= self._session_ends

    def next_deadline(self, *, can_send: bool) -> int:
        """The end of the session, or the next heartbeat if one may be sent and none is in flight."""
        return min(self._session_ends, self._due if can_send and self.in_flight is None else NEVER)
