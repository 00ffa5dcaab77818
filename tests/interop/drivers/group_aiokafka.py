"""A group member of aiokafka, in an event loop of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Set

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from tests.interop.drivers.group_child import Member, serve

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Set[TopicPartition]) -> None:
        self._member.say_places("assigned", assigned)

    def on_partitions_revoked(self, revoked: Set[TopicPartition]) -> None:
        self._member.say_places("revoked", revoked)


async def live(member: Member) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=member.bootstrap_servers,
        client_id="aiokafka",
        group_id=member.group,
        group_instance_id=member.instance_id,
        partition_assignment_strategy=(ASSIGNORS[member.assignor],),
        session_timeout_ms=member.session_ms,
        heartbeat_interval_ms=member.heartbeat_ms,
        rebalance_timeout_ms=max(member.session_ms, 60_000),
        auto_offset_reset="earliest",
        enable_auto_commit=member.commits_itself,
        auto_commit_interval_ms=member.commit_ms,
        metadata_max_age_ms=member.metadata_age_ms,
        fetch_max_wait_ms=50,
    )
    if member.pattern is None:
        consumer.subscribe(topics=member.topics, listener=Listener(member))
    else:
        consumer.subscribe(pattern=member.pattern, listener=Listener(member))
    await consumer.start()
    try:
        while not member.closing.is_set():
            await consume(member, consumer)
        member.say("stopped")
    finally:
        await consumer.stop()


async def consume(member: Member, consumer: AIOKafkaConsumer) -> None:
    found = await consumer.getmany(timeout_ms=50)
    records = [record for batch in found.values() for record in batch]
    if not records:
        return
    member.say_records((record.topic, record.partition, record.offset) for record in records)
    if not member.commits_itself:
        try:
            await consumer.commit()
        except KafkaError as error:
            member.say("refused", error=type(error).__name__)
        else:
            member.say("committed")


def run(member: Member) -> None:
    asyncio.run(live(member))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    serve(run)
