"""The blocking consumer: connections and heartbeats run in its own thread, callbacks inside poll()."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
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
from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.consumer.engine import ConsumerEngine, too_late
from equipoise.client.fetch.hand import Hand
from equipoise.client.fetch.records import ConsumerRecord
from equipoise.client.net.loop_thread import LoopThread
from equipoise.member import Callback, CallbackKind, Commit, OffsetAndMetadata, TopicPartition
from equipoise.wire.errors import KafkaError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Consumer(BaseConsumer):
    """A blocking consumer. Settings have Kafka's names, or are keywords with underscores; docs/consumer.md lists them.

        with Consumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "billing"}) as consumer:
            consumer.subscribe(["orders"])
            for record in consumer:
                print(record.topic, record.partition, record.offset, record.value)

    One thread at a time may use it. Times are in seconds.
    """

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        super().__init__(parse(config, settings))
        self._news = threading.Event()
        self._thread = LoopThread("equipoise-consumer")
        try:
            self._running = self._thread.run(_open(self.config, self._news.set))
        except BaseException:
            self._thread.end()
            raise

    # -- reading

    def poll(self, timeout: float = 1.0) -> list[ConsumerRecord]:
        """Returns up to max.poll.records records as soon as there are any; an empty list when the time is up.

        poll() also takes part in the group: it joins, runs the listener's callbacks, and commits what earlier polls
        returned. It raises KafkaError, or the exception of a callback.
        """
        fetch_buffer = self._engine.fetch_buffer
        return self._poll(timeout, lambda: fetch_buffer.take(self.config.max_poll_records), len) or []

    def poll_arrow(
        self, timeout: float = 1.0, max_records: int = ARROW_RECORDS, *, views: bool = False
    ) -> pa.Table | None:
        """The same as one Arrow table, without a Python object per record; None when the time is up.

        `views`: keys and values have the type binary_view, and are no copies: they view the bytes that came, which stay
        in memory with the table."""
        fetch_buffer = self._engine.fetch_buffer
        return self._poll(
            timeout, lambda: fetch_buffer.take_arrow(max_records, views=views), lambda table: table.num_rows
        )

    def _poll(self, timeout: float, take: Callable[[], Result], count: Callable[[Any], int]) -> Result | None:
        deadline, found = time.monotonic() + as_seconds("timeout", timeout), None
        self._refuse_to_wait("poll()")
        with self._alone():
            self._begin_poll()
            try:
                while not found:
                    self._news.clear()
                    self._run_callbacks()
                    self._raise_failure()
                    found = take()
                    left = deadline - time.monotonic()
                    if found or left <= 0:
                        break
                    self._news.wait(left)
            finally:
                self._engine.end_poll(count(found) if found else 0)
        return found

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yields records for ever. A record counts as processed when the application asks for the next, or polls:
        until then it is not committed automatically. commit() counts it as soon as it is yielded.

        What is polled and not yielded is not read yet: the next iteration or poll begins there."""
        return chain.from_iterable(self._hands())  # no line of ours runs for each record

    def _hands(self) -> Iterator[Hand]:
        fetch_buffer = self._engine.fetch_buffer
        while True:
            hand = self._poll(1.0, lambda: fetch_buffer.take_in_hand(self.config.max_poll_records), len)
            if hand is not None:
                yield hand
                hand.finish()

    def _run_callbacks(self) -> None:
        while (callback := self._engine.begin_callback()) is not None:
            self._is_in_callback = has_failed = True
            try:
                self._run(callback)
                has_failed = False
            finally:
                self._is_in_callback = False
                self._forget(callback)
                self._engine.callback_done(has_failed=has_failed)

    def _run(self, callback: Callback) -> None:
        if callback.kind is CallbackKind.REVOKED and self.config.enable_auto_commit:
            self._commit_before_revoking()
        self._method(callback)(self, callback.partitions)

    def _commit_before_revoking(self) -> None:
        try:
            self.commit(self._uncommitted())
        except KafkaError as error:
            log.warning("offsets could not be committed before partitions were revoked: %s", error)

    # -- offsets

    def commit(self, offsets: OffsetsToCommit | None = None) -> None:
        """Commits these offsets and waits for the answer. Without offsets: the positions after what poll() has
        returned.

        An offset is that of the next record to read. Raises CommitFailedError if the commit can never succeed, and
        RebalanceInProgressError if it can be tried again after a poll.
        """
        self._refuse_to_wait("commit()")
        done = threading.Event()
        commits: list[Commit] = []

        def finished(commit: Commit) -> None:
            commits.append(commit)
            done.set()

        self._engine.commit(self._to_commit(offsets), finished)
        patience = self._patience(time.monotonic())
        if not done.wait(patience):
            raise too_late("commit()", patience or 0.0, self._engine)
        if commits[0].error is not None:
            raise commits[0].error

    def committed(
        self, *partitions: Place | Places, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's commits of these partitions, or of all assigned. A partition without a commit is left out."""
        return self._wait_for(self._engine.fetch_committed(self._named(partitions)), timeout, "committed()")

    def position(self, partition: Place, timeout: float | None = None) -> int:
        """The offset of the next record that poll() returns of this partition."""
        place = as_partition(partition)
        return self._wait_for(self._engine.position(place), timeout, "position()", [place])

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """The first offset with this timestamp (milliseconds since 1970) or later, by partition; None: there is
        none."""
        wanted = self._times(timestamps)
        return self._wait_for(self._engine.offsets_for_times(wanted), timeout, "offsets_for_times()", wanted)

    def beginning_offsets(self, *partitions: Place | Places, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        places = self._named(partitions)
        return self._wait_for(self._engine.beginnings(places), timeout, "beginning_offsets()", places)

    def end_offsets(self, *partitions: Place | Places, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition."""
        places = self._named(partitions)
        return self._wait_for(self._engine.ends(places), timeout, "end_offsets()", places)

    def _wait_for(
        self,
        work: Coroutine[Any, Any, Result],
        timeout: float | None,
        what: str,
        places: Iterable[TopicPartition] = (),
    ) -> Result:
        limit = self._limit(timeout, work)
        try:
            self._refuse_to_wait(what)
        except UsageError:
            work.close()
            raise
        try:
            return self._thread.run(work, limit, within=self._engine.cluster.unless_refused)
        except TimeoutError:
            raise too_late(what, limit, self._engine, places) from None

    # -- the end

    def unsubscribe(self) -> None:
        """Gives up all partitions and leaves the group. Listeners are called."""
        self._refuse_to_wait("unsubscribe()")
        leave = self._engine.unsubscribe
        with self._alone():
            self._leave(self._default_limit, leave)

    def close(self, timeout: float = 30.0, *, leave: bool | None = None) -> None:
        """Commits if enable.auto.commit is set, calls the listener, leaves the group, and ends. A static member stays
        unless `leave` is True; with False any member goes without a word (KIP-1092)."""
        if self._is_closed:
            return
        self._refuse_to_wait("close()")
        limit, going = as_seconds("timeout", timeout), partial(self._engine.leave, leave)
        with self._alone():
            try:
                self._leave(limit, going)
            finally:
                self._is_closed = True
                self._thread.run(self._running.close())
                self._thread.end()

    def _leave(self, timeout: float, leave: Callable[[], None]) -> None:
        self._leaves_at = deadline = time.monotonic() + timeout
        try:
            if self._by_hand and self.config.enable_auto_commit:
                self._commit_before_revoking()
            self._by_hand = False
            leave()
            while True:
                self._news.clear()
                self._run_callbacks()
                left = deadline - time.monotonic()
                if self._engine.has_left or left <= 0:
                    return
                self._news.wait(left)
        finally:
            self._leaves_at = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _open(config: ConsumerConfig, wake: Callable[[], None]) -> ConsumerEngine:
    engine = ConsumerEngine(config, wake)
    engine.start()
    return engine
