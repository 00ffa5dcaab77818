"""The language of the scripts: what a member says, as data. The same script is played against any broker.

Scripts do not know ids and generations: those are the broker's to give. `Id("a")` is the newest member id that
begins with "a" (ids begin with the client id, those of static members with the instance id), `Generation(-1)` the
one before the newest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from equipoise.wire.consumer_protocol import PROTOCOL_TYPE, Subscription, encode_subscription
from proving.conformance.consumer.values import Claim, Epoch

SESSION_MS = 600_000  # far beyond any script: where time plays a part it is given
_LONGEST_WORD = 200

Protocol = str | tuple[str, bytes | Claim]
Offsets = Mapping[tuple[str, int], int]


class Id(NamedTuple):
    """The member id that begins with `prefix`: the newest, or the `nth` (from 1); "" while there is none."""

    prefix: str
    nth: int = 0


class Generation(NamedTuple):
    """The newest generation that a JoinGroup of the group was answered with, and so many more."""

    plus: int = 0


class TopicId(NamedTuple):
    """Of a topic that all scripts share, or of one made here: then of the `nth` of that name, or the newest."""

    topic: str
    nth: int = 0


class GroupId(NamedTuple):
    """A name of the script's own; each play has other groups."""

    name: str


@dataclass(frozen=True)
class Ask:
    """One request of one member. It is not waited for: JoinGroup and SyncGroup may be parked."""

    who: str
    api: str
    version: int
    fields: Mapping[str, Any]
    is_behind: bool = False  # on the connection where a request of the same member is parked

    def __str__(self) -> str:
        where = " (on the same connection)" if self.is_behind else ""
        return f"{self.who}: {self.api} v{self.version}{where} {_words(self.fields)}"


@dataclass(frozen=True)
class Drop:
    """All connections of a member are closed; what it has parked stays with the broker."""

    who: str

    def __str__(self) -> str:
        return f"{self.who}: disconnects"


@dataclass(frozen=True)
class Until:
    """Waits until DescribeGroups shows the group in this state."""

    state: str
    group: str = "g"

    def __str__(self) -> str:
        return f"until {self.group} is {self.state}"


@dataclass(frozen=True)
class UntilGone:
    """Waits until a member (the newest of that prefix, known by now) is no longer in DescribeGroups."""

    who: str
    group: str = "g"

    def __str__(self) -> str:
        return f"until {self.who} is gone from {self.group}"


@dataclass(frozen=True)
class UntilOffsets:
    """Waits until the group has so many committed offsets."""

    count: int
    group: str = "g"

    def __str__(self) -> str:
        return f"until {self.group} has {self.count} offsets"


@dataclass(frozen=True)
class UntilAnswered:
    """Waits until nothing that this member has asked is parked."""

    who: str

    def __str__(self) -> str:
        return f"until {self.who} is answered"


@dataclass(frozen=True)
class MakeTopic:
    """A topic of the script's own. Over when the broker shows it."""

    topic: str

    def __str__(self) -> str:
        return f"topic {self.topic} is made"


@dataclass(frozen=True)
class DropTopic:
    topic: str

    def __str__(self) -> str:
        return f"topic {self.topic} is deleted"


@dataclass(frozen=True)
class Restart:
    """Both brokers are killed and started again. All scripts that have one share it."""

    def __str__(self) -> str:
        return "both brokers are killed and started again"


@dataclass(frozen=True)
class UntilEpoch:
    """Waits until ConsumerGroupDescribe shows the group at this epoch."""

    epoch: int
    group: str = "g"

    def __str__(self) -> str:
        return f"until {self.group} is at epoch {self.epoch}"


@dataclass(frozen=True)
class Persist:
    """The same request again and again, until the group is at this epoch, or answers have this heartbeat interval.

    The last answer counts. A coordinator hears of changed topics and configs some time after clients do.
    """

    ask: Ask
    epoch: int = 0
    group: str = "g"
    interval_ms: int = 0

    def __str__(self) -> str:
        wanted = f"answers say {self.interval_ms} ms" if self.interval_ms else f"{self.group} is at epoch {self.epoch}"
        return f"until {wanted}: {self.ask}"


@dataclass(frozen=True)
class AddPartitions:
    """To a topic of the script's own, so that it has so many."""

    topic: str
    count: int

    def __str__(self) -> str:
        return f"topic {self.topic} is given {self.count} partitions"


@dataclass(frozen=True)
class Pause:
    """So many milliseconds in which nobody says anything."""

    ms: int

    def __str__(self) -> str:
        return f"{self.ms} ms pass"


Step = (
    MakeTopic
    | DropTopic
    | AddPartitions
    | Restart
    | Pause
    | Ask
    | Persist
    | Drop
    | Until
    | UntilGone
    | UntilOffsets
    | UntilAnswered
    | UntilEpoch
)


@dataclass(frozen=True)
class Script:
    """One comparison. `brisk_ms`: requests between two waits that take longer may meet a timer: play again."""

    section: str
    name: str
    steps: Sequence[Step]
    world: str = "main"
    brisk_ms: int = 0

    def __str__(self) -> str:
        return f"{self.section}: {self.name}"

    @property
    def groups(self) -> list[str]:
        """Those of its own."""
        return [*dict.fromkeys(one.name for one in self._group_ids() if isinstance(one, GroupId))] or ["g"]

    @property
    def shares_groups(self) -> bool:
        """Whether it asks for a group that other scripts may ask for too, such as the one without a name."""
        return any(isinstance(one, str) for one in self._group_ids())

    def _group_ids(self) -> Iterator[str | GroupId]:
        for step in self.steps:
            if isinstance(step, Ask | Persist):
                yield from group_ids(step.ask if isinstance(step, Persist) else step)


def group_ids(ask: Ask) -> Iterator[str | GroupId]:
    fields = ask.fields
    yield from fields.get("coordinator_keys", ())
    yield from fields.get("group_ids", ())
    yield from fields.get("groups_names", ())
    for row in fields.get("groups", ()):
        yield row["group_id"] if isinstance(row, Mapping) else row
    yield from (row["resource_name"] for row in fields.get("resources", ()))
    if "group_id" in fields and "groups" not in fields:
        yield fields["group_id"]


# -- what members say: "a" is a dynamic member, "A" a static one whose instance id is "A"

AUTO = "auto"
OWN = GroupId("g")
CURRENT = Generation()


def _instance(who: str, instance: str | None) -> str | None:
    return (who if who.isupper() else None) if instance == AUTO else instance


def _self(who: str, instance: str | None) -> Id:
    return Id(_instance(who, instance) or who)


def subscription(*topics: str) -> bytes:
    return encode_subscription(Subscription(topics=list(topics)))


SUBSCRIBED = subscription("t")


def protocol_list(protocols: Sequence[Protocol]) -> list[dict[str, Any]]:
    pairs = [(one, SUBSCRIBED) if isinstance(one, str) else one for one in protocols]
    return [{"name": name, "metadata": metadata} for name, metadata in pairs]


def join(
    who: str,
    v: int = 9,
    *,
    member_id: str | Id | None = None,
    instance: str | None = AUTO,
    protocols: Sequence[Protocol] = ("range",),
    protocol_type: str = PROTOCOL_TYPE,
    session: int = SESSION_MS,
    rebalance: int = SESSION_MS,
    reason: str | None = None,
    group: str | GroupId = OWN,
) -> Ask:
    return Ask(
        who,
        "JoinGroup",
        v,
        {
            "group_id": group,
            "session_timeout_ms": session,
            "rebalance_timeout_ms": rebalance,
            "member_id": _self(who, instance) if member_id is None else member_id,
            "group_instance_id": _instance(who, instance),
            "protocol_type": protocol_type,
            "protocols": protocol_list(protocols),
            "reason": reason,
        },
    )


def sync(
    who: str,
    v: int = 5,
    *,
    assign: Mapping[str, str] | None = None,
    member_id: str | Id | None = None,
    instance: str | None = AUTO,
    generation: int | Generation | Epoch = CURRENT,
    protocol_type: str | None = PROTOCOL_TYPE,
    protocol_name: str | None = "range",
    group: str | GroupId = OWN,
) -> Ask:
    rows = [{"member_id": Id(one), "assignment": part.encode()} for one, part in (assign or {}).items()]
    return Ask(
        who,
        "SyncGroup",
        v,
        {
            "group_id": group,
            "generation_id": generation,
            "member_id": _self(who, instance) if member_id is None else member_id,
            "group_instance_id": _instance(who, instance),
            "protocol_type": protocol_type,
            "protocol_name": protocol_name,
            "assignments": rows,
        },
    )


def heartbeat(
    who: str,
    v: int = 4,
    *,
    member_id: str | Id | None = None,
    instance: str | None = AUTO,
    generation: int | Generation | Epoch = CURRENT,
    group: str | GroupId = OWN,
) -> Ask:
    return Ask(
        who,
        "Heartbeat",
        v,
        {
            "group_id": group,
            "generation_id": generation,
            "member_id": _self(who, instance) if member_id is None else member_id,
            "group_instance_id": _instance(who, instance),
        },
    )


def leave(
    who: str,
    v: int = 5,
    *,
    member_id: str | Id | None = None,
    instance: str | None = AUTO,
    members: Sequence[tuple[str | Id, str | None]] | None = None,
    reason: str | None = None,
    group: str | GroupId = OWN,
) -> Ask:
    """`members`: several at a time, each by member id and instance id."""
    one = _self(who, instance) if member_id is None else member_id
    rows = [(one, _instance(who, instance))] if members is None else members
    return Ask(
        who,
        "LeaveGroup",
        v,
        {
            "group_id": group,
            "member_id": rows[0][0] if rows else "",
            "members": [{"member_id": m, "group_instance_id": i, "reason": reason} for m, i in rows],
        },
    )


def commit(
    who: str,
    offsets: Offsets | None = None,
    v: int = 9,
    *,
    member_id: str | Id | None = None,
    instance: str | None = AUTO,
    generation: int | Generation | Epoch = CURRENT,
    metadata: str | None = "",
    epoch: int = -1,
    retention: int = -1,
    group: str | GroupId = OWN,
) -> Ask:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), offset in ({("t", 0): 7} if offsets is None else offsets).items():
        row = {"committed_offset": offset, "committed_leader_epoch": epoch, "committed_metadata": metadata}
        topics.setdefault(topic, []).append({"partition_index": partition, **row})
    return Ask(
        who,
        "OffsetCommit",
        v,
        {
            "group_id": group,
            "generation_id_or_member_epoch": generation,
            "member_id": _self(who, instance) if member_id is None else member_id,
            "group_instance_id": _instance(who, instance),
            "retention_time_ms": retention,
            "topics": [{"name": t, "topic_id": TopicId(t), "partitions": rows} for t, rows in topics.items()],
        },
    )


def simple_commit(who: str, offsets: Offsets | None = None, v: int = 9, **more: Any) -> Ask:
    """From outside any membership."""
    return commit(who, offsets, v, **{"member_id": "", "generation": -1, **more})


def fetch(
    who: str,
    topics: Mapping[str, Sequence[int]] | None = None,
    v: int = 9,
    *,
    stable: bool = False,
    groups: Sequence[str | GroupId] = (OWN,),
    member_id: str | None = None,
    epoch: int | Epoch = -1,
) -> Ask:
    """Without `topics` all there is."""
    rows = topics and [{"name": t, "topic_id": TopicId(t), "partition_indexes": list(p)} for t, p in topics.items()]
    asked = [{"group_id": g, "member_id": member_id, "member_epoch": epoch, "topics": rows} for g in groups]
    one = groups[0] if groups else ""
    return Ask(who, "OffsetFetch", v, {"group_id": one, "topics": rows, "groups": asked, "require_stable": stable})


def delete_offsets(who: str, topics: Mapping[str, Sequence[int]], *, group: str | GroupId = OWN) -> Ask:
    rows = [{"name": t, "partitions": [{"partition_index": p} for p in parts]} for t, parts in topics.items()]
    return Ask(who, "OffsetDelete", 0, {"group_id": group, "topics": rows})


def describe(who: str, v: int = 6, *, groups: Sequence[str | GroupId] = (OWN,), operations: bool = False) -> Ask:
    return Ask(who, "DescribeGroups", v, {"groups": list(groups), "include_authorized_operations": operations})


def list_groups(who: str, v: int = 5, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> Ask:
    return Ask(who, "ListGroups", v, {"states_filter": list(states), "types_filter": list(types)})


def delete_groups(who: str, v: int = 2, *, groups: Sequence[str | GroupId] = (OWN,)) -> Ask:
    return Ask(who, "DeleteGroups", v, {"groups_names": list(groups)})


def find(who: str, v: int = 6, *, keys: Sequence[str | GroupId] = (OWN,), key_type: int = 0) -> Ask:
    one = keys[0] if keys else ""
    return Ask(who, "FindCoordinator", v, {"key": one, "key_type": key_type, "coordinator_keys": list(keys)})


# -- how a step reads in a transcript


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_words(one)}" for name, one in value.items() if one not in (None, "", [], ()))
    if isinstance(value, Id):
        return value.prefix + (f"#{value.nth}" if value.nth else "")
    if isinstance(value, Generation):
        return "current" + (f"{value.plus:+d}" if value.plus else "")
    if isinstance(value, TopicId | GroupId):
        return value[0]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{type(value).__name__.lower()}({', '.join(map(_words, value))})"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return "[" + ", ".join(_words(one) for one in value) + "]"
    return (value.hex() if isinstance(value, bytes) else str(value))[:_LONGEST_WORD]
