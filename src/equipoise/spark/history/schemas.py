"""The columns of the history's tables."""

from __future__ import annotations

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")


def _fields(columns: str) -> list[pa.Field]:
    """Fields of names and types: `group string, began time`. Several names may stand before one type."""
    found: list[pa.Field] = []
    for column in columns.split(","):
        *names, kind = column.split()
        found += [pa.field(name, TIME if kind == "time" else pa.type_for_alias(kind)) for name in names]
    return found


# Decoded records of __consumer_offsets.
ROWS = pa.schema(
    _fields(
        "record group topic string, partition int32, offset int64, leader_epoch int32, metadata string, "
        "committed_at written_at time, position int64"
    )
)
_TABLES = {
    "rebalances": (
        "group string, generation int32, began ended time, duration_ms detect_ms join_ms assign_ms sync_ms int64, "
        "reason said string, limit_ms int64, group_max_size int32, "
        "cause_member cause_client cause_host cause_instance waited_for string, "
        "waited_ms int64, members int32, protocol string, moved kept revoked called int32, "
        "longest_dark_ms int64, overtaken bool, cut int64, "
        "source string"
    ),
    "memberships": (
        "group member_id group_instance_id client_id client_host string, "
        "session_timeout_ms rebalance_timeout_ms int32, began ended time, why_left said string"
    ),
    "ownership": (
        "group topic string, partition int32, member_id client_id client_host string, generation int32, "
        "began ended time, is_empty bool"
    ),
    "flapping": (
        "group topic string, partition int32, changes returns gaps dark_ms int64, owners_per_hour score float64"
    ),
    "causes": "group reason cause_client cause_host string, count duration_ms int64, last time",
}
# What is told of one group: the rows of each table.
TOLD = pa.struct([(name, pa.list_(pa.struct(_fields(columns)))) for name, columns in _TABLES.items()])
LAG = pa.schema(_fields("group topic string, partition int32, at time, committed log_end lag int64, is_estimate bool"))


def schemas() -> dict[str, pa.Schema]:
    """The columns of each table except the commits, by name."""
    return {field.name: pa.schema(list(field.type.value_type)) for field in TOLD} | {"lag": LAG}
