"""A request that its groups answer in parts: the call is answered once, when all parts are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from equipoise.wire.schema import Message

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call

Response = TypeVar("Response", bound=Message)


class CollectedReply(Generic[Response]):
    """A caller's token in place of the call. `combine` makes the answer of the parts."""

    def __init__(self, call: Call, count: int, combine: Callable[[list[Response]], Response]) -> None:
        self._call = call
        self._count = count
        self._combine = combine
        self._parts: list[Response] = []

    def reply(self, response: Response) -> None:
        """One more part; behind the last the call is answered."""
        self._parts.append(response)
        if len(self._parts) == self._count:
            self._call.reply(self._combine(self._parts))
