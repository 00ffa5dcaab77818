"""What the sources have found so far, by group. Takes rows, records and answers; gives views and totals.

It has no clock and no connection: whoever feeds it says when.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from equipoise.client import OffsetAndMetadata, TopicPartition
from equipoise.client.admin_groups import CLASSIC, CONSUMER, GroupDescription, GroupListing, MemberDescription
from equipoise.views.entries import Entry, group_entry
from equipoise.views.groups import Findings, group_view
from equipoise.views.lag import Behind, CommitPace, EndRing, LagRing
from equipoise.views.model import GroupType, GroupView, MemberView, Ms, Problem, RebalanceView, Source
from equipoise.views.rebalances import from_records, from_row, reason
from equipoise.wire.errors import KafkaError, ProtocolError
from equipoise.wire.offsets_records import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownRecordType,
    decode_record,
)

ROWS = 4_000  # of the journal, kept of each group: of 500 rebalances and more
GENERATIONS = 500
PHASES = ("detect", "join", "assign", "sync")
BOUNDS_S = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0)
_TYPES = {CLASSIC: GroupType.CLASSIC, CONSUMER: GroupType.CONSUMER}
Place = tuple[str, int]


def _rows() -> deque[Entry]:
    return deque(maxlen=ROWS)


def _generations() -> deque[Entry]:
    return deque(maxlen=GENERATIONS)


class Histogram:
    """Spans of time, counted by bounds in seconds; the last count is of those beyond all bounds."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, ms: int) -> None:
        """A bound belongs to the spans below it (Prometheus's `le`)."""
        self.counts[bisect_left(BOUNDS_S, ms / 1000)] += 1
        self.total_s += ms / 1000


@dataclass(slots=True)
class Totals:
    """What has happened since the watching began; the views hold only the last rebalances."""

    rebalances: Counter[str] = field(default_factory=Counter)  # by reason
    failed: int = 0  # overtaken
    moved: int = 0
    departures: Counter[str] = field(default_factory=Counter)
    fenced: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    phases: dict[str, Histogram] = field(default_factory=lambda: {name: Histogram() for name in PHASES})
    dark: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class _Group:
    group_id: str
    listing: GroupListing | None = None
    description: GroupDescription | KafkaError | None = None
    committed: Mapping[TopicPartition, OffsetAndMetadata | KafkaError] = field(default_factory=dict)
    journal: deque[Entry] = field(default_factory=_rows)
    records: deque[Entry] = field(default_factory=_generations)
    pace: CommitPace = field(default_factory=CommitPace)
    lags: LagRing = field(default_factory=LagRing)
    behind: dict[Place, Behind] = field(default_factory=dict)
    state_since: Ms | None = None
    totals: Totals = field(default_factory=Totals)


class Store:
    """The facts about all groups that were asked for or heard of."""

    def __init__(self, source: Source, began: Ms) -> None:
        self.source = source
        self.began = began  # what is older was read back, and is in no total
        self.seen_since: Ms | None = None
        self._groups: dict[str, _Group] = {}
        self._ends: dict[Place, int | Problem] = {}
        self._starts: dict[Place, int | Problem] = {}
        self._rings: dict[Place, EndRing] = {}

    @property
    def group_ids(self) -> list[str]:
        """All groups that are listed or described, by name."""
        return sorted(name for name, one in self._groups.items() if one.listing or one.description)

    # -- topics

    def take_journal(self, row: Entry) -> str | None:
        """A row of `__rebalances`. Returns its group."""
        group_id = row.get("group_id")
        if not isinstance(group_id, str) or "type" not in row:
            return None
        group = self._group(group_id)
        group.journal.append(row)
        if row["type"] == "state_changed":
            group.state_since = Ms(row["at"])
        if (row["at"] or 0) >= self.began:
            _count(group.totals, row)
        return group_id

    def take_record(self, key: bytes | None, value: bytes | None, at: Ms) -> str | None:
        """A record of `__consumer_offsets`. Returns its group if it is of one of the kinds that are known here."""
        if key is None:
            return None
        try:
            record = decode_record(key, value)
        except ProtocolError:
            return None
        if isinstance(record, UnknownRecordType):
            return None
        if isinstance(record.key, OffsetCommitKey):
            group = self._group(record.key.group)
            if isinstance(record.value, OffsetCommitValue):
                group.pace.add(Ms(record.value.commit_timestamp))
                group.totals.commits += at >= self.began
            return record.key.group
        if isinstance(record.key, GroupMetadataKey) and (named := group_entry(key, value, at)) is not None:
            self._take_generation(*named)
            return named[0]
        return None

    def _take_generation(self, group_id: str, entry: Entry) -> None:
        group = self._group(group_id)
        before = group.records[-1] if group.records else None
        group.records.append(entry)
        if self.source is not Source.OFFSETS_TOPIC or entry["at"] < self.began:
            return
        is_new = before is None or before.get("generation") != entry.get("generation")
        if entry["type"] == "generation" and is_new:
            earlier = before if before is not None and before["type"] == "generation" else None
            view = from_records(group_id, entry, earlier)
            if view is not None:
                _count_rebalance(group.totals, view)

    # -- answers

    def take_listings(self, listings: Iterable[GroupListing], *, is_all: bool) -> None:
        """Groups there are. `is_all`: those that are not among them are gone, and forgotten."""
        found = {one.group_id: one for one in listings}
        for name in [name for name in self._groups if is_all and name not in found]:
            del self._groups[name]
        for name, one in found.items():
            self._group(name).listing = one

    def take_descriptions(self, found: Mapping[str, GroupDescription | KafkaError], at: Ms) -> None:
        """What coordinators say of groups. By questions alone, a change of members is a rebalance."""
        for name, one in found.items():
            group = self._group(name)
            before, group.description = group.description, one
            if isinstance(one, KafkaError):
                continue
            if not isinstance(before, GroupDescription) or before.group_state != one.group_state:
                is_known = group.state_since is not None and self.source is Source.JOURNAL
                group.state_since = group.state_since if is_known else at
            if self.source is Source.POLLING:
                _note_look(group.records, one, at)

    def take_committed(self, group_id: str, found: Mapping[TopicPartition, OffsetAndMetadata | KafkaError]) -> None:
        """The offsets that a group has committed."""
        self._group(group_id).committed = found

    def take_ends(self, found: Mapping[TopicPartition, int | KafkaError], at: Ms) -> None:
        """The ends of partitions, read after the commits: lag is then never below 0."""
        for partition, end in found.items():
            self._ends[partition] = _problem(str(partition), end) if isinstance(end, KafkaError) else end
            if isinstance(end, int):
                self._rings.setdefault(partition, EndRing()).add(at, end)
        for group in self._groups.values():
            self._note_lag(group, at)

    def take_starts(self, found: Mapping[TopicPartition, int | KafkaError]) -> None:
        """The first offsets of partitions."""
        for partition, start in found.items():
            self._starts[partition] = _problem(str(partition), start) if isinstance(start, KafkaError) else start

    def take_ages(self, group_id: str, found: Mapping[TopicPartition, Ms], now: Ms) -> None:
        """The times of the oldest records that a group has not read."""
        group = self._group(group_id)
        group.behind = {partition: Behind(max(0, now - at)) for partition, at in found.items()}

    def _note_lag(self, group: _Group, at: Ms) -> None:
        known = []
        for partition, one in group.committed.items():
            end = self._ends.get(partition)
            if isinstance(one, OffsetAndMetadata) and isinstance(end, int):
                known.append(max(0, end - one.offset))
                behind = self._rings[partition].behind(one.offset, at) if partition in self._rings else None
                if behind is not None and not behind.is_at_least:
                    group.behind[partition] = behind
        if known:
            group.lags.add(at, sum(known))

    # -- views

    def partitions(self) -> list[TopicPartition]:
        """All partitions that groups have committed or own."""
        found = {one for group in self._groups.values() for one in group.committed}
        for group in self._groups.values():
            if isinstance(group.description, GroupDescription):
                found |= {one for member in group.description.members for one in member.partitions}
        return sorted(found)

    def unread(self, group_id: str) -> dict[TopicPartition, int]:
        """The first unread offset of each partition on which the group has lag."""
        return {
            partition: one.offset
            for partition, one in self._group(group_id).committed.items()
            if isinstance(one, OffsetAndMetadata)
            and isinstance(end := self._ends.get(partition), int)
            and end > one.offset
        }

    def view(self, group_id: str, now: Ms) -> GroupView:
        """The group as it is known now."""
        return group_view(self._findings(self._group(group_id), now))

    def entries(self, group_id: str) -> tuple[list[Entry], list[Entry]]:
        """Rows of the journal and records of generations, as `views.timeline.tell` takes them."""
        group = self._group(group_id)
        return list(group.journal), list(group.records)

    def totals(self, group_id: str) -> Totals:
        """What has happened to the group since the watching began."""
        return self._group(group_id).totals

    def ends(self) -> dict[Place, int]:
        """The ends that are known."""
        return {place: end for place, end in self._ends.items() if isinstance(end, int)}

    def _group(self, group_id: str) -> _Group:
        return self._groups.setdefault(group_id, _Group(group_id))

    def _seen_since(self, group_type: str | None) -> Ms | None:
        """Records of `consumer` groups say nothing here: of their rebalances on Kafka nothing is known."""
        is_silent = group_type == CONSUMER and self.source is Source.OFFSETS_TOPIC
        return None if is_silent else self.seen_since

    def _findings(self, group: _Group, now: Ms) -> Findings:
        told = group.description
        problems = (_problem(group.group_id, told),) if isinstance(told, KafkaError) else ()
        described = told if isinstance(told, GroupDescription) else None
        listed = group.listing
        state = described.group_state if described else listed.group_state if listed else None
        kind = described.group_type if described else listed.group_type if listed else None
        return Findings(
            group_id=group.group_id,
            type=_TYPES.get(kind or CLASSIC, GroupType.OTHER),
            state=state,
            protocol=described.protocol if described else None,
            generation=described.generation if described else None,
            coordinator_id=described.coordinator_id if described else listed.coordinator_id if listed else None,
            members=tuple(_member(one) for one in described.members) if described else (),
            committed={place: _committed(place, one) for place, one in group.committed.items()},
            starts=self._starts,
            ends=self._ends,
            behind=group.behind,
            journal=tuple(group.journal),
            records=tuple(group.records),
            source=self.source,
            as_of=now,
            seen_since=self._seen_since(kind),
            state_since=group.state_since,
            last_commit=group.pace.last,
            usual_commit_ms=group.pace.usual_ms,
            lag_series=group.lags.series,
            problems=problems,
        )


def _count(totals: Totals, row: Entry) -> None:
    match row["type"]:
        case "rebalance":
            _count_rebalance(totals, from_row(row))
        case "member_left":
            totals.departures[row["departure"]] += 1
        case "member_fenced":
            totals.fenced += 1
        case "commit_refused":
            totals.refused[row["refusal"]] += 1


def _count_rebalance(totals: Totals, view: RebalanceView) -> None:
    totals.rebalances[reason(view)] += 1
    totals.failed += view.overtaken
    totals.moved += len(view.moved)
    for name, took in zip(PHASES, view.phases or (), strict=False):
        if took is not None:
            totals.phases[name].add(took)
    for one in view.dark or ():
        totals.dark.add(one.dark_ms)


def _note_look(records: deque[Entry], told: GroupDescription, at: Ms) -> None:
    """A look at a group that rests, if its members or their partitions are others than at the last look."""
    if told.group_state not in ("Stable", "Empty"):
        return
    members = [_looked_at(one) for one in sorted(told.members)]
    if records and records[-1]["members"] == members:
        return
    number = records[-1]["generation"] + 1 if records else 1
    entry: dict[str, Any] = {"type": "generation", "at": at, "joined_at": None, "generation": number, "is_look": True}
    records.append(entry | {"protocol": told.protocol, "leader": None, "members": members})


def _looked_at(member: MemberDescription) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topics": list(member.topics),
        "partitions": [[topic, number] for topic, number in sorted(member.partitions)],
    }


def _member(member: MemberDescription) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        partitions=tuple((topic, number) for topic, number in sorted(member.partitions)),
        topics=member.topics,
        lag=None,
        member_epoch=member.member_epoch,
    )


def _committed(place: Place, one: OffsetAndMetadata | KafkaError) -> tuple[int, str] | Problem:
    return _problem(f"{place[0]}-{place[1]}", one) if isinstance(one, KafkaError) else (one.offset, one.metadata)


def _problem(what: str, error: KafkaError) -> Problem:
    return Problem(what, error.code, error.message or error.code.name)
