"""`python -m proving`: the same questions put to Apache Kafka and to Equipoise. Each command imports its work late."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

import click

from equipoise.console.edge import run_app
from equipoise.console.options import Whole, file_option
from equipoise.wire.errors import UsageError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def app() -> None:
    """Put the same questions to Apache Kafka and to Equipoise. Needs a JDK, and Maven the first time."""


@app.command(short_help="Every answer, compared with Apache Kafka's.")
@click.option("--seed", envvar="EQUIPOISE_SEED", help="Of the random scripts; a new one each time.")
@click.option("--steps", metavar="N", type=Whole(0), default=2000, show_default=True, help="Random steps at least.")
@click.option("--only", default="", help="The scripts with this in their name.")
@click.option(
    "--protocol",
    type=click.Choice(["classic", "consumer"]),
    default="classic",
    show_default=True,
    help="Of the groups.",
)
def conformance(seed: str | None, steps: int, only: str, protocol: str) -> None:
    """Group requests, step by step, every answer compared field by field."""
    from proving.conformance.run import run as compare

    summary = compare(seed, steps, only, protocol)
    print(summary.text())
    sys.exit(not summary.is_good)


@app.command(short_help="Transactions, every answer compared with Apache Kafka's.")
@click.option("--seed", envvar="EQUIPOISE_SEED", help="Of the random scripts; a new one each time.")
@click.option("--steps", metavar="N", type=Whole(0), default=2000, show_default=True, help="Random steps at least.")
@click.option("--only", default="", help="The scripts with this in their name.")
def transactions(seed: str | None, steps: int, only: str) -> None:
    """Requests of transactional producers, step by step, with everything that can be seen after each."""
    from proving.conformance.transactions.run import run as compare

    summary = compare(seed, steps, only)
    print(summary.text())
    sys.exit(not summary.is_good)


@app.command(short_help="What a restricted principal may do, on both brokers.")
def access() -> None:
    """Every request of a principal under sets of ACLs, every answer compared."""
    from proving.conformance.access_run import run as compare

    summary = compare()
    print(summary.text())
    sys.exit(not summary.is_good)


@app.command(short_help="Groups of real clients, on both brokers.")
@click.option("--client", "clients", metavar="CLIENT", multiple=True, help="Only this one; repeatable.")
@click.option("--scenario", "scenarios", metavar="SCENARIO", multiple=True, help="The same.")
@file_option("--write", "page", help="Write a page of Markdown too.")
def scenarios(clients: tuple[str, ...], scenarios: tuple[str, ...], page: Path | None) -> None:
    """Groups of real clients through joins, crashes, restarts and more, on both brokers."""
    from proving.scenarios import run as play
    from proving.scenarios.clients import ALL_CLIENTS
    from proving.scenarios.consumer_plays import ALL_SCENARIOS

    chosen = choose("--client", clients, ALL_CLIENTS), choose("--scenario", scenarios, ALL_SCENARIOS)
    sys.exit(not play(page, *chosen))


@app.command(short_help="Clusters whose parts are killed.")
@click.option("--rounds", metavar="N", type=Whole(1), default=1, show_default=True, help="How often all faults happen.")
@click.option("--trial", "trials", metavar="TRIAL", multiple=True, help="Only this one; repeatable.")
def clusters(rounds: int, trials: tuple[str, ...]) -> None:
    """Three Kafka brokers and a Spark cluster whose parts are killed: who loses records, who reads them twice?"""
    from proving.trials.run import TRIALS
    from proving.trials.run import run as play

    sys.exit(not play(rounds, choose("--trial", trials, TRIALS)))


@app.command(short_help="Groups whose coordinator dies again and again.")
@click.option("--failovers", metavar="N", type=Whole(1), default=10, show_default=True, help="On each cluster.")
@click.option("--client", "clients", metavar="CLIENT", multiple=True, help="Only this one; repeatable.")
@click.option("--way", "ways", metavar="WAY", multiple=True, help="Only kill, stop or move; repeatable.")
@click.option("--without-kafka", is_flag=True, help="Only on three brokers of ours, in one process.")
def failovers(failovers: int, clients: tuple[str, ...], ways: tuple[str, ...], without_kafka: bool) -> None:
    """Groups of real clients whose coordinator is killed, stopped and moved: is a record or a commit lost?"""
    from proving.trials.failovers import CLIENTS, WAYS
    from proving.trials.run import failovers as play

    chosen = choose("--client", clients, CLIENTS), choose("--way", ways, WAYS)
    sys.exit(not play(failovers, *chosen, with_kafka=not without_kafka))


def choose(option: str, names: tuple[str, ...], known: Collection[str]) -> tuple[str, ...]:
    """Those named, or all."""
    unknown = set(names) - set(known)
    if unknown:
        raise UsageError(f"{option} {min(unknown)}: there are {', '.join(known)}")
    return names or tuple(known)


def run() -> None:
    run_app(app, "proving")


if __name__ == "__main__":
    run()
