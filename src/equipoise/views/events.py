"""Events of a group from rows of the journal: members that were fenced or are gone, commits that were refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from equipoise.coordinator.events import CommitRefused, Event, GroupDeleted, MemberFenced, MemberLeft
from equipoise.coordinator.reasons import Departure, Refusal, Who
from equipoise.views.timeline import Entry

_DEPARTURES = {one.name.lower(): one for one in Departure}
_REFUSALS = {one.name.lower(): one for one in Refusal}


def events_of(journal: Iterable[Entry]) -> list[Event]:
    """The oldest first. What a newer broker calls by a name that is not known here is left out."""
    found = []
    for row in journal:
        make = _KINDS.get(row["type"])
        event = None if make is None else make(row)
        if event is not None:
            found.append(event)
    return found


def _who(row: Mapping[str, Any]) -> Who:
    who = row["who"]
    return Who(who["member_id"], who["client_id"], who["client_host"], who["group_instance_id"])


def _fenced(row: Mapping[str, Any]) -> Event:
    return MemberFenced(row["group_id"], row["at"], _who(row), row["request"])


def _refused(row: Mapping[str, Any]) -> Event | None:
    refusal = _REFUSALS.get(row["refusal"])
    if refusal is None:
        return None
    return CommitRefused(
        row["group_id"],
        row["at"],
        _who(row),
        refusal,
        generation_id=row["generation_id"],
        group_generation_id=row["group_generation_id"],
    )


def _left(row: Mapping[str, Any]) -> Event | None:
    departure = _DEPARTURES.get(row["departure"])
    if departure is None:
        return None
    return MemberLeft(
        row["group_id"],
        row["at"],
        _who(row),
        departure,
        row.get("said"),
        silent_ms=row.get("silent_ms", 0),
        limit_ms=row.get("limit_ms", 0),
        group_max_size=row.get("group_max_size", 0),
    )


def _deleted(row: Mapping[str, Any]) -> Event:
    return GroupDeleted(row["group_id"], row["at"], row["expired"])


_KINDS: dict[str, Callable[[Mapping[str, Any]], Event | None]] = {
    "member_fenced": _fenced,
    "commit_refused": _refused,
    "member_left": _left,
    "group_deleted": _deleted,
}
