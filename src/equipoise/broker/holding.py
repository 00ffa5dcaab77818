"""Held heartbeats: a heartbeat that has nothing to report waits for news, and a rebalance is known in a round trip.

Only for clients known to bear it: they keep a connection to the coordinator for itself, send other requests past
a heartbeat in flight, and do not count its round trip as trouble. Limits: nine tenths of the interval at which
the client sends them, a third of its session, `group.heartbeat.hold.max.ms`, and half a second for static
members, whose close may wait for the answer. Anything else the client sends ends the hold. A client that
speaks up again and again just when a hold has run out was waiting for it, and is held no more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from equipoise.broker.config import BrokerConfig
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.groups import GroupShard

PATIENT_CLIENTS = frozenset({"confluent-kafka-python", "librdkafka", "kafka-python", "apache-kafka-java", "equipoise"})
_AIOKAFKA = re.compile(r"aiokafka-\d+\.\d+")
_STATIC_LIMIT_MS = 500
_SHORTEST_MS = 50  # a hold not worth its bookkeeping; also what is no heartbeat interval
_USUAL_INTERVAL_MS = 3_000  # heartbeat.interval.ms of every client, unless it is set
_BLOCKED_WITHIN_MS = 5
_BLOCKED_TIMES = 3


class Holding:
    """What one connection shows of its heartbeats, and the one that is held."""

    __slots__ = ("_blocked", "_held", "_interval", "_last_heartbeat", "_ran_out_at", "_was_held", "is_patient")

    def __init__(self) -> None:
        self.is_patient = False
        self._last_heartbeat = 0
        self._interval = _USUAL_INTERVAL_MS
        self._was_held = False  # the last heartbeat
        self._held: tuple[GroupShard, str, str, Call] | None = None
        self._ran_out_at = 0
        self._blocked = 0

    def known_as(self, software: str, client_id: str = "") -> None:
        """aiokafka sends no software name, but names itself by its client id unless it is told another."""
        self.is_patient = software in PATIENT_CLIENTS or (not software and _AIOKAFKA.match(client_id) is not None)

    def limit(self, config: BrokerConfig, request: HeartbeatRequest, now: int) -> int:
        """How long this heartbeat may be held; 0: not at all."""
        if not self.is_patient:
            return 0
        gap, self._last_heartbeat = now - self._last_heartbeat, now
        if self._blocked >= _BLOCKED_TIMES or not self._knows_interval(gap, config):
            self._was_held = False
            return 0
        limit = min(self._interval * 9 // 10, config.group_heartbeat_hold_max_ms)
        if request.group_instance_id is not None:
            limit = min(limit, _STATIC_LIMIT_MS)
        self._was_held = limit >= _SHORTEST_MS
        return limit if self._was_held else 0

    def _knows_interval(self, gap: int, config: BrokerConfig) -> bool:
        """A client skips beats while one is held for too long, and the gap tells nothing. Only a heartbeat that was
        answered at once shows the interval; after a held one a gap of another length makes us look again."""
        if not _SHORTEST_MS <= gap < config.group_max_session_timeout_ms:
            return True  # the first one, or the first after a JoinGroup
        if self._was_held:
            return abs(gap - self._interval) * 10 <= self._interval
        self._interval = gap
        return True

    def rejoins(self) -> None:
        """While a client waits for a rebalance it sends no heartbeats: the gap is not its interval."""
        self._last_heartbeat = 0

    @property
    def is_holding(self) -> bool:
        return self._held is not None

    def held(self, shard: GroupShard, request: HeartbeatRequest, call: Call) -> None:
        self._held = (shard, request.group_id, request.member_id, call)

    def interrupt(self, is_heartbeat: bool, now: int) -> None:
        """A request has come in: the hold ends, and if it ended by itself just now, that is a sign."""
        assert self._held is not None
        shard, group_id, member_id, call = self._held
        self._held = None
        if call.pieces is None:
            shard.run(shard.core.release_heartbeat(group_id, member_id, now))
        elif not is_heartbeat and 0 <= now - self._ran_out_at <= _BLOCKED_WITHIN_MS:
            self._blocked += 1

    def ran_out(self, now: int) -> None:
        self._ran_out_at = now
