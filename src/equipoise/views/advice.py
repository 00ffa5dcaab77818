"""Settings that would help a group: rules, each with the figures that support it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

from equipoise.views.summary import EAGER, Row, Summary
from equipoise.wire.text import printable

_FEW = 2  # that often may be chance
_DEFAULT_SESSION_MS = 45_000
_RESTART = timedelta(minutes=5)  # a client that is back by then was restarted; later, it is another day's work
_FORMING = timedelta(seconds=30)  # after the first rebalance of a group; members that come in it start together
_LONG_WAIT_MS = 5_000
_BY_GOING = "poll_overrun", "session_expired"
_NAMED, _LONGEST = 3, 60  # names, and letters of a name


class Advice(NamedTuple):
    """A setting to change, and why."""

    setting: str
    text: str


def advise(group: Summary) -> list[Advice]:
    """What each rule finds in a group, in the order of the rules."""
    return [found for rule in _RULES if (found := rule(group)) is not None]


def _poll_overruns(group: Summary) -> Advice | None:
    late = group.left("poll_overrun", "join_expired")
    if len(late) < _FEW:
        return None
    limit = _usual(late, "rebalance_timeout_ms")
    known = "" if limit is None else f"; max.poll.interval.ms={limit:,}"
    return Advice(
        "max.poll.interval.ms, max.poll.records",
        f"{len(late)} times a member was out because its application did not poll in time ({_who(late)}; "
        f"{_began(group, late)}{known}): raise max.poll.interval.ms above the longest work on one batch, or lower "
        "max.poll.records so that a batch is done sooner.",
    )


def _sessions(group: Summary) -> Advice | None:
    lost = group.left("session_expired")
    timeout = _usual(lost, "session_timeout_ms")
    if len(lost) < _FEW or timeout is None or timeout >= _DEFAULT_SESSION_MS:
        return None
    return Advice(
        "session.timeout.ms",
        f"{len(lost)} members were given up after silence ({_who(lost)}; {_began(group, lost)}) with "
        f"session.timeout.ms={timeout:,}; Kafka's default is {_DEFAULT_SESSION_MS:,}. If they were alive, and a pause "
        "or a busy machine kept them silent, raise it; if they had died, it is what bounds the wait for them, and "
        "should stay.",
    )


def _restarts(group: Summary) -> Advice | None:
    back = _came_back(group.memberships)
    if len(back) < _FEW:
        return None
    longest = max(away for _, away in back).total_seconds()
    return Advice(
        "group.instance.id",
        f"{len(back)} times a client left or died and was back within {max(longest, 0.1):.1f} s "
        f"({_who(row for row, _ in back)}), each time with two rebalances or one that waited for its session to "
        "expire. Give each its own group.instance.id, and a session.timeout.ms above the time of a restart: then a "
        "restart moves no partition at all.",
    )


def _came_back(memberships: Iterable[Row]) -> list[tuple[Row, timedelta]]:
    """Dynamic members that rejoined under the same client id and host, and their time away. Members that share both at
    one time cannot be told apart, and are left out."""
    last: dict[tuple[str, str], Row] = {}
    back: list[tuple[Row, timedelta]] = []
    shared: set[tuple[str, str]] = set()
    for row in sorted((row for row in memberships if row["began"]), key=lambda row: row["began"]):
        client = row["client_id"], row["client_host"]
        before = last.get(client)
        if before is not None:
            is_over = before["ended"] is not None and (
                before["ended"] <= row["began"] or before["why_left"] == "session_expired"
            )
            if not is_over:
                shared.add(client)
            elif row["group_instance_id"] is None and before["why_left"] in ("left", "session_expired", "unknown"):
                back.append((row, max(timedelta(0), row["began"] - before["ended"])))
        last[client] = row
    return [
        (row, away) for row, away in back if away < _RESTART and (row["client_id"], row["client_host"]) not in shared
    ]


def _eager(group: Summary) -> Advice | None:
    rounds = [row for row in group.rebalances if row["protocol"] in EAGER and row["members"] > 1]
    kept, moved = sum(row["kept"] for row in rounds), sum(row["moved"] for row in rounds)
    if len(rounds) <= _FEW or not kept:
        return None
    return Advice(
        "partition.assignment.strategy",
        f"in {len(rounds)} rebalances with {rounds[-1]['protocol']}, {kept} of {kept + moved} partitions stopped only "
        "to go on where they were. With cooperative-sticky they would not have stopped. (All members must support it "
        "before the old one is taken away: list both for one round of restarts.)",
    )


def _one_after_another(group: Summary) -> Advice | None:
    """Whether several rebalances in a row formed the group, each for one more member."""
    first, joins = None, 0
    longest = timedelta(0)
    for before, row in zip([None, *group.rebalances], group.rebalances, strict=False):
        if before is None or not before["members"]:
            first, joins = row, 0
        elif first is not None and _grows(before, row) and row["ended"] - first["ended"] < _FORMING:
            joins += 1
            longest = max(longest, row["ended"] - first["ended"]) if joins >= _FEW else longest
        else:
            first = None
    if not longest:
        return None
    return Advice(
        "group.initial.rebalance.delay.ms",
        f"members that started together joined one after another, in up to {longest.total_seconds():.1f} s, with a "
        "rebalance for each. A larger group.initial.rebalance.delay.ms (a broker's setting) lets a new group wait "
        "for all of them.",
    )


def _grows(before: Row, row: Row) -> bool:
    return row["reason"] == "member_joined" and int(row["members"]) > int(before["members"])


def _slow_to_join(group: Summary) -> Advice | None:
    slow = [row for row in group.rebalances if (row["waited_ms"] or 0) >= _LONG_WAIT_MS and row["waited_for"]]
    if len(slow) < _FEW:
        return None
    longest = max(row["waited_ms"] for row in slow) / 1000
    names = _names(row["waited_for"] for row in slow)
    return Advice(
        "max.poll.interval.ms, max.poll.records",
        f"{len(slow)} rebalances waited up to {longest:.1f} s for a member that was slow to rejoin ({names}). A "
        "member rejoins when it polls next: make the work between two polls shorter (max.poll.records), or bound the "
        "wait (max.poll.interval.ms).",
    )


_RULES: tuple[Callable[[Summary], Advice | None], ...] = (
    _poll_overruns,
    _restarts,
    _sessions,
    _eager,
    _one_after_another,
    _slow_to_join,
)


def _who(rows: Iterable[Row]) -> str:
    return _names(row["client_id"] or "a client without a name" for row in rows)


def _names(found: Iterable[str]) -> str:
    """The most frequent names, and the number of the others."""
    names = Counter(found).most_common()
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(printable(name, _LONGEST) for name, _ in names[:_NAMED]) + more


def _began(group: Summary, gone: Sequence[Row]) -> str:
    """How many rebalances these members began by leaving. A member that leaves during a rebalance begins none. The
    table of reasons counts the same."""
    causes = {row["cause_member"] for row in group.rebalances if row["reason"] in _BY_GOING}
    began = sum(row["member_id"] in causes for row in gone)
    during = len(gone) - began
    if not during:
        return "each began a rebalance"
    return f"{began} began a rebalance, {during} went while one was under way" if began else "in rebalances of others"


def _usual(rows: Iterable[Row], name: str) -> int | None:
    known = sorted(row[name] for row in rows if row[name] is not None)
    return known[len(known) // 2] if known else None
