"""Incremental fetch sessions (KIP-227): what a client fetches is remembered, and only changes travel.

Pure bookkeeping. A client that asks for a session when all slots are taken gets id 0 and goes on with full
fetches, as on Kafka.
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
    __slots__ = ("by_id", "epoch", "last_used", "session_id", "wanted")

    def __init__(self, session_id: int, wanted: dict[Key, Wanted], by_id: bool, now: int) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.wanted = wanted
        self.by_id = by_id
        self.last_used = now

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
    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[int, Session] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self, session_id: int, epoch: int, wanted: list[Wanted], forgotten: list[Key], by_id: bool, now: int
    ) -> Plan:
        """Raises KafkaError with the top-level code that makes the client begin anew."""
        if epoch in (FULL, SESSIONLESS):
            self._sessions.pop(session_id, None)
            session = self._create(wanted, by_id, now) if epoch == FULL else None
            return Plan(wanted, session, incremental=False)
        session = self._resume(session_id, epoch, by_id)
        session.update(wanted, forgotten)
        if len(session.wanted) > _MAX_PARTITIONS:  # bit by bit a client could make it hold any number
            del self._sessions[session_id]
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session_id} grew too large")
        session.last_used = now
        session.epoch = session.epoch + 1 if session.epoch < _MAX_EPOCH else 1
        return Plan(list(session.wanted.values()), session, incremental=True)

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

    def _create(self, wanted: list[Wanted], by_id: bool, now: int) -> Session | None:
        if not wanted or not self._has_room(now):
            return None
        self._last_id = self._last_id + 1 if self._last_id < _MAX_EPOCH else 1
        session = Session(self._last_id, {one.key: one for one in wanted}, by_id, now)
        self._sessions[session.session_id] = session
        return session

    def _has_room(self, now: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = min(self._sessions.values(), key=lambda s: s.last_used, default=None)
        if oldest is None or now - oldest.last_used < _EVICT_AFTER_MS:
            return False
        del self._sessions[oldest.session_id]
        return True
