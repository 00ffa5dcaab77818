"""Changes to groups: delete, delete-offsets, remove-member."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import click

from equipoise.client import Admin, TopicPartition
from equipoise.client.admin_groups import GroupDescription, MemberDescription
from equipoise.console import words
from equipoise.console.options import ClusterOptions
from equipoise.console.output import Output, confirmed, head_of, output_options, print_json
from equipoise.console.tables import counted
from equipoise.coordinator.reasons import Who
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.text import LONGEST_NAME, printable

_NAMED = 2  # members in a refusal


class Result(NamedTuple):
    """One of several things that were to be changed: None, or why it was not. Figures that do not apply are None."""

    name: str
    error: KafkaError | None = None
    partitions: int | None = None  # of a topic, now
    deleted_records: int | None = None


@click.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_options
def delete(names: tuple[str, ...], yes: bool, cluster: ClusterOptions, out: Output) -> None:
    """Groups without members, with all their offsets, for good."""
    with cluster.admin() as admin:
        described = admin.describe_groups(names)
        for name, group in described.items():
            refuse_members(f"{name!r} was not deleted", group)
        listed = ", ".join(printable(name, LONGEST_NAME) for name in names)
        if not confirmed(f"Delete {listed} with all committed offsets?", yes=yes):
            sys.exit(1)
        results = [Result(name, error) for name, error in admin.delete_groups(names).items()]
        print_results(admin, "deleted group", results, out)
    sys.exit(has_failed(results))


@click.command("delete-offsets")
@click.argument("name", metavar="GROUP")
@click.option("--topic", "topics", metavar="TOPIC[:0-5,7]", multiple=True, required=True, help="Which; repeatable.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_options
def delete_offsets(name: str, topics: tuple[str, ...], yes: bool, cluster: ClusterOptions, out: Output) -> None:
    """Committed offsets of topics that no member reads."""
    with cluster.admin() as admin:
        wanted = chosen_partitions(topics, sorted(admin.committed(name)))
        if not wanted:
            raise UsageError(f"group {name!r} has committed nothing of {', '.join(topics)}")
        if not confirmed(f"Delete {counted(len(wanted), 'offset')} of {name}?", yes=yes):
            sys.exit(1)
        results = [Result(str(one), error) for one, error in admin.delete_offsets(name, wanted).items()]
        print_results(admin, "deleted offset of", results, out)
    sys.exit(has_failed(results))


@click.command("remove-member")
@click.argument("name", metavar="GROUP")
@click.argument("members", metavar="MEMBER...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="What the group's log and journal say of it.")
@output_options
def remove_member(
    name: str, members: tuple[str, ...], reason: str | None, cluster: ClusterOptions, out: Output
) -> None:
    """Members of a group, by group.instance.id or member id. One that runs joins again with its next heartbeat."""
    with cluster.admin() as admin:
        group = admin.describe_group(name)
        found = [_member(group, one) for one in members]
        identities = [("", one.group_instance_id) if one.group_instance_id else (one.member_id, None) for one in found]
        errors = admin.remove_members(name, identities, reason)
        results = [Result(words.full_name(_who(one)), error) for one, error in zip(found, errors, strict=True)]
        print_results(admin, "removed", results, out)
    if not out.json and any(one.group_instance_id is None for one in found):
        print("A dynamic member joins again with its next heartbeat, unless it is stopped.")
    sys.exit(has_failed(results))


def _member(group: GroupDescription, wanted: str) -> MemberDescription:
    for one in group.members:
        if wanted in (one.member_id, one.group_instance_id):
            return one
    known = ", ".join(one.group_instance_id or one.member_id for one in group.members[:5]) or "none"
    raise UsageError(f"{wanted!r} is no member of {group.group_id!r}; members are {known}")


def _who(member: MemberDescription) -> Who:
    return Who(member.member_id, member.client_id, member.client_host, member.group_instance_id)


# -- common


def refuse_members(what: str, group: GroupDescription | KafkaError, meanwhile: str = "") -> None:
    """KafkaError NON_EMPTY_GROUP, with the names of members: a group that has some is not changed from outside.
    `meanwhile`: what can be done nevertheless."""
    if isinstance(group, KafkaError):
        if group.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return  # the coordinator itself says so
        raise group
    if group.members:
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"{what}: it has {counted(len(group.members), 'member')} ({_some(group.members)}); stop them first, "
            f"the group is Empty at the latest when their sessions have ended{meanwhile}",
        )


def _some(members: Sequence[MemberDescription]) -> str:
    listed = [f"{words.short_name(_who(one))} on {printable(one.client_host)}" for one in sorted(members)[:_NAMED]]
    more = len(members) - _NAMED
    return f"{', '.join(listed)} and {more} more" if more > 0 else " and ".join(listed)


def chosen_partitions(options: Sequence[str], known: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The partitions that `--topic` names, of those that are known. UsageError: it cannot be read."""
    found: list[TopicPartition] = []
    for option in options:
        topic, numbers = parse_topic(option)
        found += [one for one in known if one.topic == topic and (numbers is None or one.partition in numbers)]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Numbers:
    """Numbers of partitions, as they are written: a range may be longer than memory."""

    ranges: tuple[range, ...]

    def __contains__(self, number: int) -> bool:
        return any(number in one for one in self.ranges)


def parse_topic(option: str) -> tuple[str, Numbers | None]:
    """`orders`, or `orders:0-5,7`; None: all partitions. UsageError says how to write it."""
    topic, separator, rest = option.partition(":")
    if not separator:
        return topic, None
    ranges: list[range] = []
    for part in rest.split(","):
        low, to, high = part.partition("-")
        high = high if to else low
        if not low.isdecimal() or not high.isdecimal() or int(high) < int(low):
            raise UsageError(f"--topic {option}: write TOPIC, or TOPIC:0-5,7 for some partitions")
        ranges.append(range(int(low), int(high) + 1))
    return topic, Numbers(tuple(ranges))


def committed_topics(admin: Admin, group_id: str) -> list[str]:
    """The topics of which the group has committed something."""
    return sorted({one.topic for one in admin.committed(group_id)})


def print_results(admin: Admin, done: str, results: Sequence[Result], out: Output) -> None:
    """A line for each; an error goes to stderr. With --json one object: `equipoise.changes/1`."""
    if out.json:
        rows = [one._asdict() | {"error": _plain(one.error)} for one in results]
        print_json("changes", **head_of(admin), changes=rows)
    for one in results:
        if one.error is not None:
            print(f"equipoise: {printable(one.name)}: {printable(str(one.error))}", file=sys.stderr)
        elif not out.json:
            print(f"{done} {printable(one.name)}")


def has_failed(results: Sequence[Result]) -> bool:
    """Whether one has: the status is 1 then."""
    return any(one.error is not None for one in results)


def _plain(error: KafkaError | None) -> dict[str, str] | None:
    return None if error is None else {"code": error.code.name, "message": str(error)}
