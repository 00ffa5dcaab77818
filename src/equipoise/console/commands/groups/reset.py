"""`equipoise groups reset`: other committed offsets for a group without members. Shows the change, and asks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from equipoise.client import Admin, TopicPartition
from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.client.metadata.list_offsets import all_listed
from equipoise.console.commands.groups.changes import chosen_partitions, committed_topics, parse_topic, refuse_members
from equipoise.console.options import ClusterOptions, parse_time, read_text
from equipoise.console.output import Output, confirmed, head_of, number, output_options, print_json
from equipoise.console.tables import counted, print_table
from equipoise.watching.watcher import wall_time
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.text import printable

_FROM_GROUP, _FROM_FILE = "group:", "file:"


class Change(NamedTuple):
    """One partition: from which offset to which. `read_again` counts back, `skipped` counts ahead."""

    topic: str
    partition: int
    committed: int | None
    offset: int
    log_start: int
    log_end: int

    @property
    def read_again(self) -> int:
        """Records that were read and will be read again, of those that are still there."""
        return 0 if self.committed is None else max(0, self.committed - max(self.offset, self.log_start))

    @property
    def skipped(self) -> int:
        """Records that nobody will read."""
        first = self.log_start if self.committed is None else max(self.committed, self.log_start)
        return max(0, min(self.offset, self.log_end) - first)


@click.command()
@click.argument("name", metavar="GROUP")
@click.option("--topic", "topics", metavar="TOPIC[:0-5,7]", multiple=True,
              help="Which partitions; repeatable. Without it: all that the group has committed.")  # fmt: skip
@click.option("--to", "target", metavar="WHERE", required=True,
              help="earliest, latest, an OFFSET, +N or -N from the commit, a time (30m, 2026-01-31T08:00), "
              "group:OTHER or file:F.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show the change; members may be active.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_options
def reset(
    name: str,
    topics: tuple[str, ...],
    target: str,
    dry_run: bool,
    yes: bool,
    cluster: ClusterOptions,
    out: Output,
) -> None:
    """Other offsets for a group: shows what changes, and asks. Refused while the group has members.

    An offset before the first or behind the last record becomes the first or the end.
    """
    with cluster.admin() as admin:
        if not dry_run:
            _refuse_members(admin, name)
        changes = plan(admin, name, topics, target)
        _print_changes(admin, name, changes, out)
        if dry_run:
            return
        question = f"Commit {counted(len(changes), 'offset')} for {name}?"
        if not confirmed(question, yes=yes):
            sys.exit(1)
        commit_changes(admin, name, changes)
    if not out.json:
        print(f"{counted(len(changes), 'offset')} of {printable(name)} changed")


def commit_changes(admin: Admin, name: str, changes: Sequence[Change]) -> None:
    """From outside the group: the coordinator refuses if a member has joined meanwhile."""
    try:
        admin.commit_offsets(name, {TopicPartition(one.topic, one.partition): one.offset for one in changes})
    except KafkaError as error:
        if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH):
            raise
        _refuse_members(admin, name)
        raise


def _refuse_members(admin: Admin, name: str) -> None:
    what = f"offsets of {name!r} were not changed"
    refuse_members(what, admin.describe_groups([name])[name], ". --dry-run shows the change meanwhile")


# -- the plan


def plan(admin: Admin, name: str, topics: Sequence[str], target: str) -> list[Change]:
    """What would change, by topic and partition. KafkaError: an offset that is needed cannot be read."""
    committed = {one: place.offset for one, place in admin.committed(name).items()}
    given = _given(admin, target)
    partitions = sorted(given) if given and not topics else _partitions(admin, name, topics)
    if not partitions:
        raise UsageError(f"group {name!r} has committed nothing: name the topics with --topic")
    starts, ends = (all_listed(admin.list_offsets(dict.fromkeys(partitions, which))) for which in (EARLIEST, LATEST))
    wanted = _targets(admin, target, committed, ends) if given is None else given
    if wanted.keys().isdisjoint(partitions):
        raise UsageError(f"--to {target}: {_source(name, target)} has no offset of {', '.join(topics)}")
    return [
        Change(
            one.topic,
            one.partition,
            committed.get(one),
            min(max(wanted[one], starts[one]), ends[one]),
            starts[one],
            ends[one],
        )
        for one in partitions
        if one in wanted
    ]


def _given(admin: Admin, target: str) -> dict[TopicPartition, int] | None:
    """The offsets of the file or of the other group; None: the target is neither. UsageError: it has none."""
    if target.startswith(_FROM_FILE):
        path = target.removeprefix(_FROM_FILE)
        if not (found := read_file(path)):
            raise UsageError(f"--to {target}: {path} has no offset; write lines TOPIC,PARTITION,OFFSET")
        return found
    if target.startswith(_FROM_GROUP):
        other = target.removeprefix(_FROM_GROUP)
        if not (committed := admin.committed(other)):
            raise UsageError(f"--to {target}: group {other!r} has committed nothing; `equipoise groups list` shows all")
        return {one: place.offset for one, place in committed.items()}
    return None


def _source(name: str, target: str) -> str:
    """Where the offsets come from: the file, the other group, or the group itself."""
    if target.startswith(_FROM_FILE):
        return target.removeprefix(_FROM_FILE)
    return f"group {target.removeprefix(_FROM_GROUP) if target.startswith(_FROM_GROUP) else name!r}"


def _partitions(admin: Admin, name: str, topics: Sequence[str]) -> list[TopicPartition]:
    """Those of --topic; else all that the group has committed."""
    if not topics:
        return sorted(admin.committed(name))
    known = [
        TopicPartition(topic, one.partition)
        for topic in sorted({parse_topic(option)[0] for option in topics})
        for one in admin.topic(topic).partitions
    ]
    found = chosen_partitions(topics, known)
    if not found:
        raise UsageError(f"--topic {' '.join(topics)}: no such partition; topics of {name!r} are "
                         f"{', '.join(committed_topics(admin, name)) or 'none'}")  # fmt: skip
    return found


def _targets(
    admin: Admin,
    target: str,
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    partitions = list(ends)
    if target == "earliest":
        return dict.fromkeys(partitions, 0)
    if target == "latest":
        return dict(ends)
    if target[:1] in "+-" and target[1:].isdecimal():
        return {one: committed[one] + int(target) for one in partitions if one in committed}
    if target.isdecimal():
        return dict.fromkeys(partitions, int(target))
    at = parse_time("--to", target, wall_time())
    found = all_listed(admin.list_offsets(dict.fromkeys(partitions, at)))
    return {one: ends[one] if found[one] < 0 else found[one] for one in partitions}


def read_file(path: str) -> dict[TopicPartition, int]:
    """Lines TOPIC,PARTITION,OFFSET, as `groups offsets --export` and Kafka's tool write them."""
    found: dict[TopicPartition, int] = {}
    for count, line in enumerate(read_text(path, Path(path)).splitlines(), 1):
        parts = [part.strip().strip('"') for part in line.rsplit(",", 2)]
        if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
            found[TopicPartition(parts[0], int(parts[1]))] = int(parts[2])
        elif line.strip():
            raise UsageError(f"{path}, line {count}: write TOPIC,PARTITION,OFFSET")
    return found


# -- the table


def _print_changes(admin: Admin, name: str, changes: Sequence[Change], out: Output) -> None:
    if out.json:
        rows = [one._asdict() | {"read_again": one.read_again, "skipped": one.skipped} for one in changes]
        print_json("reset", **head_of(admin), group_id=name, changes=rows)
        return
    columns = ("topic", "partition", "committed", "new", "read again", "skipped")
    print_table(
        columns,
        [
            (one.topic, one.partition, number(one.committed), number(one.offset), one.read_again, one.skipped)
            for one in changes
        ],
    )
    again, skipped = sum(one.read_again for one in changes), sum(one.skipped for one in changes)
    print(f"{counted(again, 'record')} read again, {skipped:,} skipped")
