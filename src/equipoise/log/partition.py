"""The log of one topic partition: append, read, find by time, retention, durability.

All of it runs on the event loop's thread. Two kinds of work may leave it: a `SyncTask` (see flusher) and a
`Compaction`. Both begin here, run on any thread, and are handed back here. No clock is read: `now` is a parameter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

from equipoise.log.batch_validation import check_keys
from equipoise.log.compaction import Compaction, LogToClean, cleanable
from equipoise.log.config import LogConfig
from equipoise.log.log_segments import LogSegments
from equipoise.log.placing import Batches, pieces, place_batches
from equipoise.log.producer_state import UNVERIFIED, AbortedTxn, ProducerStateManager, Verification
from equipoise.log.recovery.producers import rebuild
from equipoise.log.segment import LogSegment
from equipoise.log.storage.faults import ShortageError, remedy
from equipoise.log.storage.medium import (
    Checkpoint,
    Files,
    ProducerSnapshot,
    SyncTask,
    TailNotCutError,
    UnsyncedSegments,
)
from equipoise.log.timestamp_lookup import TimestampLookup
from equipoise.log.truncation import truncated
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.records.batch import BatchHeader, read_header
from equipoise.wire.records.control import EndTransactionMarker, build_marker

_log = logging.getLogger(__name__)

Flush = Literal["commit", "never"]
Listener = Callable[["PartitionLog"], object]


class LogAppendInfo(NamedTuple):
    """What Produce answers for one batch. `duplicate`: the log had it before, at these offsets."""

    base_offset: int
    last_offset: int
    log_append_time: int  # -1 when the producer's timestamps stand
    log_start_offset: int
    duplicate: bool = False


class LoadedLog(NamedTuple):
    """The contents of a partition's files when its log is opened (LogLoader.load)."""

    segments: list[LogSegment]
    producers: ProducerStateManager
    checkpoint: Checkpoint = Checkpoint()


class PartitionLog:
    """`high_watermark` is the end of what consumers may read. With flush="commit" it moves when data is durable, else
    at once. `last_stable_offset` is the end of what they may read of finished transactions.

    `last_aborted` is the offset of the last ABORT marker that has ended a transaction; -1 if there is none.

    `offline` is None, or the reason why nothing can be appended until the log is opened again.
    """

    def __init__(
        self,
        name: str,
        config: LogConfig,
        files: Files,
        loaded: LoadedLog | None = None,
        *,
        flush: Flush = "never",
    ) -> None:
        self.name = name
        self.config = config
        self.offline: str | None = None
        found = loaded or LoadedLog([], ProducerStateManager())
        self.producers = found.producers
        self._files = files
        self._flush = flush
        self._checkpoint = found.checkpoint
        self._segments = LogSegments(found.segments)
        self._rolled: list[LogSegment] = []  # and not yet synced
        self._is_compacting = False
        self._listeners: list[Listener] = []
        if not self._segments:
            self._segments.append(self._new_segment(found.checkpoint.log_start_offset))
        self.last_aborted = self._segments.last_aborted
        self.high_watermark = self.log_end_offset
        self.producers.replicated(self.high_watermark)

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return max(self._checkpoint.log_start_offset, self._segments[0].base_offset)

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self._segments[-1].end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end of what readers of committed records may read (UnifiedLog.lastStableOffset). Rule T.47."""
        first_unstable = self.producers.first_unstable_offset
        if first_unstable is None:
            return self.high_watermark
        return min(self.high_watermark, max(first_unstable, self.log_start_offset))

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._segments.size

    def subscribe(self, listener: Listener) -> None:
        """`listener(log)` is called whenever the high watermark moves or the log goes offline."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Ends a `subscribe`."""
        self._listeners.remove(listener)

    def _notify(self) -> None:
        for listener in tuple(self._listeners):
            listener(self)

    # Appending

    def append(
        self,
        data: bytearray | memoryview,
        batches: Batches,
        now: int,
        leader_epoch: int = 0,
        *,
        keyed: bool = False,
        verification: Verification = UNVERIFIED,
    ) -> LogAppendInfo:
        """Writes validated batches in `data`, and stamps their offsets into it.

        `keyed`: the caller knows that every record has a key, which compaction needs. `verification`: which
        transactions may begin here. Raises KafkaError, and then the log is unchanged.
        """
        self._check_online()
        if not batches:
            raise UsageError("an append needs at least one record batch")
        duplicate = self.producers.duplicate_of(batches)
        if duplicate is not None:
            return self._appended(duplicate.base_offset, duplicate.last_offset, duplicate.timestamp, True)
        headers = self._place(data, batches, leader_epoch, now)
        prepared = self.producers.prepare(headers, now, verification)
        if self.config.compacts and not keyed:
            for position, header in batches:
                check_keys(memoryview(data)[position:], header)
        self._write(pieces(data, batches), headers, now)
        self.producers.commit(prepared)
        if self._flush == "never":
            self._advance(self.log_end_offset)
        return self._appended(headers[0].base_offset, headers[-1].last_offset, now, False)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        *,
        now: int,
        transaction_version: int = 0,
        leader_epoch: int = 0,
    ) -> LogAppendInfo:
        """Ends the transaction of a producer, if one is open here. A repeated marker is written again. Rules T.43-T.45.

        Raises KafkaError, and then the log is unchanged.
        """
        self._check_online()
        marker = EndTransactionMarker(commit, coordinator_epoch)
        self.producers.check_marker(producer_id, producer_epoch, marker, transaction_version)
        data = build_marker(producer_id, producer_epoch, marker, now)
        batches = [(0, read_header(data))]
        headers = self._place(data, batches, leader_epoch, now)
        self._write([memoryview(data)], headers, now)
        aborted = self.producers.complete(headers[0], marker, now)
        if aborted is not None:
            self._segments[-1].aborted.append(aborted)
            self.last_aborted = aborted.last_offset
        if self._flush == "never":
            self._advance(self.log_end_offset)
        return self._appended(headers[0].base_offset, headers[0].last_offset, now, False)

    def _appended(self, base_offset: int, last_offset: int, time: int, duplicate: bool) -> LogAppendInfo:
        return LogAppendInfo(base_offset, last_offset, self._append_time(time), self.log_start_offset, duplicate)

    def _place(self, data: bytearray | memoryview, batches: Batches, leader_epoch: int, now: int) -> list[BatchHeader]:
        end, time = self.log_end_offset, self._append_time(now)
        return place_batches(data, batches, end, leader_epoch=leader_epoch, log_append_time=time)

    def _append_time(self, now: int) -> int:
        return now if self.config.message_timestamp_type == "LogAppendTime" else -1

    def _check_online(self) -> None:
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)

    def _write(self, parts: Sequence[memoryview], headers: Sequence[BatchHeader], now: int) -> None:
        size = sum(map(len, parts))
        if self._roll_is_due(size, headers, now):
            self._roll()
        try:
            self._segments[-1].append(parts, headers, now)
        except TailNotCutError as error:
            self._go_offline(f"{self.name}: a failed write could not be undone ({error}); restart the broker")
            self._check_online()
        except OSError as error:
            raise self._storage_error(f"{size} bytes not written", error, size) from error
        if self._files.faults.any:
            self._files.faults.wrote(self._files.path, size)

    def _roll_is_due(self, size: int, headers: Sequence[BatchHeader], now: int) -> bool:
        active = self._segments[-1]
        if active.size + size > self.config.segment_bytes:
            return active.size > 0
        latest = max([header.max_timestamp for header in headers])
        return active.size > 0 and (latest if latest >= 0 else now) - active.first_timestamp > self.config.roll_ms

    def _roll(self) -> None:
        """Begins a new segment. The first append creates its file."""
        old = self._segments[-1]
        if self._files.volatile:
            old.sealed_size = old.size
        else:
            self._rolled.append(old)
        self._segments.append(self._new_segment(self.log_end_offset))

    def _new_segment(self, base_offset: int) -> LogSegment:
        return LogSegment(base_offset, self._files.storage(base_offset), self.config.index_interval_bytes)

    def _storage_error(self, what: str, error: OSError, size: int = 0) -> KafkaError:
        self._files.faults.report(error, f"{self._files.path}: {what}", size)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name}: {what}: {error}; {remedy(error)}")

    @contextmanager
    def _storage_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._storage_error(what, error) from error

    def _go_offline(self, reason: str) -> None:
        _log.error("%s", reason)
        self.offline = reason
        self._notify()

    # Reading

    def read(self, offset: int, max_bytes: int, limit_offset: int) -> list[memoryview]:
        """Returns whole batches of one segment, from the batch that holds `offset` to before `limit_offset`.

        They have at most `max_bytes`, but there is always one batch, unless there is nothing below the limit.
        """
        self._check_range(offset)
        with self._storage_errors("not read"):
            return self._segments.read(offset, max_bytes, limit_offset)

    def _check_range(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} holds offsets {self.log_start_offset} to {self.log_end_offset}, {offset} was asked for",
            )

    def available(self, offset: int, limit_offset: int) -> int | None:
        """Bytes between two offsets; None if segments were rolled since `offset`: there is nothing more to wait for.

        Kafka counts in the same way for `min_bytes` (DelayedFetch.tryComplete), without regard to the ends of batches.
        """
        self._check_range(offset)
        with self._storage_errors("not read"):
            return self._segments.available(offset, limit_offset)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with records between two offsets, by the offset of their markers."""
        return self._segments.aborted_transactions(from_offset, to_offset)

    def offset_behind(self, views: Sequence[memoryview]) -> int:
        """The offset behind what `read` returned, or of the next batch that compaction has left."""
        with self._storage_errors("not read"):
            return self._segments.offset_behind(views)

    # Looking up by time

    def find_batch_by_timestamp(self, timestamp: int, from_offset: int) -> tuple[memoryview, BatchHeader] | None:
        """The first batch from `from_offset` on whose header promises a record with a timestamp of `timestamp` or
        later."""
        with self._storage_errors("not read"):
            return self._segments.find_batch_by_timestamp(timestamp, from_offset)

    def batch_of_max_timestamp(self) -> tuple[int, int]:
        """The latest timestamp, -1 if there is none, and the offset of the first batch whose header promises it."""
        return self._segments.batch_of_max_timestamp()

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record with a timestamp of `timestamp` or later, looked up at once."""
        return TimestampLookup(self, timestamp).run()

    def max_timestamp(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the record with the latest timestamp, the first of several, looked up at once."""
        return TimestampLookup(self, None).run()

    # Durability

    @property
    def unsynced(self) -> bool:
        """Whether the flusher has work here."""
        return bool(self._rolled) or self.high_watermark < self.log_end_offset

    def begin_sync(self, *, closing: bool = False) -> SyncTask | None:
        """Returns what must be synced now, as work for another thread. Hand it back by `end_sync` or `sync_failed`."""
        if self.offline is not None:
            return None
        self._rolled = [segment for segment in self._rolled if segment in self._segments]
        finished, active = list(self._rolled), self._segments[-1]
        if closing and not active.sealed:
            finished.append(active)
        written = list(finished)
        if not closing and self.high_watermark < self.log_end_offset:
            written.append(active)
        if not written:
            return None
        try:
            task = self._files.sync_task(
                UnsyncedSegments(self.log_end_offset, written, finished, self._snapshot(finished))
            )
        except OSError as error:
            self.sync_failed(error)
            return None
        self._rolled.clear()
        return task

    def _snapshot(self, finished: Sequence[LogSegment]) -> ProducerSnapshot:
        active = self._segments[-1]
        if active in finished:
            return ProducerSnapshot(self.producers, self.log_end_offset)
        return ProducerSnapshot(self.producers, active.base_offset, active.aborted)

    def end_sync(self, task: SyncTask) -> None:
        """The task has succeeded: what it synced is durable, and the high watermark moves."""
        for segment, size in task.sealed:
            segment.sealed_size = size
            segment.storage.close()
        if self.offline is None:
            self._advance(task.end_offset)

    def sync_delayed(self, error: ShortageError) -> None:
        """The system could not begin a sync, which will be tried again. Any thread may call this."""
        self._files.faults.report(error, self._files.path)

    def make_room(self) -> None:
        """Returns descriptors that are not in use."""
        self._files.make_room()

    def sync_failed(self, error: BaseException) -> None:
        """After a failed fsync the contents of the disk are unknown: the log goes offline."""
        if self.offline is None:
            reason = error if isinstance(error, OSError) else repr(error)
            self._go_offline(f"{self.name}: data could not be made durable ({reason}); mend the disk, restart")

    def _advance(self, high_watermark: int) -> None:
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self.producers.replicated(high_watermark)
            self._notify()

    def flush(self, *, closing: bool = False) -> None:
        """Makes everything durable, and waits for it."""
        task = self.begin_sync(closing=closing)
        if task is None:
            return
        try:
            self.run_here(task)
        except OSError as error:
            self.sync_failed(error)
            self._check_online()
        self.end_sync(task)

    def run_here(self, task: SyncTask) -> None:
        """Runs the work on the loop's thread, which cannot wait and try later."""
        try:
            task.run()
        except ShortageError:
            self.make_room()
            task.run()

    def close(self) -> None:
        """Leaves the files so that the next start need not read the data. No sync or compaction may be in progress."""
        try:
            self.flush(closing=True)
        finally:
            self._shut("closed")

    def delete(self) -> None:
        """Removes the log and its files."""
        self._shut("deleted")
        # Frees memory and maps now: a holder of the log may be part of a cycle, and live until garbage collection.
        self._segments = LogSegments([self._new_segment(self.log_end_offset)])
        self._files.delete()

    def _shut(self, how: str) -> None:
        self.offline = f"{self.name} is {how}"
        self._notify()
        for segment in self._segments:
            segment.storage.close()

    # Deleting

    def delete_records(self, before: int) -> int:
        """Removes all records below offset `before`, durably. Returns the log's start offset."""
        self._check_online()
        if before > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} can delete up to its high watermark {self.high_watermark}, {before} was asked for",
            )
        if before > self.log_start_offset:
            self._save(self._checkpoint._replace(log_start_offset=before))
            self._drop(sum(segment.end_offset <= before for segment in self._segments[:-1]))
        return self.log_start_offset

    def truncate(self, offset: int) -> None:
        """Cuts off the batch that holds `offset` and all behind it, durable or not. No sync may be in progress.
        Kafka: ProducerStateManager.truncateAndReload."""
        self._check_online()
        self._check_range(offset)
        if offset == self.log_end_offset:
            return
        self.flush()
        start = self.log_start_offset
        with self._storage_errors("not truncated"):
            self._files.forget_producers()
            kept = truncated(self._segments, offset, self._files, self.config.index_interval_bytes)
        self._segments = LogSegments(one for one in kept if one.end_offset > start)
        end = self._segments[-1].end_offset if self._segments else start
        self._segments.append(self._new_segment(end))
        self.producers = rebuild(self._segments, None, {})
        self.producers.replicated(end)
        self.last_aborted = self._segments.last_aborted
        self.high_watermark = end
        self._notify()

    def enforce_retention(self, now: int) -> int:
        """Deletes segments that are too old or too large together, and forgets idle producers
        (UnifiedLog.deleteOldSegments). Returns the number of deleted segments."""
        self.producers.expire(now, self.config.producer_id_expiration_ms)
        if self.offline is not None or "delete" not in self.config.cleanup_policy:
            return 0
        expired = self._expired(now)
        if expired and not any(segment.size for segment in self._segments[expired:]):
            self._drop(expired - 1)  # the checkpoint may need the room
            self._leave_empty()
        else:
            self._drop(expired)
        return expired

    def _leave_empty(self) -> None:
        """Drops the last segment with bytes. The active one has no file before its first append succeeds: the
        checkpoint alone then tells the next start where the log goes on."""
        if self._segments[-1].size:
            self._roll()
        self._save(self._checkpoint._replace(log_start_offset=self.log_end_offset))
        self._drop(1)

    def _expired(self, now: int) -> int:
        """The number of segments at the start to delete. An empty active segment is never deleted."""
        config = self.config
        excess = self.size - config.retention_bytes if config.retention_bytes >= 0 else -1
        for count, segment in enumerate(self._segments):
            too_old = 0 <= config.retention_ms < now - segment.largest_timestamp
            if not segment.size or segment.end_offset > self.high_watermark or not (too_old or excess >= segment.size):
                return count
            excess -= segment.size
        return len(self._segments)

    def _save(self, checkpoint: Checkpoint) -> None:
        with self._storage_errors("checkpoint not written"):
            self._files.save(checkpoint)
        self._checkpoint = checkpoint

    def _drop(self, count: int) -> None:
        """The log's new start offset is the next file's name, or was saved before."""
        dropped = self._segments.take_first(count)
        with self._storage_errors("file not deleted"):
            for segment in dropped:
                segment.storage.delete()

    # Compaction

    def begin_compaction(self, now: int) -> Compaction | None:
        """Returns work for another thread, if enough of the log is dirty. Hand it back by `end_compaction`."""
        cleaned = self._checkpoint.cleaned
        stable = self.last_stable_offset
        rolled = [s for s in self._segments[:-1] if s.sealed and s.end_offset <= stable]
        segments = cleanable(rolled, self.config, cleaned, now)
        if not segments or self._is_compacting or self.offline is not None:
            return None
        aborted = self.aborted_transactions(segments[0].base_offset, segments[-1].end_offset)
        log = LogToClean(segments, cleaned, self.producers.last_records(), aborted)
        with self._storage_errors("not compacted"):
            found = Compaction(log, self.config, self._files, now)
        self._is_compacting = True
        return found

    def end_compaction(self, compaction: Compaction) -> int:
        """Puts the compacted segments in place. Returns the number of bytes that the log shrank by.

        Retention or DeleteRecords may have taken a part of what a compacted segment would replace. What is left of that
        is as dirty as before: were it taken for clean, old values would outlive their tombstones. Kafka keeps retention
        away from a log that is being cleaned (LogManager.cleanupLogs).
        """
        self._is_compacting = False
        before, is_clean = self.size, True
        for replacement in compaction.replacements:
            if self.offline is not None or not all(old in self._segments for old in replacement.old):
                is_clean = is_clean and replacement.old[-1].end_offset <= self.log_start_offset
                replacement.new.storage.delete()
                continue
            with self._storage_errors("not compacted"):
                self._files.replace(replacement)
            self._segments.replace(replacement.old, replacement.new)
        if self.offline is None and is_clean:
            self._save(self._checkpoint._replace(cleaned=compaction.cleaned))
        return before - self.size

    def abandon_compaction(self, compaction: Compaction) -> None:
        """The compaction failed unexpectedly: the log stays as it is, and may be compacted later."""
        self._is_compacting = False
        for replacement in compaction.replacements:
            if replacement.new not in self._segments:
                replacement.new.storage.delete()

    def compact(self, now: int) -> int:
        """Compacts at once, if it is worth it. Returns the number of bytes that the log shrank by."""
        compaction = self.begin_compaction(now)
        if compaction is None:
            return 0
        compaction.run()
        return self.end_compaction(compaction)
