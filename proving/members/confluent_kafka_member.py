"""A group member of confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from proving.members.child import Member, serve
from proving.members.events import PATIENCE_S
from proving.members.security import with_token

_OWN_NAMES = {
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
}


def config(member: Member) -> dict[str, Any]:
    strategy = {} if member.speaks_consumer else {"partition.assignment.strategy": ",".join(member.assignors)}
    settings = {
        **member.settings("confluent"),
        **strategy,
        **with_token(member.security),
        "error_cb": lambda error: tell_trouble(member, error),
        "reconnect.backoff.max.ms": 200,
    }
    return {_OWN_NAMES.get(name, name): value for name, value in settings.items()}


def join(member: Member) -> None:
    consumer = Consumer(config(member))

    def tell(kind: str) -> Any:
        def callback(_: Consumer, places: list[TopicPartition]) -> None:
            member.say_places(kind, places)

        return callback

    topics = member.topics if member.pattern is None else [f"^{member.pattern}{'.*' if member.speaks_consumer else ''}"]
    consumer.subscribe(topics, on_assign=tell("assigned"), on_revoke=tell("revoked"), on_lost=tell("lost"))
    try:
        while not member.closing.is_set():
            consume(member, consumer)
        member.say("stopped")
    finally:
        consumer.close()


def commit_alone(member: Member) -> None:
    consumer = Consumer(config(member))
    topic, partition = member.place
    try:
        commit(
            member,
            lambda: consumer.commit(offsets=[TopicPartition(topic, partition, member.offset)], asynchronous=False),
        )
    finally:
        consumer.close()


def consume(member: Member, consumer: Consumer) -> None:
    """Transport errors come as messages too; librdkafka deals with them itself."""
    found = consumer.consume(num_messages=100, timeout=0.05)
    errors = [error for message in found if (error := message.error()) is not None]
    for error in errors:
        tell_trouble(member, error)
        if error.code() == KafkaError._FATAL:
            raise KafkaException(error)
    records = [message for message in found if message.error() is None]
    if not records:
        return
    member.say_records(map(row_of, records))
    if not member.commits_itself:
        commit(member, lambda: consumer.commit(asynchronous=False))


def tell_trouble(member: Member, error: KafkaError) -> None:
    member.say("trouble", error=f"{error.name()}: {error.str()}")


def produce(member: Member) -> None:
    """A record that cannot be written is an error."""
    producer = Producer({"bootstrap.servers": member.bootstrap_servers, **with_token(member.security), "log_level": 0})
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for topic, partition in member.places:
        for number in range(member.count):
            producer.produce(topic, str(number).encode(), partition=partition, on_delivery=delivered)
    if left := producer.flush(PATIENCE_S) or failures:
        raise KafkaException(left)


def commit(member: Member, do: Callable[[], list[TopicPartition]]) -> None:
    """What is refused of single partitions is told with them."""
    try:
        refused = [place.error for place in do() if place.error is not None]
    except KafkaException as error:
        refused = [error.args[0]]
    if refused:
        member.say("refused", error=refused[0].name())
    else:
        member.say("committed")


def row_of(message: Message) -> tuple[str, int, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


if __name__ == "__main__":
    serve(join, commit_alone, produce)
