"""Incremental fetch sessions (KIP-227): what a client fetches is remembered, and only changes travel.

Pure bookkeeping. A client that asks for a session when all slots are taken gets id 0 and goes on with full
fetches, as on Kafka. So does one whose partitions do not fit beside those of the other sessions: Kafka bounds their
number only, and 60 sessions of 60,000 partitions each would take a gigabyte. A session that nobody has used for long,
or whose connection is gone, makes room for a new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from equipoise.wire.errors import ErrorCode, KafkaError

FULL = 0  # epoch of a fetch that names everything and would like a session
SESSIONLESS = -1  # epoch of a fetch that wants none
_EVICT_AFTER_MS = 120_000
_MAX_EPOCH = 2**31 - 1
_MAX_PARTITIONS = 65_536  # in one session; as many as one request may name
MAX_PARTITIONS_OF_ALL = 262_144  # in all sessions together: some 70 MB

Key = tuple[str | bytes, int]  # topic name, or id from version 13 on; partition


class Wanted:
    """A partition that a client fetches, and what it was last told of it."""

    __slots__ = ("fetch_offset", "high_watermark", "index", "leader_epoch", "log_start_offset", "max_bytes", "topic")

    def __init__(self, topic: str | bytes, index: int, fetch_offset: int, max_bytes: int, leader_epoch: int) -> None:
        self.topic = topic
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.high_watermark = -1
        self.log_start_offset = -1

    @property
    def key(self) -> Key:
        return self.topic, self.index


class Session:
    __slots__ = ("by_id", "epoch", "last_used", "owner", "session_id", "wanted")

    def __init__(self, session_id: int, wanted: dict[Key, Wanted], by_id: bool, now: int, owner: object) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.wanted = wanted
        self.by_id = by_id
        self.last_used = now
        self.owner = owner  # the connection that has used it last

    def update(self, wanted: Iterable[Wanted], forgotten: Iterable[Key]) -> None:
        for key in forgotten:
            self.wanted.pop(key, None)
        for new in wanted:
            known = self.wanted.get(new.key)
            if known is not None:
                new.high_watermark, new.log_start_offset = known.high_watermark, known.log_start_offset
            self.wanted[new.key] = new

    def rotate(self, key: Key) -> None:
        """A partition that gave data goes to the end, so that the others have their turn."""
        self.wanted[key] = self.wanted.pop(key)


class Plan(NamedTuple):
    """What one Fetch is to read. `incremental`: only partitions with news are answered."""

    wanted: list[Wanted]
    session: Session | None
    incremental: bool

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session else 0


class FetchSessions:
    def __init__(self, slots: int, partitions: int = MAX_PARTITIONS_OF_ALL) -> None:
        self._slots = slots
        self._max_partitions = partitions
        self._sessions: dict[int, Session] = {}
        self._last_id = 0
        self.partitions = 0  # of all sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self,
        session_id: int,
        epoch: int,
        wanted: list[Wanted],
        forgotten: list[Key],
        by_id: bool,
        now: int,
        owner: object = None,
    ) -> Plan:
        """Raises KafkaError with the top-level code that makes the client begin anew."""
        if epoch in (FULL, SESSIONLESS):
            wanted = list({one.key: one for one in wanted}.values())  # each once, as on Kafka
            self._drop(session_id)
            session = self._create(wanted, by_id, now, owner) if epoch == FULL else None
            return Plan(wanted, session, incremental=False)
        session = self._resume(session_id, epoch, by_id)
        had = len(session.wanted)
        session.update(wanted, forgotten)
        self.partitions += len(session.wanted) - had
        # Bit by bit a client could make it hold any number.
        if len(session.wanted) > _MAX_PARTITIONS or self.partitions > self._max_partitions:
            self._drop(session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session_id} grew too large")
        session.last_used, session.owner = now, owner
        session.epoch = session.epoch + 1 if session.epoch < _MAX_EPOCH else 1
        return Plan(list(session.wanted.values()), session, incremental=True)

    def disconnected(self, owner: object) -> None:
        """Its sessions are the first to go. A client that comes back meanwhile goes on with its own, as on Kafka."""
        for session in self._sessions.values():
            if session.owner is owner:
                session.owner = None
                session.last_used -= _EVICT_AFTER_MS

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= len(session.wanted)

    def _resume(self, session_id: int, epoch: int, by_id: bool) -> Session:
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

    def _create(self, wanted: list[Wanted], by_id: bool, now: int, owner: object) -> Session | None:
        if not wanted or not self._make_room(len(wanted), now):
            return None
        self._last_id = self._last_id + 1 if self._last_id < _MAX_EPOCH else 1
        session = Session(self._last_id, {one.key: one for one in wanted}, by_id, now, owner)
        self._sessions[session.session_id] = session
        self.partitions += len(wanted)
        return session

    def _make_room(self, count: int, now: int) -> bool:
        if count > self._max_partitions or not self._slots:
            return False
        while len(self._sessions) >= self._slots or self.partitions + count > self._max_partitions:
            oldest = min(self._sessions.values(), key=lambda s: s.last_used)
            if now - oldest.last_used < _EVICT_AFTER_MS:
                return False
            self._drop(oldest.session_id)
        return True
