"""Counts the changes of owner of each partition, and the causes of a group's rebalances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from equipoise.views.timeline import Row

_MS_IN_HOUR = 3_600_000


def flapping(ownership: Sequence[Row]) -> list[Row]:
    """Counts for each partition: changes of owner, returns to the previous owner, time without an owner."""
    hours = (_end(ownership) - min((row["began"] for row in ownership), default=0)) / _MS_IN_HOUR
    spans: dict[tuple[str, str, int], list[Row]] = {}
    for row in sorted(ownership, key=lambda row: int(row["began"])):
        spans.setdefault((row["group"], row["topic"], row["partition"]), []).append(row)
    return [_partition(rows, hours) for _, rows in sorted(spans.items())]


def _end(ownership: Iterable[Row]) -> int:
    return max((row.get("ended") or row["began"] for row in ownership), default=0)


def _partition(rows: Sequence[Row], hours: float) -> Row:
    owners = _owners(rows)
    changes = max(0, len(owners) - 1)
    returns = sum(one == before for one, before in zip(owners[2:], owners, strict=False))
    dark = [row["ended"] - row["began"] for row in rows if _is_gap(row)]
    return {
        **{name: rows[0][name] for name in ("group", "topic", "partition")},
        "changes": changes,
        "returns": returns,
        "gaps": len(dark),
        "dark_ms": sum(dark),
        # What is seen for less than an hour is not counted up to one.
        "owners_per_hour": changes / hours if hours >= 1 else None,
        "score": (changes + returns) / max(hours, 1),
    }


def _owners(rows: Iterable[Row]) -> list[str]:
    """The successive owners. A gap between two spans of the same owner is no change."""
    owners: list[str] = []
    for row in rows:
        owner = row.get("member_id")
        if owner is not None and owners[-1:] != [owner]:
            owners.append(owner)
    return owners


def _is_gap(row: Row) -> bool:
    """Whether the partition had no owner while the group had members, in a span that has ended."""
    return row.get("member_id") is None and not row["is_empty"] and row["ended"] is not None


def causes(rebalances: Iterable[Row]) -> list[Row]:
    """Counts the rebalances that each client caused, by reason."""
    found: dict[tuple[str | None, ...], Row] = {}
    for row in rebalances:
        names = {name: row.get(name) for name in ("group", "reason", "cause_client", "cause_host")}
        cause = found.setdefault(tuple(names.values()), names | {"count": 0, "duration_ms": 0, "last": row["ended"]})
        cause["count"] += 1
        cause["duration_ms"] += row.get("duration_ms") or 0
        cause["last"] = max(cause["last"], row["ended"])
    return sorted(found.values(), key=lambda row: -int(row["count"]))
