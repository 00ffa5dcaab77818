"""Group commit: everything appended since the previous round is made durable in the next.

All decisions are made on the event loop's thread. Most tasks are one fdatasync: the kernel does those by itself, side
by side (`kernel_sync.py`). A few threads do what is left: new files with their directories, seals, and everything where
the kernel cannot. They take a task, sync, and report that it is done; they share only the two queues with the loop.
There are several threads because fdatasync of many small files takes less time side by side, and because a slow file
then does not delay the others of its round.

Any error comes back as the failure of its task, so that every waiting request gets an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from threading import Event, Thread

from equipoise.log.partition import PartitionLog
from equipoise.log.storage.faults import ShortageError
from equipoise.log.storage.kernel_sync import KernelSync, Synced
from equipoise.log.storage.medium import SyncTask
from equipoise.wire.errors import UsageError

_log = logging.getLogger(__name__)
_THREADS = 8
_RETRY_S = 0.05

_Tasks = list[tuple[PartitionLog, SyncTask]]


class Flusher:
    """`call_on_loop` runs a function on the loop's thread, such as `loop.call_soon_threadsafe`. With a `kernel`,
    `collect_synced` must be called when its descriptor is readable."""

    def __init__(self, call_on_loop: Callable[[Callable[[], None]], object], kernel: KernelSync | None = None) -> None:
        self._call_on_loop = call_on_loop
        self._kernel = kernel
        self._in_kernel: dict[int, tuple[PartitionLog, SyncTask]] = {}
        self._last_key = 0
        self._dirty: dict[PartitionLog, None] = {}
        self._running = False
        self._closed = False
        self._under_way = 0  # tasks of the round that are not known to be done
        self._to_do: SimpleQueue[tuple[PartitionLog, SyncTask] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[PartitionLog, SyncTask, BaseException | None]] = SimpleQueue()
        self._is_called = False  # the loop, and has not come yet
        self._threads: list[Thread] = []
        self._after_round: list[Callable[[], None]] = []
        self._closing = Event()
        self._is_short = False  # of threads

    def start(self) -> None:
        """Starts the threads before they are needed: later the system may have no room for one."""
        self._start_threads(_THREADS)
        if not self._threads:
            raise UsageError("no thread can be started: raise the limit of processes (ulimit -u), or free memory")

    def _start_threads(self, wanted: int) -> None:
        """Fewer threads than wanted will do, more slowly. After a failure nothing is tried again while a thread
        runs."""
        if len(self._threads) >= wanted or (self._is_short and self._threads):
            return
        try:
            while len(self._threads) < wanted:
                thread = Thread(target=self._work, name="equipoise-flusher", daemon=True)
                thread.start()
                self._threads.append(thread)
            self._is_short = False
        except (RuntimeError, MemoryError) as error:
            if not self._is_short:
                _log.error("%d of %d threads that sync files could be started: %s", len(self._threads), wanted, error)
            self._is_short = True

    def dirty(self, log: PartitionLog) -> None:
        """Call this after an append, if `log.unsynced`. The log tells its listeners the result."""
        self._dirty[log] = None
        if not self._running:
            self._begin_round()

    def after_round(self, callback: Callable[[], None]) -> bool:
        """Calls back between the end of the current round and the beginning of the next; False if there is no round.

        An append that waits for this moment is durable no later than an immediate append, and can hold more.
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
        self._under_way = len(tasks)
        left = self._give_to_kernel(tasks)
        self._start_threads(min(len(left), _THREADS))
        for log, task in left:
            if self._threads:
                self._to_do.put((log, task))
            else:  # slow, but every request gets an answer
                self._done.put((log, task, _failure_here(log, task)))
        if left and not self._threads:
            self._call_on_loop(self._collect)

    def _give_to_kernel(self, tasks: _Tasks) -> _Tasks:
        """Returns those that threads must do."""
        if self._kernel is None:
            return tasks
        files, plain, left = list[tuple[int, int]](), _Tasks(), _Tasks()
        for log, task in tasks:
            if (descriptor := task.only_file) is None:
                left.append((log, task))
            else:
                self._last_key += 1
                files.append((self._last_key, descriptor))
                plain.append((log, task))
        taken = self._kernel.submit(files) if files else 0
        for (key, _), found in zip(files[:taken], plain, strict=False):
            self._in_kernel[key] = found
        return left + plain[taken:]

    def _work(self) -> None:
        while (found := self._to_do.get()) is not None:
            log, task = found
            self._done.put((log, task, self._failure_of(log, task)))
            # Called once for many, as each call costs the loop a turn; but never left waiting for a slow one.
            if self._to_do.empty() and not self._is_called:
                self._is_called = True
                self._call_on_loop(self._collect)

    def _failure_of(self, log: PartitionLog, task: SyncTask) -> BaseException | None:
        while True:
            try:
                task.run()
            except ShortageError as error:
                log.sync_delayed(error)
                self._call_on_loop(log.make_room)
                if self._closing.wait(_RETRY_S):
                    return error
            except BaseException as error:  # noqa: BLE001  an answer must come, whatever it was
                return error
            else:
                return None

    def _collect(self) -> None:
        """`close` calls this too; the threads' own call then finds nothing left."""
        self._is_called = False
        while True:
            try:
                log, task, failure = self._done.get_nowait()
            except Empty:
                break
            self._settle(log, task, failure)
        if self._running and not self._under_way:
            self._end_round()

    def collect_synced(self) -> None:
        """The kernel has synced files."""
        if self._kernel is not None:
            self._settle_all(self._kernel.done())
            if self._running and not self._under_way:
                self._end_round()

    def _settle_all(self, synced: Iterable[Synced]) -> None:
        for key, error in synced:
            self._settle(*self._in_kernel.pop(key), error)

    def _settle(self, log: PartitionLog, task: SyncTask, failure: BaseException | None) -> None:
        self._under_way -= 1
        try:
            log.end_sync(task) if failure is None else log.sync_failed(failure)
        except Exception:  # noqa: BLE001  the other logs of the round wait for their answers
            _log.exception("%s: an error in what waited for the disk", log.name)

    def _end_round(self) -> None:
        waiting, self._after_round = self._after_round, []
        try:
            for callback in waiting:
                callback()
        finally:
            self._begin_round()
        if self._after_round and not self._running:  # who came meanwhile has no round to wait for
            self._end_round()

    def close(self) -> None:
        """Waits for the current round, on the loop's thread. `PartitionLog.close` syncs what is dirty after it."""
        self._closed = True
        self._closing.set()
        for _ in self._threads:
            self._to_do.put(None)
        for thread in self._threads:
            thread.join()
        if self._kernel is not None:
            self._settle_all(self._kernel.wait())
            self._kernel.close()
            self._kernel = None
        self._collect()


def _failure_here(log: PartitionLog, task: SyncTask) -> BaseException | None:
    try:
        log.run_here(task)
    except Exception as error:  # noqa: BLE001  as on a thread
        return error
    return None
