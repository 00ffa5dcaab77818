"""The settings of one partition's log: Kafka's topic configs, under their names with underscores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DAY_MS = 86_400_000
NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One partition's settings. The log reads them at each use: a change of them applies at once."""

    cleanup_policy: frozenset[Literal["delete", "compact"]] = frozenset({"delete"})
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    retention_ms: int = 7 * DAY_MS  # -1: no limit
    retention_bytes: int = -1  # -1: no limit
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    min_cleanable_dirty_ratio: float = 0.5
    index_interval_bytes: int = 4096
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    producer_id_expiration_ms: int = DAY_MS  # in Kafka a setting of the broker

    @property
    def compacts(self) -> bool:
        """Whether `cleanup.policy` holds `compact`."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The age at which a segment is rolled. The active segment is never compacted, so max.compaction.lag.ms
        counts too."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
