"""Entries of `consumer` groups (KIP-848), by their records of `__consumer_offsets`.

No record says that a rebalance is over. The group's epoch (type 3) begins one, and the target's epoch (type 6) follows.
Each member then has a record of what it owns and of the epoch that it has reached (type 8). The rebalance is over when
every member has reached the epoch of the group. An epoch that the next one overtakes has no entry of its own: the two
are one rebalance.

The records have ids of topics in place of names. Whoever knows the names gives them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from equipoise.views.entries import Entry
from equipoise.wire.errors import ProtocolError
from equipoise.wire.offsets_records import (
    AssignedPartitions,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CoordinatorRecord,
    UnknownRecordType,
    decode_record,
)
from equipoise.wire.schema import Message

_STABLE = 0  # of a member: it has all of its target
_AWAY = -2  # the epoch of a static member that will be back: nobody waits for it
Place = tuple[str, int]


@dataclass(slots=True)
class _Member:
    metadata: ConsumerGroupMemberMetadataValue | None = None
    epoch: int = -1
    is_stable: bool = False
    owned: frozenset[Place] = frozenset()  # with what it still has to give up


@dataclass(slots=True)
class _Round:
    """What has happened since the group last rested."""

    started: int
    target_at: int | None = None
    called: dict[str, int] = field(default_factory=dict)
    dark: dict[Place, int] = field(default_factory=dict)


class ConsumerGroupRecords:
    """One group. Takes its records in the order of the log, gives an entry for each rebalance that is over.

    Who begins in the middle of a log does not know all members: those that are heard of later in the same epoch are
    added to its entry."""

    __slots__ = ("_entry", "_epoch", "_members", "_regexes", "_released", "_rested", "_round", "_target")

    def __init__(self) -> None:
        self._members: dict[str, _Member] = {}
        self._regexes: dict[str, list[str]] = {}
        self._epoch: int | None = None
        self._target: int | None = None
        self._rested: int | None = None  # the last epoch that every member has reached
        self._round: _Round | None = None
        self._entry: Entry | None = None  # of the last rebalance
        self._released: dict[Place, int] = {}  # partitions without owner, and since when

    def take(self, record: CoordinatorRecord, at: int) -> Entry | None:
        """A record of this group. Returns the entry of a rebalance that it has ended, or of the group's end: another
        group may have the name later."""
        key, value = record
        match key:
            case ConsumerGroupMetadataKey():
                if not isinstance(value, ConsumerGroupMetadataValue):
                    return {"type": "deleted", "at": at}
                self._begin(value.epoch, at)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self._take_target(value, at)
            case ConsumerGroupMemberMetadataKey():
                self._take_member(key.member_id, value, at)
            case ConsumerGroupCurrentMemberAssignmentKey():
                self._take_current(key.member_id, value, at)
            case ConsumerGroupRegularExpressionKey():
                topics = value.topics if isinstance(value, ConsumerGroupRegularExpressionValue) else []
                self._regexes[key.regular_expression] = topics
        return self._ended(at)

    def _begin(self, epoch: int, at: int) -> None:
        if epoch != self._epoch:
            self._epoch = epoch
            self._round = self._round or _Round(at)

    def _take_target(self, value: Message | None, at: int) -> None:
        if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
            self._target = value.assignment_epoch
            if self._round is not None and self._target == self._epoch:
                self._round.target_at = at

    def _take_member(self, member_id: str, value: Message | None, at: int) -> None:
        if isinstance(value, ConsumerGroupMemberMetadataValue):
            self._members.setdefault(member_id, _Member()).metadata = value
        elif value is None and member_id in self._members:
            self._own(member_id, self._members.pop(member_id), frozenset(), at)

    def _take_current(self, member_id: str, value: Message | None, at: int) -> None:
        if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            member = self._members.setdefault(member_id, _Member())
            member.epoch, member.is_stable = value.member_epoch, value.state == _STABLE
            self._own(member_id, member, frozenset(_places(value)), at)
        elif member_id in self._members:
            self._own(member_id, self._members[member_id], frozenset(), at)

    def _own(self, member_id: str, member: _Member, owned: frozenset[Place], at: int) -> None:
        """Notes what was without an owner for a while, and whose partitions have changed."""
        for place in member.owned - owned:
            self._released[place] = at
        for place in owned - member.owned:
            since = self._released.pop(place, at)
            if self._round is not None and at > since:
                self._round.dark[place] = at - since
        if owned != member.owned and self._round is not None:
            self._round.called[member_id] = at - self._round.started
        member.owned = owned

    def _ended(self, at: int) -> Entry | None:
        if self._epoch is None or self._epoch == self._rested:
            self._amend(at)
            return None
        if not self._is_reached():
            return None
        ended, self._round, self._rested = self._round or _Round(at), None, self._epoch
        if not self._members:
            self._released.clear()  # an Empty group lacks members, not owners
        self._entry = self._entry_of(ended, at)
        return self._entry

    def _is_reached(self) -> bool:
        if not self._members:
            return True
        members = self._members.values()
        at_rest = all(one.epoch == _AWAY or (one.epoch == self._epoch and one.is_stable) for one in members)
        return at_rest and self._target == self._epoch

    def _amend(self, at: int) -> None:
        """A member that was not known when the epoch seemed to be reached."""
        if self._entry is not None and len(self._members) > len(self._entry["members"]) and self._is_reached():
            self._entry |= {"at": at, "members": self._listed_members()}

    def _listed_members(self) -> list[Entry]:
        return [self._member(name, one) for name, one in sorted(self._members.items())]

    def _entry_of(self, ended: _Round, at: int) -> Entry:
        return {
            "type": "generation",
            "at": at,
            "joined_at": None,
            "generation": self._epoch,
            "protocol": None,
            "leader": None,
            "members": self._listed_members(),
            "started": ended.started,
            "target_ms": None if ended.target_at is None else ended.target_at - ended.started,
            "called": [[name, after] for name, after in ended.called.items() if name in self._members],
            "dark_ms": [[*place, ms] for place, ms in sorted(ended.dark.items())],
        }

    def _member(self, member_id: str, member: _Member) -> Entry:
        told = member.metadata
        return {
            "member_id": member_id,
            "group_instance_id": None if told is None else told.instance_id,
            "client_id": "" if told is None else told.client_id,
            "client_host": "" if told is None else told.client_host,
            "session_timeout_ms": None,
            "rebalance_timeout_ms": None if told is None else max(0, told.rebalance_timeout_ms) or None,
            "topics": [] if told is None else self._topics(told),
            "partitions": [list(place) for place in sorted(member.owned)],
        }

    def _topics(self, told: ConsumerGroupMemberMetadataValue) -> list[str]:
        matched = self._regexes.get(told.subscribed_topic_regex or "", [])
        return sorted({*told.subscribed_topic_names, *matched})


def consumer_record(key: bytes, value: bytes | None) -> tuple[str, CoordinatorRecord] | None:
    """The group of a record of types 3 to 8 or 16. None: another record, or one that cannot be read."""
    if not 3 <= int.from_bytes(key[:2], "big") <= 16:
        return None
    try:
        record = decode_record(key, value)
    except ProtocolError:
        return None
    if isinstance(record, UnknownRecordType):
        return None
    group_id = getattr(record.key, "group_id", None)
    return None if group_id is None else (group_id, record)


def kafka_uuid(topic_id: bytes) -> str:
    """An id as Kafka's tools print it."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def with_names(entry: Entry, names: Mapping[str, str]) -> Entry:
    """The entry with names of topics in place of ids, as far as they are known. Those of classic groups have names."""
    if "started" not in entry:
        return entry
    members = [one | {"partitions": _named(one["partitions"], names)} for one in entry["members"]]
    return entry | {"members": members, "dark_ms": _named(entry["dark_ms"], names)}


def _named(rows: Iterable[list[object]], names: Mapping[str, str]) -> list[list[object]]:
    return [[names.get(str(topic), topic), *rest] for topic, *rest in rows]


def _places(value: ConsumerGroupCurrentMemberAssignmentValue) -> Iterator[Place]:
    rows: list[AssignedPartitions] = [*value.assigned_partitions, *value.partitions_pending_revocation]
    for row in rows:
        for number in row.partitions:
            yield kafka_uuid(row.topic_id), number
