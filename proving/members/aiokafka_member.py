"""A group member of aiokafka, in an event loop of its own."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Set
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from proving.members.child import Member, given, keywords, serve
from proving.members.security import Security, token

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """aiokafka rebalances in a task of its own, also when nobody reads any more, and its stop() calls nobody back. What
    it is assigned on its way out it gives up without a word: that is no ownership."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._has_stopped = False

    def stop(self) -> None:
        self._has_stopped = True
        self._member.say("stopped")

    def on_partitions_assigned(self, assigned: Set[TopicPartition]) -> None:
        if not self._has_stopped:
            self._member.say_places("assigned", assigned)

    def on_partitions_revoked(self, revoked: Set[TopicPartition]) -> None:
        self._member.say_places("revoked", revoked)


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, security: Security) -> None:
        self._security = security

    async def token(self) -> str:
        return token(self._security)


def secured(security: Security | None) -> dict[str, Any]:
    if security is None:
        return {}
    settings = {
        "bootstrap_servers": security.bootstrap_servers,
        "security_protocol": security.protocol,
        "ssl_context": context(security),
        "sasl_mechanism": security.mechanism,
        "sasl_plain_username": security.user,
        "sasl_plain_password": security.password,
        "sasl_oauth_token_provider": Tokens(security) if security.mechanism == "OAUTHBEARER" else None,
    }
    return given(settings)


def context(security: Security) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=security.ca_file)
    if security.certificate is not None:
        made.load_cert_chain(security.certificate)
    return made


def config(member: Member) -> dict[str, Any]:
    rebalance = {} if member.max_poll_ms is None else {"rebalance_timeout_ms": member.max_poll_ms}
    return {
        **keywords(member.settings(None)),
        **secured(member.security),
        **rebalance,
        "partition_assignment_strategy": tuple(ASSIGNORS[name] for name in member.assignors),
    }


async def live(member: Member) -> None:
    consumer, listener = AIOKafkaConsumer(**config(member)), Listener(member)
    if member.pattern is None:
        consumer.subscribe(topics=member.topics, listener=listener)
    else:
        consumer.subscribe(pattern=member.pattern, listener=listener)
    await consumer.start()
    try:
        while not member.closing.is_set():
            await consume(member, consumer)
        listener.stop()
    finally:
        await consumer.stop()


async def commit_place(member: Member) -> None:
    consumer = AIOKafkaConsumer(**config(member))
    place = TopicPartition(*member.place)
    consumer.assign([place])
    await consumer.start()
    try:
        await commit(member, consumer, {place: member.offset})
    finally:
        await consumer.stop()


async def consume(member: Member, consumer: AIOKafkaConsumer) -> None:
    found = await consumer.getmany(timeout_ms=50)
    records = [record for batch in found.values() for record in batch]
    if not records:
        return
    rows = [(record.topic, record.partition, record.offset) for record in records]
    await asyncio.to_thread(member.say_records, rows)  # it may pause there, and the heartbeats must go on
    if not member.commits_itself:
        await commit(member, consumer, None)


async def commit(member: Member, consumer: AIOKafkaConsumer, offsets: dict[TopicPartition, int] | None) -> None:
    try:
        await consumer.commit(offsets)
    except KafkaError as error:
        member.say("refused", error=type(error).__name__)
    else:
        member.say("committed")


async def write(member: Member) -> None:
    settings = {"bootstrap_servers": member.bootstrap_servers, **secured(member.security)}
    async with AIOKafkaProducer(**settings) as producer:
        sent = [
            await producer.send(topic, str(number).encode(), partition=partition)
            for topic, partition in member.places
            for number in range(member.count)
        ]
        await asyncio.gather(*sent)


def join(member: Member) -> None:
    asyncio.run(live(member))


def commit_alone(member: Member) -> None:
    asyncio.run(commit_place(member))


def produce(member: Member) -> None:
    asyncio.run(write(member))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    serve(join, commit_alone, produce)
