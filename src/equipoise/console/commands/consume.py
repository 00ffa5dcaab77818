"""`equipoise consume`: records of topics on stdout, as a member of a group or without one."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import click

from equipoise.client import Admin, Consumer, ConsumerRecord, TopicPartition
from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.console.input_rows import BASE64, bytes_of
from equipoise.console.options import ClusterOptions, Whole, parse_time, timed_cluster_options
from equipoise.views.model import Ms
from equipoise.views.plain import time_of_record
from equipoise.watching.watcher import wall_time
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.text import printable

_POLL_S = 0.5
_NOT_YET = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_FIELDS = "tpoksTh%"
_FIELD = re.compile(rf"%([{_FIELDS}])|\\([nt0\\])")
_ESCAPES = {"n": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\"}
Render = Callable[[ConsumerRecord], bytes]


class Until(NamedTuple):
    """Where to stop: at the ends of now, at a time, after so many."""

    ends: Mapping[TopicPartition, int] | None = None
    time: int | None = None
    records: int | None = None


@click.command("consume")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--group", metavar="GROUP", help="Read as a member of this group, and commit.")
@click.option("--partition", "numbers", metavar="N", type=Whole(0), multiple=True, help="Only this one; repeatable.")
@click.option("--from", "begin", metavar="WHERE",
              help="begin, end, stored (with --group), an OFFSET, -N before the end, a time (30m, 2026-01-31). "
              "Without it: stored with --group, begin with --exit, else end.")  # fmt: skip
@click.option("--until", metavar="TIME", help="Leave out records of this time (an age, a date, a time) and later.")
@click.option("--count", metavar="N", type=Whole(1), help="End after so many records.")
@click.option("--exit", "exits", is_flag=True, help="End where the partitions ended when the command began.")
@click.option("--format", "form", metavar="FORMAT", default="value", show_default=True,
              help="value, json, or text with %t topic, %p partition, %o offset, %k key, %s value, %T time, "
              r"%h headers, \n, \t.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="An object in a line, as --format json.")
@timed_cluster_options
def consume(
    topics: tuple[str, ...],
    group: str | None,
    numbers: tuple[int, ...],
    begin: str | None,
    until: str | None,
    count: int | None,
    exits: bool,
    form: str,
    as_json: bool,
    cluster: ClusterOptions,
) -> None:
    """Print records of topics, until Ctrl-C, --count, --until or --exit."""
    if group is not None and numbers:
        raise UsageError("--partition and --group exclude each other: a group shares out partitions itself")
    if group == "":
        raise UsageError("--group '': write the name of a group, or leave --group out to read without one")
    _check_format(form)
    if begin == "stored" and group is None:
        raise UsageError("--from stored needs --group: which group's offsets?")
    stop = None if until is None else parse_time("--until", until, wall_time())
    with cluster.admin() as admin:
        places = _places(admin, topics, numbers)
        start = begin or ("stored" if group else "begin" if exits else "end")
        starts = {} if start == "stored" else _starts(admin, places, start)
        ends = _listed(admin, dict.fromkeys(places, LATEST)) if exits else None
    reset = "earliest" if start in ("stored", "begin") else "latest"
    settings = cluster.client(**{"auto.offset.reset": reset, "enable.auto.commit": group is not None})
    with _consumer(settings | ({"group.id": group} if group else {}), cluster.timeout) as consumer:
        if group is None:
            consumer.assign(places)
            for one, offset in starts.items():
                consumer.seek(one, offset)
        else:
            _begin_group(cluster, group, starts)
            consumer.subscribe(list(topics))
        render = _renderer("json" if as_json else form)
        _Printer(consumer, render, Until(ends, stop, count), is_member=group is not None).run()


@contextmanager
def _consumer(settings: Mapping[str, object], timeout: float) -> Iterator[Consumer]:
    """Its last commit, and its leave, may wait as long as any answer: Ctrl-C is to end the command."""
    consumer = Consumer(settings)
    try:
        yield consumer
    finally:
        consumer.close(timeout)


def _begin_group(cluster: ClusterOptions, group: str, starts: Mapping[TopicPartition, int]) -> None:
    """A group begins elsewhere by a commit, which its coordinator refuses while it has members."""
    if starts:
        with cluster.admin() as admin:
            admin.commit_offsets(group, starts)


def _places(admin: Admin, topics: Sequence[str], numbers: Sequence[int]) -> list[TopicPartition]:
    found = [TopicPartition(name, one.partition) for name in topics for one in admin.topic(name).partitions]
    chosen = [one for one in found if not numbers or one.partition in numbers]
    if missing := set(numbers) - {one.partition for one in chosen}:
        raise UsageError(f"--partition {min(missing)}: {', '.join(topics)} has no such partition")
    return chosen


def _starts(admin: Admin, places: Sequence[TopicPartition], start: str) -> dict[TopicPartition, int]:
    """The offsets to begin at, within what is there."""
    firsts, ends = (_listed(admin, dict.fromkeys(places, which)) for which in (EARLIEST, LATEST))
    if start == "begin":
        return firsts
    if start == "end":
        return ends
    if start[:1] == "-" and start[1:].isdecimal():
        return {one: max(firsts[one], ends[one] + int(start)) for one in places}
    if start.isdecimal():
        return {one: min(max(firsts[one], int(start)), ends[one]) for one in places}
    found = _listed(admin, dict.fromkeys(places, parse_time("--from", start, wall_time())))
    return {one: ends[one] if found[one] < 0 else found[one] for one in places}


def _listed(admin: Admin, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for one, offset in admin.list_offsets(timestamps).items():
        if isinstance(offset, KafkaError):
            raise offset
        found[one] = offset
    return found


class _Printer:
    """Prints what a consumer polls. What was polled and not printed stays unread: the position goes back to it before
    it is committed. The reader of the output may have closed it, Ctrl-C may have come, or the count may be full."""

    def __init__(self, consumer: Consumer, render: Render, until: Until, *, is_member: bool) -> None:
        self._consumer = consumer
        self._render = render
        self._until = until
        self._is_member = is_member
        self._left = until.records
        self._ended: set[TopicPartition] = set()

    def run(self) -> None:
        """Until the end that is wanted, or for ever."""
        while self._left != 0 and not self._is_at_end():
            self._print(self._consumer.poll(_POLL_S))

    def _print(self, records: Sequence[ConsumerRecord]) -> None:
        unread, ends = self._firsts(records), dict[TopicPartition, int]()
        try:
            for record in records:
                place = TopicPartition(record.topic, record.partition)
                if self._left == 0 or place in ends or self._is_beyond(place, record):
                    ends.setdefault(place, record.offset)
                elif self._until.time is None or record.timestamp < self._until.time:
                    sys.stdout.buffer.write(self._render(record))
                    self._left = None if self._left is None else self._left - 1
            sys.stdout.buffer.flush()
            unread = ends
        finally:
            for place in unread.keys() & self._consumer.assignment():
                self._consumer.seek(place, unread[place])
        self._consumer.pause(list(ends.keys() & self._consumer.assignment()))
        self._ended |= ends.keys()

    @staticmethod
    def _firsts(records: Sequence[ConsumerRecord]) -> dict[TopicPartition, int]:
        return {TopicPartition(one.topic, one.partition): one.offset for one in reversed(records)}

    def _is_beyond(self, place: TopicPartition, record: ConsumerRecord) -> bool:
        """Whether its partition ends before this record. A group has one offset: it reads none behind a record that it
        leaves out."""
        if self._until.ends is not None and record.offset >= self._until.ends.get(place, 0):
            return True
        return self._is_member and self._until.time is not None and record.timestamp >= self._until.time

    def _is_at_end(self) -> bool:
        """Of what this consumer has: members of a group read the rest."""
        ends = self._until.ends
        if ends is None:
            return False
        if not (mine := self._consumer.assignment()):
            return self._is_member and self._consumer.generation_id >= 0 and self._others_are_at_end(ends)
        return all(one in self._ended or self._consumer.position(one) >= ends.get(one, 0) for one in mine)

    def _others_are_at_end(self, ends: Mapping[TopicPartition, int]) -> bool:
        """A member without partitions stays while others read: it may get theirs."""
        try:
            committed = self._consumer.committed(list(ends), timeout=_POLL_S)
        except KafkaError as error:
            if error.code not in _NOT_YET:
                raise
            return False
        return all(not end or (one in committed and committed[one].offset >= end) for one, end in ends.items())


# -- forms


def _renderer(form: str) -> Render:
    """At a terminal a value may not move the cursor; on a pipe bytes are what they are."""
    shown = _shown if sys.stdout.isatty() else _raw
    if form == "json":
        return lambda record: json.dumps(_plain(record)).encode() + b"\n"
    if form == "value":
        return lambda record: shown(record.value) + b"\n"
    return lambda record: _formatted(form, record, shown)


def _check_format(form: str) -> None:
    """UsageError: a field that there is not. It would stand in the output as it is, with every record."""
    for found in re.finditer(r"%(.?)", form, re.DOTALL):
        if not found[1] or found[1] not in _FIELDS:
            listed = " ".join(f"%{one}" for one in _FIELDS)
            raise UsageError(f"--format {form}: there is no field {found[0]}; fields are {listed}")


def _raw(value: bytes | None) -> bytes:
    return value or b""


def _shown(value: bytes | None) -> bytes:
    return printable((value or b"").decode(errors="replace")).encode()


def _formatted(form: str, record: ConsumerRecord, shown: Callable[[bytes | None], bytes]) -> bytes:
    values: dict[str, Callable[[], bytes]] = {
        "t": lambda: shown(record.topic.encode()),
        "p": lambda: b"%d" % record.partition,
        "o": lambda: b"%d" % record.offset,
        "k": lambda: shown(record.key),
        "s": lambda: shown(record.value),
        "T": lambda: b"%d" % record.timestamp,
        "h": lambda: b",".join(shown(name.encode()) + b"=" + shown(value) for name, value in record.headers),
        "%": lambda: b"%",
    }
    pieces, last = [], 0
    for found in _FIELD.finditer(form):
        pieces.append(bytes_of(form[last : found.start()]))
        pieces.append(values[found[1]]() if found[1] else _ESCAPES[found[2]])
        last = found.end()
    return b"".join((*pieces, bytes_of(form[last:])))


def _plain(record: ConsumerRecord) -> dict[str, object]:
    """An object of the stream. Bytes that are no text are written with escapes for people, and in base64."""
    row: dict[str, object] = {
        "type": "record",
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": time_of_record(Ms(record.timestamp)),
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }
    for name, value in (("key", record.key), ("value", record.value)):
        if not _is_text(value):
            row[name + BASE64] = _base64(value)
    if not all(_is_text(value) for _, value in record.headers):
        row["headers" + BASE64] = [[name, _base64(value)] for name, value in record.headers]
    return row


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")


COMMAND = consume
