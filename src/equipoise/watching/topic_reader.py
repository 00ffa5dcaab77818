"""Reads a topic back from a time to its end, and follows it from there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from equipoise.client import AsyncConsumer, ConsumerRecord, TopicPartition
from equipoise.views.model import Ms

MOST_RECORDS = 200_000  # read back of one partition; beyond it the past is cut
_POLL_S = 0.5

Take = Callable[[ConsumerRecord], None]


async def starts_of(
    consumer: AsyncConsumer, partitions: Iterable[TopicPartition], since: Ms
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], bool]:
    """Where to begin and where to end. Whether the past is cut: there is more since then than is read."""
    places = list(partitions)
    begins = await consumer.beginning_offsets(places)
    ends = await consumer.end_offsets(places)
    then = await consumer.offsets_for_times(dict.fromkeys(places, int(since)))
    wanted = {one: ends[one] if then[one] is None else then[one] or 0 for one in places}
    least = {one: max(begins[one], ends[one] - MOST_RECORDS) for one in places}
    is_cut = any(wanted[one] < least[one] for one in places)
    return {one: max(wanted[one], least[one]) for one in places}, ends, is_cut


async def read_back(
    consumer: AsyncConsumer,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    take: Take,
    *,
    progress: Callable[[float], None] = lambda _share: None,
) -> None:
    """Reads until every partition's position has reached its end. Positions are compared, not offsets of records: the
    last records may be control records, or compacted away. `progress` hears which share was read. Bound it by a
    timeout."""
    total = sum(ends[one] - starts[one] for one in starts) or 1
    pending = {one for one in starts if starts[one] < ends[one]}
    if not pending:
        return
    consumer.assign(pending)
    for one in pending:
        consumer.seek(one, starts[one])
    while pending:
        for record in await consumer.poll(_POLL_S):
            if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                take(record)
        positions = {one: await consumer.position(one) for one in pending}
        pending = {one for one in pending if positions[one] < ends[one]}
        progress(1 - sum(ends[one] - max(positions[one], starts[one]) for one in pending) / total)


async def follow(consumer: AsyncConsumer, ends: Mapping[TopicPartition, int], take: Take) -> None:
    """Everything from these offsets on, for ever."""
    consumer.assign(list(ends))
    for one, end in ends.items():
        consumer.seek(one, end)
    while True:
        for record in await consumer.poll(_POLL_S):
            take(record)


async def first_times(
    consumer: AsyncConsumer, places: Mapping[TopicPartition, int], seconds: float
) -> dict[TopicPartition, Ms]:
    """The time of the record at each place, or of the next one there is. What does not come in time is left out."""
    found: dict[TopicPartition, Ms] = {}
    if not places or seconds <= 0:
        return found
    consumer.assign(list(places))
    consumer.resume(list(places))  # those that an earlier call has paused
    for one, offset in places.items():
        consumer.seek(one, offset)
    try:
        async with asyncio.timeout(seconds):
            while len(found) < len(places):
                for record in await consumer.poll(_POLL_S):
                    partition = TopicPartition(record.topic, record.partition)
                    if partition not in found:
                        found[partition] = Ms(record.timestamp)
                        consumer.pause(partition)
    except TimeoutError:
        pass
    return found
