"""Members of a group that live in the test's process, of three clients under one face: the test polls them itself."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent.futures import Future, wait
from typing import Any, Self, TypeVar

import aiokafka
import confluent_kafka
from aiokafka.errors import CommitFailedError as AioCommitFailedError
from confluent_kafka import KafkaError, KafkaException

import equipoise
from equipoise.errors import CommitFailedError
from proving.members.events import PATIENCE_S

TOPIC, GROUP = "orders", "billing"
Result = TypeVar("Result")
_POLL_S = 0.005


class Refused(Exception):
    """The group refuses a commit for good."""


class Polled(ABC):
    """It subscribes to TOPIC in GROUP, and notes in `heard` what its listener is told. A careful one commits in its
    listener what it gives up. `troubles` are errors that poll() has returned. Commits are of partition 0."""

    is_careful = False

    def __init__(self, bootstrap_servers: str, client_id: str, settings: Mapping[str, Any]) -> None:
        self.heard: list[tuple[str, int]] = []
        self.troubles: list[str] = []
        common: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "group.id": GROUP, "client.id": client_id}
        common |= {"auto.offset.reset": "earliest", "enable.auto.commit": False, "heartbeat.interval.ms": 50}
        self.open(common | dict(settings))

    @abstractmethod
    def open(self, settings: dict[str, Any]) -> None: ...

    @abstractmethod
    def poll(self) -> list[bytes]: ...

    @abstractmethod
    def assigned(self) -> int:
        """How many partitions it believes to own."""

    @abstractmethod
    def commit(self, offset: int | None = None) -> None:
        """Commits this offset, or what it has read. Raises Refused."""

    @abstractmethod
    def committed(self) -> int | None: ...

    @abstractmethod
    def close(self) -> None: ...

    def hear(self, what: str, partitions: Collection[object]) -> None:
        """Our consumer and aiokafka tell of nothing, too."""
        if partitions:
            self.heard.append((what, len(partitions)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def until(condition: Callable[[], object], *members: Polled) -> None:
    """The members poll until it is so."""
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.001)
        for one in members:
            one.poll()


def read(member: Polled, count: int) -> list[bytes]:
    """The values of the next records, so many or more."""
    values: list[bytes] = []

    def has_read() -> bool:
        values.extend(member.poll())
        return len(values) >= count

    until(has_read)
    return values


# -- our consumer


class Equipoise(Polled):
    _FIRST = equipoise.TopicPartition(TOPIC, 0)

    def open(self, settings: dict[str, Any]) -> None:
        member = self

        class Listener(equipoise.RebalanceListener):
            def on_assigned(self, consumer: Any, added: Collection[object]) -> None:
                member.hear("assigned", added)

            def on_revoked(self, consumer: Any, removed: Collection[object]) -> None:
                member.hear("revoked", removed)
                if member.is_careful:
                    consumer.commit()

            def on_lost(self, consumer: Any, lost: Collection[object]) -> None:
                member.hear("lost", lost)

        self._consumer = equipoise.Consumer(settings)
        self._consumer.subscribe([TOPIC], Listener())

    def poll(self) -> list[bytes]:
        return [record.value or b"" for record in self._consumer.poll(_POLL_S)]

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def commit(self, offset: int | None = None) -> None:
        try:
            self._consumer.commit(None if offset is None else {self._FIRST: offset})
        except CommitFailedError as error:
            raise Refused(str(error)) from error

    def committed(self) -> int | None:
        found = self._consumer.committed(self._FIRST).get(self._FIRST)
        return None if found is None else found.offset

    def close(self) -> None:
        self._consumer.close()


# -- confluent-kafka


class Confluent(Polled):
    def open(self, settings: dict[str, Any]) -> None:
        quick = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "fetch.wait.max.ms": 50, "log_level": 0}
        self._consumer = confluent_kafka.Consumer(quick | settings)
        self._consumer.subscribe(
            [TOPIC],
            on_assign=lambda _, added: self.hear("assigned", added),
            on_revoke=self._on_revoke,
            on_lost=lambda _, lost: self.hear("lost", lost),
        )

    def _on_revoke(self, _: object, removed: list[confluent_kafka.TopicPartition]) -> None:
        self.hear("revoked", removed)
        if self.is_careful:
            self.commit()

    def poll(self) -> list[bytes]:
        found = self._consumer.consume(num_messages=100, timeout=_POLL_S)
        self.troubles += [error.name() for one in found if (error := one.error()) is not None]
        return [one.value() or b"" for one in found if one.error() is None]

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def commit(self, offset: int | None = None) -> None:
        named = {} if offset is None else {"offsets": [confluent_kafka.TopicPartition(TOPIC, 0, offset)]}
        try:
            self._consumer.commit(asynchronous=False, **named)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID:
                raise Refused(str(error)) from error
            if error.args[0].code() != KafkaError._NO_OFFSET:  # nothing was read, and there is nothing to commit
                raise

    def committed(self) -> int | None:
        (row,) = self._consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], timeout=PATIENCE_S)
        return None if row.offset < 0 else int(row.offset)

    def close(self) -> None:
        self._consumer.close()


# -- aiokafka


class Loop:
    """An event loop in a thread, as aiokafka's background tasks need it: they run while the test does other things."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.start(work).result(PATIENCE_S)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AioKafka(Polled):
    _FIRST = aiokafka.TopicPartition(TOPIC, 0)

    def open(self, settings: dict[str, Any]) -> None:
        self._loop = Loop()
        self._reading: Future[dict[Any, Any]] | None = None
        self._loop.run(self._open({name.replace(".", "_"): value for name, value in settings.items()}))

    async def _open(self, settings: dict[str, Any]) -> None:
        """It subscribes last: start() would wait for an assignment."""
        member = self

        class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_assigned(self, assigned: Collection[object]) -> None:
                member.hear("assigned", assigned)

            async def on_partitions_revoked(self, revoked: Collection[object]) -> None:
                member.hear("revoked", revoked)
                if revoked and member.is_careful:
                    await member.commit_now()

        self._consumer = aiokafka.AIOKafkaConsumer(**settings, retry_backoff_ms=20, fetch_max_wait_ms=50)
        await self._consumer.start()
        self._consumer.subscribe([TOPIC], listener=Listener())

    async def commit_now(self, offset: int | None = None) -> None:
        await self._consumer.commit(None if offset is None else {self._FIRST: offset})

    def poll(self) -> list[bytes]:
        """During a rebalance getmany() takes longer than it was told. The next poll then goes on waiting for it."""
        if self._reading is None:
            self._reading = self._loop.start(self._consumer.getmany(timeout_ms=int(_POLL_S * 1000)))
        if not wait([self._reading], 2 * _POLL_S).done:
            return []
        found, self._reading = self._reading.result(), None
        return [record.value for batch in found.values() for record in batch]

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def commit(self, offset: int | None = None) -> None:
        try:
            self._loop.run(self.commit_now(offset))
        except AioCommitFailedError as error:
            raise Refused(str(error)) from error

    def committed(self) -> int | None:
        found: int | None = self._loop.run(self._consumer.committed(self._FIRST))
        return found

    def close(self) -> None:
        self._loop.run(self._consumer.stop())
        self._loop.end()


CLIENTS: dict[str, type[Polled]] = {"equipoise": Equipoise, "confluent-kafka": Confluent, "aiokafka": AioKafka}
