"""The outputs of a member: requests for the coordinator, and callbacks for the application."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from equipoise.member.partitions import Owned
from equipoise.wire.schema import Message

NEVER = 2**63 - 1  # a deadline that does not come


class CallbackKind(Enum):
    """Named as the methods of a rebalance listener."""

    REVOKED = "on_revoked"  # still owned while it runs: offsets can be committed
    LOST = "on_lost"  # others may own them already
    ASSIGNED = "on_assigned"


class Callback(NamedTuple):
    """To be run by the application's thread; the member goes on when it is told that this is done."""

    kind: CallbackKind
    partitions: Owned


class Send(NamedTuple):
    """A request for the coordinator; FindCoordinator for any broker. The answer, or its absence, is told to the
    member with the very request."""

    request: Message
    timeout_ms: int


class Step:
    """The requests that follow from one input, in their order."""

    __slots__ = ("sends",)

    def __init__(self) -> None:
        self.sends: list[Send] = []

    def send(self, request: Message, timeout_ms: int) -> None:
        """Adds a request."""
        self.sends.append(Send(request, timeout_ms))
