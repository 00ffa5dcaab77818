"""Transactional producers of the foreign clients, and their readers of committed records, behind one face."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, ClassVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

PATIENCE_S = 60.0
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


class Transactor(ABC):
    """A producer with a transactional id, initialized."""

    name: str
    is_patient: ClassVar[bool] = True  # whether it asks again if the broker is gone when it ends a transaction

    @abstractmethod
    def __init__(self, address: str, transactional_id: str, timeout_ms: int = 60_000) -> None: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Returns when the broker has it."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @classmethod
    @abstractmethod
    def read(cls, address: str, topic: str, partition: int, isolation: str) -> list[bytes]:
        """All values from the beginning to the end that this isolation level has."""


class ConfluentTransactor(Transactor):
    name = "confluent-kafka"

    def __init__(self, address: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        failures: list[KafkaError] = []

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        self._producer.produce(topic, value, partition=partition, on_delivery=told)
        assert self._producer.flush(PATIENCE_S) == 0
        if failures:
            raise KafkaException(failures[0])

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        self._producer.purge()
        with suppress(KafkaException):  # who was fenced says so once more
            self._producer.flush(0)

    @classmethod
    def read(cls, address: str, topic: str, partition: int, isolation: str) -> list[bytes]:
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "reader",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[bytes] = []
        try:
            while True:
                message = consumer.poll(PATIENCE_S)
                assert message is not None, "neither a record nor the end"
                error = message.error()
                if error is None:
                    values.append(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    return values
        finally:
            consumer.close()


class KafkaPythonTransactor(Transactor):
    name = "kafka-python"
    is_patient = (
        False  # EndTxn is dropped if its node is not ready, and waited for (Sender._maybe_send_pending_request)
    )

    def __init__(self, address: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=address, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.send(topic, value, partition=partition).get(PATIENCE_S)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)

    @classmethod
    def read(cls, address: str, topic: str, partition: int, isolation: str) -> list[bytes]:
        consumer = KafkaConsumer(bootstrap_servers=address, isolation_level=isolation, enable_auto_commit=False)
        place, values = PythonPartition(topic, partition), list[bytes]()
        try:
            consumer.assign([place])
            consumer.seek(place, 0)
            end = consumer.end_offsets([place])[place]
            while consumer.position(place) < end:
                for batch in consumer.poll(timeout_ms=200).values():
                    values += [message.value for message in batch]
        finally:
            consumer.close()
        return values


class _Loop:
    """An event loop on a thread, for a client that needs one."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()


class AioKafkaTransactor(Transactor):
    name = "aiokafka"

    def __init__(self, address: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._loop = _Loop()

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=address, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            await producer.start()
            return producer

        self._producer = self._loop.run(start())

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._loop.run(self._producer.send_and_wait(topic, value, partition=partition))

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run(self._producer.stop())
        self._loop.close()

    @classmethod
    def read(cls, address: str, topic: str, partition: int, isolation: str) -> list[bytes]:
        async def read_all() -> list[bytes]:
            consumer = AIOKafkaConsumer(bootstrap_servers=address, isolation_level=isolation, enable_auto_commit=False)
            await consumer.start()
            place, values = AioPartition(topic, partition), list[bytes]()
            try:
                consumer.assign([place])
                consumer.seek(place, 0)
                end = (await consumer.end_offsets([place]))[place]
                while await consumer.position(place) < end:
                    for batch in (await consumer.getmany(timeout_ms=200)).values():
                        values += [message.value for message in batch]
            finally:
                await consumer.stop()
            return values

        return asyncio.run(read_all())


TRANSACTORS: list[type[Transactor]] = [ConfluentTransactor, KafkaPythonTransactor, AioKafkaTransactor]
