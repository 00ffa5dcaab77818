"""The command line: each command parses its options here and does its work elsewhere."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from equipoise.wire.errors import EquipoiseError, UsageError

app = typer.Typer(
    help="Consumer groups you can see, test and trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Measure, beside peers, in one run.", no_args_is_help=True)
app.add_typer(bench, name="bench")
topics = typer.Typer(help="List, create, describe and delete topics, on any Kafka cluster.", no_args_is_help=True)
app.add_typer(topics, name="topics")

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A broker setting by Kafka's name; repeatable."),
]
BootstrapServers = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="A broker of the cluster, or some, with commas.")
]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC")]
DEFAULT_BROKER = "127.0.0.1:9092"
_EXAMPLES = {"--set": "num.partitions=6", "--config": "retention.ms=3600000"}


@app.command()
def serve(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to accept clients; port 0: a free one.")] = (
        "127.0.0.1:9092"
    ),
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep topics and records in this directory.")] = None,
    memory: Annotated[bool, typer.Option("--memory", help="Keep everything in memory; leave nothing behind.")] = False,
    settings: Settings = None,
) -> None:
    """Run a broker that Kafka clients use unchanged, until Ctrl-C or SIGTERM."""
    from equipoise.broker import serve as run_broker

    if (data is None) != memory:
        raise UsageError("say where records go: --data DIR keeps them, --memory forgets them when the broker ends")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    run_broker(listen, data, parse_pairs("--set", settings or []), _announce)


def _announce(address: str) -> None:
    print(f"equipoise ready on {address}", flush=True)


@app.command()
def demo() -> None:
    """Start a broker, produce and consume with a stock client, and say what happened. Ends by itself."""
    from equipoise.console.demo import run_demo

    run_demo()


@bench.command("broker")
def bench_broker(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Start-up, produce, fetch and memory of the broker, beside librdkafka's mock cluster."""
    from equipoise.console.bench_broker import run_bench

    run_bench(as_json)


@topics.command("list")
def topics_list(bootstrap_servers: BootstrapServers = DEFAULT_BROKER) -> None:
    """All topics, with their partitions."""
    from equipoise.console.topics import list_topics

    list_topics(bootstrap_servers)


@topics.command("create")
def topics_create(
    name: TopicName,
    partitions: Annotated[int, typer.Option(help="-1: the broker's num.partitions.")] = -1,
    replication_factor: Annotated[int, typer.Option(help="-1: the broker's default.replication.factor.")] = -1,
    config: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A topic config by Kafka's name; repeatable.")
    ] = None,
    bootstrap_servers: BootstrapServers = DEFAULT_BROKER,
) -> None:
    """A new topic."""
    from equipoise.console.topics import create_topic

    create_topic(bootstrap_servers, name, partitions, replication_factor, parse_pairs("--config", config or []))


@topics.command("describe")
def topics_describe(name: TopicName, bootstrap_servers: BootstrapServers = DEFAULT_BROKER) -> None:
    """A topic's configs, and its partitions with their offsets."""
    from equipoise.console.topics import describe_topic

    describe_topic(bootstrap_servers, name)


@topics.command("delete")
def topics_delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...")],
    bootstrap_servers: BootstrapServers = DEFAULT_BROKER,
) -> None:
    """Topics and all their records, for good."""
    from equipoise.console.topics import delete_topics

    delete_topics(bootstrap_servers, names)


def parse_pairs(option: str, pairs: list[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise UsageError(f"{option} {pair}: write NAME=VALUE, for instance {option} {_EXAMPLES[option]}")
        settings[name.strip()] = value.strip()
    return settings


def run() -> None:
    """The entry point: an error of ours is one line on stderr and status 2, never a traceback."""
    try:
        app()
    except EquipoiseError as error:
        print(f"equipoise: {error}", file=sys.stderr)
        sys.exit(2)
