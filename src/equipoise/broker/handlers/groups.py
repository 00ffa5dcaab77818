"""What the handlers of group requests share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.coordinator.step import Caller

if TYPE_CHECKING:
    from equipoise.broker.connection import Call


def caller_of(call: Call, token: Any = None) -> Caller:
    """The call as the coordinator sees it. Hosts are written as Java prints an address that has no name."""
    return Caller(token or call, call.version, call.client_id, "/" + call.connection.peer)
