"""`equipoise transactions`: who transacts, what is open, and the end of a transaction that hangs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from equipoise.console.options import ClusterOptions, json_option, timed_cluster_options
from equipoise.console.tables import Row, print_table
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.client.admin_transactions import OpenTransaction, TransactionDescription
    from equipoise.member.partitions import TopicPartition

_NOTHING: dict[str, list[Any]] = {"transactions": [], "described": [], "producers": [], "open": []}


@click.command("list")
@click.option("--state", "states", metavar="STATE", multiple=True, help="Only these: Ongoing, Empty ... Repeatable.")
@json_option("words")
@timed_cluster_options
def transactions_list(states: tuple[str, ...], as_json: bool, cluster: ClusterOptions) -> None:
    """All transactional ids, with their states."""
    with cluster.admin() as admin:
        found = admin.list_transactions(states)
        if as_json:
            _print_json(admin, transactions=[one._asdict() for one in found])
            return
    rows = [(one.transactional_id, one.transaction_state, one.producer_id, one.coordinator_id) for one in found]
    heads = ("transactional id", "state", "producer id", "coordinator")
    _print_rows(heads, rows, f"no transactions on {printable(cluster.bootstrap_servers)}")


@click.command("describe")
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@json_option("words")
@timed_cluster_options
def transactions_describe(names: tuple[str, ...], as_json: bool, cluster: ClusterOptions) -> None:
    """What these transactional ids have open, since when, and in which partitions."""
    from equipoise.wire.errors import KafkaError

    with cluster.admin() as admin:
        found = admin.describe_transactions(names)
        for one in found.values():
            if isinstance(one, KafkaError):
                raise one
        described = [one for one in found.values() if not isinstance(one, KafkaError)]
        if as_json:
            _print_json(admin, described=[_row(one) for one in described])
            return
    rows = [
        (
            one.transactional_id,
            one.transaction_state,
            one.producer_id,
            one.producer_epoch,
            _since(one.transaction_start_time_ms),
            f"{one.transaction_timeout_ms / 1000:g} s",
            ", ".join(map(str, one.partitions)) or "-",
        )
        for one in described
    ]
    print_table(("transactional id", "state", "producer id", "epoch", "open for", "time-out", "partitions"), rows)


@click.command("producers")
@click.argument("topic", metavar="TOPIC")
@click.argument("partition", metavar="PARTITION", type=click.IntRange(0))
@json_option("words")
@timed_cluster_options
def transactions_producers(topic: str, partition: int, as_json: bool, cluster: ClusterOptions) -> None:
    """The producers that a partition remembers; those with an open transaction first."""
    with cluster.admin() as admin:
        found = admin.describe_producers(_place(topic, partition))
        if as_json:
            _print_json(admin, producers=[one._asdict() for one in found])
            return
    rows = [(*one[:3], one.current_txn_start_offset, _since(one.last_timestamp)) for one in found]
    heads = ("producer id", "epoch", "last sequence", "open from offset", "last wrote")
    _print_rows(heads, rows, f"no producers in {printable(topic)}-{partition}")


@click.command("open")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@json_option("words")
@timed_cluster_options
def transactions_open(topics: tuple[str, ...], as_json: bool, cluster: ClusterOptions) -> None:
    """What is open in each partition of these topics, or of all: before it readers of committed records stop."""
    with cluster.admin() as admin:
        found = admin.open_transactions(topics)
        if as_json:
            _print_json(admin, open=[_open_row(one) for one in found])
            return
    rows = [
        (
            str(one.partition),
            one.start_offset,
            one.transactional_id or "nobody's: it hangs",
            one.producer_id,
            _since(one.transaction_start_time_ms),
            "-" if one.transaction_timeout_ms < 0 else f"{one.transaction_timeout_ms / 1000:g} s",
        )
        for one in found
    ]
    heads = ("partition", "from offset", "transactional id", "producer id", "open for", "time-out")
    _print_rows(heads, rows, "no transaction is open: readers of committed records read to the end")


@click.command("find-hanging")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@click.option(
    "--max-transaction-timeout",
    "minutes",
    metavar="MINUTES",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    help="The brokers' transaction.max.timeout.ms: younger ones are left out.",
)
@json_option("words")
@timed_cluster_options
def transactions_find_hanging(topics: tuple[str, ...], minutes: int, as_json: bool, cluster: ClusterOptions) -> None:
    """Transactions that are open in these topics, or in all, and that no coordinator will end."""
    with cluster.admin() as admin:
        found = admin.hanging_transactions(topics, minutes * 60_000)
        if as_json:
            _print_json(admin, open=[_open_row(one) for one in found])
            return
    if not found:
        print("no transaction hangs")
    for one in found:
        topic, number = printable(one.partition.topic), one.partition.partition
        print(f"{topic}-{number}: producer {one.producer_id}, last written {_since(one.last_timestamp)} ago")
        print(f"  to end it: equipoise transactions abort {topic} {number} --start-offset {one.start_offset}")


@click.command("abort")
@click.argument("topic", metavar="TOPIC")
@click.argument("partition", metavar="PARTITION", type=click.IntRange(0))
@click.option("--start-offset", metavar="N", type=click.IntRange(0), required=True, help="Where it begins there.")
@json_option("words")
@timed_cluster_options
def transactions_abort(topic: str, partition: int, start_offset: int, as_json: bool, cluster: ClusterOptions) -> None:
    """A transaction that hangs: its coordinator does not know it, and readers wait for its end."""
    with cluster.admin() as admin:
        admin.abort_transaction(_place(topic, partition), start_offset)
        if as_json:
            from equipoise.console.commands.groups.changes import Result, print_results
            from equipoise.console.output import Output

            print_results(admin, "", [Result(f"{topic}-{partition}")], Output(json=True))
            return
    print(f"the transaction that began at offset {start_offset} of {printable(topic)}-{partition} is aborted")


def _place(topic: str, partition: int) -> TopicPartition:
    from equipoise.member.partitions import TopicPartition

    return TopicPartition(topic, partition)


def _row(one: TransactionDescription) -> dict[str, Any]:
    partitions = [{"topic": place.topic, "partition": place.partition} for place in one.partitions]
    return {**one._asdict(), "partitions": partitions}


def _open_row(one: OpenTransaction) -> dict[str, Any]:
    fields = one._asdict()
    place = fields.pop("partition")
    return {"topic": place.topic, "partition": place.partition, **fields}


def _since(at_ms: int) -> str:
    return "-" if at_ms < 0 else f"{max(0.0, time.time() - at_ms / 1000):.0f} s"


def _print_rows(heads: Sequence[str], rows: Sequence[Row], if_none: str) -> None:
    if rows:
        print_table(heads, rows)
    else:
        print(if_none)


def _print_json(admin: Any, **rows: Any) -> None:
    """One schema for all: what a command does not show is empty."""
    from equipoise.console.output import head_of, print_json

    print_json("transactions", **head_of(admin), **_NOTHING | rows)


COMMANDS = (
    transactions_list,
    transactions_describe,
    transactions_producers,
    transactions_open,
    transactions_find_hanging,
    transactions_abort,
)
