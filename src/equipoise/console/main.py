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

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A broker setting by Kafka's name; repeatable."),
]


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
    run_broker(listen, data, parse_settings(settings or []), _announce)


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


def parse_settings(pairs: list[str]) -> dict[str, object]:
    settings: dict[str, object] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise UsageError(f"--set {pair}: write NAME=VALUE, for instance --set num.partitions=6")
        settings[name.strip()] = value.strip()
    return settings


def run() -> None:
    """The entry point: an error of ours is one line on stderr and status 2, never a traceback."""
    try:
        app()
    except EquipoiseError as error:
        print(f"equipoise: {error}", file=sys.stderr)
        sys.exit(2)
