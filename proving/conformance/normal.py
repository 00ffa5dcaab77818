"""Answers as plain data in which the same behaviour is the same value: names in place of ids, no times, no ports.

Only what Kafka itself leaves to chance is evened out: member ids, the order of hash maps, the words of messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from equipoise.wire.consumer_protocol import Subscription, decode_assignment, encode_subscription
from equipoise.wire.errors import ErrorCode, ProtocolError
from equipoise.wire.schema import ZERO_UUID, Struct
from proving.conformance.consumer.values import Claim, Epoch, Held, Partitions, Parts, Pattern, Topic
from proving.conformance.steps import Ask, Generation, GroupId, Id, TopicId

_GIVEN_ID = re.compile(r"(.*)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.DOTALL)
# Made by the coordinator of a `consumer` group: nothing but a UUID.
_BARE_ID = re.compile(r"[A-Za-z0-9_-]{22}")
MADE = "made"
# Lists that come out of Kafka's hash maps.
_UNORDERED = {
    ("JoinGroup", "members"),
    ("DescribeGroups", "members"),
    ("ListGroups", "groups"),
    ("OffsetFetch", "topics"),
    ("OffsetFetch", "partitions"),
    ("DeleteGroups", "results"),
    ("DescribeGroups", "groups"),
    ("ConsumerGroupDescribe", "groups"),
    ("ConsumerGroupDescribe", "members"),
    ("ConsumerGroupDescribe", "subscribed_topic_names"),
    ("DescribeConfigs", "configs"),
}
_LONGEST = 120


class Names:
    """What one play has learned from one broker: ids by name and back."""

    def __init__(self, groups: Mapping[str, str], topic_ids: Mapping[str, bytes], port: int) -> None:
        self.groups = groups
        self.port = port
        self._group_names = {group_id: name for name, group_id in groups.items()}
        self._topic_ids = {name: [topic_id] for name, topic_id in topic_ids.items()}
        self._own_topics: dict[str, str] = {}
        self._ids: dict[str, list[str]] = {}
        self.generations: dict[str, int] = {}
        self.epochs: dict[str, int] = {}  # that members of `consumer` groups were told
        self.held: dict[str, dict[str, list[int]]] = {}
        self.reads_assignments = False  # or compares them byte by byte
        self.own = f"-{'-'.join(groups.values())}"  # the end of the names of topics that the script makes

    def remember(self, other: Names) -> None:
        """What was learned of members elsewhere. Topics have ids of their own here."""
        self._ids = {prefix: list(ids) for prefix, ids in other._ids.items()}
        self.generations = dict(other.generations)
        self.epochs, self.held = dict(other.epochs), dict(other.held)

    def member(self, member_id: str) -> str:
        """ "a#2" for the second id that begins with "a"; ids that no broker has made are as they are."""
        given = _GIVEN_ID.fullmatch(member_id)
        if given is None and not _BARE_ID.fullmatch(member_id):
            return member_id
        prefix = given[1] if given else MADE
        known = self._ids.setdefault(prefix, [])
        if member_id not in known:
            known.append(member_id)
        return f"{prefix}#{known.index(member_id) + 1}"

    def group(self, group_id: str) -> str:
        return self._group_names.get(group_id, group_id)

    def is_own(self, group_id: str) -> bool:
        return group_id in self._group_names

    def topic(self, topic_id: bytes) -> str:
        if topic_id == ZERO_UUID:
            return "none"
        known = (
            f"{name}#{ids.index(topic_id) + 1}" if len(ids) > 1 else name
            for name, ids in self._topic_ids.items()
            if topic_id in ids
        )
        return next(known, topic_id.hex())

    def made_topic(self, name: str, actual: str, topic_id: bytes) -> None:
        self._own_topics[name] = actual
        self._topic_ids.setdefault(name, []).append(topic_id)

    def topic_name(self, actual: str) -> str:
        return next((name for name, one in self._own_topics.items() if one == actual), actual)

    def id_of(self, wanted: Id) -> str:
        known = self._ids.get(wanted.prefix, [])
        if wanted.nth > len(known):
            return "there is no such id yet"
        return known[wanted.nth - 1] if known else ""

    def resolve(self, value: Any, group: str) -> Any:
        """A request's fields with what the names in them stand for."""
        if isinstance(value, Id):
            return self.id_of(value)
        if isinstance(value, Generation):
            return self.generations.get(group, 0) + value.plus
        if isinstance(value, TopicId):
            ids = self._topic_ids.get(value.topic, [value.topic.encode().ljust(16, b"?")[:16]])
            return ids[value.nth - 1]
        if isinstance(value, GroupId):
            return self.groups[value.name]
        if isinstance(value, Epoch | Held | Parts | Topic | Pattern | Claim):
            return self._of_consumer_groups(value)
        if isinstance(value, Mapping):
            return {name: self.resolve(one, group) for name, one in value.items()} | self._named(value)
        return [self.resolve(one, group) for one in value] if isinstance(value, list) else value

    def _of_consumer_groups(self, value: Epoch | Held | Parts | Topic | Pattern | Claim) -> Any:
        match value:
            case Epoch(who, plus):
                return self.epochs.get(who, 0) + plus
            case Topic(name):
                return name + self.own
            case Pattern(text):
                return text.replace("{own}", re.escape(self.own))
            case Claim():
                return self._subscription(value)
            case Held() | Parts():
                rows = self._partitions(value).items()
                return [{"topic_id": self.resolve(TopicId(*_nth(t)), ""), "partitions": list(p)} for t, p in rows]

    def _partitions(self, value: Held | Parts | Partitions) -> Partitions:
        if isinstance(value, Held):
            held = self.held.get(value.who, {})
            return {topic: parts[: value.only] for topic, parts in held.items()}
        return value.partitions if isinstance(value, Parts) else value

    def _subscription(self, claim: Claim) -> bytes:
        owned = self._partitions(claim.owned if claim.owned is not None else {})
        subscription = Subscription(
            topics=[self.actual(topic) for topic in claim.topics],
            owned_partitions={self.actual(topic): list(parts) for topic, parts in owned.items()},
            generation_id=self.resolve(claim.generation, ""),
        )
        return encode_subscription(subscription, claim.version)

    def actual(self, topic: str) -> str:
        return self._own_topics.get(topic, topic)

    def without_own(self, text: str) -> str:
        """A name or a regex as the script knows it."""
        return text.replace(re.escape(self.own), "{own}").replace(self.own, "")

    def readable(self, data: bytes) -> str:
        return _text(data.replace(self.own.encode(), b""))

    def _named(self, row: Mapping[str, Any]) -> dict[str, str]:
        """The topic of a row, if it was made here."""
        return {"name": self._own_topics[row["name"]]} if row.get("name") in self._own_topics else {}


def _nth(topic: str) -> tuple[str, int]:
    name, _, nth = topic.partition("#")
    return name, int(nth or 0)


def group_of(ask: Ask) -> str:
    group = ask.fields.get("group_id")
    return group.name if isinstance(group, GroupId) else str(group)


def plain(struct: Struct, api: str, version: int, names: Names) -> dict[str, Any]:
    """The fields that the version carries, without throttle time."""
    rows = {}
    for name, row in struct.fields.items():
        if version in row.versions and name != "throttle_time_ms":
            rows[name] = _value(api, version, name, getattr(struct, name), names)
    if rows.get("error_code") != "NONE":
        rows.pop("error_message", None)  # each has its own words for what the code says
    return rows


def _value(api: str, version: int, name: str, value: Any, names: Names) -> Any:
    if isinstance(value, list):
        return _list(api, version, name, value, names)
    if isinstance(value, Struct):
        return plain(value, api, version, names)
    if name == "error_code":
        return _error(value)
    if value is None:
        return value
    if name in ("member_id", "leader"):
        return names.member(value)
    if name in ("group_id", "key", "resource_name"):
        return names.group(value)
    if name == "name":
        return names.topic_name(value)
    if name in ("subscribed_topic_names", "subscribed_topic_regex"):
        return names.without_own(value)
    if name == "topic_id":
        return names.topic(value)
    if name == "port":
        return "own" if value == names.port else value
    return _of_bytes(name, value, names) if isinstance(value, bytes) else value


def _of_bytes(name: str, value: bytes, names: Names) -> Any:
    is_assignment = name == "member_assignment" and names.reads_assignments
    return read_assignment(value, names) if is_assignment else _text(value)


def _list(api: str, version: int, name: str, values: list[Any], names: Names) -> Any:
    if api == "ListGroups":
        values = [one for one in values if names.is_own(one.group_id)]
    if name == "topic_partitions":
        return by_topic(values, names)
    rows = [_value(api, version, name if name == "subscribed_topic_names" else "", one, names) for one in values]
    return sorted(rows, key=repr) if (api, name) in _UNORDERED else rows


def by_topic(rows: list[Any], names: Names) -> dict[str, list[int]]:
    return dict(sorted((names.topic(row.topic_id), sorted(row.partitions)) for row in rows))


def read_assignment(data: bytes, names: Names) -> Any:
    """What a classic member of a `consumer` group is given: the version of the bytes, and partitions by topic."""
    try:
        assigned = decode_assignment(data).assigned_partitions
    except ProtocolError:
        return _text(data)
    parts = {names.topic_name(topic): sorted(numbers) for topic, numbers in sorted(assigned.items())}
    return {"version": int.from_bytes(data[:2], "big"), "partitions": parts}


def _error(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _text(data: bytes) -> str:
    text = data.decode("ascii", "replace")
    return (text if text.isprintable() and "\ufffd" not in text else data.hex())[:_LONGEST]
