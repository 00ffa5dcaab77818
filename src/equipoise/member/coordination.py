"""The coordinator of a member's group: where it is, the search for it, and the pauses between attempts.

Members of both group protocols keep one. In Kafka: AbstractCoordinator.lookupCoordinator for classic members,
CoordinatorRequestManager for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from equipoise.member.backoff import backoff_ms
from equipoise.member.config import MemberConfig
from equipoise.member.errors import error_of
from equipoise.member.step import NEVER, Step
from equipoise.member.verdicts import FIND_COORDINATOR, Verdict
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Message

GROUP = 0  # key_type of FindCoordinator


class BrokerNode(NamedTuple):
    """A broker, and where it listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as connection pools have them for a key."""
        return self.host, self.port


class Coordination:
    """`jitter` gives numbers between 0.8 and 1.2 for pauses between attempts."""

    def __init__(self, config: MemberConfig, jitter: Callable[[], float]) -> None:
        self.node: BrokerNode | None = None
        self.retry_at = 0  # the end of the pause under way; 0: there is none
        self._config = config
        self._jitter = jitter
        self._finding: Message | None = None
        self._attempts = 0

    # -- pauses

    def pass_time(self, now: int) -> None:
        """Ends a pause that is over."""
        if now >= self.retry_at:
            self.retry_at = 0

    def back_off(self, now: int) -> None:
        """Pauses that double up to a limit, so that many members do not crowd a broker that is coming up (KIP-580)."""
        self._attempts += 1
        self.retry_at = now + self.pause_ms(self._attempts)

    def pause_ms(self, failures: int) -> int:
        """The pause after so many failures in a row (ExponentialBackoff.backoff)."""
        pause = backoff_ms(failures, self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        return round(pause * self._jitter())

    def recover(self) -> None:
        """An attempt has succeeded: the next pause is a short one again."""
        self._attempts = self.retry_at = 0

    def next_deadline(self) -> int:
        """The end of the pause."""
        return self.retry_at or NEVER

    # -- the search

    def lose(self, now: int) -> None:
        """It is elsewhere, or does not answer: look for it, after a pause
        (AbstractCoordinator.markCoordinatorUnknown)."""
        self.node = None
        self.back_off(now)

    def find(self, step: Step) -> None:
        """One search at a time (AbstractCoordinator.lookupCoordinator)."""
        if self._finding is not None or self.retry_at:
            return
        group_id = self._config.group_id
        self._finding = FindCoordinatorRequest(key=group_id, key_type=GROUP, coordinator_keys=[group_id])
        step.send(self._finding, self._config.request_timeout_ms)

    def found(self, request: FindCoordinatorRequest, response: FindCoordinatorResponse, now: int) -> KafkaError | None:
        """AbstractCoordinator.FindCoordinatorResponseHandler; from v4 on the answer is a list (KIP-699). What waiting
        does not mend is returned."""
        if request is not self._finding:
            return None
        self._finding = None
        found = response.coordinators[0] if response.coordinators else response
        error = error_of(found.error_code)
        if error is ErrorCode.NONE:
            self.node = BrokerNode(found.node_id, found.host, found.port)
            self.recover()
            return None
        self.back_off(now)
        is_lasting = FIND_COORDINATOR.verdict(error) is Verdict.FAIL
        return FIND_COORDINATOR.failure(error, self._config) if is_lasting else None

    def failed(self, request: Message, now: int) -> bool:
        """No broker has answered the search. Whether the request was one."""
        if request is not self._finding:
            return False
        self._finding = None
        self.back_off(now)
        return True
