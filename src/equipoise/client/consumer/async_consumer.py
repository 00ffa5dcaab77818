"""The consumer for asyncio: the same names as `Consumer`, with `await` where `Consumer` waits."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from equipoise.client.arguments import as_seconds
from equipoise.client.consumer.base import (
    ARROW_RECORDS,
    BaseConsumer,
    OffsetsToCommit,
    Place,
    Places,
    as_partition,
    parse,
)
from equipoise.client.consumer.engine import ConsumerEngine, too_late
from equipoise.client.fetch.records import ConsumerRecord
from equipoise.member import Callback, CallbackKind, Commit, OffsetAndMetadata, TopicPartition
from equipoise.wire.errors import KafkaError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class AsyncConsumer(BaseConsumer):
    """Made on the loop that will use it. The listener's methods may be coroutines.

        async with AsyncConsumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "billing"}) as consumer:
            consumer.subscribe(["orders"])
            async for record in consumer:
                print(record.topic, record.partition, record.offset, record.value)

    Heartbeats run on the same loop: work that blocks it belongs into a thread.
    """

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        super().__init__(parse(config, settings))
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._telling_task: asyncio.Task[None] | None = None  # a listener that runs, or was not heard out
        self._running = ConsumerEngine(self.config, self._news.set)
        self._running.start()

    # -- reading

    async def poll(self, timeout: float = 1.0) -> list[ConsumerRecord]:
        """Returns up to max.poll.records records as soon as there are any; an empty list when the time is up."""
        fetch_buffer = self._engine.fetch_buffer
        return await self._poll(timeout, lambda: fetch_buffer.take(self.config.max_poll_records), len) or []

    async def poll_arrow(
        self, timeout: float = 1.0, max_records: int = ARROW_RECORDS, *, views: bool = False
    ) -> pa.Table | None:
        """The same as one Arrow table, without a Python object per record; None when the time is up.

        `views`: keys and values have the type binary_view, and are no copies: they view the bytes that came, which stay
        in memory with the table."""
        fetch_buffer = self._engine.fetch_buffer
        return await self._poll(
            timeout, lambda: fetch_buffer.take_arrow(max_records, views=views), lambda table: table.num_rows
        )

    async def _poll(self, timeout: float, take: Callable[[], Result], count: Callable[[Any], int]) -> Result | None:
        deadline, found = self._loop.time() + as_seconds("timeout", timeout), None
        with self._alone():
            self._begin_poll()
            await asyncio.sleep(0)  # an application that polls again after each error must not starve the loop
            try:
                while not found:
                    self._news.clear()
                    await self._run_callbacks()
                    self._raise_failure()
                    found = take()
                    if found or not await self._hear(deadline):
                        break
            finally:
                self._engine.end_poll(count(found) if found else 0)
        return found

    async def _hear(self, deadline: float) -> bool:
        """Waits for news; False if the time is up."""
        left = deadline - self._loop.time()
        if left <= 0:
            return False
        try:
            async with asyncio.timeout(left):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Yields records for ever. A record counts as processed when the application asks for the next, or polls:
        until then it is not committed automatically. commit() counts it as soon as it is yielded.

        What is polled and not yielded is not read yet: the next iteration or poll begins there."""
        return self._records()

    async def _records(self) -> AsyncIterator[ConsumerRecord]:
        fetch_buffer = self._engine.fetch_buffer
        while True:
            hand = await self._poll(1.0, lambda: fetch_buffer.take_in_hand(self.config.max_poll_records), len)
            if hand is not None:
                for record in hand:
                    yield record
                hand.finish()

    async def _run_callbacks(self) -> None:
        """Each in a task of its own: a poll that is cancelled does not cut it. The next poll waits for the same task,
        and raises its exception."""
        if self._telling_task is asyncio.current_task():
            raise UsageError("poll(), unsubscribe() and close() cannot be called inside a rebalance listener")
        while True:
            if self._telling_task is None:
                callback = self._engine.begin_callback()
                if callback is None:
                    return
                self._telling_task = asyncio.create_task(self._tell_listener(callback))
            elif not self._telling_task.done():
                self._engine.end_poll(0)  # the time runs on while it listens
            await self._hear_out(self._telling_task)

    async def _hear_out(self, task: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(task)
        finally:
            if task.done():
                self._telling_task = None

    async def _tell_listener(self, callback: Callback) -> None:
        self._is_in_callback = has_failed = True
        try:
            await self._run(callback)
            has_failed = False
        finally:
            self._is_in_callback = False
            self._forget(callback)
            self._running.callback_done(has_failed=has_failed)
            if not self._in_use.locked():  # its poll was cancelled: the time until the next one runs
                self._running.end_poll(0)

    async def _run(self, callback: Callback) -> None:
        if callback.kind is CallbackKind.REVOKED and self.config.enable_auto_commit:
            await self._commit_before_revoking()
        told = self._method(callback)(self, callback.partitions)
        if inspect.isawaitable(told):
            await told

    async def _commit_before_revoking(self) -> None:
        try:
            await self.commit(self._uncommitted())
        except KafkaError as error:
            log.warning("offsets could not be committed before partitions were revoked: %s", error)

    # -- offsets

    async def commit(self, offsets: OffsetsToCommit | None = None) -> None:
        """Commits these offsets and waits for the answer. Without offsets: the positions after what poll() has
        returned."""
        done: asyncio.Future[Commit] = self._loop.create_future()

        def finished(commit: Commit) -> None:
            if not done.done():  # the caller may have been cancelled
                done.set_result(commit)

        self._engine.commit(self._to_commit(offsets), finished)
        patience = self._patience(self._loop.time())
        try:
            async with asyncio.timeout(patience):
                error = (await done).error
        except TimeoutError:
            raise too_late("commit()", patience or 0.0, self._engine) from None
        if error is not None:
            raise error

    async def committed(
        self, *partitions: Place | Places, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's commits of these partitions, or of all assigned. A partition without a commit is left out."""
        return await self._wait_for(self._engine.fetch_committed(self._named(partitions)), timeout, "committed()")

    async def position(self, partition: Place, timeout: float | None = None) -> int:
        """The offset of the next record that poll() returns of this partition."""
        place = as_partition(partition)
        return await self._wait_for(self._engine.position(place), timeout, "position()", [place])

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """The first offset with this timestamp (milliseconds since 1970) or later, by partition; None: there is
        none."""
        wanted = self._times(timestamps)
        return await self._wait_for(self._engine.offsets_for_times(wanted), timeout, "offsets_for_times()", wanted)

    async def beginning_offsets(
        self, *partitions: Place | Places, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        places = self._named(partitions)
        return await self._wait_for(self._engine.beginnings(places), timeout, "beginning_offsets()", places)

    async def end_offsets(self, *partitions: Place | Places, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition."""
        places = self._named(partitions)
        return await self._wait_for(self._engine.ends(places), timeout, "end_offsets()", places)

    async def _wait_for(
        self,
        work: Coroutine[Any, Any, Result],
        timeout: float | None,
        what: str,
        places: Iterable[TopicPartition] = (),
    ) -> Result:
        limit = self._limit(timeout, work)
        try:
            async with asyncio.timeout(limit):
                return await self._engine.cluster.unless_refused(work)
        except TimeoutError:
            raise too_late(what, limit, self._engine, places) from None

    # -- the end

    async def unsubscribe(self) -> None:
        """Gives up all partitions and leaves the group. Listeners are called."""
        leave = self._engine.unsubscribe
        with self._alone():
            await self._leave(self._default_limit, leave)

    async def close(self, timeout: float = 30.0, *, leave: bool | None = None) -> None:
        """Commits if enable.auto.commit is set, calls the listener, leaves the group, and ends. A static member stays
        unless `leave` is True; with False any member goes without a word (KIP-1092)."""
        if self._is_closed:
            return
        limit, going = as_seconds("timeout", timeout), partial(self._engine.leave, leave)
        with self._alone():
            try:
                await self._leave(limit, going)
            finally:
                self._is_closed = True
                await self._running.close()

    async def _leave(self, timeout: float, leave: Callable[[], None]) -> None:
        self._leaves_at = deadline = self._loop.time() + timeout
        try:
            if self._by_hand and self.config.enable_auto_commit:
                await self._commit_before_revoking()
            self._by_hand = False
            leave()
            while True:
                self._news.clear()
                await self._run_callbacks()
                if self._engine.has_left or not await self._hear(deadline):
                    return
        finally:
            self._leaves_at = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
