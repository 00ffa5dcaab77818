"""The members a script speaks for: what a client offers when it joins, and what it would do next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from equipoise.simulate import Call, Client
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.apis.k14_sync_group import SyncGroupResponse
from equipoise.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    Partitions,
    Subscription,
    decode_assignment,
    encode_subscription,
)
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message

COOPERATIVE = "cooperative-sticky"
EAGER_VERSION = 1  # of the Subscription of an eager member: equal from join to join, unless its topics change
_MUST_JOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


@dataclass(eq=False)
class ScriptClient(Client):
    """It never forgets by itself, so that a script can be rude."""

    topics: list[str] = field(default_factory=list)
    assignors: list[str] = field(default_factory=lambda: ["range"])
    hold_ms: int = 0
    owned: Partitions = field(default_factory=dict)
    wants_join: bool = True
    wants_sync: bool = False
    is_unknown: bool = False
    on_sent: Callable[[Call], None] = lambda call: None

    @property
    def is_cooperative(self) -> bool:
        """Whether it keeps its partitions while it joins."""
        return set(self.assignors) == {COOPERATIVE}

    def forget(self) -> None:
        """The process starts again: its settings stay, its memory is gone."""
        self.member_id, self.generation_id, self.owned = "", -1, {}
        self.wants_join, self.wants_sync, self.is_unknown = True, False, False

    def join_request(self, reason: str | None = None) -> JoinGroupRequest:
        if not self.is_cooperative:
            self.owned = {}  # an eager member stops working before it joins
        metadata = self._subscription()
        self.protocols = [(name, metadata) for name in self.assignors]
        return super().join_request(reason)

    def _subscription(self) -> bytes:
        if self.protocol_type != PROTOCOL_TYPE:
            return b"\xff opaque"
        if not self.is_cooperative:
            return encode_subscription(Subscription(topics=self.topics), EAGER_VERSION)
        generation_id = self.generation_id if self.owned else -1
        subscription = Subscription(topics=self.topics, owned_partitions=self.owned, generation_id=generation_id)
        return encode_subscription(subscription)

    def send(self, request: Message, version: int, **handling: Any) -> Call:
        call = super().send(request, version, **handling)
        self.on_sent(call)
        return call

    def learn(self, reply: Any) -> None:
        super().learn(reply)
        code = getattr(reply, "error_code", ErrorCode.NONE)
        self.is_unknown = code == ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(reply, JoinGroupResponse) and code == ErrorCode.NONE:
            self.wants_join, self.wants_sync = False, True
        elif isinstance(reply, SyncGroupResponse) and code == ErrorCode.NONE:
            assignment = reply.assignment if self.protocol_type == PROTOCOL_TYPE else b""
            self.owned = decode_assignment(assignment).assigned_partitions if assignment else {}
            self.wants_sync = False
        if code in _MUST_JOIN:
            self.wants_join = True
