"""Periodic work: closes idle connections, deletes expired segments, compacts logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.broker.clock import Timer
from equipoise.broker.topics.batch_thread import let_others_run
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.log.partition import PartitionLog

log = logging.getLogger(__name__)


class BackgroundTasks:
    """The timers of one broker. A compaction that still runs lets the next one wait."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._timers: dict[str, Timer] = {}
        self._compacting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Arms the timers."""
        config = self._server.config
        silences = [config.request_receive_timeout_ms, config.connections_max_idle_ms]
        shortest = min(silence for silence in silences if silence > 0)
        self._every("connections", max(shortest // 4, 10), self.close_silent_connections)
        self._every("retention", config.log_retention_check_interval_ms, self.enforce_retention)
        self._every("compaction", config.log_cleaner_backoff_ms, self.begin_compaction)

    def stop(self) -> None:
        """Cancels the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    async def finish(self) -> None:
        """Waits for a compaction under way: its thread reads files that are about to be closed."""
        if self._compacting is not None:
            await self._compacting

    def _every(self, name: str, interval: int, work: Callable[[], None]) -> None:
        def run() -> None:
            self._timers[name] = self._server.clock.call_later(interval, run)
            work()

        self._timers[name] = self._server.clock.call_later(interval, run)

    def close_silent_connections(self) -> None:
        """Closes idle connections, and those with half a frame whose rest does not come."""
        config, now = self._server.config, self._server.clock.now()
        for connection in list(self._server.connections):
            silent = now - connection.last_active
            if connection.is_overdue(now, config.request_receive_timeout_ms):
                log.warning("%s: connection closed: half a frame, and the rest does not come in time", connection.peer)
                connection.abort()
            elif 0 <= config.connections_max_idle_ms <= silent and not connection.is_waiting:
                connection.abort()  # `close` would wait for a client that does not read

    def enforce_retention(self) -> None:
        """Deletes segments that are too old or too many (LogManager.cleanupLogs)."""
        wall_time = self._server.clock.wall_time()
        for one in self._server.topics.logs():
            try:
                one.enforce_retention(wall_time)
            except (KafkaError, OSError) as error:
                _tell(one, "retention", error)

    def begin_compaction(self) -> None:
        """Begins a round over all logs, unless one is under way (LogCleaner.CleanerThread.tryCleanFilthiestLog)."""
        if self._compacting is None or self._compacting.done():
            self._compacting = asyncio.get_running_loop().create_task(self._compact())

    async def _compact(self) -> None:
        """One log after the other: the work on a thread, its begin and end here on the loop."""
        for one in self._server.topics.logs():
            compaction = None
            try:
                compaction = one.begin_compaction(self._server.clock.wall_time()) if one.config.compacts else None
                if compaction is not None:
                    await asyncio.to_thread(compaction.run, let_others_run)
                    one.end_compaction(compaction)
            except Exception as error:  # noqa: BLE001  the other logs have their turn, and this one has it again
                _tell(one, "compaction", error)
                if compaction is not None:
                    one.abandon_compaction(compaction)


def _tell(one: PartitionLog, work: str, error: Exception) -> None:
    """What the disk refuses is told once for all logs, by `log.faults`."""
    if isinstance(error, KafkaError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        return
    is_known = isinstance(error, KafkaError | OSError)
    log.error("%s: %s failed and will be tried again: %s", one.name, work, error, exc_info=not is_known)
