"""The common part of the handlers of transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.coordinator.transactions.requests import Answer
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def authorize_id(server: Server, call: Call, operation: AclOperation, transactional_id: str) -> None:
    """Raises TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
    if not server.allows_all:
        server.authorize(call, operation, Resource(ResourceType.TRANSACTIONAL_ID, transactional_id))


def known_error(error: ErrorCode, version: int, first_with_fenced: int) -> ErrorCode:
    """Older versions know another word for a fenced producer."""
    is_unknown = error is ErrorCode.PRODUCER_FENCED and version < first_with_fenced
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else error


class AnswerToken:
    """A caller's token in place of the call: `make` turns the coordinator's answer into the response."""

    def __init__(self, call: Call, make: Callable[[Answer], Message]) -> None:
        self._call = call
        self._make = make

    def admitted(self) -> None:
        """The request brings no records."""

    def reply(self, answer: Answer) -> None:
        """Answers the call."""
        self._call.reply(self._make(answer))
