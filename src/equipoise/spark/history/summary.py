"""Summaries of groups from the tables of the job."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from equipoise.views.summary import Row, Summary


def summarise(tables: Mapping[str, pa.Table]) -> list[Summary]:
    """A summary of each group, those with the most rebalances first."""
    rows = {name: _by_group(table) for name, table in tables.items() if name in Summary.__dataclass_fields__}
    groups = {group for found in rows.values() for group in found}
    summaries = [Summary(group, **{name: found.get(group, []) for name, found in rows.items()}) for group in groups]
    return sorted(summaries, key=lambda one: (-len(one.rebalances), one.group))


def _by_group(table: pa.Table) -> dict[str, list[Row]]:
    order = "at", "ended" if "duration_ms" in table.column_names else "began", "partition"
    keys = [(name, "ascending") for name in order if name in table.column_names]
    found: dict[str, list[Row]] = {}
    for row in (table.sort_by(keys) if keys else table).to_pylist():
        found.setdefault(row["group"], []).append(row)
    return found
