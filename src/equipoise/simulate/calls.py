"""A request on its way to a coordinator, and its reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message

M = TypeVar("M", bound=Message)


def over_the_wire(message: M, version: int) -> M:
    """The message as the other side reads it: without the fields that its version does not have."""
    return type(message).decode(message.encode(version), version)


class Call:
    """One request in one version. The coordinator answers it once, at once or later; until then it is parked."""

    def __init__(self, request: Message, version: int, *, client_id: str = "client", host: str = "/127.0.0.1") -> None:
        self.request = over_the_wire(request, version)
        self.version = version
        self.client_id = client_id
        self.host = host  # as Java prints addresses
        self.on_reply: Callable[[Any], None] = lambda reply: None
        self._reply: Any = None

    @property
    def api(self) -> str:
        """The name of the API, as in JoinGroup."""
        return type(self.request).__name__.removesuffix("Request")

    def answer(self, response: Message) -> None:
        """A second answer is an error of the coordinator."""
        assert self._reply is None, f"{self.api} of {self.client_id} is answered twice: {self._reply}, then {response}"
        self._reply = over_the_wire(response, self.version)
        self.on_reply(self._reply)

    @property
    def is_parked(self) -> bool:
        """Not answered yet."""
        return self._reply is None

    @property
    def reply(self) -> Any:
        """The answer, as a client of this version reads it."""
        assert self._reply is not None, f"{self.api} of {self.client_id} is still parked"
        return self._reply

    @property
    def error(self) -> ErrorCode:
        """The error of the reply, where all its rows have the same."""
        (code,) = set(self.errors)
        return code

    @property
    def errors(self) -> list[ErrorCode]:
        """In the order of the reply: of the partitions of a commit, the results of a deletion, or the top level."""
        reply = self.reply
        if hasattr(reply, "results"):
            return [ErrorCode(row.error_code) for row in reply.results]
        if hasattr(reply, "topics") and not getattr(reply, "error_code", 0):
            return [ErrorCode(row.error_code) for topic in reply.topics for row in topic.partitions]
        return [ErrorCode(reply.error_code)]

    @property
    def member_errors(self) -> list[ErrorCode]:
        """Of a LeaveGroup, in the order of its members."""
        return [ErrorCode(row.error_code) for row in self.reply.members]
