"""The command line: each command parses its options here and does its work elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from equipoise.console.check import check
from equipoise.console.edge import FAILED, INTERRUPTED, at_a_terminal, fail, log_warnings, missing_package
from equipoise.console.history import history
from equipoise.console.options import Whole, choose, file_option, parse_pairs
from equipoise.console.run import run as run_command
from equipoise.console.zookeeper import registering, zookeeper
from equipoise.wire.errors import EquipoiseError, UsageError

if TYPE_CHECKING:
    from equipoise.broker.server import Server

DEFAULT_BROKER = "127.0.0.1:9092"

bootstrap_servers = click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT",
    default=DEFAULT_BROKER,
    show_default=True,
    help="A broker of the cluster, or some, with commas.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="equipoise", message="equipoise %(version)s")
def app() -> None:
    """Consumer groups you can see, test and trust."""


app.add_command(check)
app.add_command(history)
app.add_command(run_command)
app.add_command(zookeeper)


@app.command(short_help="Run a broker that Kafka clients use unchanged.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_BROKER,
    show_default=True,
    help="Where to accept clients; port 0: a free one.",
)
@click.option(
    "--data", metavar="DIR", type=click.Path(path_type=Path), help="Keep topics and records in this directory."
)
@click.option("--memory", is_flag=True, help="Keep everything in memory; leave nothing behind.")
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="A broker setting by Kafka's name; repeatable."
)
@click.option("--zookeeper", metavar="HOST:PORT", help="Register the broker and its topics in this ZooKeeper.")
def serve(listen: str, data: Path | None, memory: bool, settings: tuple[str, ...], zookeeper: str | None) -> None:
    """Run a broker that Kafka clients use unchanged, until Ctrl-C or SIGTERM."""
    from equipoise.broker import serve as run_broker

    if (data is None) != memory:
        raise UsageError("say where records go: --data DIR keeps them, --memory forgets them when the broker ends")
    log_warnings()
    with registering(zookeeper) as register:

        def ready(server: Server) -> None:
            register(server)
            print(f"equipoise ready on {server.address}", flush=True)

        run_broker(listen, data, parse_pairs("--set", settings), ready)


@app.command(short_help="A group through a join and a kill, accounted for.")
@click.option("--without-spark", is_flag=True, help="Ten seconds with a stock client instead; needs no Java.")
@file_option("--picture", default="equipoise-demo.png", show_default=True, help="Where to draw.")
def demo(without_spark: bool, picture: Path) -> None:
    """Spark queries and a plain consumer share a group, one joins, one is killed: every order is accounted for."""
    if without_spark:
        from equipoise.console.demo_small import run_small_demo

        run_small_demo()
        return
    from equipoise.console.demo import run_demo

    sys.exit(not run_demo(picture))


@app.group()
def bench() -> None:
    """Measure, beside peers, in one run."""


@bench.command("assignors", short_help="Sticky assignments, up to a million partitions.")
@as_json
@click.option("--quick", is_flag=True, help="Smaller sizes, some seconds.")
def bench_assignors(as_json: bool, quick: bool) -> None:
    """Sticky assignments up to 2,000 members and 1,000,000 partitions, beside kafka-python's."""
    from equipoise.console.bench.assignors import run_bench

    run_bench(as_json, quick)


@bench.command("broker", short_help="Start-up, produce, fetch and memory.")
@as_json
def bench_broker(as_json: bool) -> None:
    """Start-up, produce, fetch and memory of the broker, beside librdkafka's mock cluster."""
    from equipoise.console.bench.broker import run_bench

    run_bench(as_json)


@bench.command("coordinator", short_help="Heartbeats, commits, large groups, rebalances.")
@as_json
@click.option("--quick", is_flag=True, help="Smaller sizes, under a minute.")
def bench_coordinator(as_json: bool, quick: bool) -> None:
    """Heartbeats, commits, large and many groups, restart, and rebalances of stock members."""
    from equipoise.console.bench.coordinator import run_bench

    run_bench(as_json, quick)


@bench.command("versus-kafka", short_help="The same work on Apache Kafka.")
@as_json
@click.option("--quick", is_flag=True, help="Fewer rounds, one client, about two minutes.")
@file_option("--write", "page", help="Write a page of Markdown too.")
def bench_versus_kafka(as_json: bool, quick: bool, page: Path | None) -> None:
    """Start-up, memory, load, and rebalances of stock members, beside Apache Kafka."""
    from equipoise.console.bench.versus import run_bench

    run_bench(as_json, quick, page)


@bench.command("consumer", short_help="Records a second, beside other clients.")
@as_json
@click.option("--quick", is_flag=True, help="Fewer records and rounds, half a minute.")
def bench_consumer(as_json: bool, quick: bool) -> None:
    """Records read per second by our consumer, beside confluent-kafka and kafka-python."""
    from equipoise.console.bench.consumer import run_bench

    run_bench(as_json, quick)


@bench.command("producer", short_help="Records stored a second, beside other clients.")
@as_json
@click.option("--quick", is_flag=True, help="Fewer records and rounds, some seconds.")
def bench_producer(as_json: bool, quick: bool) -> None:
    """Records stored per second by our producer, beside confluent-kafka and kafka-python."""
    from equipoise.console.bench.producer import run_bench

    run_bench(as_json, quick)


@bench.command("handover", short_help="What readers notice of a rebalance.")
@as_json
@click.option("--quick", is_flag=True, help="One round.")
def bench_handover(as_json: bool, quick: bool) -> None:
    """What readers notice of a rebalance of our consumers under load, eager beside cooperative."""
    from equipoise.console.bench.handover import run_bench

    run_bench(as_json, quick)


@bench.command("spark", short_help="Rows a second, beside Spark's own connector.")
@as_json
@click.option("--quick", is_flag=True, help="Fewer records and rounds, some two minutes.")
def bench_spark(as_json: bool, quick: bool) -> None:
    """Rows per second through our source and sink, and what a batch costs, beside Spark's own connector."""
    from equipoise.console.bench.spark import run_bench

    run_bench(as_json, quick)


@bench.command("history")
@as_json
@click.option("--quick", is_flag=True, help="A million records.")
@click.option("--records", metavar="N", type=Whole(24), help="So many.")
def bench_history(as_json: bool, quick: bool, records: int | None) -> None:
    """`equipoise history` over ten million commit records."""
    from equipoise.console.bench.history import run_bench

    run_bench(as_json, quick, records)


@bench.command("generations", short_help="Rebalances by ZooKeeper and by coordinators.")
@as_json
@click.option("--quick", is_flag=True, help="4 members only, once, a minute.")
@file_option("--picture", help="Draw the figures as PNG too.")
def bench_generations(as_json: bool, quick: bool, picture: Path | None) -> None:
    """Joins, leaves and crashes under ZooKeeper, as it was and safe, beside eager and cooperative coordinators."""
    from equipoise.console.bench.generations import run_bench

    run_bench(as_json, quick, picture)


@app.group()
def prove() -> None:
    """Put the same questions to Apache Kafka and to Equipoise. Needs a JDK, and Maven the first time."""


@prove.command("conformance", short_help="Every answer, compared with Apache Kafka's.")
@click.option("--seed", envvar="EQUIPOISE_SEED", help="Of the random scripts; a new one each time.")
@click.option("--steps", metavar="N", type=Whole(0), default=2000, show_default=True, help="Random steps at least.")
@click.option("--only", default="", help="The scripts with this in their name.")
def prove_conformance(seed: str | None, steps: int, only: str) -> None:
    """Group requests, step by step, every answer compared field by field."""
    from equipoise.proving.conformance.run import run as compare

    summary = compare(seed, steps, only)
    print(summary.text())
    sys.exit(not summary.is_good)


@prove.command("scenarios", short_help="Groups of real clients, on both brokers.")
@click.option("--client", "clients", metavar="CLIENT", multiple=True, help="Only this one; repeatable.")
@click.option("--scenario", "scenarios", metavar="SCENARIO", multiple=True, help="The same.")
@file_option("--write", "page", help="Write a page of Markdown too.")
def prove_scenarios(clients: tuple[str, ...], scenarios: tuple[str, ...], page: Path | None) -> None:
    """Groups of real clients through joins, crashes, restarts and more, on both brokers."""
    from equipoise.proving.scenarios import run as play
    from equipoise.proving.scenarios.clients import CLIENTS
    from equipoise.proving.scenarios.plays import SCENARIOS

    chosen = choose("--client", clients, CLIENTS), choose("--scenario", scenarios, SCENARIOS)
    sys.exit(not play(page, *chosen))


@prove.command("clusters", short_help="Clusters whose parts are killed.")
@click.option("--rounds", metavar="N", type=Whole(1), default=1, show_default=True, help="How often all faults happen.")
@click.option("--trial", "trials", metavar="TRIAL", multiple=True, help="Only this one; repeatable.")
def prove_clusters(rounds: int, trials: tuple[str, ...]) -> None:
    """Three Kafka brokers and a Spark cluster whose parts are killed: who loses records, who reads them twice?"""
    from equipoise.proving.trials.run import TRIALS
    from equipoise.proving.trials.run import run as play

    sys.exit(not play(rounds, choose("--trial", trials, TRIALS)))


@app.group()
def topics() -> None:
    """List, create, describe and delete topics, on any Kafka cluster."""


@topics.command("list")
@bootstrap_servers
def topics_list(bootstrap_servers: str) -> None:
    """All topics, with their partitions."""
    from equipoise.console.topics import list_topics

    list_topics(bootstrap_servers)


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
@bootstrap_servers
def topics_create(
    name: str, partitions: int, replication_factor: int, config: tuple[str, ...], bootstrap_servers: str
) -> None:
    """A new topic."""
    from equipoise.console.topics import create_topic

    create_topic(bootstrap_servers, name, partitions, replication_factor, parse_pairs("--config", config))


@topics.command("describe")
@click.argument("name", metavar="TOPIC")
@bootstrap_servers
def topics_describe(name: str, bootstrap_servers: str) -> None:
    """A topic's configs, and its partitions with their offsets."""
    from equipoise.console.topics import describe_topic

    describe_topic(bootstrap_servers, name)


@topics.command("delete")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@bootstrap_servers
def topics_delete(names: tuple[str, ...], bootstrap_servers: str) -> None:
    """Topics and all their records, for good."""
    from equipoise.console.topics import delete_topics

    delete_topics(bootstrap_servers, list(names))


def run() -> None:
    """The entry point: an error of ours, or in the options, is one line on stderr and status 2, never a traceback."""
    with at_a_terminal():
        try:
            app(standalone_mode=False)
        except click.exceptions.NoArgsIsHelpError as help_text:
            print(help_text.format_message())
            sys.exit(FAILED)
        except (EquipoiseError, OSError, click.ClickException) as error:
            fail(error)
        except ImportError as error:
            fail(missing_package(error))
        except click.Abort:
            sys.exit(INTERRUPTED)
