"""The members a script speaks for: what a client remembers between its requests, and what it sends."""

from __future__ import annotations

from dataclasses import dataclass, field

from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
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


@dataclass
class Client:
    """Defaults are those of the reference traces: session 10 s, rebalance timeout 60 s."""

    name: str
    group: str = "g"
    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    protocol_type: str = PROTOCOL_TYPE
    protocols: list[str] = field(default_factory=lambda: ["range"])
    topics: list[str] = field(default_factory=list)
    instance: str | None = None
    version: int = 9
    hold_ms: int = 0
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    leader: str = ""
    followers: list[str] = field(default_factory=list)
    owned: Partitions = field(default_factory=dict)
    wants_join: bool = True
    wants_sync: bool = False
    is_unknown: bool = False

    @property
    def is_cooperative(self) -> bool:
        return set(self.protocols) == {COOPERATIVE}

    def forget(self) -> None:
        """The process starts again: its settings stay, its memory is gone."""
        self.member_id, self.generation, self.owned = "", -1, {}
        self.wants_join, self.wants_sync, self.is_unknown = True, False, False

    def join_request(self, reason: str | None) -> JoinGroupRequest:
        if not self.is_cooperative:
            self.owned = {}  # an eager member stops working before it joins
        metadata = self._subscription()
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.protocols],
            reason=reason,
        )

    def _subscription(self) -> bytes:
        if self.protocol_type != PROTOCOL_TYPE:
            return b"\xff opaque"
        if not self.is_cooperative:
            return encode_subscription(Subscription(topics=self.topics), EAGER_VERSION)
        subscription = Subscription(
            topics=self.topics, owned_partitions=self.owned, generation_id=self.generation if self.owned else -1
        )
        return encode_subscription(subscription)

    def take(self, response: Message) -> None:
        """What a client learns from an answer. It never forgets by itself, so that a script can be rude."""
        code = getattr(response, "error_code", ErrorCode.NONE)
        self.is_unknown = code == ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(response, JoinGroupResponse):
            self._take_join(response)
        elif isinstance(response, SyncGroupResponse) and code == ErrorCode.NONE:
            assignment = response.assignment if self.protocol_type == PROTOCOL_TYPE else b""
            self.owned = decode_assignment(assignment).assigned_partitions if assignment else {}
            self.wants_sync = False
        if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.wants_join = True

    def _take_join(self, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code == ErrorCode.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.protocol, self.leader = response.protocol_name, response.leader
            self.followers = [row.member_id for row in response.members]
            self.wants_join, self.wants_sync = False, True
