"""`equipoise simulate plan`: what restarts, crashes and deploys would cost a group, by strategy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from equipoise.console.options import Decorated, Duration, Whole, file_option, json_option
from equipoise.console.output import number, print_json
from equipoise.console.tables import print_table
from equipoise.simulate.plan import SCENARIOS, STRATEGIES, Planned, PlanSettings
from equipoise.simulate.plan import plan as plan_group

_MOST = 1_000_000
_COMPARED = ("eager", "cooperative", "static", "consumer")
_COLUMNS = (
    *("STRATEGY", "REBALANCES", "MESSAGES", "HEARTBEATS", "MOVED"),
    *("WITHOUT OWNER", "LONGEST", "REPEATED"),
)


def _time(name: str, default: str, what: str) -> Callable[[Decorated], Decorated]:
    return click.option(name, metavar="TIME", type=Duration(), default=default, show_default=True, help=what)


@click.command()
@click.option("--members", metavar="NUMBER", type=Whole(1, _MOST), required=True, help="Members of the group.")
@click.option("--partitions", metavar="NUMBER", type=Whole(1, 10 * _MOST), required=True, help="Of all its topics.")
@click.option("--scenario", metavar="NAME", required=True, help=f"What happens: {', '.join(SCENARIOS)}.")
@click.option(
    "--strategy",
    "strategies",
    metavar="NAME",
    multiple=True,
    help=f"How partitions are shared; repeatable: {', '.join(STRATEGIES)}. By default four are compared.",
)
@_time("--session", "45s", "session.timeout.ms.")
@_time("--heartbeat", "3s", "heartbeat.interval.ms of classic members.")
@_time("--consumer-heartbeat", "5s", "group.consumer.heartbeat.interval.ms of the broker.")
@_time("--auto-commit", "5s", "auto.commit.interval.ms.")
@_time("--restart", "10s", "From the end of a process to the next one.")
@_time("--pause", "60s", "How long members stand still, in gc-pause.")
@_time("--window", "60s", "In which all restart, in deploy-storm, or new ones come, in scale-out.")
@_time("--callback", "0s", "How long a listener takes to give partitions back.")
@click.option("--affected", metavar="NUMBER", type=Whole(1, _MOST), help="Members that crash, pause or come.")
@click.option("--spread", is_flag=True, help="Members keep a heartbeat of their own, as librdkafka's do.")
@click.option("--held", is_flag=True, help="The broker holds heartbeats and answers at news, as Equipoise does.")
@click.option(
    "--seed", metavar="NUMBER", type=Whole(0), default=0, show_default=True, help="Of the heartbeats' phases."
)
@file_option("--plot", help="Draw the comparison into this file.")
@json_option("a table")
def plan(*, scenario: str, strategies: tuple[str, ...], plot: Path | None, as_json: bool, **given: Any) -> None:
    """Plan: rebalances, messages, partitions without an owner and processing repeated, by strategy."""
    settings = _settings(given)
    planned = list(plan_group(scenario, strategies or _COMPARED, settings))
    if as_json:
        rows = [one._asdict() for one in planned]
        print_json("plan", scenario=scenario, settings=asdict(settings), strategies=rows)
    else:
        print_table(_COLUMNS, [_row(one) for one in planned])
    if plot is not None:
        from equipoise.console.commands.simulate.picture import draw

        draw(plot, f"{scenario}: {number(settings.members)} members, {number(settings.partitions)} partitions", planned)


def _settings(given: dict[str, Any]) -> PlanSettings:
    return PlanSettings(
        members=given["members"],
        partitions=given["partitions"],
        session_timeout_ms=given["session"],
        heartbeat_interval_ms=given["heartbeat"],
        consumer_heartbeat_interval_ms=given["consumer_heartbeat"],
        auto_commit_interval_ms=given["auto_commit"],
        restart_ms=given["restart"],
        pause_ms=given["pause"],
        window_ms=given["window"],
        callback_ms=given["callback"],
        affected=given["affected"] or 0,
        held=given["held"],
        spread=given["spread"],
        seed=given["seed"],
    )


def _row(one: Planned) -> tuple[str | int, ...]:
    return (
        one.strategy,
        number(one.rebalances),
        number(one.messages),
        number(one.heartbeats),
        number(one.moved_partitions),
        _seconds(one.dark_partition_seconds),
        f"{one.longest_dark_seconds:,.1f} s",
        _seconds(one.repeated_partition_seconds),
    )


def _seconds(value: float) -> str:
    return f"{value:,.1f} partition-s"
