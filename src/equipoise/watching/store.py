"""What the sources have found so far, by group. Takes rows, records and answers; gives views and totals.

It has no clock and no connection: whoever feeds it says when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from equipoise.client import OffsetAndMetadata, TopicPartition
from equipoise.client.admin import TopicDescription
from equipoise.client.admin_groups import CLASSIC, CONSUMER, GroupDescription, GroupListing, MemberDescription
from equipoise.views.consumer_entries import ConsumerGroupRecords, consumer_record, kafka_uuid, with_names
from equipoise.views.entries import Entry, group_entry
from equipoise.views.groups import Findings, aged, group_view
from equipoise.views.lag import Behind, CommitPace, EndRing, LagRing
from equipoise.views.model import Dark, GroupType, GroupView, MemberView, Move, Ms, Problem, Source
from equipoise.views.rebalances import from_records
from equipoise.views.timeline import is_target, owners
from equipoise.watching.pending import PendingCommits
from equipoise.watching.totals import Totals, count_rebalance, count_row
from equipoise.wire.errors import KafkaError, ProtocolError
from equipoise.wire.offsets_records import OffsetCommitValue, decode_record, decode_usual_value, group_of_commit

ROWS = 4_000  # of the journal, kept of each group: of 500 rebalances and more
GENERATIONS = 500
GROUP_METADATA = b"\0\2"  # what keys of records of classic groups begin with
_TYPES = {CLASSIC: GroupType.CLASSIC, CONSUMER: GroupType.CONSUMER}
Place = tuple[str, int]
Committed = tuple[int, str] | Problem  # offset and metadata


def _rows() -> deque[Entry]:
    return deque(maxlen=ROWS)


def _generations() -> deque[Entry]:
    return deque(maxlen=GENERATIONS)


@dataclass(slots=True)
class _Group:
    group_id: str
    listing: GroupListing | None = None
    description: GroupDescription | KafkaError | None = None  # without its members
    members: tuple[MemberView, ...] = ()
    committed: Mapping[Place, Committed] = field(default_factory=dict)
    journal: deque[Entry] = field(default_factory=_rows)
    records: deque[Entry] = field(default_factory=_generations)
    consumer_records: ConsumerGroupRecords = field(default_factory=ConsumerGroupRecords)
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
        self._sizes: dict[Place, int] = {}
        self._names: dict[str, str] = {}  # of topics, by id
        self._heard: set[str] = set()
        self._unasked: set[str] = set()  # groups whose commits are others than the known ones
        self._pending = PendingCommits()
        self._places: dict[Place, Place] = {}

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
        self._heard.add(group_id)
        group.journal.append(_slim(row))
        if row["type"] == "state_changed":
            group.state_since = Ms(row["at"])
        if (row["at"] or 0) >= self.began:
            count_row(group.totals, row)
        return group_id

    def take_record(self, key: bytes | None, value: bytes | None, at: Ms) -> str | None:
        """A record of `__consumer_offsets`. Returns its group if it tells of a rebalance."""
        if key is None or self.take_commit(key, value, at):
            return None
        is_classic = key[:2] == GROUP_METADATA
        named = group_entry(key, value, at) if is_classic else self._take_consumer_record(key, value, at)
        if named is None:
            return None
        if is_classic:
            self._share_places(named[1])
        self._take_generation(*named)
        return named[0]

    def _take_consumer_record(self, key: bytes, value: bytes | None, at: Ms) -> tuple[str, Entry] | None:
        """Of a `consumer` group, and the entry that it completes. The journal has its own word of rebalances."""
        found = consumer_record(key, value) if self.source is Source.OFFSETS_TOPIC else None
        if found is None:
            return None
        group = self._group(found[0])
        entry = group.consumer_records.take(found[1], at)
        if entry is not None and entry["type"] == "deleted":
            group.consumer_records = ConsumerGroupRecords()
        return None if entry is None else (group.group_id, entry)

    def take_commit(self, key: bytes | None, value: bytes | None, at: Ms) -> bool:
        """A record of `__consumer_offsets`, if it is a commit. Whether it is one."""
        name = None if key is None else group_of_commit(key)
        if key is None or name is None:
            return False
        offset, committed_at = (None, None) if value is None else _commit_of(key, value)
        is_live = at >= self.began
        if is_live:
            self._pending.heard(name, key, offset)
        if committed_at is not None:
            group = self._group(name)
            group.pace.add(committed_at)
            self._unasked.add(name)
            group.totals.commits += is_live
        return True

    def _take_generation(self, group_id: str, entry: Entry) -> None:
        group = self._group(group_id)
        self._heard.add(group_id)
        before = group.records[-1] if group.records else None
        group.records.append(entry)
        if self.source is not Source.OFFSETS_TOPIC or entry["at"] < self.began:
            return
        is_new = before is None or before.get("generation") != entry.get("generation")
        if entry["type"] == "generation" and is_new:
            earlier = before if before is not None and before["type"] == "generation" else None
            named = None if earlier is None else with_names(earlier, self._names)
            view = from_records(group_id, with_names(entry, self._names), named)
            if view is not None:
                count_rebalance(group.totals, view)

    # -- answers

    def take_listings(self, listings: Iterable[GroupListing], *, is_all: bool) -> None:
        """Groups there are. `is_all`: those that are not among them are gone, and forgotten."""
        found = {one.group_id: one for one in listings}
        for name in [name for name in self._groups if is_all and name not in found]:
            del self._groups[name]
            self._unasked.discard(name)
            self._pending.forget(name)
        for name, one in found.items():
            self._group(name).listing = one

    def take_descriptions(self, found: Mapping[str, GroupDescription | KafkaError], at: Ms) -> None:
        """What coordinators say of groups. By questions alone, a change of members is a rebalance."""
        for name, one in found.items():
            group = self._group(name)
            before = group.description
            if isinstance(one, KafkaError):
                group.description, group.members = one, ()
                continue
            group.description = one._replace(members=[])
            group.members = tuple(self._member(member, at) for member in one.members)
            _name_clients(group.records, one)
            if one.state_ms_ago is not None:
                group.state_since = Ms(at - one.state_ms_ago)
            elif not isinstance(before, GroupDescription) or before.group_state != one.group_state:
                is_known = group.state_since is not None and self.source is Source.JOURNAL
                group.state_since = group.state_since if is_known else at
            if self.source is Source.POLLING:
                _note_look(group.records, one, at)

    def take_committed(self, group_id: str, found: Mapping[TopicPartition, OffsetAndMetadata | KafkaError]) -> None:
        """The offsets that a group has committed."""
        committed = {self._shared(place): _committed(place, one) for place, one in found.items()}
        self._group(group_id).committed = committed
        if self._pending.settle(group_id, committed):
            self._unasked.add(group_id)

    def asking(self, group_ids: Iterable[str]) -> None:
        """These groups are asked about: what they commit from now on is news again."""
        self._unasked.difference_update(group_ids)

    def not_answered(self, group_id: str) -> None:
        """The commits of a group could not be had: it is to be asked about again."""
        self._unasked.add(group_id)

    def take_ends(
        self, found: Mapping[TopicPartition, int | KafkaError], at: Ms, of: Iterable[str] | None = None
    ) -> None:
        """The ends of partitions, read after the commits: lag is then never below 0. The lag of these groups follows,
        or of all."""
        for partition, end in found.items():
            self._ends[partition] = _problem(str(partition), end) if isinstance(end, KafkaError) else end
            if isinstance(end, int):
                self._rings.setdefault(partition, EndRing()).add(at, end)
        for group in self._groups.values() if of is None else [self._group(name) for name in of]:
            self._note_lag(group, at)

    def take_starts(self, found: Mapping[TopicPartition, int | KafkaError]) -> None:
        """The first offsets of partitions."""
        for partition, start in found.items():
            self._starts[partition] = _problem(str(partition), start) if isinstance(start, KafkaError) else start

    def take_sizes(self, found: Mapping[TopicPartition, int]) -> None:
        """The bytes of partitions on disk."""
        self._sizes = {self._shared(place): size for place, size in found.items()}

    def take_ages(self, group_id: str, found: Mapping[TopicPartition, Ms], now: Ms) -> None:
        """The times of the oldest records that a group has not read. A record without a time (-1) has no age."""
        group = self._group(group_id)
        group.behind = {partition: Behind(max(0, now - at)) for partition, at in found.items() if at >= 0}

    def _note_lag(self, group: _Group, at: Ms) -> None:
        lag, is_known = 0, False
        for place, one in group.committed.items():
            end = self._ends.get(place)
            if not isinstance(end, int) or isinstance(one, Problem):
                continue
            is_known = True
            if end > one[0]:
                lag += end - one[0]
                self._note_age(group, place, one[0], at)
            elif group.behind:
                group.behind.pop(place, None)
        if is_known:
            group.lags.add(at, lag)

    def _note_age(self, group: _Group, place: Place, offset: int, at: Ms) -> None:
        behind = self._rings[place].behind(offset, at) if place in self._rings else None
        if behind is not None and not behind.is_at_least and behind.ms:
            group.behind[place] = behind

    # -- views

    def take_heard(self) -> set[str]:
        """The groups that the source has told of since the last call."""
        heard, self._heard = self._heard, set()
        return heard

    def rests(self, group_id: str) -> bool:
        """Whether nothing was heard of the group since it was last asked about: its members and commits are those."""
        group = self._group(group_id)
        told, listed = group.description, group.listing
        if not isinstance(told, GroupDescription) or told.group_state not in ("Stable", "Empty"):
            return False
        is_as_listed = listed is None or listed.group_state in (None, told.group_state)
        return is_as_listed and group_id not in self._unasked

    def partitions(self, of: Iterable[str] | None = None) -> set[Place]:
        """All partitions that these groups, or all, have committed or own."""
        found: set[Place] = set()
        for group in self._groups.values() if of is None else [self._group(name) for name in of]:
            found.update(group.committed)
            for member in group.members:
                found.update(member.partitions)
        return found

    def unread(self, group_id: str) -> dict[TopicPartition, int]:
        """The first unread offset of each partition on which the group has lag."""
        return {
            TopicPartition(*place): one[0]
            for place, one in self._group(group_id).committed.items()
            if not isinstance(one, Problem) and isinstance(end := self._ends.get(place), int) and end > one[0]
        }

    def view(self, group_id: str, now: Ms) -> GroupView:
        """The group as it is known now."""
        return group_view(self._findings(self._group(group_id), now))

    def aged(self, view: GroupView, now: Ms) -> GroupView | None:
        """The same view at a later time, if nothing in it is different."""
        return aged(view, self._ends, now) if self.rests(view.group_id) else None

    def entries(self, group_id: str) -> tuple[list[Entry], list[Entry]]:
        """Rows of the journal and records of generations, as `views.timeline.tell` takes them."""
        group = self._group(group_id)
        return list(group.journal), self._named(group.records)

    def totals(self, group_id: str) -> Totals:
        """What has happened to the group since the watching began."""
        return self._group(group_id).totals

    def log_start(self, place: Place) -> int | None:
        """The first offset of a partition, if it is known."""
        found = self._starts.get(place)
        return found if isinstance(found, int) else None

    def log_end(self, place: Place) -> int | None:
        """The end of a partition, if it is known."""
        found = self._ends.get(place)
        return found if isinstance(found, int) else None

    def per_second(self, place: Place) -> float | None:
        """Records that came to a partition, if it was looked at twice."""
        ring = self._rings.get(place)
        return None if ring is None else ring.per_second

    def ends(self) -> dict[Place, int]:
        """The ends that are known."""
        return {place: end for place, end in self._ends.items() if isinstance(end, int)}

    def size(self, place: Place) -> int | None:
        """The bytes of a partition, if they are known."""
        return self._sizes.get(place)

    def sizes(self) -> Mapping[str, int]:
        """The bytes of topics, as far as they are known."""
        found: dict[str, int] = {}
        for (topic, _), size in self._sizes.items():
            found[topic] = found.get(topic, 0) + size
        return found

    def _shared(self, place: Place) -> Place:
        """The one object for a partition: a hundred thousand commits name ten thousand of them."""
        found = self._places.get(place)
        if found is None:
            found = (intern(place[0]), place[1])
            self._places[found] = found
        return found

    def _share_places(self, entry: Entry) -> None:
        for member in entry.get("members", ()):
            member["partitions"] = [self._shared(one) for one in member["partitions"]]

    def _member(self, member: MemberDescription, at: Ms) -> MemberView:
        """`at`: when the coordinator said so; deadlines count from then."""
        told = member.deadlines
        return MemberView(
            **_identity(member),
            partitions=tuple(self._shared(one) for one in sorted(member.partitions)),
            topics=tuple(map(intern, member.topics)),
            lag=None,
            member_epoch=member.member_epoch,
            last_seen=None if told is None else _after(at, told.last_seen_ms_ago, -1),
            session_ends=None if told is None else _after(at, told.session_ms_left),
            awaiting=None if told is None else told.awaiting,
            awaited_until=None if told is None else _after(at, told.awaited_ms_left),
        )

    def _group(self, group_id: str) -> _Group:
        found = self._groups.get(group_id)
        if found is None:
            found = self._groups[group_id] = _Group(group_id)
        return found

    def take_topics(self, found: Iterable[TopicDescription]) -> None:
        """Names of topics: records of `consumer` groups have their ids."""
        self._names |= {kafka_uuid(one.topic_id): one.name for one in found}

    @property
    def has_nameless_topics(self) -> bool:
        """Whether the last record of a group has a topic whose name is not known."""
        last = [one.records[-1] for one in self._groups.values() if one.records and is_target(one.records[-1])]
        return any(topic not in self._names for one in last for topic, _ in owners(one))

    def _named(self, records: Iterable[Entry]) -> list[Entry]:
        return [with_names(one, self._names) for one in records]

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
            members=group.members,
            committed=group.committed,
            starts=self._starts,
            ends=self._ends,
            behind=group.behind,
            journal=tuple(group.journal),
            records=self._named(group.records),
            source=self.source,
            as_of=now,
            seen_since=self.seen_since,
            state_since=group.state_since,
            last_commit=group.pace.last,
            usual_commit_ms=group.pace.usual_ms,
            lag_series=group.lags.series,
            problems=problems,
        )


def _commit_of(key: bytes, value: bytes) -> tuple[int, Ms] | tuple[None, None]:
    """The offset, and when it was committed; None if the record cannot be read."""
    usual = decode_usual_value(value)
    if usual is not None:
        return usual[0], Ms(usual[2])
    try:
        record = decode_record(key, value)
    except ProtocolError:
        return None, None
    told = getattr(record, "value", None)
    return (told.offset, Ms(told.commit_timestamp)) if isinstance(told, OffsetCommitValue) else (None, None)


def _slim(row: Entry) -> Entry:
    """A row names the same fields, topics and members again and again, and JSON makes a new text of each."""
    slim: Entry = _shared_texts(row)
    if slim["type"] == "rebalance":
        slim["moved"] = [Move(*one) for one in slim["moved"]]
        slim["dark_ms"] = [Dark(*one) for one in slim["dark_ms"]]
    return slim


def _shared_texts(value: Any) -> Any:
    if isinstance(value, str):
        return intern(value)
    if isinstance(value, dict):
        return {intern(name): _shared_texts(one) for name, one in value.items()}
    return [_shared_texts(one) for one in value] if isinstance(value, list) else value


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


def _name_clients(records: Iterable[Entry], told: GroupDescription) -> None:
    """Who began in the middle of a log has not seen what members of a `consumer` group said of themselves."""
    known = {one.member_id: one for one in told.members}
    for record in records:
        for one in record["members"] if is_target(record) else ():
            described = known.get(one["member_id"])
            if described is not None and not one["client_id"]:
                one |= {"client_id": described.client_id, "client_host": described.client_host}
                one["group_instance_id"] = described.group_instance_id


def _looked_at(member: MemberDescription) -> dict[str, Any]:
    partitions = [[topic, number] for topic, number in sorted(member.partitions)]
    return _identity(member) | {"topics": list(member.topics), "partitions": partitions}


def _identity(member: MemberDescription) -> dict[str, Any]:
    return {name: getattr(member, name) for name in ("member_id", "group_instance_id", "client_id", "client_host")}


def _after(at: Ms, span: int | None, sign: int = 1) -> Ms | None:
    return None if span is None else Ms(at + sign * span)


def _committed(place: Place, one: OffsetAndMetadata | KafkaError) -> Committed:
    return (
        _problem(f"{place[0]}-{place[1]}", one) if isinstance(one, KafkaError) else (one.offset, intern(one.metadata))
    )


def _problem(what: str, error: KafkaError) -> Problem:
    return Problem(what, error.code, error.message or error.code.name)
