"""What groups have been through: history and explain."""

from __future__ import annotations

import click

from equipoise.console import words
from equipoise.console.commands.groups.looking import look_at
from equipoise.console.commands.groups.waiting import held_up
from equipoise.console.commands.groups.watch import print_changes
from equipoise.console.edge import run_loop
from equipoise.console.options import ClusterOptions, parse_time
from equipoise.console.output import SOURCES, Output, output_options, print_json
from equipoise.views.advice import Advice
from equipoise.views.model import ClusterView, GroupView, RebalanceView, Source
from equipoise.views.plain import iso, plain
from equipoise.watching.watcher import wall_time
from equipoise.wire.errors import UsageError
from equipoise.wire.text import printable


@click.command()
@click.argument("name", metavar="GROUP")
@click.option("--since", metavar="TIME", default="1h", show_default=True, help="An age (30m, 7d), a date or a time.")
@click.option("--follow", is_flag=True, help="Go on, until Ctrl-C.")
@output_options
def history(name: str, since: str, follow: bool, cluster: ClusterOptions, out: Output) -> None:
    """The rebalances of a group: when, why, their phases, what moved and what stood still."""
    back = wall_time() - parse_time("--since", since, wall_time())
    found = look_at(cluster, name, back_ms=back, past=True)
    (group,) = found.cluster.groups
    if out.json and not follow:
        _print_json(found.cluster, group, group.rebalances, found.advice(name))
        return
    if not out.json:
        _print_history(group, found.advice(name), out)
    if follow:
        run_loop(print_changes(cluster, [name], out, back_ms=back))


def _print_history(group: GroupView, advice: list[Advice], out: Output) -> None:
    if group.source is Source.POLLING:
        print(
            f"the past of {printable(group.group_id)} is unknown: neither __rebalances nor __consumer_offsets is here"
        )
        return
    if not group.rebalances:
        print(f"no rebalance of {printable(group.group_id)} since {out.time(group.seen_since)}")
    for episode in group.episodes:
        print(f"{out.time(episode.began)}  {words.episode(episode)} ({len(episode.rebalances)} rebalances)")
    for view in group.rebalances:
        first, *rest = words.rebalance(view)
        print(f"{out.time(view.at)}  {first}")
        print("".join(f"  {line}\n" for line in rest), end="")
    for one in advice:
        print(f"advice: {one.setting}: {one.text}")
    print(f"Source: {SOURCES[group.source]}. {out.zone_told}")


def _print_json(
    found: ClusterView, group: GroupView, rebalances: tuple[RebalanceView, ...], advice: list[Advice]
) -> None:
    print_json(
        "rebalances",
        cluster_id=found.cluster_id,
        at=iso(found.as_of),
        source=group.source.value,
        group_id=group.group_id,
        seen_since=None if group.seen_since is None else iso(group.seen_since),
        rebalances=[plain(one) | {"words": words.explain(one)} for one in rebalances],
        episodes=[plain(one) | {"words": words.episode(one)} for one in group.episodes],
        advice=[one._asdict() for one in advice],
    )


@click.command()
@click.argument("name", metavar="GROUP")
@click.argument("which", metavar="[GENERATION|last|worst]", default="last")
@click.option("--since", metavar="TIME", default="1d", show_default=True, help="How far back it is looked for.")
@output_options
def explain(name: str, which: str, since: str, cluster: ClusterOptions, out: Output) -> None:
    """One rebalance in full: why, who was waited for, what moved, what stood still, and which setting would help.

    The worst is the one in which partitions stood still for the longest time together.
    """
    back = wall_time() - parse_time("--since", since, wall_time())
    found = look_at(cluster, name, back_ms=back, ages=False, past=True)
    (group,) = found.cluster.groups
    view = _chosen(group, which)
    advice = found.advice(name)
    if out.json:
        _print_json(found.cluster, group, (view,), advice)
        return
    for line in words.explanation(view, advice, out.zone, out.zone_name):
        print(line)
    for sentence in held_up(cluster, group):
        print(f"  {'waits':<8} {sentence}")


def _chosen(group: GroupView, which: str) -> RebalanceView:
    ended = group.rebalances
    if not ended:
        raise UsageError(f"no rebalance of {group.group_id!r} is known since then: give a longer --since")
    if which == "last":
        return ended[-1]
    if which == "worst":
        return max(ended, key=_badness)
    found = next((one for one in ended if one.key == which), None)
    if found is None:
        keys = ", ".join(one.key for one in ended[-10:])
        raise UsageError(f"generation {which} of {group.group_id!r} is not known; known are {keys}, last and worst")
    return found


def _badness(view: RebalanceView) -> tuple[int, int, int]:
    """Where nobody knows what stood still, the time it took, then what moved."""
    return sum(one.dark_ms for one in view.dark or ()), view.duration_ms or 0, len(view.moved)
