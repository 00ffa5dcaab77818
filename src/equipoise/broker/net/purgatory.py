"""Delayed replies: a Fetch waits for data, a Produce for durability, a ListOffsets for a look into records.

Each is a delayed operation, as in Kafka's purgatory: a call with a deadline, completed exactly once, with a reason that
is a value. Requests of group members wait in the coordinator (`coordinator/parked.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from equipoise.broker.clock import Clock, Timer

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.wire.schema import Message


class Completion(Enum):
    """Why a delayed operation has ended."""

    SATISFIED = auto()  # what it waited for has come
    EXPIRED = auto()
    DISCONNECTED = auto()  # the client is gone
    SHUTDOWN = auto()


class DelayedOperation:
    """A call whose reply waits. `on_complete(reason)` makes the reply; for DISCONNECTED it only cleans up."""

    __slots__ = ("_on_complete", "_timer", "call")

    def __init__(
        self, call: Call, clock: Clock, delay_ms: int | None, on_complete: Callable[[Completion], Message]
    ) -> None:
        self.call = call
        self._on_complete: Callable[[Completion], Message] | None = on_complete
        self._timer: Timer | None = None
        if delay_ms is not None:
            self._timer = clock.call_later(delay_ms, lambda: self.complete(Completion.EXPIRED))
        call.delayed = self

    def complete(self, reason: Completion) -> None:
        """Replies, the first time it is called (DelayedOperation.forceComplete)."""
        on_complete, self._on_complete = self._on_complete, None
        if on_complete is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.call.delayed = None
        try:
            response = on_complete(reason)
        except Exception:  # noqa: BLE001  not the fault of the caller, often another client's request
            self.call.connection.fail()
            return
        if reason is not Completion.DISCONNECTED:
            self.call.reply(response)
