"""Group commit: one thread makes durable, in rounds, whatever was appended since the round before.

All decisions are made on the event loop's thread. The other thread only gets a list of tasks, syncs, and
says when it is done; the two queues between them are the only thing shared.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

from equipoise.log.medium import SyncTask
from equipoise.log.partition import PartitionLog

_Round = list[tuple[PartitionLog, SyncTask]]


class Flusher:
    """`call_on_loop` runs a function on the loop's thread, such as `loop.call_soon_threadsafe`."""

    def __init__(self, call_on_loop: Callable[[Callable[[], None]], object]) -> None:
        self._call_on_loop = call_on_loop
        self._dirty: dict[PartitionLog, None] = {}
        self._running = False
        self._closed = False
        self._to_do: SimpleQueue[_Round | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[PartitionLog, SyncTask, OSError | None]] = SimpleQueue()
        self._thread: Thread | None = None
        self._after_round: list[Callable[[], None]] = []

    def dirty(self, log: PartitionLog) -> None:
        """To be called after an append, where `log.unsynced`. The log tells its listeners what comes of it."""
        self._dirty[log] = None
        if not self._running:
            self._begin_round()

    def after_round(self, callback: Callable[[], None]) -> bool:
        """Calls back when the round under way has ended and the next has not begun; False if none is under way.

        An append that waits for this moment is durable no later than one made at once, and can hold more.
        """
        if self._running:
            self._after_round.append(callback)
        return self._running

    def _begin_round(self) -> None:
        if self._closed:
            return
        logs, self._dirty = self._dirty, {}
        tasks = [(log, task) for log in logs if (task := log.begin_sync()) is not None]
        self._running = bool(tasks)
        if tasks:
            self._to_do.put(tasks)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="equipoise-flusher", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while (tasks := self._to_do.get()) is not None:
            for log, task in tasks:
                self._done.put((log, task, _failure_of(task)))
            self._call_on_loop(self._end_round)

    def _end_round(self) -> None:
        """Also called by `close`; then the thread's own call finds nothing left."""
        while True:
            try:
                log, task, failure = self._done.get_nowait()
            except Empty:
                break
            if failure is None:
                log.end_sync(task)
            else:
                log.sync_failed(failure)
        waiting, self._after_round = self._after_round, []
        try:
            for callback in waiting:
                callback()
        finally:
            self._begin_round()

    def close(self) -> None:
        """Waits for the round under way, on the loop's thread. What is dirty after it, `PartitionLog.close` syncs."""
        self._closed = True
        if self._thread is not None:
            self._to_do.put(None)
            self._thread.join()
        self._end_round()


def _failure_of(task: SyncTask) -> OSError | None:
    try:
        task.run()
    except OSError as error:
        return error
    return None
