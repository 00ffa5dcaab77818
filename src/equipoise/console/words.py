"""Turns reasons into words: the lines about groups in the log, on the terminal and in a browser.

These are pure functions of the coordinator's values. They add nothing to the values, and give no advice.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import TypeVar

from equipoise.coordinator.classic.states import TRANSITIONS, State
from equipoise.coordinator.events import (
    CommitRefused,
    Event,
    GroupDeleted,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    StateChanged,
    TargetReached,
)
from equipoise.coordinator.journal import Rebalance, TopicPartition
from equipoise.coordinator.reasons import NOBODY, Cause, Departure, Refusal, Trigger, Who
from equipoise.wire.text import LONGEST_NAME, printable
from equipoise.wire.text import partitions as partitions

_TRIGGERS = {
    Trigger.MEMBER_JOINED: "{who} joined",
    Trigger.MEMBER_LEFT: "{who} left",
    Trigger.MEMBER_REMOVED: "an administrator removed {who}",
    Trigger.SESSION_EXPIRED: "{who} sent no heartbeat for {silent} (session.timeout.ms={limit})",
    Trigger.CONNECTION_LOST: "{who} lost its connection and did not come back"
    " (silent for {silent}, group.lost.connection.grace.ms={limit})",
    Trigger.SUBSCRIPTION_CHANGED: "{who} rejoined with changed metadata",
    Trigger.LEADER_REJOINED: "the leader {who} rejoined",
    Trigger.STATIC_MEMBER_REPLACED: "static member {instance} came back as {who}",
    Trigger.SYNC_EXPIRED: "{who} did not ask for its assignment within {limit_time} (the rebalance timeout)",
    Trigger.ASSIGNMENT_NOT_WRITTEN: "the assignment could not be written",
    Trigger.SIZE_LIMIT: "it was loaded with more members than group.max.size={group_max_size}",
    Trigger.REVOCATION_EXPIRED: "{who} did not give up its partitions within {limit_time} (the rebalance timeout)",
    Trigger.TOPICS_CHANGED: "topics that it reads were created, deleted or changed",
    Trigger.ASSIGNOR_CHANGED: "its members prefer another assignor",
    Trigger.REGEX_RESOLVED: "a regular expression of its members matches other topics",
}
_DEPARTURES = {
    Departure.LEFT: "{who} left",
    Departure.REMOVED: "{who} was removed by an administrator",
    Departure.SESSION_EXPIRED: "{who} left, because it sent no heartbeat for {silent} (session.timeout.ms={limit})",
    Departure.CONNECTION_LOST: "{who} left, because it lost its connection and did not come back"
    " (silent for {silent}, group.lost.connection.grace.ms={limit})",
    Departure.FIRST_JOIN_EXPIRED: "{who} left, because its first join could not be answered within {limit_time}",
    Departure.JOIN_EXPIRED: "{who} left, because it did not rejoin within {limit_time} (the rebalance timeout)",
    Departure.SYNC_EXPIRED: "{who} left, because it did not ask for its assignment within {limit_time}"
    " (the rebalance timeout)",
    Departure.REVOCATION_EXPIRED: "{who} left, because it did not give up its partitions within {limit_time}"
    " (the rebalance timeout)",
    Departure.REPLACED: "{who} was replaced, because its group.instance.id {instance} joined again",
    Departure.GROUP_FULL: "{who} was turned away, because the group is full (group.max.size={group_max_size})",
}
_REFUSALS = {
    Refusal.UNKNOWN_GROUP: "there is no such group",
    Refusal.UNKNOWN_MEMBER: "it is not a member",
    Refusal.FENCED_INSTANCE: "another member has its group.instance.id {instance} now",
    Refusal.OLD_GENERATION: "it is of generation {generation}, the group is at {group_generation}",
    Refusal.REBALANCE_IN_PROGRESS: "generation {group_generation} has no assignment yet",
    Refusal.STANDALONE_IN_LIVE_GROUP: "the group has members and this commit is from none of them",
    Refusal.OLD_VERSION: "it came in a version of OffsetCommit that knows no member epochs",
}
_LISTED = 12  # partitions, moves or times named one by one; the rest is counted
_UUID = re.compile(r"-([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
T = TypeVar("T")


# -- names and figures


def member(member_id: str) -> str:
    """Shortens a member id: it ends in a UUID, of which eight digits are enough."""
    return _named(_UUID.sub(r"-\1", member_id))


def name(who: Who) -> str:
    """The member's id, or its client id."""
    return member(who.member_id) or _named(who.client_id) or "a client without a name"


def full_name(who: Who) -> str:
    """The member's name with its host."""
    client = f"client {_named(who.client_id)}" if who.client_id and who.member_id else ""
    where = ", ".join(part for part in (client, _named(who.client_host.lstrip("/"))) if part)
    return f"{name(who)} ({where})" if where else name(who)


def _named(text: str) -> str:
    """Cuts ids and reasons: a client may give them 32 KB each."""
    return printable(text, LONGEST_NAME)


def duration(ms: int) -> str:
    """About two figures: "41 ms", "10.0 s", "12 min 30 s", "3 h 5 min", "7 d 0 h"."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(ms // 1_000, 60)
    hours, minutes_left = divmod(minutes, 60)
    if minutes < 120:
        return f"{minutes} min {seconds} s"
    return f"{hours} h {minutes_left} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value:,} ms"


# -- reasons


def cause(why: Cause, called: Callable[[Who], str] = name) -> str:
    """The cause of a rebalance, as a clause after "because"."""
    return _reason(_TRIGGERS[why.trigger], called(why.who), why)


def departure(left: MemberLeft) -> str:
    """The reason why a member left, as a clause."""
    return _reason(_DEPARTURES[left.departure], name(left.who), left)


def _reason(template: str, called: str, why: Cause | MemberLeft) -> str:
    text = template.format(
        who=called,
        instance=_named(why.who.group_instance_id or ""),
        silent=duration(why.silent_ms),
        limit=why.limit_ms,
        limit_time=duration(why.limit_ms),
        group_max_size=why.group_max_size,
    )
    return f'{text}, saying "{_named(why.said)}"' if why.said else text


def refusal(refused: CommitRefused) -> str:
    """The reason of a refused commit, as a clause after "because"."""
    return _REFUSALS[refused.refusal].format(
        instance=_named(refused.who.group_instance_id or ""),
        generation=refused.generation_id,
        group_generation=refused.group_generation_id,
    )


# -- events


def event(happened: Event) -> str:
    """One line, without the group's name, which the caller prints."""
    match happened:
        case StateChanged():
            return _state_changed(happened)
        case MemberJoined(who=who):
            return f"{full_name(who)} joined"
        case MemberLeft():
            return departure(happened)
        case MemberFenced(who=who, request=request):
            instance = _named(who.group_instance_id or "")
            return f"{request} of {name(who)} refused, because another member has its group.instance.id {instance} now"
        case CommitRefused(who=who):
            return f"commit of {name(who)} refused, because {refusal(happened)}"
        case GroupDeleted(expired=expired):
            return "deleted, because it was empty and none of its offsets was left" if expired else "deleted"
        case TargetReached(epoch=epoch, overtaken=overtaken):
            return f"epoch {epoch} was overtaken" if overtaken else f"every member has its part of epoch {epoch}"
    raise AssertionError(f"no words for {happened!r}")


def _state_changed(change: StateChanged) -> str:
    text = f"{change.origin.value} -> {change.target.value}"
    if change.target in (State.COMPLETING_REBALANCE, State.EMPTY):
        text += f", generation {change.generation_id}"
    return text if change.cause is None else f"{text}, because {cause(change.cause)}"


# -- the journal


def rebalance(entry: Rebalance) -> list[str]:
    """One rebalance in a few lines, for a list."""
    new = "-" if entry.generation < 0 else str(entry.generation)
    first = f"{entry.old_generation} -> {new}  because {_causes(entry)}"
    called, waits = _called(entry), _waits(entry)
    called = f"called {called}" if called else ""
    rest = [", ".join(_phases(entry)), _outcome(entry), called, waits, _moved(entry), _dark(entry)]
    return [first, *(f"        {line}" for line in rest if line)]


def explain(entry: Rebalance, zone: tzinfo = UTC) -> list[str]:
    """One rebalance in full: its cause, its phases, the partitions that moved and those that stood still."""
    new = f" → {entry.generation}" if entry.generation >= 0 else ""
    at = datetime.fromtimestamp(entry.started / 1_000, zone).strftime("%H:%M:%S.%f")[:-3]
    took = duration((entry.ended or entry.started) - entry.started)
    rows = {
        "why": _causes(entry),
        "phases": "   ".join(_phases(entry)),
        "ended": _outcome(entry),
        "called": _called(entry),
        "waited": _waits(entry).removeprefix("waited: "),
        "moved": _moved(entry).removeprefix("moved "),
        "dark": _dark(entry).removeprefix("dark: "),
    }
    number = "Epoch" if entry.is_target else "Generation"
    head = f"{number} {entry.old_generation}{new} of {_named(entry.group_id)}, {at}, took {took}"
    return [head, *(f"  {title:<8} {text}" for title, text in rows.items() if text)]


def _causes(entry: Rebalance) -> str:
    """All of them, each member by its full name only where there is one cause."""
    if not entry.further_causes:
        return cause(entry.cause, full_name)
    return _listed([cause(one) for one in (entry.cause, *entry.further_causes)], "causes")


def _phases(entry: Rebalance) -> list[str]:
    longest = f" (longest: {name(entry.waited_for)})" if entry.waited_for != NOBODY and entry.waited_ms else ""
    if entry.is_target:
        return [
            f"detect {_ms(entry.detect_ms)}",
            f"target {_ms(entry.join_ms)}",
            f"reconcile {_ms(entry.sync_ms)}{longest}",
        ]
    join = f"join {_ms(entry.join_ms)}{longest}"
    return [f"detect {_ms(entry.detect_ms)}", join, f"assign {_ms(entry.assign_ms)}", f"sync {_ms(entry.sync_ms)}"]


def _called(entry: Rebalance) -> str:
    """The members whose partitions were changed, of a target epoch."""
    if not entry.called:
        return ""
    shown = ", ".join(member(one) for one in list(entry.called)[:_LISTED])
    more = len(entry.called) - _LISTED
    return f"{len(entry.called)} of {entry.members}: {shown}" + (f" and {more} more" if more > 0 else "")


def _waits(entry: Rebalance) -> str:
    """How long members waited for others, of a target epoch."""
    texts = [f"{member(one.waiter)} {duration(one.waited_ms)} for {member(one.owner)}" for one in entry.waits]
    return f"waited: {_listed(texts, 'waits')}" if texts else ""


def _outcome(entry: Rebalance) -> str:
    """Empty for a rebalance that ended as it should."""
    if entry.overtaken:
        return "overtaken by the next target" if entry.is_target else "overtaken by the next rebalance"
    return "" if entry.members else "without members"


def _moved(entry: Rebalance) -> str:
    total = entry.kept + len(entry.moved) + len(entry.revoked)
    if not total:
        return f"{entry.cut:,} partitions, too many to be compared" if entry.cut else ""
    moves: dict[tuple[str, str], list[TopicPartition]] = defaultdict(list)
    for partition, (before, owner) in sorted(entry.moved.items()):
        moves[before or "", owner].append(partition)
    texts = [_move(before, owner, found) for (before, owner), found in moves.items()]
    listed = f": {_listed(texts, 'moves')}" if texts else ""
    nobody = f"; nobody has {partitions(entry.revoked)}" if entry.revoked else ""
    more = f"; {entry.cut:,} more are not listed" if entry.cut else ""
    return f"moved {len(entry.moved)} of {total} partitions{listed}{nobody}{more}"


def _move(before: str, owner: str, found: list[TopicPartition]) -> str:
    origin = f" from {member(before)}" if before else ""
    return f"{partitions(found)}{origin} to {member(owner)}"


def _dark(entry: Rebalance) -> str:
    """The time for which partitions had no working owner, the longest first."""
    if not entry.dark_ms:
        return ""
    spans = [f"{partitions(found)} for {duration(ms)}" for ms, found in _by_value(entry.dark_ms)]
    running = entry.kept - sum(1 for partition in entry.dark_ms if partition not in entry.moved)
    others = f"; the other {running} {'was' if running == 1 else 'were'} not stopped" if running else ""
    return f"dark: {_listed(spans, 'times')}{others}"


def _by_value(found: Mapping[T, int]) -> list[tuple[int, list[T]]]:
    turned: dict[int, list[T]] = defaultdict(list)
    for key, value in found.items():
        turned[value].append(key)
    return sorted(turned.items(), reverse=True)


def _listed(texts: list[str], what: str) -> str:
    more = len(texts) - _LISTED
    return "; ".join(texts[:_LISTED]) + (f"; and {more} more {what}" if more > 0 else "")


# -- the state diagram


def state_diagram() -> str:
    """The table of states as Mermaid text, for docs/groups.md. Mermaid ends a label at a colon or semicolon."""
    rows = [
        f"    {origin.value} --> {target.value} : {why.replace(':', ' -').replace(';', ',')}"
        for (origin, target), why in TRANSITIONS.items()
    ]
    return "\n".join(["stateDiagram-v2", "    [*] --> Empty", *rows])
