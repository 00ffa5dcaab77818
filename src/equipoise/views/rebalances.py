"""Rebalances as views: from a row of the journal, from the coordinator's own entry, or from two group records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from equipoise.coordinator.journal import Rebalance, Wait
from equipoise.coordinator.reasons import NOBODY, Cause, Trigger, Who
from equipoise.views.model import Dark, Guess, GuessKind, Move, Ms, Phases, RebalanceView, Source
from equipoise.views.timeline import (
    Entry,
    ends_rebalance,
    guess,
    is_poll_overrun,
    is_target,
    match,
    neighbours,
    owners,
)

POLL_OVERRUN = "poll_overrun"
_TRIGGERS = {one.name.lower(): one for one in Trigger}


def rebalance_views(group_id: str, journal: Sequence[Entry], records: Sequence[Entry]) -> tuple[RebalanceView, ...]:
    """The rebalances of one group in time, as `timeline.tell` tells them: the journal's word where it has one."""
    rows = [one for one in journal if one["type"] == "rebalance"]
    generations = [one for one in records if one["type"] == "generation"]
    matched = {id(record) for record in match(rows, generations) if record is not None}
    late = _late_syncs(journal)
    found = [replace(from_row(row), synced=late[id(row)]) if id(row) in late else from_row(row) for row in rows]
    for before, record in neighbours(records):
        view = None if id(record) in matched else from_records(group_id, record, before)
        if view is not None:
            found.append(view)
    return with_keys(sorted(found, key=lambda one: one.at))


def _late_syncs(journal: Iterable[Entry]) -> dict[int, tuple[tuple[str, int], ...]]:
    """By the identity of a rebalance's row: members that asked for their assignment after its end."""
    ended: dict[int, Entry] = {}  # by generation, the last of it
    late = {}
    for row in journal:
        if row["type"] == "rebalance":
            ended[row["generation"]] = row
        elif row["type"] == "members_synced" and row["generation_id"] in ended:
            late[id(ended[row["generation_id"]])] = tuple((one, after) for one, after in row["syncs"])
    return late


def with_keys(views: Iterable[RebalanceView]) -> tuple[RebalanceView, ...]:
    """The generation is the key; the second of the same generation is `7.2`."""
    seen: Counter[str] = Counter()
    keyed = []
    for view in views:
        name = "-" if view.generation is None else str(view.generation)
        seen[name] += 1
        keyed.append(replace(view, key=name if seen[name] == 1 else f"{name}.{seen[name]}"))
    return tuple(keyed)


# -- from the journal


def from_row(row: Mapping[str, Any]) -> RebalanceView:
    """A row of `__rebalances`. Older rows lack what was noted later."""
    phases = row["phases_ms"]
    who = _who(row["waited_for"])
    return RebalanceView(
        key="",
        group_id=row.get("group_id", ""),
        old_generation=row.get("old_generation"),
        generation=row["generation"] if row["generation"] >= 0 else None,
        started=Ms(row["started"]),
        ended=None if row["at"] is None else Ms(row["at"]),
        cause=_cause(row["cause"]),
        phases=Phases(phases["detect"], phases["join"], phases["assign"], phases["sync"]),
        members=row["members"],
        protocol=row.get("protocol"),
        waited_for=None if who == NOBODY else who,
        waited_ms=row["waited_ms"],
        arrivals=tuple((member_id, after) for member_id, after in row.get("arrivals", ())),
        unsynced=tuple(row["unsynced"]) if "unsynced" in row else None,
        moved=tuple(one if isinstance(one, Move) else Move(*one) for one in row["moved"]),
        kept=row["kept"],
        revoked=tuple((topic, number) for topic, number in row["revoked"]),
        dark=tuple(one if isinstance(one, Dark) else Dark(*one) for one in row["dark_ms"]),
        overtaken=row["overtaken"],
        cut=row.get("cut", 0),
        is_target="called" in row,
        further_causes=tuple(_cause(one) for one in row.get("further_causes", ())),
        called=tuple((member_id, after) for member_id, after in row.get("called", ())),
        done=tuple((member_id, after) for member_id, after in row.get("done", ())),
        waits=tuple(Wait(*one) for one in row.get("waits", ())),
        source=Source.JOURNAL,
    )


def from_entry(entry: Rebalance) -> RebalanceView:
    """The coordinator's own entry, as a test or the log of the broker has it."""
    return RebalanceView(
        key=str(entry.generation),
        group_id=entry.group_id,
        old_generation=entry.old_generation,
        generation=entry.generation if entry.generation >= 0 else None,
        started=Ms(entry.started),
        ended=None if entry.ended is None else Ms(entry.ended),
        cause=entry.cause,
        phases=Phases(entry.detect_ms, entry.join_ms, entry.assign_ms, entry.sync_ms),
        members=entry.members,
        protocol=entry.protocol,
        waited_for=None if entry.waited_for == NOBODY else entry.waited_for,
        waited_ms=entry.waited_ms,
        arrivals=tuple(entry.arrivals.items()),
        unsynced=entry.unsynced,
        moved=tuple(Move(topic, number, *owned) for (topic, number), owned in sorted(entry.moved.items())),
        kept=entry.kept,
        revoked=tuple(entry.revoked),
        dark=tuple(Dark(topic, number, ms) for (topic, number), ms in entry.dark_ms.items()),
        overtaken=entry.overtaken,
        cut=entry.cut,
        is_target=entry.is_target,
        further_causes=tuple(entry.further_causes),
        called=tuple(entry.called.items()),
        done=tuple(entry.done.items()),
        waits=tuple(entry.waits),
        source=Source.JOURNAL,
    )


def _cause(row: Mapping[str, Any]) -> Cause | Guess:
    """A trigger of a newer broker has no name here: it is unknown, not guessed."""
    trigger, who = _TRIGGERS.get(row["trigger"]), _who(row["who"])
    if trigger is None:
        return Guess(GuessKind.UNKNOWN, who)
    limit, size = row["limit_ms"], row.get("group_max_size") or 0
    if trigger is Trigger.SIZE_LIMIT and not size:  # as older journals have it
        limit, size = 0, limit
    return Cause(trigger, who, row["said"], row["silent_ms"], limit, size)


def _who(row: Mapping[str, Any]) -> Who:
    return Who(row["member_id"], row["client_id"], row["client_host"], row["group_instance_id"])


# -- from records of groups


def from_records(group_id: str, record: Entry, before: Entry | None) -> RebalanceView | None:
    """The rebalance that ended with this record; None if the record ended none."""
    if not ends_rebalance(record, before):
        return None
    kind, who = guess(record, before)
    old, new = owners(before), owners(record)
    moved = [Move(*place, old.get(place), owner) for place, owner in sorted(new.items()) if old.get(place) != owner]
    is_look = record.get("is_look", False)  # a look knows no generation
    started = record.get("started")
    return RebalanceView(
        key="",
        group_id=group_id,
        old_generation=None if before is None or is_look else before["generation"],
        generation=None if is_look else record["generation"],
        started=None if started is None else Ms(started),
        ended=Ms(record["at"]),
        cause=Guess(GuessKind(kind), _who(who) if who else None),
        phases=_phases(record),
        members=len(record["members"]),
        protocol=record["protocol"],
        moved=tuple(moved) if before is not None else (),
        kept=len(new) - len(moved),
        revoked=tuple(sorted(old.keys() - new.keys())),
        dark=tuple(Dark(*one) for one in record["dark_ms"]) if is_target(record) else None,
        is_target=is_target(record),
        called=tuple((member_id, after) for member_id, after in record.get("called", ())),
        source=Source.POLLING if is_look else Source.OFFSETS_TOPIC,
    )


def _phases(record: Entry) -> Phases | None:
    """A classic group's record has the time of its assignment; those of a `consumer` group have all but the time that
    its cause took to be noticed."""
    if is_target(record):
        target = record["target_ms"]
        rest = None if target is None else max(0, record["at"] - record["started"] - target)
        return Phases(None, target, None, rest)
    joined = record["joined_at"] if record["members"] else None  # nobody, nothing to assign
    return None if joined is None else Phases(None, None, max(0, record["at"] - joined), None)


# -- whose fault


def culprit(view: RebalanceView) -> Who | None:
    """The member that the cause is about."""
    who = view.cause.who
    return None if who is None or who == NOBODY else who


def reason(view: RebalanceView) -> str:
    """The reason under the name that tables and metrics use; a member that polled too late has one of its own."""
    if isinstance(view.cause, Guess):
        return view.cause.kind.value
    trigger = view.cause.trigger.name.lower()
    return POLL_OVERRUN if is_poll_overrun(trigger, view.cause.said) else trigger
