"""The differences from Apache Kafka that are meant, as the comparison knows them. docs/differences.md is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from proving.conformance.steps import Ask, Script, Step

PARKED = "parked"
CLOSED = "connection closed"
NOTHING = "nothing"
CLASSIC, CONSUMER = "classic", "consumer"


class Found(NamedTuple):
    """A difference: after which steps, of what (a request, a group), where in it, and both values."""

    script: Script
    history: Sequence[Step]
    key: str
    path: str
    kafka: Any
    ours: Any
    all_of_kafka: Mapping[str, Any] = {}  # what each request and each group has come to in this step
    all_of_ours: Mapping[str, Any] = {}

    def __str__(self) -> str:
        where = f"{self.key} {self.path}".strip()
        return f"{where}: kafka {self.kafka!r}, ours {self.ours!r}"

    @property
    def last(self) -> Ask | None:
        return step if isinstance(step := self.history[-1], Ask) else None

    def answered(self, kafka: str, ours: str) -> bool:
        """Whether any request of the step was answered with these two errors."""
        return any(
            _error_of(answer) == kafka and _error_of(self.all_of_ours.get(key)) == ours
            for key, answer in self.all_of_kafka.items()
        )


def _error_of(answer: Any) -> str:
    """Of an answer, or of the first group in it."""
    rows = answer.get("groups", [answer]) if isinstance(answer, dict) else []
    return str(rows[0].get("error_code")) if rows else ""


class Listed(NamedTuple):
    name: str
    kafka: str
    ours: str
    reason: str
    matches: Callable[[Found], bool]
    ends: bool = False  # the script cannot go on: the groups are no longer alike
    once: bool = False  # any other difference of the same request or group is looked at
    is_compared: bool = True
    protocol: str = CLASSIC  # of the comparison that shows it


def _only_we_answer(found: Found, apis: tuple[str, ...], error: str) -> bool:
    is_ours = isinstance(found.ours, dict) and found.ours.get("error_code") == error
    return found.kafka == PARKED and is_ours and found.key.split()[2] in apis


def _names_a_protocol_twice(found: Found) -> bool:
    rows = found.last.fields.get("protocols", ()) if found.last else ()
    return len({row["name"] for row in rows}) < len(rows)


def _names_a_group_twice(found: Found) -> bool:
    """OffsetFetch names a group with its topics."""
    if found.last is None or found.path not in ("groups", "coordinators"):
        return False
    names = found.last.fields.get("groups") or found.last.fields.get("coordinator_keys") or []
    groups = {one["group_id"] if isinstance(one, dict) else one for one in names}
    return len(groups) < len(names)


# -- of `consumer` groups


def _is_target_epoch_of_nobody(found: Found) -> bool:
    """Of a group that has just lost its last member, in what is told of it and in what was written."""
    if found.key == "records" and isinstance(found.ours, list):
        more = [row for row in found.ours if row not in found.kafka]
        return bool(more) and all(row.startswith("6 ") and row.endswith("assignment_timestamp=False") for row in more)
    group = found.all_of_ours.get(found.key, {})
    rows = group.get("groups", [group]) if isinstance(group, dict) else []
    return found.path.endswith("assignment_epoch") and any(row.get("group_state") == "Empty" for row in rows)


def _writes_a_target_again(found: Found) -> bool:
    if found.key != "records" or not isinstance(found.kafka, list):
        return False
    more = [row for row in found.kafka if found.kafka.count(row) > found.ours.count(row)]
    return bool(more) and all(row.startswith("7 ") and row in found.ours for row in more)


def _only_kafka_answers(found: Found) -> bool:
    return found.ours == PARKED and _error_of(found.kafka) == "REBALANCE_IN_PROGRESS"


def _changes_its_vote(found: Found) -> bool:
    return found.last is not None and found.last.fields.get("server_assignor") is not None


def _comes_without_topics(found: Found) -> bool:
    fields = found.last.fields if found.last else {}
    return fields.get("member_epoch") == 0 and fields.get("subscribed_topic_names") == []


def _is_forgotten_by_kafka(found: Found) -> bool:
    """A group of which Kafka knows nothing any more, behind a JoinGroup that it has refused."""
    joins = [one for one in found.history if isinstance(one, Ask) and one.api == "JoinGroup"]
    if not any(one.fields.get("member_id") for one in joins):
        return False
    is_unknown = found.kafka == NOTHING or found.answered("GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID")
    return is_unknown or _is_dead_not_empty(found)


def _is_dead_not_empty(found: Found) -> bool:
    """A `consumer` group without members that Kafka tells as dead: a write behind the refusal has shown it."""
    kafka, ours = found.all_of_kafka.get(found.key), found.all_of_ours.get(found.key)
    if not (isinstance(kafka, dict) and isinstance(ours, dict)):
        return False
    is_empty = (ours.get("type"), ours.get("group_state")) == ("consumer", "Empty")
    return is_empty and kafka.get("group_state") == "Dead"


LISTED = (
    Listed(
        "an older request of the same member",
        "If a member sends a newer JoinGroup or SyncGroup, the older request is never answered.",
        "The older request is answered REBALANCE_IN_PROGRESS.",
        "Only a client that has reconnected waits for it. An answer lets the old connection end in order.",
        lambda found: _only_we_answer(found, ("JoinGroup", "SyncGroup"), "REBALANCE_IN_PROGRESS"),
    ),
    Listed(
        "SyncGroup of a member that is removed",
        "A parked SyncGroup of a member that leaves, or is removed, is never answered.",
        "It is answered UNKNOWN_MEMBER_ID.",
        "Kafka answers a parked JoinGroup in this way. A client should not have to wait for its own timeout.",
        lambda found: _only_we_answer(found, ("SyncGroup",), "UNKNOWN_MEMBER_ID"),
    ),
    Listed(
        "requests behind a parked one",
        "The broker does not read a connection that has a parked request. A later request takes effect after the "
        "parked one is answered.",
        "The later request takes effect at once; only its answer waits for its turn.",
        "A LeaveGroup behind a parked JoinGroup takes effect, and a member that closes does not hold up the others.",
        lambda found: any(isinstance(step, Ask) and step.is_behind for step in found.history),
        ends=True,
    ),
    Listed(
        "a protocol twice in one JoinGroup",
        "The join phase never ends: the member counts as two, and the vote fails with an internal error.",
        "The protocol counts once.",
        "A client's mistake should not stop a group.",
        _names_a_protocol_twice,
        ends=True,
    ),
    Listed(
        "DeleteGroups v3",
        "Kafka 4.3 serves up to v2; v3 comes with 4.4.",
        "Equipoise serves v3.",
        "A client takes the highest version that both sides know; a further version disturbs no client.",
        lambda found: found.kafka == CLOSED and found.key.endswith(" DeleteGroups v3"),
    ),
    Listed(
        "a group twice in one DescribeGroups, FindCoordinator, or OffsetFetch of all offsets",
        "The group is answered as often as it is named.",
        "The group is answered once.",
        "A request of a few kilobytes could ask for the members or the offsets of a large group a thousand times.",
        _names_a_group_twice,
    ),
    Listed(
        "the target epoch of an emptied group",
        "When the last member of a `consumer` group leaves, the target epoch stays behind the group epoch (4.3). From "
        "4.4 on it is the group epoch.",
        "It is the group epoch.",
        "As Kafka 4.4. An empty group has nothing to assign, and no tool should wait for it.",
        _is_target_epoch_of_nobody,
        once=True,
        protocol=CONSUMER,
    ),
    Listed(
        "another preferred assignor",
        "A vote for another assignor takes effect when something else bumps the epoch (4.3). From 4.4 on it bumps the "
        "epoch itself.",
        "It bumps the epoch.",
        "As Kafka 4.4. A change of `group.remote.assignor` should not wait for the next join.",
        _changes_its_vote,
        ends=True,
        protocol=CONSUMER,
    ),
    Listed(
        "a static member that returns to a full group",
        "It is answered GROUP_MAX_SIZE_REACHED if its member id is new (4.3). From 4.4 on it is taken back.",
        "It is taken back.",
        "As Kafka 4.4. A restart should not cost a member its place.",
        lambda found: found.answered("GROUP_MAX_SIZE_REACHED", "NONE"),
        ends=True,
        protocol=CONSUMER,
    ),
    Listed(
        "a static member that returns with other topics",
        "Its target is written twice if it does not change: for its new member id, and with the new epoch.",
        "It is written once.",
        "The second record says nothing new.",
        _writes_a_target_again,
        once=True,
        protocol=CONSUMER,
    ),
    Listed(
        "a member without topics that comes while a target is due",
        "The target may give it partitions of a topic that it does not subscribe to. Nobody reads them until the next "
        "target.",
        "It gets none.",
        "Every partition of a subscribed topic has a member that reads it.",
        _comes_without_topics,
        ends=True,
        protocol=CONSUMER,
    ),
    Listed(
        "OffsetFetch with a member epoch and no member id",
        "UNKNOWN_SERVER_ERROR, if the group is a `consumer` group with members.",
        "UNKNOWN_MEMBER_ID.",
        "The request is wrong, not the broker.",
        lambda found: found.answered("UNKNOWN_SERVER_ERROR", "UNKNOWN_MEMBER_ID") and "OffsetFetch" in found.key,
        once=True,
        protocol=CONSUMER,
    ),
    Listed(
        "a Subscription that cannot be read, in a `consumer` group",
        "JoinGroup is answered UNKNOWN_SERVER_ERROR (4.3). From 4.4 on it is INCONSISTENT_GROUP_PROTOCOL.",
        "INCONSISTENT_GROUP_PROTOCOL.",
        "As Kafka 4.4.",
        lambda found: found.answered("UNKNOWN_SERVER_ERROR", "INCONSISTENT_GROUP_PROTOCOL"),
        once=True,
        protocol=CONSUMER,
    ),
    Listed(
        "classic assignments that overlap",
        "A classic group in which two members have the same partition is not upgraded: UNKNOWN_SERVER_ERROR.",
        "It is upgraded.",
        "The target that is made then gives the partition to one member.",
        lambda found: found.answered("UNKNOWN_SERVER_ERROR", "NONE"),
        ends=True,
        protocol=CONSUMER,
    ),
    Listed(
        "an online upgrade that is refused",
        "A JoinGroup or SyncGroup that is parked in the classic group is answered REBALANCE_IN_PROGRESS, though the "
        "group stays as it is. In the first join phase of a group every upgrade is refused with UNKNOWN_SERVER_ERROR.",
        "The others go on. Without `strict`, an upgrade in the first join phase is accepted.",
        "Who is refused should not disturb the others. An upgrade should not depend on the moment.",
        _only_kafka_answers,
        ends=True,
        protocol=CONSUMER,
    ),
    Listed(
        "a classic member that comes with an id to an empty `consumer` group",
        "It is refused with UNKNOWN_MEMBER_ID, and the group and its committed offsets are gone from memory, though "
        "not from the log: until the coordinator restarts, they are not told to anyone "
        "(GroupMetadataManager.classicGroupJoinToClassicGroup).",
        "It is refused, and the group stays.",
        "Who is refused should not cost others their offsets.",
        _is_forgotten_by_kafka,
        ends=True,
        protocol=CONSUMER,
    ),
    Listed(
        "all configs of a group",
        "They are told with those of share and streams groups; without `consumer.assignor.offload.enable` (4.3).",
        "Those of `consumer` groups.",
        "There are no share and streams groups here.",
        lambda found: "DescribeConfigs" in found.key and found.path.endswith(".configs"),
        once=True,
        protocol=CONSUMER,
    ),
    Listed(
        "SyncGroup while groups are loaded",
        "COORDINATOR_LOAD_IN_PROGRESS.",
        "REBALANCE_IN_PROGRESS.",
        "For Java and aiokafka the former is fatal in SyncGroup. The rebalance is lost in any case, and the latter "
        "makes every client rejoin. Loading cannot be stopped half-way, so this row is not compared.",
        lambda found: False,
        is_compared=False,
    ),
    Listed(
        "requests behind one with much work",
        "A request takes effect when the one before it on the connection is answered.",
        "While CreateTopics, DeleteTopics, AlterConfigs and the like work in slices, the next requests of the "
        "connection are served. Answers keep their order.",
        "The other clients do not wait. A client that needs the topic waits for the answer, as all clients do. "
        "When it happens is up to the clock, so this row is not compared.",
        lambda found: False,
        is_compared=False,
    ),
    Listed(
        "the commit of a group's only member in CompletingRebalance",
        "REBALANCE_IN_PROGRESS.",
        "Accepted while heartbeats are held (`docs/groups.md`).",
        "With held heartbeats the last of several closing members meets this often, and no other member can have its "
        "partitions. Held heartbeats are switched off in the comparison, so this row is not compared.",
        lambda found: False,
        is_compared=False,
    ),
    Listed(
        "a request while the transaction before it ends",
        "CONCURRENT_TRANSACTIONS.",
        "It waits for up to `transaction.park.ms`, then CONCURRENT_TRANSACTIONS.",
        "The client would come again after 20 to 100 ms, which is most of the time that a transaction takes. It is "
        "switched off in the comparison, so this row is not compared.",
        lambda found: False,
        is_compared=False,
    ),
    Listed(
        "an id twice in one DescribeTransactions",
        "The id is answered as often as it is named.",
        "The id is answered once.",
        "A request of a few kilobytes could ask for the partitions of a large transaction a thousand times. No script "
        "names an id twice, so this row is not compared.",
        lambda found: False,
        is_compared=False,
    ),
    Listed(
        "a pattern for transactional ids (ListTransactions)",
        "Classes by name, as `\\p{Greek}`, and `(?i)` know all of Unicode.",
        "Classes by name know ASCII. With `(?i)`, other cases beyond ASCII count of characters that the pattern names.",
        "Ids are ASCII almost always. Characters and ranges beyond ASCII match. No script lists ids by patterns, so "
        "this row is not compared.",
        lambda found: False,
        is_compared=False,
    ),
    Listed(
        "the time-out of a transaction",
        "It is noticed up to `transaction.abort.timed.out.transaction.cleanup.interval.ms` late.",
        "It is noticed at once.",
        "Readers of committed records wait for it. When it happens is up to the clock, so this row is not compared.",
        lambda found: False,
        is_compared=False,
    ),
    Listed(
        "the word for a partition that was not added to its transaction",
        "TRANSACTION_ABORTABLE or INVALID_TXN_STATE, by the version of another request that is verified at the same "
        "moment.",
        "By the version of the request.",
        "Each client hears a word that it knows. `python -m proving transactions` counts it.",
        lambda found: False,
        is_compared=False,
    ),
    Listed(
        "a gap in a producer's sequence behind a verification that has failed",
        "The first records of an epoch are judged by the version of the request that was refused before.",
        "OUT_OF_ORDER_SEQUENCE_NUMBER in transaction version 2.",
        "They are judged by the version of their own request. `python -m proving transactions` counts it.",
        lambda found: False,
        is_compared=False,
    ),
)


def listed(found: Found) -> Listed | None:
    return next((row for row in LISTED if row.matches(found)), None)


_HEAD = """# Differences from Apache Kafka

`python -m proving conformance` puts the same group requests to Apache Kafka and to Equipoise, step by step. It compares
every answer field by field, the parked requests, and each group's state, members and offsets. The table lists all known
differences. The comparison has them as data. It fails on any other difference, and if one of these no longer occurs.

With `--protocol consumer` the requests are those of `consumer` groups (KIP-848), and of classic members in them. What
each step writes to `__consumer_offsets` is compared too, record by record.

The comparison leaves out what Kafka leaves to chance: member ids after their prefix, the new leader among several
members when the leader has gone, the order of lists from hash maps, and the words of error messages. Of hashes and
times in records it compares only whether there is one. Equipoise runs in `strict`: its additions to the timing
(`docs/groups.md`) are switched off.

| | Kafka | Equipoise | why |
|---|---|---|---|
"""


def document() -> str:
    """docs/differences.md."""
    return _HEAD + "".join(f"| {row.name} | {row.kafka} | {row.ours} | {row.reason} |\n" for row in LISTED)
