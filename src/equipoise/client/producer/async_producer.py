"""The producer for asyncio: everything runs on the application's loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Self

from equipoise.client.producer.delivery import Delivery, RecordMetadata, Report
from equipoise.client.producer.engine import GivenHeaders, OffsetsToCommit, ProducerEngine, Text, prepare
from equipoise.client.producer.producer import open_engine, parse
from equipoise.client.transactions.errors import TransactionAbortableError
from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError

_CLOSE_S = 30.0


class AsyncProducer:
    """As `Producer`, without a thread of its own.

    async with AsyncProducer({"bootstrap.servers": "127.0.0.1:9092"}) as producer:
        stored = await producer.send("orders", b"value", key=b"key")  # there is room for it
        print((await stored).offset)  # it is stored
    """

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        self.config = parse(config, settings)
        self._opened: ProducerEngine | None = None
        self._room = asyncio.Event()
        self._is_closed = False

    async def start(self) -> Self:
        """Begins the work, on the running loop."""
        if self._is_closed:
            raise UsageError("this producer is closed: make a new one")
        if self._opened is None:
            self._opened = await open_engine(self.config)
            self._opened.accumulator.on_room = self._room.set
        return self

    @property
    def _engine(self) -> ProducerEngine:
        if self._opened is None or self._is_closed:
            raise UsageError("this producer is not running: use `async with`, or await start()")
        return self._opened

    async def send(
        self,
        topic: str,
        value: Text = None,
        *,
        key: Text = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: GivenHeaders = (),
        on_delivery: Report | None = None,
    ) -> Delivery:
        """Waits up to max.block.ms for the metadata of a new topic and for room. Await the result for the delivery."""
        engine = self._engine
        known = engine.topics.get(topic) or await engine.topic(topic)
        row, size = prepare(self.config, value, key, timestamp=timestamp, headers=headers)
        place = known.choose(partition, row[1], size)
        if not engine.accumulator.has_room(size):
            await self._wait_for_room(size)
        delivery = engine.accumulator.append(place, row, size, known.limit)
        if on_delivery is not None:
            delivery.report(on_delivery)
        return delivery

    async def send_and_wait(self, topic: str, value: Text = None, **more: object) -> RecordMetadata:
        """Returns when the record is stored."""
        return await (await self.send(topic, value, **more))  # type: ignore[arg-type]

    async def _wait_for_room(self, size: int) -> None:
        accumulator = self._engine.accumulator
        accumulator.make_room()
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                while not accumulator.has_room(size):
                    accumulator.check_open()
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise accumulator.no_room(size) from None

    async def flush(self, timeout: float | None = None) -> None:
        """Returns when everything sent so far is stored. Raises as `Producer.flush` does."""
        await _flush(self._engine, timeout)

    # -- transactions, as those of `Producer`

    async def init_transactions(self) -> None:
        """Claims transactional.id, and fences the producer that has it."""
        await self._engine.transactions.init()

    async def begin_transaction(self) -> None:
        """Records and offsets that are sent from now on count together, or not at all."""
        await self._engine.transactions.begin()

    async def send_offsets(self, offsets: OffsetsToCommit, group: ConsumerGroupMetadata | str) -> None:
        """Commits offsets of a consumer's group with the transaction."""
        await self._engine.send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Waits until all records are stored, then commits."""
        await self._engine.commit()

    async def abort_transaction(self) -> None:
        """Takes back all that was sent since begin_transaction()."""
        await self._engine.abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction that commits at the end of `async with`, and is aborted by an exception."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except TransactionAbortableError:
            await self._engine.abort_open()
            raise
        except BaseException:
            await self._engine.abandon_transaction()
            raise

    async def close(self, timeout: float = _CLOSE_S) -> None:
        """Stores what was sent, for so many seconds at most, and ends. Raises as `flush` does. An open transaction is
        aborted."""
        engine, self._is_closed = self._opened, True
        self._opened = None
        if engine is None:
            return
        engine.accumulator.close()
        self._room.set()
        try:
            if engine.has_open_transaction:
                await engine.abandon_transaction(timeout)
            else:
                await _flush(engine, timeout)
        finally:
            await engine.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            await self.close()
        except KafkaError:
            if kind is None:
                raise


async def _flush(engine: ProducerEngine, timeout: float | None) -> None:
    try:
        async with asyncio.timeout(timeout):
            await engine.sender.flush()
    except TimeoutError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not all records were stored within {timeout:g} s") from None
    if (unseen := engine.take_unseen()) is not None:
        raise unseen
