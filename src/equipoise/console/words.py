"""Turns reasons into words: the lines about groups in the log, on the terminal and in a browser.

These are pure functions of the coordinator's values. They add nothing to the values, and give no advice.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
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
    MembersSynced,
    StateChanged,
    TargetReached,
)
from equipoise.coordinator.journal import Rebalance, TopicPartition
from equipoise.coordinator.reasons import Cause, Departure, Refusal, Trigger, Who
from equipoise.views.advice import Advice
from equipoise.views.health import RESTLESS_DARK_SHARE
from equipoise.views.model import (
    Episode,
    EpisodeKind,
    Guess,
    GuessKind,
    Health,
    HealthKind,
    Problem,
    RebalanceView,
    Source,
)
from equipoise.views.rebalances import from_entry
from equipoise.wire.text import LONGEST_NAME, printable
from equipoise.wire.text import partitions as partitions

# Of both group protocols.
GROUP_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", "Dead")
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
    Trigger.REBALANCE_FORCED: "a rebalance was asked for",
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
_GUESSES = {
    GuessKind.MEMBER_JOINED: "{who} is new, so it has joined",
    GuessKind.MEMBER_GONE: "{who} is gone: it left or died",
    GuessKind.MEMBER_RESTARTED: "{who} is back under a new id, so it was restarted",
    GuessKind.MEMBERS_CHANGED: "members came and others are gone, {who} among the new ones",
    GuessKind.SUBSCRIPTION_CHANGED: "{who} subscribes to other topics",
    GuessKind.MEMBER_REJOINED: "the members are the same, so one of them rejoined",
    GuessKind.NEVER_SETTLED: "somebody joined, and all were gone before the leader had sent an assignment",
    GuessKind.TOPICS_CHANGED: "the members are the same and have other partitions, so topics were created, deleted or"
    " changed",
    GuessKind.UNKNOWN: "unknown: the record before is gone, or tells nothing",
}
_SOURCES = {
    Source.JOURNAL: "the journal of a newer broker. Its trigger has no name here.",
    Source.OFFSETS_TOPIC: "group metadata records of __consumer_offsets. Not known there: when it began, its phases,"
    " whether a member left or died.",
    Source.POLLING: "two looks at the group. Not known: what happened between them.",
}
_TARGET_SOURCE = (
    "records of the group in __consumer_offsets. Not known there: whether a member left or died, and how long it had"
    " been silent."
)
# What a restless group's culprit did, in the past.
_CULPRITS = {
    "poll_overrun": "polled too late",
    "member_joined": "joined",
    "member_left": "left",
    "member_gone": "was gone",
    "member_restarted": "was restarted",
    "session_expired": "fell silent",
    "connection_lost": "lost its connection",
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
        case MembersSynced(generation_id=generation, syncs=syncs):
            last, after = max(syncs, key=lambda one: one[1])
            return f"{member(last)} asked last for its assignment of generation {generation}, after {duration(after)}"
        case TargetReached(epoch=epoch, overtaken=overtaken):
            return f"epoch {epoch} was overtaken" if overtaken else f"every member has its part of epoch {epoch}"
    raise AssertionError(f"no words for {happened!r}")


def _state_changed(change: StateChanged) -> str:
    text = f"{change.origin.value} -> {change.target.value}"
    if change.target in (State.COMPLETING_REBALANCE, State.EMPTY):
        text += f", generation {change.generation_id}"
    return text if change.cause is None else f"{text}, because {cause(change.cause)}"


# -- guesses


def guess(concluded: Guess, called: Callable[[Who], str] = name) -> str:
    """What was concluded, as a clause that says so."""
    text = _GUESSES[concluded.kind]
    return text.format(who="a member" if concluded.who is None else called(concluded.who))


def why(known: Cause | Guess, called: Callable[[Who], str] = name) -> str:
    """The cause, or what was concluded in its place."""
    return guess(known, called) if isinstance(known, Guess) else cause(known, called)


# -- the journal


def rebalance(entry: Rebalance | RebalanceView) -> list[str]:
    """One rebalance in a few lines, for a list."""
    view = _view(entry)
    first = f"{_generations(view, ' -> ')}  because {_causes(view)}"
    called = f"called {found}" if (found := _called(view)) else ""
    rest = [", ".join(_phases(view)), _outcome(view), called, _waits(view), _moved(view), _dark(view)]
    return [first, *(f"        {line}" for line in rest if line)]


def explain(entry: Rebalance | RebalanceView, zone: tzinfo = UTC) -> list[str]:
    """One rebalance in full: its cause, its phases, the partitions that moved and those that stood still. Where the
    cause is a guess, the last line says what cannot be known."""
    view = _view(entry)
    at = datetime.fromtimestamp((view.started if view.started is not None else view.at) / 1_000, zone)
    clock = at.strftime("%H:%M:%S.%f")[:-3]
    took = "ended then" if view.started is None else f"took {duration(view.at - view.started)}"
    rows = {
        "why": _causes(view),
        "phases": "   ".join(_phases(view)),
        "ended": _outcome(view),
        "called": _called(view),
        "waited": _waits(view).removeprefix("waited: "),
        "moved": _moved(view).removeprefix("moved "),
        "dark": _dark(view).removeprefix("dark: "),
        "source": _source(view),
    }
    number = "Epoch" if view.is_target else "Generation"
    head = f"{number} {_generations(view, ' → ')} of {_named(view.group_id)}, {clock}, {took}"
    return [head, *(f"  {title:<8} {text}" for title, text in rows.items() if text)]


def explanation(view: RebalanceView, advice: Iterable[Advice], zone: tzinfo, zone_name: str) -> list[str]:
    """What `groups explain` prints, and what a page copies as text."""
    helps = [f"  {'advice':<8} {one.setting}: {one.text}" for one in advice]
    return [*explain(view, zone), *helps, f"  {'zone':<8} {zone_name}"]


def _source(view: RebalanceView) -> str:
    """Only where the cause is a guess: what else cannot be known."""
    if not isinstance(view.cause, Guess):
        return ""
    is_told = view.is_target and view.source is Source.OFFSETS_TOPIC
    return _TARGET_SOURCE if is_told else _SOURCES[view.source]


def _view(entry: Rebalance | RebalanceView) -> RebalanceView:
    return entry if isinstance(entry, RebalanceView) else from_entry(entry)


def _generations(view: RebalanceView, arrow: str) -> str:
    old = "" if view.old_generation is None else str(view.old_generation)
    if view.generation is None:
        return f"{old}{arrow}-" if "-" in arrow else old
    return f"{old}{arrow}{view.generation}" if old else str(view.generation)


def _phases(view: RebalanceView) -> list[str]:
    if view.phases is None:
        return []
    detect, join, assign, sync = view.phases
    if isinstance(view.cause, Guess):  # no record has the others
        return [f"target {_ms(join)}", f"reconcile {_ms(sync)}"] if view.is_target else [f"assign {_ms(assign)}"]
    longest = f" (longest: {name(view.waited_for)})" if view.waited_for is not None and view.waited_ms else ""
    if view.is_target:
        return [f"detect {_ms(detect)}", f"target {_ms(join)}", f"reconcile {_ms(sync)}{longest}"]
    return [f"detect {_ms(detect)}", f"join {_ms(join)}{longest}", f"assign {_ms(assign)}", f"sync {_ms(sync)}"]


def _causes(view: RebalanceView) -> str:
    """All of them, each member by its full name only where there is one cause."""
    if not view.further_causes:
        return why(view.cause, full_name)
    return _listed([why(one) for one in (view.cause, *view.further_causes)], "causes")


def _called(view: RebalanceView) -> str:
    """The members whose partitions were changed, of a target epoch."""
    if not view.called:
        return ""
    shown = ", ".join(member(one) for one, _ in view.called[:_LISTED])
    more = len(view.called) - _LISTED
    return f"{len(view.called)} of {view.members}: {shown}" + (f" and {more} more" if more > 0 else "")


def _waits(view: RebalanceView) -> str:
    """How long members waited for others, of a target epoch."""
    texts = [f"{member(one.waiter)} {duration(one.waited_ms)} for {member(one.owner)}" for one in view.waits]
    return f"waited: {_listed(texts, 'waits')}" if texts else ""


def _outcome(view: RebalanceView) -> str:
    """Empty for a rebalance that ended as it should."""
    if view.overtaken:
        return "overtaken by the next target" if view.is_target else "overtaken by the next rebalance"
    return "" if view.members else "without members"


def _moved(view: RebalanceView) -> str:
    total = view.kept + len(view.moved) + len(view.revoked)
    if not total:
        return f"{view.cut:,} partitions, too many to be compared" if view.cut else ""
    moves: dict[tuple[str, str], list[TopicPartition]] = defaultdict(list)
    for topic, number, before, owner in sorted(view.moved, key=lambda one: one[:2]):
        moves[before or "", owner].append((topic, number))
    texts = [_move(before, owner, found) for (before, owner), found in moves.items()]
    listed = f": {_listed(texts, 'moves')}" if texts else ""
    nobody = f"; nobody has {partitions(view.revoked)}" if view.revoked else ""
    more = f"; {view.cut:,} more are not listed" if view.cut else ""
    return f"moved {len(view.moved)} of {total} partitions{listed}{nobody}{more}"


def _move(before: str, owner: str, found: list[TopicPartition]) -> str:
    origin = f" from {member(before)}" if before else ""
    return f"{partitions(found)}{origin} to {member(owner)}"


def _dark(view: RebalanceView) -> str:
    """The time for which partitions had no working owner, the longest first."""
    if not view.dark:
        return ""
    stood = {(topic, number): ms for topic, number, ms in view.dark}
    spans = [f"{partitions(found)} for {duration(ms)}" for ms, found in _by_value(stood)]
    moved = {(topic, number) for topic, number, _, _ in view.moved}
    running = view.kept - sum(1 for partition in stood if partition not in moved)
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


# -- health and episodes


def health(found: Health) -> str:
    """The sentence of the badge: the rule, and its figures."""
    match found.kind:
        case HealthKind.STUCK:
            return f"stuck in a rebalance for {duration(found.for_ms or 0)}"
        case HealthKind.NOBODY_READS:
            return f"nobody reads, {_records(found.lag)}"
        case HealthKind.STALLED:
            return f"stalled: no commit for {duration(found.for_ms or 0)}, {_records(found.lag)}"
        case HealthKind.BEHIND:
            return f"behind: the lag grows, {_records(found.lag)}"
        case HealthKind.RESTLESS:
            return f"restless: {_restless(found)}"
        case HealthKind.UNEVEN:
            return f"uneven: {_uneven(found)}"
        case HealthKind.UNKNOWN:
            return f"unknown: {problem(found.problem)}" if found.problem else "unknown"
        case HealthKind.FINE:
            return "fine"
    raise AssertionError(f"no words for {found!r}")


def _records(lag: int | None) -> str:
    return f"{lag or 0:,} record{'' if lag == 1 else 's'} {'waits' if lag == 1 else 'wait'}"


def _restless(found: Health) -> str:
    if found.culprit is not None and found.culprit_count:
        what = _CULPRITS.get(found.trigger or "", "caused a rebalance")
        return f"{short_name(found.culprit)} {what} {_times(found.culprit_count)} in the last hour"
    if found.dark_share is not None and found.dark_share > RESTLESS_DARK_SHARE:
        return f"partitions were without owner for {found.dark_share:.1%} of the last hour"
    return f"{found.count} rebalances in the last hour"


def _uneven(found: Health) -> str:
    who = short_name(found.culprit) if found.culprit is not None else "a member"
    if found.lag is not None:
        return f"{who} has more than half of the lag, {found.lag:,} records"
    if (found.count or 1) > 1:
        return f"{found.count} members have no partition, {who} among them"
    return f"{who} has no partition"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def short_name(who: Who) -> str:
    """The name that people gave it: its instance id or client id."""
    return _named(who.group_instance_id or who.client_id) or member(who.member_id) or "a client without a name"


def problem(found: Problem) -> str:
    """What could not be had, and the broker's error."""
    return f"{_named(found.what)}: {_named(found.message)}"


def episode(found: Episode) -> str:
    """An episode in a few words."""
    count = found.members
    match found.kind:
        case EpisodeKind.POLL_OVERRUNS:
            who = "a member" if found.who is None else short_name(found.who)
            return f"{who} polls too late, out {_times(count)}"
        case EpisodeKind.ROLLING_RESTART:
            return f"rolling restart of {count}"
        case EpisodeKind.HOST_LOST:
            return f"host {_named(found.host or '')} lost, {count} members"
        case EpisodeKind.JOINED:
            return f"{count} joined"
        case EpisodeKind.LEFT:
            return f"{count} left"
        case EpisodeKind.LOST:
            return f"{count} lost"
        case EpisodeKind.OTHER:
            return f"{found.went} out, {found.came} in" if found.went else f"{len(found.rebalances)} rebalances"
    raise AssertionError(f"no words for {found!r}")


# -- the state diagram


def state_diagram() -> str:
    """The table of states as Mermaid text, for docs/groups.md. Mermaid ends a label at a colon or semicolon."""
    rows = [
        f"    {origin.value} --> {target.value} : {why.replace(':', ' -').replace(';', ',')}"
        for (origin, target), why in TRANSITIONS.items()
    ]
    return "\n".join(["stateDiagram-v2", "    [*] --> Empty", *rows])
