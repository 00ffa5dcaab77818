"""The application's end of the buffer: takes fetched batches, decodes them in its own thread, and moves positions on.

Partitions take turns, so that none waits for ever behind a full one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.fetch.completed_fetch import CompletedFetch
from equipoise.client.fetch.hand import Hand
from equipoise.client.fetch.records import ConsumerRecord, Reading, Undecodable, Undecoded, read
from equipoise.client.fetch.subscription_state import SubscriptionState, TopicPartitionState
from equipoise.garbage import without_collection

if TYPE_CHECKING:
    import pyarrow as pa

    from equipoise.client.fetch.columns import Columns

_TOGETHER_BYTES = 4 << 20  # decoded together, see `read`
_JOIN_UP_TO = 256 << 10  # of several answers: more is decoded where it stands
HEAVY = 1 << 20  # bytes held for a completed fetch that is decoded: from there on they are counted
_MOST_HELD = 256 << 20  # for all of them, before another fetch is decoded
_MOST_TAKEN = 128 << 20  # of what was decoded, in one poll


class Turn(NamedTuple):
    """A partition whose turn it is, its completed fetch, and the epoch and position for which that is read."""

    state: TopicPartitionState
    fetch: CompletedFetch
    epoch: int
    position: int


class Load:
    """What one poll has taken: not more than there is room for. `unfinished`: partitions whose fetch is not done, so
    that in this round nothing can be taken of the next one."""

    def __init__(self) -> None:
        self.unfinished: list[TopicPartitionState] = []
        self._size = 0

    def add(self, size: int) -> None:
        """So many bytes more."""
        self._size += size

    @property
    def is_full(self) -> bool:
        """Whether this poll has taken enough."""
        return self._size >= _MOST_TAKEN

    def takes(self, turn: Turn) -> bool:
        """Whether there is room, and nothing before it of its partition is unfinished."""
        return not self.is_full and (not self.unfinished or turn.state not in self.unfinished)


class FetchBuffer:
    """One thread at a time may take. `on_room` is called when there is room again for what was not fetched."""

    def __init__(
        self, subscriptions: SubscriptionState, config: ConsumerConfig, on_room: Callable[[], None] = lambda: None
    ) -> None:
        self.on_room = on_room
        self._subscriptions = subscriptions
        self._check_crcs = config.check_crcs
        self._columns: Columns | None = None
        self._has_made_room = False
        self._open: list[tuple[TopicPartitionState, CompletedFetch]] = []  # what is decoded, not done, and heavy

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Up to so many records, none if there are none. Raises what is the matter with a partition, in its turn.

        What an iteration has left comes first."""
        if self._subscriptions.hand is not None and (left := self._subscriptions.take_hand()):
            return left
        with without_collection():
            taken = self._take(max_records)
        self._signal_room()
        return taken

    def _take(self, max_records: int) -> list[ConsumerRecord]:
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
        return taken

    def take_in_hand(self, max_records: int) -> Hand | None:
        """The same for an iteration, which yields them one by one; what an earlier one has left comes first."""
        subscriptions = self._subscriptions
        if not subscriptions.hand:
            before = subscriptions.ready_positions()
            taken = self.take(max_records)
            subscriptions.hand = Hand(taken, before) if taken else None
        return subscriptions.hand

    def take_arrow(self, max_records: int, *, views: bool = False) -> pa.Table | None:
        """The same as a table, or None if there are none. Needs the extra `equipoise[arrow]`. What an iteration has
        left is fetched again."""
        if self._subscriptions.hand is not None:
            self._subscriptions.give_back()
            self._subscriptions.take_hand()
        if self._columns is None:
            from equipoise.client.fetch.columns import Columns

            self._columns = Columns(self, self._check_crcs)
        table = self._columns.take(max_records, views=views)
        self._signal_room()
        return table

    def _decode(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Gives each fetch its records, if it has none yet; or only some of them, if all would be too much. Returns
        those that have them."""
        new = [turn for turn in turns if not isinstance(turn.fetch.decoded, Reading)]
        if not new:
            return turns
        sources = [Undecoded(turn.state.partition, turn.fetch, turn.position) for turn in new]
        for turn, reading in zip(new, read(sources, self._check_crcs), strict=False):
            turn.fetch.decoded = reading
            if reading.size > HEAVY:
                self.opened(turn)
        return [turn for turn in turns if isinstance(turn.fetch.decoded, Reading)]

    def _take_from(self, turn: Turn, limit: int, load: Load) -> list[ConsumerRecord]:
        reading = turn.fetch.decoded
        assert isinstance(reading, Reading)
        if not limit:
            return []
        load.add(reading.size)
        part = reading.take(limit)
        reached = part[-1].offset + 1 if part else turn.position
        is_done = reading.is_done
        if not is_done:
            load.unfinished.append(turn.state)
        return part if self.advance(turn, reached, is_done, reading.bad) else []

    # -- what is decoded takes room

    def opened(self, turn: Turn) -> None:
        """It holds HEAVY bytes or more."""
        self._open.append((turn.state, turn.fetch))

    def _affordable(self, ready: list[TopicPartitionState]) -> list[TopicPartitionState]:
        """Of those that are ready, none that is still to be decoded, if too much is held for others that are not done.
        What is paused or held may lie for ever: it is decoded again when its time comes."""
        held = 0
        still_open = []
        for state, fetch in self._open:
            if not state.completed_fetches or state.completed_fetches[0] is not fetch:
                continue
            if state.is_ready:
                held += fetch.decoded.size  # type: ignore[attr-defined]
                still_open.append((state, fetch))
            else:
                fetch.decoded = None
        self._open = still_open
        if held < _MOST_HELD:
            return ready
        openers = [state for state, _ in still_open]
        return [state for state in ready if state in openers]

    # -- turns

    def turns(self, records: int, size: int = 1 << 62, *, raises: bool) -> list[Turn]:
        """Whose turn it is, as many as make up so many records or bytes; they go to the end of the line.

        One fetch of each partition, then the second of each, and so on. If the first has failed, its failure is raised,
        or waits for that.
        """
        subscriptions = self._subscriptions
        with subscriptions.lock:
            ready = [state for state in subscriptions.ready.values() if state.is_ready]
            if self._open:
                ready = self._affordable(ready)
            if not ready or not (ready[0].completed_fetches or raises):
                return []
            if ready[0].completed_fetches:
                turns = _rounds(ready, records, size)
                for state in dict.fromkeys(turn.state for turn in turns):
                    subscriptions.ready[state.partition] = subscriptions.ready.pop(state.partition)
                return turns
            subscriptions.ready[ready[0].partition] = subscriptions.ready.pop(ready[0].partition)
            failure = subscriptions.told(ready[0])
        if failure.passes:
            subscriptions.on_change()
        raise failure.error

    def advance(self, turn: Turn, reached: int, is_done: bool, bad: Undecodable | None) -> bool:
        """Moves the position to `reached`, or past the fetch. False: the partition was moved or revoked meanwhile."""
        state, fetch, epoch, _ = turn
        with self._subscriptions.lock:
            if state.epoch != epoch or state.completed_fetches[0] is not fetch:
                return False
            state.position = reached
            if is_done:
                self._has_made_room = True
                if bad is not None:
                    self._subscriptions.stop_at(state, bad.offset, bad.told(state.partition))
                else:
                    self._subscriptions.pop_completed_fetch(state)
            return True

    def _signal_room(self) -> None:
        if self._has_made_room and self._subscriptions.is_short_of_room:
            self._subscriptions.is_short_of_room = False
            self.on_room()
        self._has_made_room = False


def _rounds(ready: Sequence[TopicPartitionState], records: int, size: int) -> list[Turn]:
    turns: list[Turn] = []
    gathered = 0
    for depth in range(max(len(state.completed_fetches) for state in ready)):
        for state in ready:
            if depth >= len(state.completed_fetches):
                continue
            assert state.position is not None
            fetch = state.completed_fetches[depth]
            if turns and fetch.data.obj is not turns[0].fetch.data.obj and gathered >= _JOIN_UP_TO:
                return turns
            turns.append(Turn(state, fetch, state.epoch, state.position))
            records -= sum(header.record_count for _, header in fetch.batches)
            gathered += fetch.size
            if records <= 0 or gathered >= size:
                return turns
    return turns
