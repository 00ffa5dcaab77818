"""`equipoise produce`: lines or JSON objects from a file or stdin, as records."""

from __future__ import annotations

import sys
from typing import IO

import click

from equipoise.client import Producer
from equipoise.console.input_rows import InputRow, Pairs, bytes_of, rows_of_json, rows_of_lines
from equipoise.console.options import ClusterOptions, Whole, parse_pairs, timed_cluster_options
from equipoise.console.output import head_of, print_json
from equipoise.console.tables import counted
from equipoise.wire.errors import UsageError
from equipoise.wire.text import printable


@click.command("produce")
@click.argument("topic", metavar="TOPIC")
@click.argument("file", metavar="[FILE]", type=click.File("rb"), default="-")
@click.option("--key-separator", metavar="C", help="What stands before its first occurrence in a line is the key.")
@click.option("--input", "form", type=click.Choice(["lines", "json"]), default="lines", show_default=True,
              help="json: an object in a line, with value, key, headers, partition, timestamp.")  # fmt: skip
@click.option("--header", metavar="NAME=VALUE", multiple=True, help="A header of every record; repeatable.")
@click.option("--partition", metavar="N", type=Whole(0), help="Of every record; else by key, or in turn.")
@click.option("--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none",
              show_default=True, help="Of batches.")  # fmt: skip
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True,
              help="What a record waits for.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object at the end instead of words.")
@timed_cluster_options
def produce(
    topic: str,
    file: IO[bytes],
    key_separator: str | None,
    form: str,
    header: tuple[str, ...],
    partition: int | None,
    compression: str,
    acks: str,
    as_json: bool,
    cluster: ClusterOptions,
) -> None:
    """Send records to a topic: a line each, from FILE or stdin. The end of the input ends the command."""
    if key_separator is not None and form == "json":
        raise UsageError("--key-separator is for lines; with --input json the object has the key")
    if key_separator == "":
        raise UsageError("--key-separator '': write what stands between key and value, for instance --key-separator :")
    headers = tuple((name, bytes_of(value)) for name, value in parse_pairs("--header", header, "origin=shop").items())
    rows = rows_of_json(file) if form == "json" else rows_of_lines(file, key_separator)
    settings = cluster.client(acks=acks, **{"compression.type": compression})
    if acks != "all":
        settings["enable.idempotence"] = False
    count = 0
    with cluster.admin() as admin:  # who cannot be reached is told at once
        head = head_of(admin) if as_json else {}
    with Producer(settings) as producer:
        for row in rows:
            _send(producer, topic, row, partition=partition, headers=headers)
            count += 1
        producer.flush()
    if as_json:
        print_json("produced", **head, topic=topic, records=count)
    else:
        print(f"produced {counted(count, 'record')} to {printable(topic)}", file=sys.stderr)


def _send(producer: Producer, topic: str, row: InputRow, *, partition: int | None, headers: Pairs) -> None:
    """UsageError names the line whose record cannot be sent."""
    place = row.partition if row.partition is not None else partition
    try:
        producer.send(
            topic, row.value, key=row.key, partition=place, headers=(*headers, *row.headers), timestamp=row.timestamp
        )
    except UsageError as error:
        raise UsageError(f"line {row.line} of the input: {error}") from None


COMMAND = produce
