"""`equipoise groups check`: for scripts, deploys and probes. Silent with status 0, or a sentence with status 1."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import click

from equipoise.console import words
from equipoise.console.commands.groups.looking import HOUR_MS, check_exists, look
from equipoise.console.options import ClusterOptions, Duration, Whole, parse_duration
from equipoise.console.output import Output, output_options, print_json
from equipoise.views.model import GroupView, Ms
from equipoise.views.plain import iso
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.text import printable

_RATE = re.compile(r"(\d+)/(\d*)(s|m|h|d)")


class Rate(NamedTuple):
    """At most so many in a span of time."""

    most: int
    span_ms: int


class Limits(NamedTuple):
    """What a group must keep to. Without any, its health decides."""

    max_lag: int | None = None
    max_behind_ms: int | None = None
    max_rebalances: Rate | None = None
    stable_for_ms: int | None = None

    @property
    def are_set(self) -> bool:
        """Whether there is one at all."""
        return any(one is not None for one in self)


@click.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--max-lag", metavar="N", type=Whole(0), help="Most records that may wait.")
@click.option("--max-behind", metavar="TIME", type=Duration(), help="Greatest age of a record that is not read.")
@click.option("--max-rebalances", metavar="N/TIME", help="Most rebalances, for instance 6/h or 2/10m.")
@click.option("--stable-for", metavar="TIME", type=Duration(), help="Stable, and no rebalance for so long.")
@output_options
def check(
    names: tuple[str, ...],
    max_lag: int | None,
    max_behind: int | None,
    max_rebalances: str | None,
    stable_for: int | None,
    cluster: ClusterOptions,
    out: Output,
) -> None:
    """Whether groups are well: silent and status 0, or what is wrong and status 1. What is unknown is not well.

    Without limits the health of each group decides, as `groups list` shows it.
    """
    rate = None if max_rebalances is None else parse_rate(max_rebalances)
    limits = Limits(max_lag, max_behind, rate, stable_for)
    back = max(HOUR_MS, 0 if rate is None else rate.span_ms, stable_for or 0)
    found = look(cluster, names, back_ms=back).cluster
    wrong = {group.group_id: list(_wrong(group, limits)) for group in found.groups}
    if out.json:
        results = [{"group_id": name, "is_well": not told, "wrong": told} for name, told in wrong.items()]
        print_json("checks", cluster_id=found.cluster_id, at=iso(found.as_of), groups=results)
    else:
        for name, told in wrong.items():
            for sentence in told:
                print(f"{printable(name)}: {sentence}")
    sys.exit(any(wrong.values()))


def parse_rate(text: str) -> Rate:
    """Parses 6/h or 2/10m. UsageError says how to write it."""
    found = _RATE.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(f"--max-rebalances {text}: write a number and a span of time, for instance 6/h or 2/10m")
    return Rate(int(found[1]), parse_duration("--max-rebalances", f"{found[2] or 1}{found[3]}"))


def _wrong(group: GroupView, limits: Limits) -> Iterator[str]:
    try:
        check_exists(group)
    except KafkaError as error:
        yield str(error)
        return
    if not limits.are_set:
        if group.health.needs_attention:
            yield words.health(group.health)
        return
    yield from _lag(group, limits)
    yield from _rebalances(group, limits)


def _lag(group: GroupView, limits: Limits) -> Iterator[str]:
    lag, behind = group.lag.lag, group.lag.behind_ms
    if limits.max_lag is not None:
        if lag is None:
            yield "its lag is unknown"
        elif lag > limits.max_lag:
            yield f"lag {lag:,}, {limits.max_lag:,} is the most"
    if limits.max_behind_ms is not None:
        if behind is None:
            yield "how long it is behind is unknown"
        elif behind > limits.max_behind_ms:
            yield f"{words.duration(behind)} behind, {words.duration(limits.max_behind_ms)} is the most"


def _rebalances(group: GroupView, limits: Limits) -> Iterator[str]:
    if limits.max_rebalances is not None:
        count, span = limits.max_rebalances
        if group.seen_since is None:
            yield "its rebalances are unknown"
        elif (seen := sum(one.at > group.as_of - span for one in group.rebalances)) > count:
            yield f"{seen} rebalances in {words.duration(span)}, {count} is the most"
    if limits.stable_for_ms is not None:
        last = max((one.at for one in group.rebalances), default=Ms(0))
        if group.state != "Stable":
            yield f"it is {group.state or 'unknown'}, not Stable"
        elif group.seen_since is None:
            yield "since when it is Stable is unknown"
        elif group.as_of - last < limits.stable_for_ms:
            ago, wanted = words.duration(group.as_of - last), words.duration(limits.stable_for_ms)
            yield f"the last rebalance ended {ago} ago, {wanted} is the least"
