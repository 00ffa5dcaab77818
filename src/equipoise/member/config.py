"""The settings of a member. Times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from equipoise.assignors import Assignor


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """Settings under Kafka's names, with the defaults of the Java consumer."""

    group_id: str
    group_instance_id: str | None = None
    assignors: tuple[Assignor, ...] = field(default=())
    server_assignor: str | None = None  # group.remote.assignor; None: the coordinator's first
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    client_rack: str | None = None
    principal: str = ""  # as whom the coordinator serves the member; empty: not known

    @property
    def is_static(self) -> bool:
        """A member with a group.instance.id (KIP-345)."""
        return self.group_instance_id is not None
