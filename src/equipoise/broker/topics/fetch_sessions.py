"""Incremental fetch sessions (KIP-227): the broker remembers what a client fetches, and only changes travel.

Pure bookkeeping. If all slots are taken, a client that asks for a session gets id 0 and continues with full fetches, as
on Kafka. The same happens if its partitions do not fit beside those of the other sessions: Kafka bounds only the number
of sessions, and 60 sessions of 60,000 partitions each would take a gigabyte. A session that was idle for long, or whose
connection is gone, makes room for a new one.

An id is all that a client needs to go on with a session, and a session tells names of topics. Ids are drawn so that
nobody guesses another client's (FetchSessionCacheShard.newSessionId).
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import randbelow
from typing import NamedTuple

from equipoise.wire.apis.k01_fetch import FetchPartition, PartitionData
from equipoise.wire.errors import ErrorCode, KafkaError

FULL = 0  # epoch of a fetch that names everything and would like a session
SESSIONLESS = -1  # epoch of a fetch that wants none
_EVICT_AFTER_MS = 120_000
_MAX_EPOCH = 2**31 - 1
_MAX_ID = 2**31 - 1
_MAX_PARTITIONS = 65_536  # in one session; as many as one request may name
MAX_PARTITIONS_OF_ALL = 262_144  # in all sessions together: some 70 MB

Key = tuple[str | bytes, int]  # topic name, or id from version 13 on; partition


class CachedPartition:
    """A partition that a client fetches, and what it was last told of it (FetchSession.CachedPartition)."""

    __slots__ = (
        "fetch_offset",
        "high_watermark",
        "index",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "topic",
    )

    def __init__(self, key: Key, asked: FetchPartition) -> None:
        self.key = key
        self.topic, self.index = key
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch  # of the record before `fetch_offset`; -1: not told
        self.high_watermark = -1
        self.log_start_offset = -1

    def must_respond(self, data: PartitionData) -> bool:
        """Whether an incremental answer has news of it: records, an error, or a watermark that has moved."""
        told = self.high_watermark, self.log_start_offset
        return bool(data.records or data.error_code or data.diverging_epoch) or told != (
            data.high_watermark,
            data.log_start_offset,
        )


class FetchMetadata(NamedTuple):
    """Which session a Fetch belongs to, and the how many-th of its requests it is."""

    session_id: int
    epoch: int


class FetchData(NamedTuple):
    """What a Fetch names: partitions to read, and those of its session to forget."""

    partitions: list[CachedPartition]
    forgotten: list[Key]
    by_id: bool  # topics are named by their ids


class FetchSession:
    """What one client fetches."""

    __slots__ = ("by_id", "epoch", "last_used", "owner", "partitions", "session_id")

    def __init__(self, session_id: int, asked: FetchData, now: int, owner: object) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.partitions = {one.key: one for one in asked.partitions}
        self.by_id = asked.by_id
        self.last_used = now
        self.owner = owner  # the connection that has used it last

    def update(self, asked: FetchData) -> None:
        """Takes in what an incremental fetch adds, moves and forgets."""
        for key in asked.forgotten:
            self.partitions.pop(key, None)
        for new in asked.partitions:
            known = self.partitions.get(new.key)
            if known is not None:
                new.high_watermark, new.log_start_offset = known.high_watermark, known.log_start_offset
            self.partitions[new.key] = new

    def rotate(self, key: Key) -> None:
        """A partition that gave data goes to the end, so that the others have their turn."""
        self.partitions[key] = self.partitions.pop(key)


class FetchContext(NamedTuple):
    """What one Fetch is to read. `incremental`: only partitions with news are answered."""

    partitions: list[CachedPartition]
    session: FetchSession | None
    incremental: bool

    @property
    def session_id(self) -> int:
        """0: the client goes on with full fetches."""
        return self.session.session_id if self.session else 0


class FetchSessionCache:
    """Every session of the broker: `slots` of them, with `max_partitions` in all. `draw` gives a number below its
    argument, which nobody can foresee."""

    def __init__(
        self, slots: int, max_partitions: int = MAX_PARTITIONS_OF_ALL, draw: Callable[[int], int] = randbelow
    ) -> None:
        self._slots = slots
        self._max_partitions = max_partitions
        self._draw = draw
        self._sessions: dict[int, FetchSession] = {}
        self.partition_count = 0  # of all sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def new_context(self, metadata: FetchMetadata, asked: FetchData, now: int, owner: object = None) -> FetchContext:
        """Raises KafkaError with the top-level code that makes the client begin anew (FetchManager.newContext)."""
        session_id, epoch = metadata
        if epoch in (FULL, SESSIONLESS):
            partitions = asked.partitions
            if len(partitions) > 1:  # each once, as on Kafka
                partitions = list({one.key: one for one in partitions}.values())
            self.close(session_id)
            opened = self._create(FetchData(partitions, [], asked.by_id), now, owner) if epoch == FULL else None
            return FetchContext(partitions, opened, incremental=False)
        session = self._resume(metadata, asked.by_id)
        had = len(session.partitions)
        session.update(asked)
        self.partition_count += len(session.partitions) - had
        # Bit by bit a client could make it hold any number.
        if len(session.partitions) > _MAX_PARTITIONS or self.partition_count > self._max_partitions:
            self.close(session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session_id} grew too large")
        session.last_used, session.owner = now, owner
        session.epoch = session.epoch + 1 if session.epoch < _MAX_EPOCH else 1
        return FetchContext(list(session.partitions.values()), session, incremental=True)

    def disconnected(self, owner: object) -> None:
        """Its sessions are the first to go. A client that comes back meanwhile goes on with its own, as on Kafka."""
        for session in self._sessions.values():
            if session.owner is owner:
                session.owner = None
                session.last_used -= _EVICT_AFTER_MS

    def close(self, session_id: int) -> None:
        """Forgets a session, if there is such a one."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)

    def _resume(self, metadata: FetchMetadata, by_id: bool) -> FetchSession:
        session_id, epoch = metadata
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id} is kept")
        if session.epoch != epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"fetch session {session_id} is at {session.epoch}, not {epoch}"
            )
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, f"fetch session {session_id} mixes names and ids")
        return session

    def _create(self, asked: FetchData, now: int, owner: object) -> FetchSession | None:
        count = len(asked.partitions)
        if not count or not self._make_room(count, now):
            return None
        session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, asked, now, owner)
        self.partition_count += count
        return session

    def _new_id(self) -> int:
        while (session_id := 1 + self._draw(_MAX_ID)) in self._sessions:
            pass
        return session_id

    def _make_room(self, count: int, now: int) -> bool:
        if count > self._max_partitions or not self._slots:
            return False
        while len(self._sessions) >= self._slots or self.partition_count + count > self._max_partitions:
            oldest = min(self._sessions.values(), key=lambda s: s.last_used)
            if now - oldest.last_used < _EVICT_AFTER_MS:
                return False
            self.close(oldest.session_id)
        return True
