"""What an action would change, and the change itself. The words and rules are those of the command line.

A plan is made from questions alone. `act` does what the plan shows, and nothing else: offsets that have moved meanwhile
do not change what a reader has agreed to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from equipoise.client import Admin, TopicPartition
from equipoise.client.admin_groups import GroupDescription, MemberDescription
from equipoise.console import words
from equipoise.console.commands.groups.changes import refuse_members
from equipoise.console.commands.groups.reset import Change, commit_changes, plan
from equipoise.console.tables import counted
from equipoise.coordinator.reasons import Who
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.text import LONGEST_NAME, printable

RESET, DELETE, DELETE_OFFSETS, REMOVE = "reset", "delete", "delete-offsets", "remove-member"
_FILE = "file:"
_LONGEST_REASON = 200
Asked = Mapping[str, str]


class Outcome(NamedTuple):
    """One thing that was tried, and why it failed."""

    what: str
    error: str | None = None


class Plan(NamedTuple):
    """An action that nobody has agreed to yet. `refusal`: why the cluster would not do it now."""

    group_id: str
    what: str  # as a command: "Delete orders-etl with all committed offsets"
    heads: tuple[str, ...]
    rows: tuple[tuple[str | int | None, ...], ...]
    notes: tuple[str, ...]
    refusal: str | None
    act: Callable[[Admin], list[Outcome]]


def plan_of(action: str, admin: Admin, group_id: str, asked: Asked) -> Plan:
    """The plan of an action. UsageError: what was asked for makes no sense. KafkaError: the cluster says no."""
    return _PLANS[action](admin, group_id, asked)


# -- offsets


def _reset(admin: Admin, group_id: str, asked: Asked) -> Plan:
    """A file is of the machine of the reader, not of the console's: no page may name one."""
    target = asked.get("to", "").strip()
    if not target or target.startswith(_FILE):
        raise UsageError("write earliest, latest, an offset, +N or -N, a time, or group:OTHER")
    topics = [asked["topic"].strip()] if asked.get("topic", "").strip() else []
    if not topics and not target.startswith("group:") and not admin.committed(group_id):
        raise UsageError(f"group {group_id!r} has committed nothing: name a topic")
    described = admin.describe_groups([group_id])[group_id]
    changes = plan(admin, group_id, topics, target)
    again, skipped = sum(one.read_again for one in changes), sum(one.skipped for one in changes)
    return Plan(
        group_id,
        f"Commit {counted(len(changes), 'offset')} for {_name(group_id)}",
        ("topic", "partition", "committed", "new", "read again", "skipped"),
        tuple(_row(one) for one in changes),
        (f"{counted(again, 'record')} read again, {skipped:,} skipped.",),
        _members(f"offsets of {group_id!r} cannot be changed", described),
        lambda other: _commit(other, group_id, changes),
    )


def _row(one: Change) -> tuple[str | int | None, ...]:
    return one.topic, one.partition, one.committed, one.offset, one.read_again, one.skipped


def _commit(admin: Admin, group_id: str, changes: Sequence[Change]) -> list[Outcome]:
    commit_changes(admin, group_id, changes)
    return [Outcome(f"{counted(len(changes), 'offset')} of {_name(group_id)} changed")]


def _delete_offsets(admin: Admin, group_id: str, asked: Asked) -> Plan:
    topic = asked.get("topic", "")
    committed = admin.committed(group_id)
    wanted = sorted(one for one in committed if one.topic == topic)
    if not wanted:
        raise UsageError(f"group {group_id!r} has committed nothing of {topic!r}")
    return Plan(
        group_id,
        f"Delete {counted(len(wanted), 'offset')} of {_name(group_id)} on {_name(topic)}",
        ("topic", "partition", "committed"),
        tuple((one.topic, one.partition, committed[one].offset) for one in wanted),
        ("The coordinator refuses while a member of the group reads the topic.",),
        None,
        lambda other: _outcomes(other.delete_offsets(group_id, wanted), "deleted the offset of"),
    )


def _outcomes(results: Mapping[TopicPartition, KafkaError | None], done: str) -> list[Outcome]:
    return [
        Outcome(f"{done} {printable(str(one), LONGEST_NAME)}", None if error is None else str(error))
        for one, error in results.items()
    ]


# -- groups and members


def _delete(admin: Admin, group_id: str, _asked: Asked) -> Plan:
    described = admin.describe_groups([group_id])[group_id]
    if isinstance(described, KafkaError) and described.code is ErrorCode.GROUP_ID_NOT_FOUND:
        raise described
    committed = admin.committed(group_id)
    return Plan(
        group_id,
        f"Delete {_name(group_id)} with all committed offsets",
        ("topic", "partition", "committed"),
        tuple((one.topic, one.partition, committed[one].offset) for one in sorted(committed)),
        ("There is no way back: who joins again begins where auto.offset.reset says.",),
        _members(f"{group_id!r} cannot be deleted", described),
        lambda other: _deleted(other, group_id),
    )


def _deleted(admin: Admin, group_id: str) -> list[Outcome]:
    error = admin.delete_groups([group_id])[group_id]
    return [Outcome(f"deleted group {_name(group_id)}", None if error is None else str(error))]


def _remove(admin: Admin, group_id: str, asked: Asked) -> Plan:
    group = admin.describe_group(group_id)
    member = next((one for one in group.members if one.member_id == asked.get("member")), None)
    if member is None:
        raise UsageError(f"{_name(asked.get('member', ''))!r} is no member of {group_id!r} any more")
    who = words.full_name(Who(member.member_id, member.client_id, member.client_host, member.group_instance_id))
    reason = printable(asked.get("reason", "").strip(), _LONGEST_REASON) or "removed by the console"
    return Plan(
        group_id,
        f"Remove {who} from {_name(group_id)}",
        ("topic", "partition"),
        tuple(sorted(member.partitions)),
        (
            f"{counted(len(member.partitions), 'partition')} will have another owner, after a rebalance.",
            "A dynamic member joins again with its next heartbeat, unless it is stopped."
            if member.group_instance_id is None
            else "A static member that runs is fenced, and joins again if it is started anew.",
        ),
        None,
        lambda other: _removed(other, group_id, member, reason),
    )


def _removed(admin: Admin, group_id: str, member: MemberDescription, reason: str) -> list[Outcome]:
    identity = ("", member.group_instance_id) if member.group_instance_id else (member.member_id, None)
    (error,) = admin.remove_members(group_id, [identity], reason)
    return [Outcome(f"removed {_name(member.member_id)}", None if error is None else str(error))]


_PLANS: dict[str, Callable[[Admin, str, Asked], Plan]] = {
    RESET: _reset,
    DELETE: _delete,
    DELETE_OFFSETS: _delete_offsets,
    REMOVE: _remove,
}
ACTIONS = tuple(_PLANS)


def _members(what: str, group: GroupDescription | KafkaError) -> str | None:
    try:
        refuse_members(what, group)
    except KafkaError as error:
        return str(error)
    return None


def _name(text: str) -> str:
    return printable(text, LONGEST_NAME)
