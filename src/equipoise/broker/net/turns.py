"""Long work in turns: one slice in each turn of the loop, for the longest waiting.

Connections whose requests were costly wait here for their next slice, and so do single requests with much work (`run`),
and the portions of what a large group has to do. All others are served when they are read. The slice is what the turn
has left: work beside the queue counts too (`spend`). A heartbeat therefore waits for one turn of some milliseconds,
however many connections send costly requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, TypeVar

from equipoise.wire.apis import APIS
from equipoise.wire.compiler import encode_rows, join_rows
from equipoise.wire.schema import Encoded, Message, Struct

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call

SLICE_S = 0.004
_BUSY_S = 0.003  # of a turn, behind which work that can wait does
_TURN_S = 0.006  # of a turn, with the slice
_LEAST_SLICE_S = 0.002  # in any turn, of CPU: who waits gets on, however long a turn takes on a machine with much to do
_LEAST_S = 0.001  # of work that may go on in a later turn
_READ_BYTES = 1 << 22  # of large frames in one turn of the loop: some milliseconds
_READERS = 4  # connections that go on with their large frames in one turn: each may read a megabyte at once
_PORTION = 50  # rows that become bytes together
Asked = TypeVar("Asked")
Row = TypeVar("Row")


class Turns:
    """The queue of those that wait for a slice, and of those that rest until a later turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: deque[Callable[[], None]] = deque()
        self._is_scheduled = False
        self._is_taking = False
        self._ends = 0.0  # of the slice, in CPU of the thread
        self._spent = 0.0
        self.is_busy = False  # this turn of the loop has lasted long: work that can wait should
        self._read = 0
        self._resting: deque[Callable[[], None]] = deque()

    def add(self, take_turn: Callable[[], None]) -> None:
        """Calls `take_turn` when those before it have had theirs."""
        self._queue.append(take_turn)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        """Behind what was read and done in this turn of the loop comes the slice of those that wait."""
        self._is_scheduled = False
        try:
            if self._queue:
                self._take()
        finally:
            self._is_taking = False
            self._spent, self.is_busy, self._read = 0.0, False, 0
            for _ in range(min(len(self._resting), _READERS)):
                self._resting.popleft()()
            if self._resting:
                self._read = _READ_BYTES  # new ones stand behind those that wait
            if (self._queue or self._resting) and not self._is_scheduled:
                self._schedule()

    def _take(self) -> None:
        """A slice of one, or of several that are short; a shorter one if this turn of the loop has been long already.
        It counts CPU: time in which the process does not run holds nobody up here. That takes a system call, which
        need not be asked again before as much time has passed as is left."""
        self._is_taking = True
        slice_s = min(max(_TURN_S - self._spent, _LEAST_SLICE_S), SLICE_S)
        self._ends, may_end = thread_time() + slice_s, monotonic() + slice_s
        while self._queue:
            self._queue.popleft()()
            if (now := monotonic()) >= may_end:
                left = self._ends - thread_time()
                if left <= 0:
                    break
                may_end = now + left

    def piece_ends(self) -> float:
        """Until when long work may go on in this turn: to the end of the slice, or a slice if it is not in one."""
        return monotonic() + (max(self._ends - thread_time(), _LEAST_S) if self._is_taking else SLICE_S)

    def spend(self, seconds: float) -> None:
        """What was done in this turn of the loop beside the queue: requests that were served when they were read, and
        the work of groups."""
        if not self._is_scheduled:
            self._schedule()
        self._spent += seconds
        self.is_busy = self._spent >= _BUSY_S

    def read(self, size: int) -> bool:
        """Counts what has come of a large frame. Whether that is enough for this turn of the loop: libuv reads a
        connection up to 32 times in a turn, and would read 32 MB."""
        if not self._is_scheduled:
            self._schedule()
        self._read += size
        return self._read >= _READ_BYTES

    def rest(self, read_on: Callable[[], None]) -> None:
        """For a connection that is not read from until its turn comes."""
        self._resting.append(read_on)

    def run(self, call: Call, work: Iterator[object], answer: Callable[[], Message] | None) -> None:
        """Does `work`, which yields wherever it may be interrupted, then answers, unless `work` has seen to that.
        Short work is done at once, unless much has come in this turn of the loop: many may ask for it together."""
        if self.is_busy:
            self.add(lambda: self._go_on(call, work, answer))
        else:
            self._go_on(call, work, answer)

    def _go_on(self, call: Call, work: Iterator[object], answer: Callable[[], Message] | None) -> None:
        try:
            ends = self.piece_ends()
            for _ in work:
                if monotonic() >= ends:
                    self.add(lambda: self._go_on(call, work, answer))
                    return
            response = answer() if answer is not None else None
        except Exception:  # noqa: BLE001  one request must not end the loop, nor the work of others
            call.connection.fail()
        else:
            if response is not None:
                call.reply(response)

    def answer_each(
        self,
        call: Call,
        asked: Iterable[Asked],
        answer: Callable[[Asked], Row],
        response: Callable[[list[Row]], Message],
    ) -> None:
        """The rows of an answer, one by one, for what was asked."""
        rows: list[Row] = []

        def work() -> Iterator[None]:
            for one in asked:
                rows.append(answer(one))
                yield

        self.run(call, work(), lambda: response(rows))

    def encode_each(
        self,
        call: Call,
        asked: Iterable[Asked],
        answer: Callable[[Asked], Struct | None],
        response: Callable[[Any], Message],
    ) -> None:
        """As `answer_each`, but rows become bytes between the turns: thousands of them take long to encode, and more
        memory than their bytes. `response` puts into its message what stands for the rows. None is no row."""
        portions: list[Encoded] = []
        message = APIS[call.route.api_key].response

        def work() -> Iterator[None]:
            rows: list[Struct] = []
            for one in asked:
                row = answer(one)
                if row is not None:
                    rows.append(row)
                yield
                if len(rows) == _PORTION:
                    portions.append(encode_rows(message, call.version, rows))
                    rows = []
            portions.append(encode_rows(message, call.version, rows))

        self.run(call, work(), lambda: response(join_rows(portions)))
