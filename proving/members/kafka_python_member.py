"""A group member of kafka-python."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from proving.members.child import Member, given, keywords, serve
from proving.members.events import PATIENCE_S
from proving.members.security import Security, token

_JOIN_MS = 4_000


def slow_range(member: Member) -> RangePartitionAssignor:
    """`range` for everyone to see, but a leader that assigns only when it is told that it may.

    Its first assignment may come before its metadata. That one is empty, and the leader rejoins: it does not count.
    """

    class SlowRange(RangePartitionAssignor):  # type: ignore[misc]
        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            if any(cluster.partitions_for_topic(topic) for one in members for topic in one.metadata.topics):
                member.say("assigning")
                member.may_assign.acquire()
            return super().assign(cluster, members)

    return SlowRange()


ASSIGNORS = {
    "range": lambda _: RangePartitionAssignor,
    "roundrobin": lambda _: RoundRobinPartitionAssignor,
    "sticky": lambda _: StickyPartitionAssignor,
    "cooperative-sticky": lambda _: CooperativeStickyAssignor,
    "slow range": slow_range,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._member.say_places("assigned", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._member.say_places("revoked", revoked)

    def on_partitions_lost(self, lost: Any) -> None:
        self._member.say_places("lost", lost)


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, security: Security) -> None:
        super().__init__()
        self._security = security

    def token(self) -> str:
        return token(self._security)


def secured(security: Security | None) -> dict[str, Any]:
    if security is None:
        return {}
    settings = {
        "bootstrap_servers": security.bootstrap_servers,
        "security_protocol": security.protocol,
        "ssl_cafile": security.ca_file,
        "ssl_certfile": security.certificate,
        "ssl_keyfile": security.certificate,
        "sasl_mechanism": security.mechanism,
        "sasl_plain_username": security.user,
        "sasl_plain_password": security.password,
        "sasl_oauth_token_provider": Tokens(security) if security.mechanism == "OAUTHBEARER" else None,
    }
    return given(settings)


def config(member: Member) -> dict[str, Any]:
    return {
        **keywords(member.settings("kafka-python")),
        **secured(member.security),
        "partition_assignment_strategy": tuple(ASSIGNORS[name](member) for name in member.assignors),
        "reconnect_backoff_max_ms": 200,
    }


def join(member: Member) -> None:
    consumer = KafkaConsumer(**config(member))
    be_patient(consumer)
    try:
        if member.pattern is None:
            consumer.subscribe(topics=member.topics, listener=Listener(member))
        else:
            consumer.subscribe(pattern=member.pattern, listener=Listener(member))
        while not member.closing.is_set():
            consume(member, consumer)
        member.say("stopped")
    finally:
        consumer.close()


def commit_alone(member: Member) -> None:
    consumer = KafkaConsumer(**config(member))
    place = TopicPartition(*member.place)
    try:
        consumer.assign([place])
        commit(member, consumer, {place: OffsetAndMetadata(member.offset, "", -1)})
    finally:
        consumer.close()


def consume(member: Member, consumer: KafkaConsumer) -> None:
    """A poll must not be short: with a pattern each first waits for fresh metadata, which is asked for every 100 ms at
    most. While the broker is away poll may say so; the next one connects again.
    """
    records = []
    with suppress(KafkaConnectionError):
        records = [record for batch in consumer.poll(timeout_ms=member.poll_ms).values() for record in batch]
    remember_join(consumer)
    if not records:
        return
    member.say_records((record.topic, record.partition, record.offset) for record in records)
    if not member.commits_itself:
        commit(member, consumer, None)


def be_patient(consumer: KafkaConsumer) -> None:
    """kafka-python 3.0.12 throws a join away that ends between two polls, and joins once more. A poll may begin one
    just before it ends. So a join has all the time it needs, Kafka's initial delay of 3 s included, whatever is left of
    the poll."""
    coordinator = consumer._coordinator
    ensure_active_group = coordinator.ensure_active_group

    def with_patience(timeout_ms: float | None = None) -> bool:
        return bool(ensure_active_group(_JOIN_MS if timeout_ms is None else max(timeout_ms, _JOIN_MS)))

    coordinator.ensure_active_group = with_patience


def commit(member: Member, consumer: KafkaConsumer, offsets: dict[TopicPartition, OffsetAndMetadata] | None) -> None:
    try:
        consumer.commit(offsets)
    except KafkaError as error:
        member.say("refused", error=type(error).__name__)
    else:
        member.say("committed")


def produce(member: Member) -> None:
    producer = KafkaProducer(**{"bootstrap_servers": member.bootstrap_servers, **secured(member.security)})
    numbers = range(member.count)
    sent = [producer.send(topic, str(n).encode(), partition=place) for topic, place in member.places for n in numbers]
    for future in sent:
        future.get(PATIENCE_S)
    producer.close()


def remember_join(consumer: KafkaConsumer) -> None:
    """kafka-python 3.0.12 forgets a join that changed topics have caused, if poll ends before it is over: with its
    JoinGroup sent the cause is gone, the next poll sees none, and nobody ever looks at the answer."""
    if consumer._coordinator.rejoining:
        consumer._coordinator.request_rejoin()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    serve(join, commit_alone, produce)
