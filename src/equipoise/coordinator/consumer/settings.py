"""The settings of one `consumer` group: the broker's, unless the group has its own. Rule A19."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from equipoise.coordinator.config import GroupConfig


class GroupSettings(NamedTuple):
    """What can differ from group to group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    incremental: str = "off"  # of a classic group. Rule C1.1


def broker_settings(config: GroupConfig) -> GroupSettings:
    """The settings of a group that has none of its own."""
    return GroupSettings(
        config.group_consumer_session_timeout_ms,
        config.group_consumer_heartbeat_interval_ms,
        config.group_consumer_assignment_interval_ms,
        config.group_rebalance_incremental,
    )
