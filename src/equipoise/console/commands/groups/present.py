"""Groups as they are now: list, describe, members, lag, offsets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

import click

from equipoise.console import words
from equipoise.console.commands.groups.looking import check_exists, look, look_at
from equipoise.console.options import ClusterOptions, Whole
from equipoise.console.output import SOURCES, UNKNOWN, Output, age, number, output_options, print_json
from equipoise.console.tables import Row, counted, print_table
from equipoise.views.model import ClusterView, GroupType, GroupView, MemberView, PartitionLag
from equipoise.views.plain import iso, plain
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.text import partitions, printable

_LATEST = 5  # rebalances in a description
_SORTS: dict[str, Callable[[GroupView], tuple[object, ...]]] = {
    "name": lambda one: (one.group_id,),
    "lag": lambda one: (-(one.lag.lag or 0), one.group_id),
    "rebalances": lambda one: (-(one.rebalances_last_hour or 0), one.group_id),
}


@click.command("list")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option("--state", metavar="STATE", help="Only groups in this state: Stable, Empty, PreparingRebalance ...")
@click.option("--unhealthy", is_flag=True, help="Only groups that need attention.")
@click.option("--sort", type=click.Choice(sorted(_SORTS)), default="name", show_default=True, help="What comes first.")
@click.option("--limit", metavar="N", type=Whole(1), help="At most so many.")
@output_options
def list_groups(
    patterns: tuple[str, ...],
    state: str | None,
    unhealthy: bool,
    sort: str,
    limit: int | None,
    cluster: ClusterOptions,
    out: Output,
) -> None:
    """All groups, or those whose names match: state, members, lag, rebalances in the last hour, health."""
    if state is not None:
        _check_state(state)
    found = look(cluster).cluster
    chosen = [one for one in found.groups if _is_chosen(one, patterns, state, unhealthy)]
    shown = sorted(chosen, key=_SORTS[sort])[:limit]
    if out.json:
        print_groups(found, shown)
        return
    if not found.groups:
        print(f"no groups on {printable(cluster.bootstrap_servers)}. A consumer makes one:")
        print("  equipoise consume TOPIC --group NAME")
        return
    columns = ("group", "state", "protocol", "members", "partitions", "lag", "behind", "rebal./h", "health")
    print_table(columns, [_listed(one) for one in shown])
    attention = sum(one.health.needs_attention for one in shown)
    needs = "needs" if attention == 1 else "need"
    print(f"{counted(len(shown), 'group')}, {attention} {needs} attention. Source: {SOURCES[found.source]}.")
    for problem in found.problems:
        print(words.problem(problem), file=sys.stderr)


def _check_state(state: str) -> None:
    """A slip would look like a cluster without such groups (ConsumerGroupCommand.groupStatesFromString)."""
    known = {one.lower(): one for one in words.GROUP_STATES}
    if state.lower() not in known:
        near = get_close_matches(state.lower(), known, n=1)
        advice = f"did you mean {known[near[0]]}?" if near else f"states are {', '.join(known.values())}"
        raise UsageError(f"--state {state}: there is no such state; {advice}")


def _is_chosen(group: GroupView, patterns: Sequence[str], state: str | None, unhealthy: bool) -> bool:
    is_named = not patterns or any(fnmatchcase(group.group_id, one) for one in patterns)
    is_state = state is None or (group.state or "").lower() == state.lower()
    return is_named and is_state and (group.health.needs_attention or not unhealthy)


def _listed(group: GroupView) -> Row:
    rate = group.rebalances_last_hour
    return (
        group.group_id,
        group.state or UNKNOWN,
        _protocol(group),
        len(group.members),
        len(group.partitions),
        number(group.lag.lag),
        age(group.lag.behind_ms),
        UNKNOWN if rate is None else rate,
        words.health(group.health),
    )


def _protocol(group: GroupView) -> str:
    if group.type is GroupType.CONSUMER:
        return f"{group.protocol or 'consumer'} (KIP-848)"
    return group.protocol or UNKNOWN


def print_groups(found: ClusterView, groups: Iterable[GroupView]) -> None:
    """The JSON of groups: `equipoise.groups/1`."""
    print_json(
        "groups",
        cluster_id=found.cluster_id,
        at=iso(found.as_of),
        source=found.source.value,
        problems=plain(found.problems),
        groups=[plain(one) for one in groups],
    )


# -- describe


@click.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@output_options
def describe(names: tuple[str, ...], cluster: ClusterOptions, out: Output) -> None:
    """Groups in short: state, health, members, lag by topic, the last rebalances and episodes."""
    found = look(cluster, names).cluster
    failed = 0
    if out.json:
        print_groups(found, found.groups)
    for place, group in enumerate(found.groups):
        try:
            check_exists(group)
        except KafkaError as error:
            failed += 1
            print(f"equipoise: {printable(str(error))}", file=sys.stderr)
            continue
        if not out.json:
            print("\n" * bool(place), end="")
            _print_group(group, out)
    sys.exit(bool(failed))


def _print_group(group: GroupView, out: Output) -> None:
    generation = "" if group.generation is None else f", {_generation(group)}"
    rate = group.rebalances_last_hour
    behind = "" if group.lag.behind_ms is None else f", {age(group.lag.behind_ms)} behind"
    clears = "" if group.lag.clears_in_ms is None else f", clears in {age(group.lag.clears_in_ms)}"
    idle = sum(not one.partitions for one in group.members)
    rows = {
        "group": printable(group.group_id),
        "state": f"{group.state or UNKNOWN}{generation}, coordinator {number(group.coordinator_id)}",
        "protocol": _protocol(group),
        "health": words.health(group.health),
        "members": f"{len(group.members)}" + (f", {idle} without a partition" if idle else ""),
        "lag": f"{number(group.lag.lag)} records on {counted(len(group.partitions), 'partition')}{behind}{clears}",
        "rebalances": UNKNOWN if rate is None else f"{rate} in the last hour",
        "source": f"{SOURCES[group.source]}. {out.zone_told}",
    }
    for title, text in rows.items():
        print(f"{title:<11}{text}")
    for episode in group.episodes[-_LATEST:]:
        print(f"{'episode':<11}{out.time(episode.began)} {words.episode(episode)}")
    for view in group.rebalances[-_LATEST:]:
        print(f"{'rebalance':<11}{out.time(view.at)} {view.key}: {words.why(view.cause, words.full_name)}")
    if group.partitions:
        print_table(("topic", "partitions", "lag", "behind"), [*_by_topic(group.partitions)])


def _generation(group: GroupView) -> str:
    return f"{'epoch' if group.type is GroupType.CONSUMER else 'generation'} {group.generation}"


# -- members


@click.command()
@click.argument("name", metavar="GROUP")
@click.option("--verbose", is_flag=True, help="Name the partitions of each member.")
@output_options
def members(name: str, verbose: bool, cluster: ClusterOptions, out: Output) -> None:
    """The members of a group, with their partitions and lag."""
    found = look_at(cluster, name)
    (group,) = found.cluster.groups
    if out.json:
        print_groups(found.cluster, [group])
        return
    if not group.members:
        print(f"{printable(name)} has no members; it is {group.state or 'unknown'}")
        return
    columns = ("member", "client", "host", "instance", "partitions", "lag", "joined", "session timeout")
    print_table(columns, [_member(one, out, verbose=verbose) for one in group.members])
    print(out.zone_told)


def _member(member: MemberView, out: Output, *, verbose: bool) -> Row:
    return (
        words.member(member.member_id),
        member.client_id,
        member.client_host,
        member.group_instance_id or "",
        partitions(member.partitions) if verbose else len(member.partitions),
        number(member.lag),
        out.time(member.joined_at),
        age(member.session_timeout_ms),
    )


# -- lag and offsets


@click.command()
@click.argument("name", metavar="GROUP")
@click.option(
    "--by",
    type=click.Choice(["partition", "topic", "member"]),
    default="partition",
    show_default=True,
    help="What a line is about.",
)
@click.option("--only-lagging", is_flag=True, help="Leave out what is read to the end.")
@output_options
def lag(name: str, by: str, only_lagging: bool, cluster: ClusterOptions, out: Output) -> None:
    """How far a group is behind: end of the log less committed offset, whatever the state of the group."""
    found = look_at(cluster, name)
    (group,) = found.cluster.groups
    if out.json:
        print_groups(found.cluster, [group])
        return
    shown = [one for one in group.partitions if one.lag != 0 or not only_lagging]
    if by == "topic":
        print_table(("topic", "partitions", "lag", "behind"), [*_by_topic(shown)])
    elif by == "member":
        lagging = [one for one in group.members if one.lag or not only_lagging]
        rows = [(words.member(one.member_id), one.client_id, len(one.partitions), number(one.lag)) for one in lagging]
        print_table(("member", "client", "partitions", "lag"), rows)
    else:
        columns = ("topic", "partition", "committed", "end", "lag", "behind", "member", "host")
        print_table(columns, [_lagging(one, group) for one in shown])
    unknown = f", unknown for {counted(group.lag.unknown, 'partition')}" if group.lag.unknown else ""
    print(f"lag {number(group.lag.lag)}{unknown}")


def _lagging(one: PartitionLag, group: GroupView) -> Row:
    owner = next((member for member in group.members if member.member_id == one.member_id), None)
    told = words.problem(one.problem) if one.problem else "" if one.is_subscribed else "(nobody subscribes)"
    return (
        one.topic,
        one.partition,
        number(one.committed),
        number(one.log_end),
        number(one.lag),
        age(one.behind_ms),
        told if owner is None else words.short_name(owner.who),
        "" if owner is None else owner.client_host,
    )


def _by_topic(found: Iterable[PartitionLag]) -> Iterable[Row]:
    topics: dict[str, list[PartitionLag]] = {}
    for one in found:
        topics.setdefault(one.topic, []).append(one)
    for topic, rows in topics.items():
        known = [one.lag for one in rows if one.lag is not None]
        ages = [one.behind_ms for one in rows if one.behind_ms is not None]
        yield topic, len(rows), number(sum(known) if known else None), age(max(ages) if ages else None)


@click.command()
@click.argument("name", metavar="GROUP")
@click.option("--export", is_flag=True, help="Lines TOPIC,PARTITION,OFFSET, as `groups reset --to file:F` reads them.")
@output_options
def offsets(name: str, export: bool, cluster: ClusterOptions, out: Output) -> None:
    """The committed offsets of a group, with their metadata."""
    found = look_at(cluster, name, back_ms=None, ages=False)
    (group,) = found.cluster.groups
    known = [one for one in group.partitions if one.committed is not None]
    if out.json:
        print_groups(found.cluster, [group])
    elif export:
        for one in known:
            print(f"{one.topic},{one.partition},{one.committed}")
    else:
        rows = [(one.topic, one.partition, number(one.committed), one.metadata or "") for one in known]
        print_table(("topic", "partition", "committed", "metadata"), rows)
