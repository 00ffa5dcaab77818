"""A group member of our own consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equipoise.client import Consumer, Producer, RebalanceListener, SubscriptionPattern, TopicPartition
from equipoise.wire.errors import KafkaError
from proving.members.child import Member, serve
from proving.members.security import with_token


class Voice(RebalanceListener):
    def __init__(self, member: Member) -> None:
        self._member = member

    def on_assigned(self, consumer: Any, added: Any) -> None:
        self._member.say_places("assigned", added)

    def on_revoked(self, consumer: Any, removed: Any) -> None:
        self._member.say_places("revoked", removed)

    def on_lost(self, consumer: Any, lost: Any) -> None:
        self._member.say_places("lost", lost)


def config(member: Member) -> dict[str, Any]:
    strategy = {} if member.speaks_consumer else {"partition.assignment.strategy": member.assignors}
    return {
        **member.settings("equipoise"),
        **strategy,
        **with_token(member.security),
        "reconnect.backoff.max.ms": 200,
    }


def join(member: Member) -> None:
    with Consumer(config(member)) as consumer:
        subscribe(consumer, member)
        while not member.closing.is_set():
            consume(member, consumer)


def subscribe(consumer: Consumer, member: Member) -> None:
    """The broker's regexes match whole names."""
    pattern: str | SubscriptionPattern | None = member.pattern
    if pattern is not None and member.speaks_consumer:
        pattern = SubscriptionPattern(f"{pattern}.*")
    consumer.subscribe(member.topics or None, Voice(member), pattern=pattern)


def consume(member: Member, consumer: Consumer) -> None:
    records = consumer.poll(0.05)
    if not records:
        return
    member.say_records((record.topic, record.partition, record.offset) for record in records)
    if not member.commits_itself:
        commit(member, consumer.commit)


def commit_alone(member: Member) -> None:
    with Consumer(config(member), enable_auto_commit=False) as consumer:
        consumer.assign([member.place])
        commit(member, lambda: consumer.commit({TopicPartition(*member.place): member.offset}))


def produce(member: Member) -> None:
    with Producer({"bootstrap.servers": member.bootstrap_servers, **with_token(member.security)}) as producer:
        for topic, partition in member.places:
            for number in range(member.count):
                producer.send(topic, str(number).encode(), partition=partition)
        producer.flush()


def commit(member: Member, do: Callable[[], None]) -> None:
    try:
        do()
    except KafkaError as error:
        member.say("refused", error=type(error).__name__)
    else:
        member.say("committed")


if __name__ == "__main__":
    serve(join, commit_alone, produce)
