"""The command line: each command parses its options here and does its work elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from equipoise.console.commands.groups import groups
from equipoise.console.commands.serving import (
    CONSOLE_AT,
    FAULTS_AT,
    console_beside,
    faulting,
    measuring,
    registering,
)
from equipoise.console.edge import log_warnings, run_app
from equipoise.console.later import LaterApp, LaterGroup
from equipoise.console.options import DEFAULT_BROKER, PATH, file_option, parse_pairs
from equipoise.garbage import without_collection
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    from equipoise.broker.server import Server


@click.group(cls=LaterApp, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="equipoise", message="equipoise %(version)s")
def app() -> None:
    """Consumer groups you can see, test and trust."""


app.add_command(groups)
app.add_command(
    LaterGroup(
        "topics",
        "equipoise.console.commands.topics",
        help="List, create, describe, change, trim and delete topics, on any Kafka cluster.",
    )
)
app.add_command(
    LaterGroup(
        "simulate",
        "equipoise.console.commands.simulate",
        help="Groups under virtual time: hunt for bugs, play scripts, plan.",
    )
)
app.add_command(
    LaterGroup(
        "faults", "equipoise.console.commands.faults", help="Disturb members, and brokers, of a broker under test."
    )
)
app.add_command(
    LaterGroup(
        "transactions",
        "equipoise.console.commands.transactions",
        help="List and describe transactions, and end one that hangs, on any Kafka cluster.",
    )
)
app.add_later(
    {
        name: f"equipoise.console.commands.{name}"
        for name in (
            "acls",
            "check",
            "cluster",
            "console",
            "consume",
            "history",
            "metrics",
            "produce",
            "run",
            "users",
            "zookeeper",
        )
    },
    {"group": "groups", "topic": "topics"},
)


@app.command(short_help="Run a broker that Kafka clients use unchanged.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    show_default=DEFAULT_BROKER,
    help="Where to accept clients; port 0: a free one.",
)
@click.option("--data", metavar="DIR", type=PATH, help="Keep topics and records in this directory.")
@click.option("--memory", is_flag=True, help="Keep everything in memory; leave nothing behind.")
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="A broker setting by Kafka's name; repeatable."
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 100),
    help="For tests of failover: so many brokers, in one process, with one log.",
)
@click.option("--strict", is_flag=True, help="Kafka's answers and timing to the letter, without our additions.")
@click.option("--tls", is_flag=True, help="Speak TLS, with a certificate authority of its own: tls/ca.pem in --data.")
@click.option(
    "--users",
    metavar="FILE",
    type=PATH,
    help="Let in these users only, by SASL: lines name:plain:password, or with a SCRAM verifier.",
)
@click.option(
    "--add-scram",
    metavar="SCRAM|@FILE",
    multiple=True,
    help="A first user, as in kafka-storage: SCRAM-SHA-256=[name=admin,password=...]; @FILE has such lines.",
)
@click.option("--metrics", "metrics_at", metavar="HOST:PORT", help="Serve /metrics of this broker there.")
@click.option(
    "--faults",
    "faults_at",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value=FAULTS_AT,
    help=f"For tests: let `equipoise faults` disturb members and brokers, by {FAULTS_AT} or there.",
)
@click.option("--zookeeper", metavar="HOST:PORT", help="Register the broker and its topics in this ZooKeeper.")
@click.option(
    "--console",
    "console_at",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value=CONSOLE_AT,
    help=f"Show the groups in a browser too, on {CONSOLE_AT} or there.",
)
def serve(
    listen: str | None,
    data: Path | None,
    memory: bool,
    settings: tuple[str, ...],
    brokers: int | None,
    strict: bool,
    tls: bool,
    users: Path | None,
    add_scram: tuple[str, ...],
    metrics_at: str | None,
    faults_at: str | None,
    zookeeper: str | None,
    console_at: str | None,
) -> None:
    """Run a broker that Kafka clients use unchanged, until Ctrl-C or SIGTERM."""
    with without_collection():
        from equipoise.broker import serve as run_broker
        from equipoise.broker.security.quick import Security

    if (data is None) != memory:
        raise UsageError("say where records go: --data DIR keeps them, --memory forgets them when the broker ends")
    if zookeeper is not None and (brokers or 1) > 1:
        raise UsageError("--zookeeper registers one broker: leave --brokers out")
    log_warnings()
    security = Security.from_command(data, tls=tls, users=users)
    is_open = not tls and users is None and not add_scram
    with (
        registering(zookeeper) as register,
        measuring(metrics_at) as measure,
        faulting(faults_at) as disturb,
        console_beside(console_at, is_open=is_open, metrics_at=metrics_at) as show,
    ):

        def ready(server: Server) -> None:
            register(server)
            measure(server)
            disturb(server)
            print(f"equipoise ready on {server.addresses}{security.described}", flush=True)
            show(server.addresses)

        wanted = {**parse_pairs("--set", settings), **({"strict": "true"} if strict else {})}
        wanted |= {} if brokers is None else {"brokers": str(brokers)}
        run_broker(listen, data, wanted, ready, security=security, add_scram=add_scram)


@app.command(short_help="A group through a join and a kill, accounted for.")
@click.option("--without-spark", is_flag=True, help="Ten seconds with stock consumers instead; needs no Java.")
@file_option("--picture", default="equipoise-demo.png", show_default=True, help="Where to draw.")
def demo(without_spark: bool, picture: Path) -> None:
    """Spark queries and a plain consumer share a group, one joins, one is killed: every order is accounted for."""
    if without_spark:
        from equipoise.console.demo.without_spark import run_small_demo

        sys.exit(not run_small_demo())
    from equipoise.console.demo.with_spark import run_demo

    sys.exit(not run_demo(picture))


def run() -> None:
    """The entry point."""
    run_app(app, "equipoise")
