"""The command line: each command parses its options here and does its work elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from equipoise.console.commands.acls import acls
from equipoise.console.commands.check import check
from equipoise.console.commands.groups import groups
from equipoise.console.commands.history import history
from equipoise.console.commands.run import run as run_command
from equipoise.console.commands.users import users
from equipoise.console.commands.zookeeper import registering, zookeeper
from equipoise.console.edge import log_warnings, run_app
from equipoise.console.options import DEFAULT_BROKER, ClusterOptions, Whole, cluster_options, file_option, parse_pairs
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    from equipoise.broker.server import Server


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="equipoise", message="equipoise %(version)s")
def app() -> None:
    """Consumer groups you can see, test and trust."""


app.add_command(acls)
app.add_command(check)
app.add_command(groups)
app.add_command(history)
app.add_command(run_command)
app.add_command(users)
app.add_command(zookeeper)


@app.command(short_help="Run a broker that Kafka clients use unchanged.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    show_default=DEFAULT_BROKER,
    help="Where to accept clients; port 0: a free one.",
)
@click.option(
    "--data", metavar="DIR", type=click.Path(path_type=Path), help="Keep topics and records in this directory."
)
@click.option("--memory", is_flag=True, help="Keep everything in memory; leave nothing behind.")
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="A broker setting by Kafka's name; repeatable."
)
@click.option("--strict", is_flag=True, help="Kafka's answers and timing to the letter, without our additions.")
@click.option("--tls", is_flag=True, help="Speak TLS, with a certificate authority of its own: tls/ca.pem in --data.")
@click.option(
    "--users",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Let in these users only, by SASL: lines name:plain:password, or with a SCRAM verifier.",
)
@click.option(
    "--add-scram",
    metavar="SCRAM|@FILE",
    multiple=True,
    help="A first user, as in kafka-storage: SCRAM-SHA-256=[name=admin,password=...]; @FILE has such lines.",
)
@click.option("--zookeeper", metavar="HOST:PORT", help="Register the broker and its topics in this ZooKeeper.")
def serve(
    listen: str | None,
    data: Path | None,
    memory: bool,
    settings: tuple[str, ...],
    strict: bool,
    tls: bool,
    users: Path | None,
    add_scram: tuple[str, ...],
    zookeeper: str | None,
) -> None:
    """Run a broker that Kafka clients use unchanged, until Ctrl-C or SIGTERM."""
    from equipoise.broker import serve as run_broker
    from equipoise.broker.security.quick import Security

    if (data is None) != memory:
        raise UsageError("say where records go: --data DIR keeps them, --memory forgets them when the broker ends")
    log_warnings()
    security = Security.from_command(data, tls=tls, users=users)
    with registering(zookeeper) as register:

        def ready(server: Server) -> None:
            register(server)
            print(f"equipoise ready on {server.address}{security.described}", flush=True)

        wanted = {**parse_pairs("--set", settings), **({"strict": "true"} if strict else {})}
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


@app.group()
def topics() -> None:
    """List, create, describe and delete topics, on any Kafka cluster."""


@topics.command("list")
@cluster_options
def topics_list(cluster: ClusterOptions) -> None:
    """All topics, with their partitions."""
    from equipoise.console.commands.topics import list_topics

    list_topics(cluster)


@topics.command("create")
@click.argument("name", metavar="TOPIC")
@click.option(
    "--partitions", metavar="N", type=Whole(-1), default=-1, show_default=True, help="-1: the broker's num.partitions."
)
@click.option(
    "--replication-factor",
    metavar="N",
    type=Whole(-1),
    default=-1,
    show_default=True,
    help="-1: the broker's default.replication.factor.",
)
@click.option("--config", metavar="NAME=VALUE", multiple=True, help="A topic config by Kafka's name; repeatable.")
@cluster_options
def topics_create(
    name: str, partitions: int, replication_factor: int, config: tuple[str, ...], cluster: ClusterOptions
) -> None:
    """A new topic."""
    from equipoise.console.commands.topics import create_topic

    create_topic(
        cluster,
        name,
        partitions=partitions,
        replication_factor=replication_factor,
        configs=parse_pairs("--config", config),
    )


@topics.command("describe")
@click.argument("name", metavar="TOPIC")
@cluster_options
def topics_describe(name: str, cluster: ClusterOptions) -> None:
    """A topic's configs, and its partitions with their offsets."""
    from equipoise.console.commands.topics import describe_topic

    describe_topic(cluster, name)


@topics.command("delete")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@cluster_options
def topics_delete(names: tuple[str, ...], cluster: ClusterOptions) -> None:
    """Topics and all their records, for good."""
    from equipoise.console.commands.topics import delete_topics

    delete_topics(cluster, list(names))


def run() -> None:
    """The entry point."""
    run_app(app, "equipoise")
