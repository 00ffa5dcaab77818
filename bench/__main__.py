"""`python -m bench NAME`: each benchmark is measured beside peers, in one run. Its module is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from equipoise.console.edge import run_app
from equipoise.console.options import Whole, file_option

_ALONE = ("consumer", "handover", "history", "producer", "simulate", "transactions")
_MODULES = {name: f"bench.{name}" for name in _ALONE} | {
    "versus-kafka": "bench.versus.run",
    "large-group": "bench.large.run",
    "first-batch": "bench.first_batch.run",
}
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")


def _quick(what: str) -> Any:
    return click.option("--quick", is_flag=True, help=what)


_listener = click.option(
    "--listener",
    type=click.Choice(["SSL", "SASL_SSL"]),
    help="Measure the CPU of a listener with this protocol beside PLAINTEXT, and print the ratio.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def app() -> None:
    """Measure, beside peers, in one run."""


def _add(name: str, short_help: str, whole_help: str, *options: Any) -> None:
    """A command whose options are the parameters of `run_bench` in the module of its name."""

    def run(**chosen: Any) -> None:
        import_module(_MODULES.get(name, f"bench.{name}.run")).run_bench(**chosen)

    run.__doc__ = whole_help
    for option in reversed((_as_json, *options)):
        run = option(run)
    app.command(name, short_help=short_help)(run)


_add(
    "assignors",
    "Sticky assignments, up to a million partitions.",
    "Sticky assignments up to 2,000 members and 1,000,000 partitions, beside kafka-python's.",
    _quick("Smaller sizes, some seconds."),
)
_add(
    "broker",
    "Start-up, produce, fetch and memory.",
    "Start-up, produce, fetch and memory of the broker, beside librdkafka's mock cluster.",
    _listener,
)
_add(
    "console",
    "An update of the web console, in Chromium.",
    "What one more rebalance of 100 partitions costs a browser, and whether its memory stays flat.",
    _quick("200 updates instead of 2,000; with --many, 20 groups; with --soon, 6 rebalances."),
    click.option("--pictures", is_flag=True, help="Draw the pictures of docs/console.md instead."),
    click.option("--soon", is_flag=True, help="Measure how soon rebalances of real clients are on the page instead."),
    click.option("--many", is_flag=True, help="Measure the console itself on 1,000 groups instead."),
)
_add(
    "consumer",
    "Records a second, beside other clients.",
    "Records read per second by our consumer, beside confluent-kafka and kafka-python.",
    _quick("Fewer records and rounds, half a minute."),
    _listener,
)
_add(
    "coordinator",
    "Heartbeats, commits, large groups, rebalances.",
    "Heartbeats, commits, large and many groups, restart, and rebalances of stock members.",
    _quick("Smaller sizes, under a minute."),
)
_add(
    "generations",
    "Rebalances by ZooKeeper and by coordinators.",
    "Joins, leaves and crashes under ZooKeeper, as it was and safe, beside eager and cooperative coordinators.",
    _quick("4 members only, once, a minute."),
    file_option("--picture", help="Draw the figures as PNG too."),
)
_add(
    "handover",
    "What readers notice of a rebalance.",
    "What readers notice of a rebalance of our consumers under load, eager beside cooperative.",
    _quick("One round."),
)
_add(
    "history",
    "`equipoise history` over ten million commits.",
    "`equipoise history` over ten million commit records.",
    _quick("A million records."),
    click.option("--records", metavar="N", type=Whole(24), help="So many."),
)
_add(
    "producer",
    "Records stored a second, beside other clients.",
    "Records stored per second by our producer, beside confluent-kafka and kafka-python.",
    _quick("Fewer records and rounds, some seconds."),
)
_add(
    "simulate",
    "Steps of simulated groups a minute.",
    "Steps of hunts in simulated groups a minute on one core, and a plan of 10,000 members.",
    _quick("A few runs and a small plan, some seconds."),
    file_option("--study", help="Print the table of docs/planning.md instead, and draw its picture."),
)
_add(
    "transactions",
    "Transactions a second; exactly-once in Spark.",
    "Transactions per second beside confluent-kafka and Apache Kafka, and the cost of exactly-once in the Spark sink.",
    _quick("Fewer transactions and rounds, some two minutes."),
)
_add(
    "spark",
    "Rows a second, beside Spark's own connector.",
    "Rows per second through our source and sink, and what a batch costs, beside Spark's own connector.",
    _quick("Fewer records and rounds, some two minutes."),
)
_add(
    "first-batch",
    "The first rows of a query, beside Spark's own.",
    "From load() to the end of the first batch of a streaming query, beside Spark's own connector.",
    _quick("One round, some two minutes."),
    file_option("--picture", help="Draw the timelines of the last round as PNG too."),
)
_add(
    "scale",
    "Costs as there is more of everything.",
    "What a record, a commit and a member cost as partitions, sizes, groups and members grow.",
    _quick("Smaller sizes, some seconds."),
    file_option("--picture", help="Draw the costs as PNG too."),
)
_add(
    "joins",
    "The same join in four ways, with a picture.",
    "A member joins a group: eager, cooperative, incremental, and with group.protocol=consumer.",
    file_option("--picture", help="Draw who owned what as PNG too."),
)
_add(
    "large-group",
    "2,000 members of the consumer protocol.",
    "A group of 2,000 members x 20,000 partitions with group.protocol=consumer, beside Apache Kafka.",
    _quick("50 members x 200 partitions, half a minute."),
    click.option("--alone", is_flag=True, help="Without Apache Kafka."),
)
_add(
    "versus-kafka",
    "The same work on Apache Kafka.",
    "Start-up, memory, load, and rebalances of stock members, beside Apache Kafka.",
    _quick("Fewer rounds, one client, about two minutes."),
    file_option("--write", "page", help="Write a page of Markdown too."),
    file_option("--keep", "kept", help="Keep what is measured in this file, and go on from it: a run in parts."),
    click.option("--only", metavar="CASE", multiple=True, help="Rebalances of these only: java, consumer. Repeatable."),
    click.option("--alone", is_flag=True, help="Without Apache Kafka: our own figures."),
)


def run() -> None:
    run_app(app, "bench")


if __name__ == "__main__":
    run()
