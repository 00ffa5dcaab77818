"""The history of one group, from its records: rebalances, memberships, and the owners of partitions.

There are two sources. The journal (`__rebalances`, ours only) has causes and durations. Group metadata
(`__consumer_offsets`, any Kafka) has the assignment of each completed generation, and nothing about the time before its
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Entry = Mapping[str, Any]  # of the journal, or of a group metadata record; times in ms
Row = dict[str, Any]
TopicPartition = tuple[str, int]
Owners = dict[TopicPartition, str]

JOURNAL, METADATA = "journal", "metadata"  # the source of a rebalance
POLL_OVERRUN = "poll_overrun"
_FIRST_GENERATION, _FIRST_EPOCH = 1, 2  # of a group that is new; Kafka 4.0 began with epoch 1
_SAME_EVENT_MS = 1_000  # between the record of a generation and the journal's word of it


class Tables(NamedTuple):
    """The rows of one group."""

    rebalances: list[Row]
    memberships: list[Row]
    ownership: list[Row]


class _Step(NamedTuple):
    """The partitions that were assigned at one time: all of them or, by the journal alone, the changes."""

    at: int
    generation: int
    members: int
    owners: Owners | None
    moved: Owners
    revoked: frozenset[TopicPartition]
    dark_ms: Mapping[TopicPartition, int]


def tell(group: str, journal: Sequence[Entry], records: Sequence[Entry]) -> Tables:
    """The history of one group. `journal` and `records` are in the order of their logs."""
    generations = [one for one in records if one["type"] == "generation"]
    rebalances = [one for one in journal if one["type"] == "rebalance"]
    pairs = match(rebalances, generations)
    matched = {id(record) for record in pairs if record is not None}
    alone = [(one, before) for before, one in neighbours(records) if id(one) not in matched]
    told = [_from_journal(entry, record) for entry, record in zip(rebalances, pairs, strict=True)]
    derived = [row for one, before in alone if (row := _from_metadata(one, before)) is not None]
    steps = [_journal_step(entry, record) for entry, record in zip(rebalances, pairs, strict=True)]
    steps += [_metadata_step(one) for one, _ in alone]
    return Tables(
        [{"group": group, **row} for row in sorted(told + derived, key=lambda row: int(row["ended"]))],
        [{"group": group, **row} for row in memberships(journal, records)],
        [{"group": group, **row} for row in _Ownership(steps, generations, journal).rows],
    )


def match(rebalances: Sequence[Entry], generations: Sequence[Entry]) -> list[Entry | None]:
    """Finds the record of each rebalance's generation, unless compaction has removed it. An overtaken rebalance can
    have one: its assignment was written, and sent to no member."""
    by_number: dict[int, list[Entry]] = {}
    for one in generations:
        by_number.setdefault(one["generation"], []).append(one)
    found: list[Entry | None] = []
    for entry in rebalances:
        early, late = entry["started"] - _SAME_EVENT_MS, entry["at"] + _SAME_EVENT_MS
        near = [one for one in by_number.get(entry["generation"], ()) if early <= one["at"] <= late]
        found.append(near[0] if near else None)
    return found


def neighbours(records: Sequence[Entry]) -> Iterable[tuple[Entry | None, Entry]]:
    """Each generation with the one before it, in the same life of the group: None for the first."""
    before: Entry | None = None
    for one in records:
        if one["type"] == "generation":
            yield before, one
        before = one if one["type"] == "generation" else None


# -- rebalances


def _limits(cause: Entry) -> Row:
    """The limits of an entry. Older journals put `group_max_size` into `limit_ms`."""
    if cause["trigger"] == "size_limit":
        return {"limit_ms": None, "group_max_size": cause.get("group_max_size") or cause["limit_ms"]}
    return {"limit_ms": cause["limit_ms"] or None, "group_max_size": None}


def _from_journal(entry: Entry, record: Entry | None) -> Row:
    phases, who = entry["phases_ms"], entry["cause"]["who"]
    return {
        "generation": entry["generation"],
        "began": entry["started"],
        "ended": entry["at"],
        "duration_ms": entry["at"] - entry["started"],
        **{f"{name}_ms": phases[name] for name in ("detect", "join", "assign", "sync")},
        "reason": _reason(entry["cause"]),
        "said": entry["cause"]["said"],
        **_limits(entry["cause"]),
        "cause_member": who["member_id"] or None,
        "cause_client": who["client_id"] or None,
        "cause_host": who["client_host"] or None,
        "cause_instance": who["group_instance_id"],
        "waited_for": entry["waited_for"]["client_id"] or None,
        "waited_ms": entry["waited_ms"],
        "members": entry["members"],
        "protocol": None if record is None else record["protocol"],
        "moved": len(entry["moved"]),
        "kept": entry["kept"],
        "revoked": len(entry["revoked"]),
        "overtaken": entry["overtaken"],
        "called": len(entry["called"]) if "called" in entry else None,  # of target epochs only
        "longest_dark_ms": _longest_dark(entry),
        "cut": entry.get("cut", 0),  # journals of before have none
        "source": JOURNAL,
    }


def _longest_dark(entry: Entry) -> int:
    """Journals of before have the list only."""
    listed = max((dark for *_, dark in entry["dark_ms"]), default=0)
    return int(entry.get("longest_dark_ms", listed))


def _reason(cause: Mapping[str, Any]) -> str:
    """The reason for the rebalance. A member whose application stopped polling says so when it leaves."""
    trigger = str(cause["trigger"])
    return POLL_OVERRUN if is_poll_overrun(trigger, cause["said"]) else trigger


def is_poll_overrun(trigger: str, said: str | None) -> bool:
    """Whether the member left because its application did not poll in time. Java and librdkafka say so in different
    words."""
    words = (said or "").lower()
    return trigger == "member_left" and ("poll timeout" in words or "max.poll.interval" in words)


def ends_rebalance(record: Entry, before: Entry | None) -> bool:
    """Whether a record of the group ended a rebalance. Kafka notes a group also when it first hears of it."""
    return bool(record["members"]) if before is None else record["generation"] != before["generation"]


def _from_metadata(record: Entry, before: Entry | None) -> Row | None:
    """The rebalance of a generation without a journal entry; None if the record ended no rebalance."""
    if not ends_rebalance(record, before):
        return None
    reason, who = guess(record, before)
    old, new = owners(before), owners(record)
    return {
        "generation": record["generation"],
        **_of_target(record),
        "ended": record["at"],
        "assign_ms": None if record["joined_at"] is None else max(0, record["at"] - record["joined_at"]),
        "reason": reason,
        "cause_member": who.get("member_id"),
        "cause_client": who.get("client_id"),
        "cause_host": who.get("client_host"),
        "cause_instance": who.get("group_instance_id"),
        "members": len(record["members"]),
        "protocol": record["protocol"],
        "moved": sum(old.get(partition) != owner for partition, owner in new.items()),
        "kept": sum(old.get(partition) == owner for partition, owner in new.items()),
        "revoked": len(old.keys() - new.keys()),
        "overtaken": False,
        "source": METADATA,
    }


def _of_target(record: Entry) -> Row:
    """What records of `consumer` groups tell beyond those of classic ones."""
    if not is_target(record):
        return {}
    return {
        "began": record["started"],
        "duration_ms": record["at"] - record["started"],
        "join_ms": record["target_ms"],
        "called": len(record["called"]),
        "longest_dark_ms": max((dark for *_, dark in record["dark_ms"]), default=0),
    }


def guess(record: Entry, before: Entry | None) -> tuple[str, Mapping[str, Any]]:
    """The likely reason, by the members before and after. They do not tell whether a member left or died."""
    new = {one["member_id"]: one for one in record["members"]}
    if before is None:
        is_first = record["generation"] <= (_FIRST_EPOCH if is_target(record) else _FIRST_GENERATION)
        return ("member_joined", record["members"][0]) if is_first else ("unknown", {})
    old = {one["member_id"]: one for one in before["members"]}
    came = [one for name, one in new.items() if name not in old]
    gone = [one for name, one in old.items() if name not in new]
    if came and gone:
        known = {_client(one) for one in gone}
        again = [one for one in came if _client(one) in known]
        return ("member_restarted", again[0]) if again else ("members_changed", came[0])
    if not old and not new:  # a generation between them came to no end: Kafka notes it only with its assignment
        return "never_settled", {}
    if came or gone:
        return ("member_joined", came[0]) if came else ("member_gone", gone[0])
    changed = [one for name, one in new.items() if sorted(one["topics"]) != sorted(old[name]["topics"])]
    if changed:
        return "subscription_changed", changed[0]
    if not is_target(record):
        return "member_rejoined", {}
    return ("topics_changed", {}) if owners(record).keys() != owners(before).keys() else ("unknown", {})


def is_target(record: Entry) -> bool:
    """Whether the record is of a `consumer` group: its begin is known then."""
    return "started" in record


def _client(member: Mapping[str, Any]) -> tuple[str, str]:
    return member["client_id"], member["client_host"]


# -- memberships


def memberships(journal: Iterable[Entry], records: Iterable[Entry]) -> list[Row]:
    """Memberships. Without a join in the journal, a member began with the first record that names it."""
    rows = _seen_in_records(records)
    for entry in journal:
        if entry["type"] in ("member_joined", "member_left"):
            who = entry["who"]
            row = rows.setdefault(who["member_id"], {"member_id": who["member_id"]})
            row |= {name: who[name] for name in ("group_instance_id", "client_id", "client_host")}
            if entry["type"] == "member_joined":
                row |= {"began": entry["at"], "ended": None}
            else:
                row |= {"ended": entry["at"], "why_left": _why(entry), "said": entry["said"]}
    return sorted(rows.values(), key=lambda row: (int(row.get("began") or 0), str(row["member_id"])))


def _why(left: Entry) -> str:
    is_overrun = _reason({"trigger": f"member_{left['departure']}", "said": left["said"]}) == POLL_OVERRUN
    return POLL_OVERRUN if is_overrun else str(left["departure"])


def _seen_in_records(records: Iterable[Entry]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    present: set[str] = set()
    for record in records:
        members = {one["member_id"]: one for one in record.get("members", ())}
        for name in present - members.keys():
            rows[name] |= {"ended": record["at"], "why_left": "unknown"}
        for name, one in members.items():
            row = rows.setdefault(name, {"began": record["at"]})
            row |= {key: value for key, value in one.items() if key not in ("topics", "partitions")}
        present = set(members)
    return rows


# -- ownership


def owners(record: Entry | None) -> Owners:
    """The owner of each partition by a record of its group."""
    members = () if record is None else record["members"]
    return {(topic, number): one["member_id"] for one in members for topic, number in one["partitions"]}


def _journal_step(entry: Entry, record: Entry | None) -> _Step:
    return _Step(
        entry["at"],
        entry["generation"],
        # One that was overtaken gave out nothing, and must not be taken for the end of the group.
        entry["members"] or entry["overtaken"],
        None if record is None or entry["overtaken"] else owners(record),
        {(topic, number): owner for topic, number, _, owner in entry["moved"]},
        frozenset((topic, number) for topic, number in entry["revoked"]),
        {(topic, number): dark for topic, number, dark in entry["dark_ms"]},
    )


def _metadata_step(record: Entry) -> _Step:
    dark = {(topic, number): ms for topic, number, ms in record.get("dark_ms", ())}
    return _Step(record["at"], record["generation"], len(record["members"]), owners(record), {}, frozenset(), dark)


class _Ownership:
    """Spans with an owner and without. Without an owner `member_id` is None, and `is_empty` says whether the group had
    no members."""

    def __init__(self, steps: Iterable[_Step], generations: Iterable[Entry], journal: Iterable[Entry]) -> None:
        self.rows: list[Row] = []
        self._clients = _clients(generations, journal)
        self._open: dict[TopicPartition, Row] = {}
        self._closed: dict[TopicPartition, Row] = {}  # the last span of each partition without an owner now
        self._empty: set[TopicPartition] = set()  # those of them whose group has had no members since
        for step in sorted(steps, key=lambda one: one.at):
            self._take(step)
        for partition, row in self._closed.items():
            self._gap(partition, row, None)

    def _take(self, step: _Step) -> None:
        owned = self._after(step)
        for partition in sorted(self._open.keys() | owned.keys()):
            old, new = self._open.get(partition), owned.get(partition)
            dark = step.dark_ms.get(partition)
            if old is not None and old["member_id"] == new and dark is None:
                continue
            if old is not None:
                self._close(partition, step.at - (dark or 0))
            if new is not None:
                self._begin(partition, new, step, dark)
        if not step.members:
            self._empty |= self._closed.keys()

    def _after(self, step: _Step) -> Owners:
        if step.owners is not None:
            return step.owners
        now = {partition: str(row["member_id"]) for partition, row in self._open.items()} | step.moved
        return {partition: owner for partition, owner in now.items() if partition not in step.revoked}

    def _close(self, partition: TopicPartition, at: int) -> None:
        row = self._open.pop(partition)
        row["ended"] = max(at, row["began"])
        self._closed[partition] = row

    def _begin(self, partition: TopicPartition, member: str, step: _Step, dark: int | None) -> None:
        last = self._closed.pop(partition, None)
        if last is not None:
            if dark is not None:  # its owner had stopped before it was taken away
                last["ended"] = max(min(last["ended"], step.at - dark), last["began"])
            self._gap(partition, last, step.at)
        row = {**self._named(partition), **self._clients.get(member, {}), "member_id": member, "began": step.at}
        self._open[partition] = row | {"generation": step.generation, "is_empty": False}
        self.rows.append(self._open[partition])

    def _gap(self, partition: TopicPartition, last: Row, until: int | None) -> None:
        if until is None or until > last["ended"]:
            is_empty = partition in self._empty
            self.rows.append(
                {**self._named(partition), "began": last["ended"], "ended": until, "is_empty": is_empty}
                | {"generation": last["generation"]}
            )
        self._empty.discard(partition)

    def _named(self, partition: TopicPartition) -> Row:
        return {"topic": partition[0], "partition": partition[1]}


def _clients(generations: Iterable[Entry], journal: Iterable[Entry]) -> dict[str, Row]:
    members = [one for record in generations for one in record["members"]]
    members += [entry["who"] for entry in journal if "who" in entry]
    return {one["member_id"]: {name: one[name] for name in ("client_id", "client_host")} for one in members}
