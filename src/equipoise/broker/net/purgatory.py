"""Replies that wait: a Fetch for data, a Produce for durability, later a JoinGroup for the other members.

All are the same thing, a call with a deadline, released exactly once for a reason that is a value.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from equipoise.broker.clock import Clock, Timer

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.wire.schema import Message


class Release(Enum):
    """Why a parked reply was let go."""

    READY = auto()  # what it waited for has come
    DEADLINE = auto()
    DISCONNECTED = auto()  # nobody is there to read the answer
    SHUTDOWN = auto()


class Parked:
    """A call whose reply waits. `answer(reason)` makes the reply; for DISCONNECTED it only cleans up."""

    __slots__ = ("_answer", "_timer", "call")

    def __init__(self, call: Call, clock: Clock, wait: int | None, answer: Callable[[Release], Message]) -> None:
        self.call = call
        self._answer: Callable[[Release], Message] | None = answer
        self._timer: Timer | None = None
        if wait is not None:
            self._timer = clock.call_later(wait, lambda: self.release(Release.DEADLINE))
        call.parked = self

    def release(self, reason: Release) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.call.parked = None
        try:
            response = answer(reason)
        except Exception:  # noqa: BLE001  not the fault of whoever released this reply, often another client
            self.call.connection.fail()
            return
        if reason is not Release.DISCONNECTED:
            self.call.reply(response)
