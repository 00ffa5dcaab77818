"""The application's end of the buffer: takes what was fetched, decodes it in its own thread, and moves positions on.

Partitions have their turns one after another, so that none waits for ever behind a full one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.fetch.completed_fetch import Chunk
from equipoise.client.fetch.records import ConsumerRecord, Reading, Source, Undecodable, read
from equipoise.client.fetch.subscription_state import Positions, Tracked

if TYPE_CHECKING:
    import pyarrow as pa

    from equipoise.client.fetch.columns import Columns

_TOGETHER_BYTES = 4 << 20  # decoded together, see `read`
_JOIN_UP_TO = 256 << 10  # of several answers: more is decoded where it stands
HEAVY = 1 << 20  # bytes held for a chunk that is decoded: from there on they are counted
_MOST_HELD = 256 << 20  # for all of them, before another chunk is decoded
_MOST_TAKEN = 128 << 20  # of what was decoded, in one poll


class Turn(NamedTuple):
    """A partition whose turn it is, its first chunk, and the epoch and position for which that is read."""

    tracked: Tracked
    chunk: Chunk
    epoch: int
    position: int


class Load:
    """What one poll has taken: not more than there is room for. `unfinished`: partitions whose chunk is not done, so
    that in this round nothing can be taken of the next one."""

    def __init__(self) -> None:
        self.unfinished: list[Tracked] = []
        self._size = 0

    def add(self, size: int) -> None:
        self._size += size

    @property
    def is_full(self) -> bool:
        return self._size >= _MOST_TAKEN

    def takes(self, turn: Turn) -> bool:
        return not self.is_full and (not self.unfinished or turn.tracked not in self.unfinished)


class Fetched:
    """One thread at a time may take. `on_room` is called when there is room again for what was not fetched."""

    def __init__(
        self, positions: Positions, config: ConsumerConfig, on_room: Callable[[], None] = lambda: None
    ) -> None:
        self.on_room = on_room
        self._positions = positions
        self._check_crcs = config.check_crcs
        self._columns: Columns | None = None
        self._has_made_room = False
        self._open: list[tuple[Tracked, Chunk]] = []  # what is decoded, not done, and heavy

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Up to so many records, none if there are none. Raises what is the matter with a partition, in its turn."""
        taken: list[ConsumerRecord] = []
        load = Load()
        while len(taken) < max_records and not load.is_full:
            turns = self.turns(max_records - len(taken), _TOGETHER_BYTES, raises=not taken)
            if not turns:
                break
            load.unfinished.clear()
            for turn in self._decode(turns):
                if load.takes(turn):
                    taken += self._take_from(turn, max_records - len(taken), load)
        self._signal_room()
        return taken

    def take_arrow(self, max_records: int) -> pa.Table | None:
        """The same as a table, or None if there are none. Needs the extra `equipoise[arrow]`."""
        if self._columns is None:
            from equipoise.client.fetch.columns import Columns

            self._columns = Columns(self, self._check_crcs)
        table = self._columns.take(max_records)
        self._signal_room()
        return table

    def _decode(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Gives each chunk its records, if it has none yet; or only some of them, if all would be too much. Returns
        those that have them."""
        new = [turn for turn in turns if not isinstance(turn.chunk.decoded, Reading)]
        if not new:
            return turns
        sources = [Source(turn.tracked.partition, turn.chunk, turn.position) for turn in new]
        for turn, reading in zip(new, read(sources, self._check_crcs), strict=False):
            turn.chunk.decoded = reading
            if reading.size > HEAVY:
                self.opened(turn)
        return [turn for turn in turns if isinstance(turn.chunk.decoded, Reading)]

    def _take_from(self, turn: Turn, limit: int, load: Load) -> list[ConsumerRecord]:
        reading = turn.chunk.decoded
        assert isinstance(reading, Reading)
        if not limit:
            return []
        load.add(reading.size)
        part = reading.take(limit)
        reached = part[-1].offset + 1 if part else turn.position
        is_done = reading.is_done
        if not is_done:
            load.unfinished.append(turn.tracked)
        return part if self.advance(turn, reached, is_done, reading.bad) else []

    # -- what is decoded takes room

    def opened(self, turn: Turn) -> None:
        """It holds HEAVY bytes or more."""
        self._open.append((turn.tracked, turn.chunk))

    def _affordable(self, ready: list[Tracked]) -> list[Tracked]:
        """Of those that are ready, none that is still to be decoded, if too much is held for others that are not done.
        What is paused or held may lie for ever: it is decoded again when its time comes."""
        held = 0
        still_open = []
        for tracked, chunk in self._open:
            if not tracked.chunks or tracked.chunks[0] is not chunk:
                continue
            if tracked.is_ready:
                held += chunk.decoded.size  # type: ignore[attr-defined]
                still_open.append((tracked, chunk))
            else:
                chunk.decoded = None
        self._open = still_open
        if held < _MOST_HELD:
            return ready
        openers = [tracked for tracked, _ in still_open]
        return [tracked for tracked in ready if tracked in openers]

    # -- turns

    def turns(self, records: int, size: int = 1 << 62, *, raises: bool) -> list[Turn]:
        """Whose turn it is, as many as make up so many records or bytes; they go to the end of the line.

        One chunk of each partition, then the second of each, and so on. If the first has failed, its failure is raised,
        or waits for that.
        """
        positions = self._positions
        with positions.lock:
            ready = [tracked for tracked in positions.ready.values() if tracked.is_ready]
            if self._open:
                ready = self._affordable(ready)
            if not ready or not (ready[0].chunks or raises):
                return []
            if ready[0].chunks:
                turns = _rounds(ready, records, size)
                for tracked in dict.fromkeys(turn.tracked for turn in turns):
                    positions.ready[tracked.partition] = positions.ready.pop(tracked.partition)
                return turns
            positions.ready[ready[0].partition] = positions.ready.pop(ready[0].partition)
            failure = positions.told(ready[0])
        if failure.passes:
            positions.on_change()
        raise failure.error

    def advance(self, turn: Turn, reached: int, is_done: bool, bad: Undecodable | None) -> bool:
        """Moves the position to `reached`, or past the chunk. False: the partition was moved or revoked meanwhile."""
        tracked, chunk, epoch, _ = turn
        with self._positions.lock:
            if tracked.epoch != epoch or tracked.chunks[0] is not chunk:
                return False
            tracked.position = reached
            if is_done:
                self._has_made_room = True
                if bad is not None:
                    self._positions.stop_at(tracked, bad.offset, bad.told(tracked.partition))
                else:
                    self._positions.pop_chunk(tracked)
            return True

    def _signal_room(self) -> None:
        if self._has_made_room and self._positions.is_short_of_room:
            self._positions.is_short_of_room = False
            self.on_room()
        self._has_made_room = False


def _rounds(ready: Sequence[Tracked], records: int, size: int) -> list[Turn]:
    turns: list[Turn] = []
    gathered = 0
    for depth in range(max(len(tracked.chunks) for tracked in ready)):
        for tracked in ready:
            if depth >= len(tracked.chunks):
                continue
            assert tracked.position is not None
            chunk = tracked.chunks[depth]
            if turns and chunk.data.obj is not turns[0].chunk.data.obj and gathered >= _JOIN_UP_TO:
                return turns
            turns.append(Turn(tracked, chunk, tracked.epoch, tracked.position))
            records -= sum(header.record_count for _, header in chunk.batches)
            gathered += chunk.size
            if records <= 0 or gathered >= size:
                return turns
    return turns
