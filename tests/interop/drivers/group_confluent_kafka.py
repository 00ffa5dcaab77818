"""A group member of confluent-kafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.interop.drivers.group_child import Member, serve


def config(member: Member) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": member.bootstrap_servers,
        "client.id": "confluent",
        "group.id": member.group,
        "partition.assignment.strategy": member.assignor,
        "session.timeout.ms": member.session_ms,
        "heartbeat.interval.ms": member.heartbeat_ms,
        "max.poll.interval.ms": max(member.session_ms, 60_000),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": member.commits_itself,
        "auto.commit.interval.ms": member.commit_ms,
        "topic.metadata.refresh.interval.ms": member.metadata_age_ms,
        "fetch.wait.max.ms": 50,
        "reconnect.backoff.max.ms": 200,
    }
    return settings if member.instance_id is None else {**settings, "group.instance.id": member.instance_id}


def run(member: Member) -> None:
    consumer = Consumer(config(member))

    def tell(kind: str) -> Any:
        def callback(_: Consumer, places: list[TopicPartition]) -> None:
            member.say_places(kind, places)

        return callback

    topics = member.topics if member.pattern is None else [f"^{member.pattern}"]
    consumer.subscribe(topics, on_assign=tell("assigned"), on_revoke=tell("revoked"), on_lost=tell("lost"))
    try:
        while not member.closing.is_set():
            consume(member, consumer)
        member.say("stopped")
    finally:
        consumer.close()


def consume(member: Member, consumer: Consumer) -> None:
    """Transport errors come as messages too; librdkafka deals with them itself."""
    found = consumer.consume(num_messages=100, timeout=0.05)
    errors = [error for message in found if (error := message.error()) is not None]
    for error in errors:
        if error.code() == KafkaError._FATAL:
            raise KafkaException(error)
    records = [message for message in found if message.error() is None]
    if not records:
        return
    member.say_records((message.topic(), message.partition(), message.offset()) for message in records)
    if not member.commits_itself:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            member.say("refused", error=error.args[0].name())
        else:
            member.say("committed")


if __name__ == "__main__":
    serve(run)
