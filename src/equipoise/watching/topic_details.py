"""What only the page of one topic shows: its configs, and its last records if they may be shown."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from equipoise.client import Admin, AsyncConsumer, ConsumerRecord, TopicPartition
from equipoise.views.model import Ms, Problem
from equipoise.views.records import Shown, shown
from equipoise.watching.access import Access, Questions
from equipoise.watching.topic_reader import read_back
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError

RECORDS = 10
_MOST_PARTITIONS = 50  # that are looked into for the last records
_PATIENCE_S = 5.0


class RecordView(NamedTuple):
    """A record as a page shows it."""

    partition: int
    offset: int
    at: Ms
    key: Shown
    value: Shown


class TopicDetails(NamedTuple):
    """None: not asked for. A problem stands where it could not be had."""

    configs: dict[str, str] | Problem | None = None
    records: tuple[RecordView, ...] | Problem | None = None


async def topic_details(access: Access, questions: Questions, topic: str, *, with_records: bool) -> TopicDetails:
    """Asks for them. The configs are those that differ from the broker's defaults."""
    try:
        configs: dict[str, str] | Problem = await questions.ask(lambda admin: admin.configs(topic))
    except (EquipoiseError, OSError) as error:
        configs = _problem(topic, error)
    if not with_records:
        return TopicDetails(configs)
    try:
        records: tuple[RecordView, ...] | Problem = await _last_records(access, questions, topic)
    except (EquipoiseError, OSError, TimeoutError) as error:
        records = _problem(topic, error)
    return TopicDetails(configs, records)


async def _last_records(access: Access, questions: Questions, topic: str) -> tuple[RecordView, ...]:
    """The newest of the first partitions: of each as many as could be among the newest of all."""

    def count(admin: Admin) -> int:
        return len(admin.topic(topic).partitions)

    places = [TopicPartition(topic, one) for one in range(min(await questions.ask(count), _MOST_PARTITIONS))]
    async with access.consumer(one_batch=True) as consumer, asyncio.timeout(_PATIENCE_S):
        found = await _read_ends(consumer, places)
    newest = sorted(found, key=lambda one: (one.timestamp, one.offset), reverse=True)[:RECORDS]
    return tuple(
        RecordView(one.partition, one.offset, Ms(one.timestamp), shown(one.key), shown(one.value)) for one in newest
    )


async def _read_ends(consumer: AsyncConsumer, places: list[TopicPartition]) -> list[ConsumerRecord]:
    begins, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
    starts = {one: max(begins[one], ends[one] - RECORDS) for one in places}
    found: list[ConsumerRecord] = []
    await read_back(consumer, starts, ends, found.append)
    return found


def _problem(topic: str, error: Exception) -> Problem:
    code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
    return Problem(topic, code, str(error) or f"its records could not be read within {_PATIENCE_S:.0f} s")
