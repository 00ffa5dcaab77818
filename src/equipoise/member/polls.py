"""The clock of the application: whether it polls in time. Members of both group protocols keep one."""

from __future__ import annotations

from equipoise.member.config import MemberConfig
from equipoise.member.errors import Overrun
from equipoise.member.step import NEVER


class Polls:
    """Whether the application comes back in time: max.poll.interval.ms (KIP-62, Heartbeat.pollTimeoutExpired).

    Inside poll() it is there; in a callback or outside it is not.
    """

    def __init__(self, config: MemberConfig) -> None:
        self._config = config
        self._deadline = NEVER
        self._records = 0
        self._passed = 0  # the deadline that was missed last
        self.is_waited_for = True  # before the first poll, and after a missed deadline, the member does not join

    def begin(self) -> None:
        """poll() is called (Heartbeat.poll)."""
        self._deadline = NEVER
        self.is_waited_for = False

    def end(self, now: int, *, records: int) -> None:
        """poll() returns with so many records, and the application's time begins."""
        self._deadline = now + self._config.max_poll_interval_ms
        self._records = records

    def stop(self) -> None:
        """Without a subscription there is nothing to be late for."""
        self._deadline = NEVER
        self.is_waited_for = True

    def is_late(self, now: int) -> bool:
        """Whether the application should have polled by now (Heartbeat.pollTimeoutExpired)."""
        return now >= self._deadline

    def overrun(self) -> None:
        """The deadline is missed: the member does not join again before the next poll()."""
        self._passed, self._deadline = self._deadline, NEVER
        self.is_waited_for = True

    def overrun_at(self, now: int) -> Overrun:
        """The last overrun so far: it grows until the next poll."""
        return Overrun(late_ms=now - self._passed, records=self._records)

    def next_deadline(self) -> int:
        """The end of max.poll.interval.ms; never, while the application is inside poll()."""
        return self._deadline
