"""The records of a trial: numbered, written without a pause with acks=all, whatever happens to the brokers."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from equipoise.wire.errors import EquipoiseError
from proving.trials.accounts import Read, Spot

_PATIENCE_S = 120.0
_TICK_S = 0.02
# A hung broker must not keep the writer waiting: it is the readers that are on trial.
_SETTINGS = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 25,  # with less, each record is a request of its own, and brokers take the cores that readers need
    "request.timeout.ms": 4000,
    "socket.timeout.ms": 4000,
    "topic.metadata.refresh.interval.ms": 1000,
    "reconnect.backoff.max.ms": 200,
    "delivery.timeout.ms": 120_000,
    "log_level": 0,
}
_LEADER_MOVES = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


class Writer:
    """Writes to all partitions in turn, `rate` records a second, from `with` to `finish`."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: int, *, rate: int = 300, **settings: Any
    ) -> None:
        self.topic, self.partitions = topic, partitions
        self.acknowledged: dict[int, Read] = {}  # by number, where and when
        self._rate = rate
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **_SETTINGS, **settings})
        self._failures: list[str] = []
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        self._thread.join()

    def finish(self) -> None:
        """Returns when all that was written is acknowledged."""
        self._is_ending.set()
        self._thread.join()
        left = self._producer.flush(_PATIENCE_S)
        if left or self._failures:
            raise EquipoiseError(f"{left} records are not written, and of others it is not known: {self._failures[:3]}")

    def _run(self) -> None:
        began = time.monotonic()
        for number in itertools.count():
            while number >= self._rate * (time.monotonic() - began):
                if self._is_ending.wait(_TICK_S):
                    return
                self._producer.poll(0)
            self._produce(number)

    def _produce(self, number: int) -> None:
        def delivered(error: object, message: Message) -> None:
            if error is not None:
                self._failures.append(str(error))
            else:
                self.acknowledged[number] = Read(time.monotonic(), message.partition() or 0, _offset(message))

        partition = number % self.partitions
        self._producer.produce(self.topic, str(number).encode(), partition=partition, on_delivery=delivered)

    def since(self, at: float) -> dict[int, int]:
        """By partition, the first offset that was acknowledged after this moment. None may be known yet."""
        found: dict[int, int] = {}
        for one in reversed(list(self.acknowledged.values())):  # in the order of their times
            if one.at <= at:
                break
            if one.offset >= 0 and one.offset <= found.get(one.partition, one.offset):
                found[one.partition] = one.offset
        return found


def _offset(message: Message) -> int:
    """Unknown, -1, for a record that was found to be stored already when it was sent again."""
    offset = message.offset()
    return -1 if offset is None else offset


def end_offset(consumer: Consumer, place: TopicPartition) -> int:
    """librdkafka asks the leader that it knows, once. A leader that moves back after a kill needs a second question."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, 30)[1])
        except KafkaException as error:
            if error.args[0].code() not in _LEADER_MOVES or time.monotonic() > end:
                raise
        consumer.list_topics(place.topic, 30)  # the leader as it is now


def read_log(bootstrap_servers: str, topic: str, partitions: int) -> dict[Spot, int]:
    """All records of the topic as it stands, by their place: their numbers."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "nobody", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "log_level": 0})
    try:
        ends = [end_offset(consumer, TopicPartition(topic, one)) for one in range(partitions)]
        consumer.assign([TopicPartition(topic, one, 0) for one in range(partitions)])
        found: dict[Spot, int] = {}
        end = time.monotonic() + _PATIENCE_S
        while len(found) < sum(ends):  # nothing is compacted, no transactions: every offset is a record
            if time.monotonic() > end:
                raise EquipoiseError(f"{topic} has {sum(ends)} records, and {len(found)} were found")
            found |= dict(_numbered(message) for message in consumer.consume(1000, 0.2) if message.error() is None)
        return found
    finally:
        consumer.close()


def _numbered(message: Message) -> tuple[Spot, int]:
    return (message.partition() or 0, _offset(message)), int(message.value() or b"")
