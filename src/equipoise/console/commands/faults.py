"""`equipoise faults`: kick, cut, delay and the like, on a broker that was started with `equipoise serve --faults`; and
with `--brokers` kill, move and elect."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

import click

from equipoise.client.net.errors import KafkaConnectionError
from equipoise.console.commands.serving import FAULTS_AT
from equipoise.console.tables import print_table
from equipoise.http_server import parse_listen
from equipoise.wire.errors import UsageError
from equipoise.wire.text import printable

_PATIENCE_S = 10
_NAMES = ("group", "who")
_at = click.option("--at", metavar="HOST:PORT", default=FAULTS_AT, show_default=True, help="As `serve --faults` says.")
_group = click.argument("group")
_who = click.argument("who")
_broker = click.argument("broker", type=int)
_topic = click.argument("topic")
_partition = click.argument("partition", type=int)
_to = click.option("--to", required=True, metavar="BROKER", type=int, help="By its node id.")


def _ask(at: str, method: str, path: str = "/faults", body: dict[str, Any] | None = None) -> Any:
    host, port = parse_listen(at, FAULTS_AT)
    connection = HTTPConnection(host, port, timeout=_PATIENCE_S)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read().decode()
    except OSError as error:
        told = f"no faults can be set at {at} ({error.strerror or error}): start the broker with serve --faults"
        raise KafkaConnectionError(told) from None
    finally:
        connection.close()
    if answer.status != 200:
        raise UsageError(text.strip())
    return json.loads(text)


def _set(at: str, **wanted: Any) -> None:
    given = {name: value for name, value in wanted.items() if value not in (None, ())}
    found = _ask(at, "POST", body=given)
    if "number" in found:
        print(f"fault {found['number']} is in force: equipoise faults end {found['number']}")
    elif "end_offset" in found:
        print(f"done: the log ends at offset {found['end_offset']}")
    else:
        print("done")


def _on_member(deed: str, text: str) -> click.Command:
    @click.command(deed, help=text)
    @_group
    @_who
    @_at
    def command(group: str, who: str, at: str) -> None:
        _set(at, do=deed, group=group, who=who)

    return command


def _on_requests(deed: str, text: str, *options: Callable[[Any], Any]) -> click.Command:
    def run(at: str, **wanted: Any) -> None:
        _set(at, do=deed, **wanted)

    every = (
        click.argument("apis", nargs=-1, required=True),
        *options,
        click.option("--group", metavar="ID", help="Only requests of this group."),
        click.option("--who", metavar="NAME", help="Only of this member, client or instance id."),
        click.option("--times", metavar="N", type=click.IntRange(1), help="Only so many requests; else until it ends."),
        _at,
    )
    for one in reversed(every):
        run = one(run)
    return click.command(deed, help=text)(run)


@click.command("rebalance")
@_group
@_at
def _rebalance(group: str, at: str) -> None:
    """Begin a rebalance, without a cause in the group."""
    _set(at, do="rebalance", group=group)


def _on_broker(deed: str, text: str) -> click.Command:
    @click.command(deed, help=text)
    @_broker
    @_at
    def command(broker: int, at: str) -> None:
        _set(at, do=deed, broker=broker)

    return command


@click.command("move-coordinator")
@_group
@_to
@_at
def _move_coordinator(group: str, to: int, at: str) -> None:
    """Let another broker coordinate a group."""
    _set(at, do="move-coordinator", group=group, to=to)


@click.command("move-leader")
@_topic
@_partition
@_to
@_at
def _move_leader(topic: str, partition: int, to: int, at: str) -> None:
    """Let another broker lead a partition."""
    _set(at, do="move-leader", topic=topic, partition=partition, to=to)


@click.command("elect-leaders")
@_at
def _elect_leaders(at: str) -> None:
    """Let the preferred leaders lead again."""
    _set(at, do="elect-leaders")


@click.command("elect-unclean")
@_topic
@_partition
@_to
@click.option("--lose", required=True, metavar="N", type=click.IntRange(0), help="Records that the new leader lacks.")
@_at
def _elect_unclean(topic: str, partition: int, to: int, lose: int, at: str) -> None:
    """Let a broker lead that lacks the last records: they are gone."""
    _set(at, do="elect-unclean", topic=topic, partition=partition, to=to, lose=lose)


@click.command("brokers")
@_at
def _brokers(at: str) -> None:
    """Show the brokers of the process, and what each leads."""
    rows = [
        (one["broker"], one["address"], one["rack"] or "", one["state"], len(one["leads"]), one["shards"])
        for one in _ask(at, "GET", "/brokers")
    ]
    print_table(("broker", "address", "rack", "state", "leads", "internal"), [tuple(map(str, row)) for row in rows])


@click.command("list")
@_at
def _list(at: str) -> None:
    """Show the faults that are in force, the newest first."""
    found = _ask(at, "GET")
    rows = [
        (one["number"], one["do"], " ".join(one.get("apis", ())), one.get("group", ""), one.get("who", ""), one["hits"])
        for one in found
    ]
    print_table(
        ("number", "fault", "apis", "group", "who", "hits"), [tuple(map(printable, map(str, row))) for row in rows]
    )


@click.command("end")
@click.argument("number", required=False, default="")
@click.option("--all", "every", is_flag=True, help="End all of them.")
@_at
def _end(number: str, every: bool, at: str) -> None:
    """End a fault by its number, or all."""
    if bool(number) == every:
        raise UsageError("give the number of a fault (equipoise faults list), or --all")
    if number and not number.isdecimal():
        raise UsageError(f"{number!r} is no number of a fault: equipoise faults list shows them")
    found = _ask(at, "DELETE", f"/faults/{number}" if number else "/faults")
    print(f"ended: {found['ended']}")


COMMANDS = [
    _on_member("kick", "Remove a member, as an administrator does."),
    _on_member("expire", "End the session of a member now."),
    _rebalance,
    _on_member("pause-heartbeats", "Let heartbeats of a member count for nothing."),
    _on_member("fence", "Tell a static member that another one has its group.instance.id."),
    _on_member("cut", "End the connections of a member, and every new one."),
    _on_requests(
        "delay",
        "Let answers of APIs leave late.",
        click.option("--ms", required=True, type=click.IntRange(1), help="So many milliseconds."),
    ),
    _on_requests("lose", "Serve requests of APIs, and lose their answers with the connection."),
    _on_requests(
        "fail",
        "Answer requests of APIs with an error, and do not serve them.",
        click.option("--error", required=True, metavar="NAME", help="By Kafka's name, for instance NOT_COORDINATOR."),
    ),
    _on_broker("kill-broker", "Reset the connections of a broker, and let the others lead, as after SIGKILL."),
    _on_broker("stop-broker", "Let the others lead, then end the connections of a broker."),
    _on_broker("start-broker", "Bring a broker back that was stopped or killed."),
    _on_broker("cut-broker", "Let no client reach a broker, which leads on."),
    _on_broker("heal-broker", "Let clients reach a broker again."),
    _move_coordinator,
    _move_leader,
    _elect_leaders,
    _elect_unclean,
    _brokers,
    _list,
    _end,
]
