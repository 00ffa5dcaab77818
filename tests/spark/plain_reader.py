"""A consumer of another make, for tests to kill: `python -m tests.spark.plain_reader SERVERS GROUP SESSION_MS`; without
SESSION_MS it has group.protocol=consumer.

It says what it has read, and when that is committed; or lost, if it had to give up partitions without. A line on
stdin, or its end, makes it leave.
"""

from __future__ import annotations

import json
import sys
import threading

from confluent_kafka import Consumer, KafkaError, KafkaException


def main(servers: str, group: str, session_ms: str = "") -> None:
    is_ending = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        is_ending.set()

    threading.Thread(target=listen, daemon=True).start()
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **(classic(int(session_ms)) if session_ms else {"group.protocol": "consumer"}),
        }
    )
    consumer.subscribe(["t"], on_revoke=give_up, on_lost=lambda consumer, partitions: say("lost"))
    while not is_ending.is_set():
        found = [one for one in consumer.consume(200, 0.1) if one.error() is None]
        if found:
            say(json.dumps([[one.topic(), one.partition(), one.offset()] for one in found]))
        commit(consumer)
    consumer.close()


def classic(session_ms: int) -> dict[str, object]:
    return {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": 300,
    }


def commit(consumer: Consumer) -> bool:
    """In a rebalance it has to wait for the next time."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as refusal:
        if refusal.args[0].code() != KafkaError._NO_OFFSET:
            return False
    say("committed")
    return True


def give_up(consumer: Consumer, partitions: object) -> None:
    if not commit(consumer):
        say("lost")


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
