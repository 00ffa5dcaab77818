"""All trials, one after the other on the same clusters, with a table of what came of each."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from proving.equipoise_cluster import EquipoiseCluster
from proving.kafka_cluster import KafkaCluster
from proving.spark_cluster import SparkCluster
from proving.trials.accounts import Account, table
from proving.trials.consumers import OURS, consumers_through_faults
from proving.trials.failovers import groups_through_failovers
from proving.trials.spark import EXACT, QUERIES, QUERIES_OF_BOTH, SINK, spark_through_faults
from proving.trials.truncation import readers_of_a_log_that_is_cut

TRIALS = ("consumers", "truncation", "queries", "pipeline")
_EXACT = (OURS, *EXACT)


def run(rounds: int = 1, trials: Sequence[str] = TRIALS) -> bool:
    """Plays, and prints the tables; whether ours have kept what they promise. Unavailable: there is no Apache Kafka."""
    good = True
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="equipoise-trials-")))
        cluster = stack.enter_context(KafkaCluster())
        for trial in trials:
            click.echo(f"{trial}:", err=True)
            accounts = _play(trial, cluster, home, rounds)
            click.echo(f"\n{trial}\n\n{table(accounts)}\n")
            good = good and all(map(is_kept, accounts))
    return good


def failovers(count: int, clients: Sequence[str], ways: Sequence[str], *, with_kafka: bool = True) -> bool:
    """On our cluster, and beside it on Apache Kafka's. Whether nothing was lost."""
    good = True
    for make in (EquipoiseCluster, KafkaCluster) if with_kafka else (EquipoiseCluster,):
        with tempfile.TemporaryDirectory(prefix="equipoise-trials-") as home, make() as cluster:
            found = groups_through_failovers(
                cluster, Path(home) / "members.log", clients=clients, failovers=count, ways=ways, tell=_tell
            )
        click.echo(f"\n{cluster.name}\n\n{table(found.accounts)}\n")
        for pauses in found.pauses:
            click.echo(f"- {pauses}")
        click.echo(f"- {found.commits:,} acknowledged commits were found again, after the failovers behind them")
        good = good and found.lost == 0
    return good


def _play(trial: str, cluster: KafkaCluster, home: Path, rounds: int) -> list[Account]:
    if trial == "consumers":
        return consumers_through_faults(cluster, home / "members.log", rounds=rounds, patient=True, tell=_tell)
    if trial == "truncation":
        return readers_of_a_log_that_is_cut(cluster, home, tell=_tell)
    with SparkCluster() as spark:
        app = QUERIES_OF_BOTH if trial == QUERIES else trial
        return spark_through_faults(cluster, spark, home, app=app, rounds=rounds, tell=_tell)


def is_kept(account: Account) -> bool:
    """Whether a reader has done what we promise, if it is one of ours."""
    if account.reader == SINK:
        return account.lost == 0
    return account.is_exact or account.reader not in _EXACT


def _tell(what: str) -> None:
    click.echo(f"  {what}", err=True)
