"""`equipoise groups watch`: one screen that is kept up to date; on a pipe, a line for each event."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from equipoise.console import words
from equipoise.console.commands.groups.looking import check_exists
from equipoise.console.edge import run_loop
from equipoise.console.options import ClusterOptions, Duration
from equipoise.console.output import SOURCES, UNKNOWN, Output, age, number, output_options, print_event
from equipoise.views.model import GroupView, Ms, RebalanceView
from equipoise.views.plain import plain
from equipoise.watching.watcher import Watched, Watcher, wall_time, watching
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

_HOUR_MS = 3_600_000
_SHOWN = 5  # rebalances on the screen
_MEMBERS = 20
_UNSEEN = ""  # no state: nothing was printed of the group yet


@click.command()
@click.argument("name", metavar="[GROUP]", required=False)
@click.option("--all", "every", is_flag=True, help="All groups.")
@click.option("--every", "interval", metavar="TIME", type=Duration(), default="5s", show_default=True,
              help="How often members and lag are asked for; rebalances come at once.")  # fmt: skip
@output_options
def watch(name: str | None, every: bool, interval: int, cluster: ClusterOptions, out: Output) -> None:
    """Follow a group, or all, until Ctrl-C: members, lag, and every rebalance when it ends."""
    if (name is None) != every:
        raise UsageError("say what to watch: a GROUP, or --all")
    names = None if name is None else [name]
    if sys.stdout.isatty() and not out.json:
        run_loop(_show(cluster, names, out, interval / 1000))
    else:
        run_loop(print_changes(cluster, names, out, interval=interval / 1000))


async def print_changes(
    cluster: ClusterOptions,
    names: Sequence[str] | None,
    out: Output,
    *,
    interval: float = 5.0,
    back_ms: int = _HOUR_MS,
) -> None:
    """A line for the state of each group, then one for each change of state and each rebalance, for ever."""
    watched = Watched(None if names is None else tuple(names), Ms(wall_time() - back_ms))
    async with watching(cluster.access(), watched) as watcher:
        await watcher.look()
        printer = _Printer(watcher, out, is_named=names is not None)
        printer.print_news()
        async with watcher.live(interval):
            seen = watcher.version
            while True:
                seen = await watcher.changed(seen)
                printer.print_news()


class _Printer:
    """What was printed already, of each group. A group that is named, and is not there, gets a line too: what it waits
    for may be a slip."""

    def __init__(self, watcher: Watcher, out: Output, *, is_named: bool) -> None:
        self._watcher = watcher
        self._out = out
        self._first = _UNSEEN if is_named else None
        self._states: dict[str, str | None] = {}
        self._ends = {one.group_id: _last_end(one) for one in watcher.view().groups}

    def print_news(self) -> None:
        """Prints what is new in the views."""
        for group in self._watcher.view().groups:
            before = self._ends.get(group.group_id, Ms(0))
            for view in group.rebalances:
                if view.at > before:
                    self._print_rebalance(view)
            self._ends[group.group_id] = max(before, _last_end(group))
            if self._states.get(group.group_id, self._first) != group.state:
                self._print_state(group)
                self._states[group.group_id] = group.state

    def _print_rebalance(self, view: RebalanceView) -> None:
        if self._out.json:
            print_event("rebalance", **plain(view), words=words.explain(view))
            return
        first, *rest = words.rebalance(view)
        print(f"{self._out.time(view.at)}  {printable(view.group_id)}  {first}")
        print("".join(f"  {line}\n" for line in rest), end="", flush=True)

    def _print_state(self, group: GroupView) -> None:
        if self._out.json:
            print_event("state", group_id=group.group_id, state=group.state, members=len(group.members))
            return
        told = f"{group.state or 'gone'}, {len(group.members)} members, lag {number(group.lag.lag)}"
        if group.state is None and self._states.get(group.group_id) is None:
            told = printable(_missing(group))
        print(f"{self._out.time(group.as_of)}  {printable(group.group_id)}  {told}", flush=True)


def _missing(group: GroupView) -> str:
    """Why a group has no state. It may come, or be readable, later."""
    try:
        check_exists(group)
    except KafkaError as error:
        return str(error)
    return "gone"


def _last_end(group: GroupView) -> Ms:
    return max((one.at for one in group.rebalances), default=Ms(0))


# -- the screen


async def _show(cluster: ClusterOptions, names: Sequence[str] | None, out: Output, interval: float) -> None:
    from rich.live import Live

    watched = Watched(None if names is None else tuple(names), Ms(wall_time() - _HOUR_MS))
    async with watching(cluster.access(), watched) as watcher:
        await watcher.look()
        with Live(screen(watcher.view().groups, out), auto_refresh=False) as live:
            async with watcher.live(interval):
                seen = watcher.version
                while True:
                    live.update(screen(watcher.view().groups, out), refresh=True)
                    seen = await watcher.changed(seen)


def screen(groups: Sequence[GroupView], out: Output) -> RenderableType:
    """The whole screen: of one group its members and last rebalances, of several a line for each."""
    from rich.console import Group
    from rich.text import Text

    if len(groups) == 1:
        (group,) = groups
        heading = f"{printable(group.group_id)}  {group.state or UNKNOWN}  {words.health(group.health)}"
        return Group(Text(heading, style="bold"), _members(group), *_rebalances(group, out), Text(_foot(group, out)))
    return Group(_groups(groups), Text(_foot(groups[0], out) if groups else "no groups yet"))


def _members(group: GroupView) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for column in ("member", "host", "partitions", "lag"):
        table.add_column(column)
    for one in sorted(group.members, key=lambda one: -(one.lag or 0))[:_MEMBERS]:
        cells = words.short_name(one.who), one.client_host, str(len(one.partitions)), number(one.lag)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    more = len(group.members) - _MEMBERS
    table.caption = f"and {more} more" if more > 0 else None
    return table


def _groups(groups: Sequence[GroupView]) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for column in ("group", "state", "members", "lag", "rebal./h", "health"):
        table.add_column(column)
    for one in groups:
        rate = one.rebalances_last_hour
        cells = (
            one.group_id,
            one.state or UNKNOWN,
            str(len(one.members)),
            number(one.lag.lag),
            UNKNOWN if rate is None else str(rate),
            words.health(one.health),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _rebalances(group: GroupView, out: Output) -> list[RenderableType]:
    from rich.text import Text

    return [
        Text(f"{out.time(view.at)} {view.key}: {words.why(view.cause, words.full_name)}")
        for view in group.rebalances[-_SHOWN:]
    ]


def _foot(group: GroupView, out: Output) -> str:
    lag = f"lag {number(group.lag.lag)}, {age(group.lag.behind_ms)} behind. " if group.lag.lag is not None else ""
    return f"{lag}{out.time(group.as_of)}. Source: {SOURCES[group.source]}. {out.zone_told} Ctrl-C ends."
