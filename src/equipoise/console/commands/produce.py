"""`equipoise produce`: lines or JSON objects from a file or stdin, as records."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

import click

from equipoise.client import Producer
from equipoise.console.options import ClusterOptions, Whole, parse_pairs, timed_cluster_options
from equipoise.console.output import head_of, print_json
from equipoise.console.tables import counted
from equipoise.wire.errors import UsageError
from equipoise.wire.text import printable


class Row(NamedTuple):
    """A record to be sent."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int | None = None


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
    headers = tuple((name, value.encode()) for name, value in parse_pairs("--header", header, "origin=shop").items())
    rows = _of_json(file) if form == "json" else _of_lines(file, key_separator)
    settings = cluster.client(acks=acks, **{"compression.type": compression})
    if acks != "all":
        settings["enable.idempotence"] = False
    count = 0
    with cluster.admin() as admin:  # who cannot be reached is told at once
        head = head_of(admin) if as_json else {}
    with Producer(settings) as producer:
        for row in rows:
            place = row.partition if row.partition is not None else partition
            producer.send(
                topic,
                row.value,
                key=row.key,
                partition=place,
                headers=(*headers, *row.headers),
                timestamp=row.timestamp,
            )
            count += 1
        producer.flush()
    if as_json:
        print_json("produced", **head, topic=topic, records=count)
    else:
        print(f"produced {counted(count, 'record')} to {printable(topic)}", file=sys.stderr)


def _of_lines(lines: Iterable[bytes], separator: str | None) -> Iterator[Row]:
    for line in lines:
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if separator is None:
            yield Row(text)
            continue
        key, found, value = text.partition(separator.encode())
        yield Row(value, key) if found else Row(text)


def _of_json(lines: Iterable[bytes]) -> Iterator[Row]:
    """UsageError names the line that is no object."""
    for count, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise UsageError(f'line {count} of the input is no JSON object, for instance {{"key": "7", "value": "x"}}')
        headers = tuple((str(name), _bytes(value) or b"") for name, value in (row.get("headers") or {}).items())
        yield Row(_bytes(row.get("value")), _bytes(row.get("key")), row.get("partition"), headers, row.get("timestamp"))


def _bytes(value: object) -> bytes | None:
    """Text as it is; anything else as JSON."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()


COMMAND = produce
