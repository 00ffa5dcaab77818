"""A reader of committed records among aborted ones, by every path: records and columns, from every offset, and in a
topic that is compacted. On our broker and on Apache Kafka alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from equipoise import Admin, AsyncConsumer, Consumer, Producer, TopicPartition
from tests.client.transactions.stage import consumer, new_topic, producer, read, read_arrow
from tests.client.writing import Reachable

_PATIENCE_S = 120.0
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "3000", "min.cleanable.dirty.ratio": "0.01"}
Found = dict[int, bytes]  # values by offset


def _write(broker: Reachable, topic: str) -> Found:
    """A batch for each record: aborted, committed and plain ones between each other. What is committed."""
    kept: Found = {}
    with producer(broker, f"{topic}-a") as aborting, producer(broker, f"{topic}-c") as committing:
        plain = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        for turn in range(3):
            for one in (aborting, committing):
                one.begin_transaction()
            for number in range(4):
                aborting.send(topic, f"aborted-{turn}-{number}").result(60)
                for one in (committing, plain) if number % 2 else ():
                    value = f"{turn}-{number}-{one is plain}".encode()
                    kept[one.send(topic, value).result(60).offset] = value
            first, second = (aborting.abort_transaction, committing.commit_transaction)[:: 1 if turn % 2 else -1]
            first()
            second()
        plain.close()
    return kept


def _by_records(reader: Consumer) -> Found:
    return {one.offset: one.value or b"" for one in reader.poll(0.1)}


def _by_columns(reader: Consumer) -> Found:
    table = reader.poll_arrow(0.1)
    return {} if table is None else dict(zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True))


def every_offset_is_a_place_to_begin(broker: Reachable) -> None:
    """Also the middle of an aborted transaction, whose first record the reader has not seen, and a marker."""
    topic = new_topic(broker, 1)
    place, kept = TopicPartition(topic, 0), _write(broker, topic)
    with consumer(broker, topic) as reader:
        (end,) = reader.end_offsets().values()
        while end <= max(kept):  # the markers of the last transaction come
            (end,) = reader.end_offsets().values()
        assert end > len(kept) + 12
        for offset in range(end + 1):
            for path in (_by_records, _by_columns):
                assert _read_from(reader, place, offset, end, path) == {at: kept[at] for at in kept if at >= offset}


def _read_from(
    reader: Consumer, place: TopicPartition, offset: int, end: int, path: Callable[[Consumer], Found]
) -> Found:
    reader.seek(place, offset)
    found: Found = {}
    deadline = time.monotonic() + _PATIENCE_S
    while reader.position(place) < end:
        assert time.monotonic() < deadline
        found |= path(reader)
    return found


def a_consumer_for_asyncio_skips_what_was_aborted(broker: Reachable) -> None:
    topic = new_topic(broker, 1)
    kept = _write(broker, topic)

    async def main() -> Found:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
        found: Found = {}
        async with AsyncConsumer(settings) as reader:
            reader.assign([TopicPartition(topic, 0)])
            reader.seek(TopicPartition(topic, 0), 1)
            while len(found) < len(kept):
                found |= {one.offset: one.value or b"" for one in await reader.poll(1.0)}
        return found

    assert asyncio.run(asyncio.wait_for(main(), _PATIENCE_S)) == kept


def a_compacted_topic_has_the_last_committed_value_of_each_key(broker: Reachable) -> None:
    """What was aborted neither comes back nor takes the place of what was committed before."""
    topic = f"compacted-{time.time_ns()}"
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, 1, COMPACTED)
    wanted: dict[str, bytes] = {}
    with producer(broker, topic) as one:
        for turn in range(20):
            one.begin_transaction()
            for key in ("a", "b", "c"):
                value = f"{turn}-{key}".encode().ljust(200, b".")
                one.send(topic, value, key=key).result(60)
                wanted |= {key: value} if turn % 3 == 0 else {}
            (one.commit_transaction if turn % 3 == 0 else one.abort_transaction)()
        with one.transaction():
            one.send(topic, b"x" * 2_500, key="last")  # in a segment of its own: the active one is not compacted
    deadline = time.monotonic() + _PATIENCE_S
    while len(read(broker, topic, "read_uncommitted")) > 15:  # of 61
        assert time.monotonic() < deadline, "it is not compacted"
    records = read(broker, topic)
    assert {(one.key or b"").decode(): one.value for one in records} == wanted | {"last": b"x" * 2_500}
    assert all((one.value or b"")[:1] == b"x" or int((one.value or b"").split(b"-")[0]) % 3 == 0 for one in records)
    while (by_column := read_arrow(broker, topic)) != [one.value for one in records]:
        before, records = records, read(broker, topic)  # the cleaner may have gone on meanwhile
        assert before != records, f"by rows {records}, by columns {by_column}"


READING: list[Callable[[Reachable], None]] = [
    every_offset_is_a_place_to_begin,
    a_consumer_for_asyncio_skips_what_was_aborted,
    a_compacted_topic_has_the_last_committed_value_of_each_key,
]
