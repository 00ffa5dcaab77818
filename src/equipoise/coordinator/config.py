"""The settings of the coordinator, under Kafka's names with underscores, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000  # a parked client cannot heartbeat; a constant in Kafka too


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One field per setting; SUPPORTED.md says what each does."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    group_initial_rebalance_delay_early: bool = True
    group_initial_rebalance_delay_quiet_ms: int = 0  # here as in Kafka; the broker has a default of its own
    group_rebalance_debounce_ms: int = 0
    group_lost_connection_grace_ms: int = 0  # the same
    group_rebalance_incremental: str = "off"  # the same
    group_heartbeat_hold_max_ms: int = 0  # whether heartbeats are held at all; how long is the broker's affair

    group_coordinator_rebalance_protocols: str = "classic,consumer"
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: str = "uniform,range"
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_regex_refresh_interval_ms: int = 600_000

    group_consumer_assignment_timer: bool = True
    group_consumer_heartbeat_interval_reconciling_ms: int = 250
    strict: bool = False  # whether answers must be Kafka's also where ours spare clients an error

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        """`group.consumer.assignors`; the first is the default. Rule A12.1."""
        return tuple(name.strip() for name in self.group_consumer_assignors.split(","))

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether `group.coordinator.rebalance.protocols` has `consumer`. Rule A1.1."""
        return "consumer" in self.group_coordinator_rebalance_protocols.split(",")

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` in milliseconds."""
        return self.offsets_retention_minutes * 60_000
