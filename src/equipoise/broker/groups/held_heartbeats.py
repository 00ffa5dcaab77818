"""Held heartbeats: a heartbeat that has nothing to report waits for news, and a rebalance is known in a round trip.

Only for clients known to bear it: they keep a connection to the coordinator for itself, send other requests past
a heartbeat in flight, and do not count its round trip as trouble. Limits: a tenth of a second less than the interval
at which the client sends them (0.15 s for librdkafka, which skips a heartbeat if the last answer is late), or nine
tenths of it until it has been seen twice, and after a skipped heartbeat; a third of its session,
`group.heartbeat.hold.max.ms`, half a second for static members, whose close may wait for the answer, and 1.8 s for
clients that give a connection up after `request.timeout.ms`, which some set to 2 s. Anything else the client sends ends
the hold.

What a client shows of its heartbeats is remembered with the member, so that it outlives a connection. The interval
is seen between two heartbeats of which the first was answered soon; so the first hold is short. A client that
closes its connection during a hold, or that speaks up again and again just when a hold has run out, was waiting for
the answer, and is held no more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from equipoise.broker.config import BrokerConfig
    from equipoise.broker.groups.shards import GroupShard
    from equipoise.broker.net.connection import Call
    from equipoise.coordinator.consumer.group import Presence

_Request = HeartbeatRequest | ConsumerGroupHeartbeatRequest


class Noted(Protocol):
    """A member, of either protocol, and what the broker notes of it."""

    last_seen: int
    notes: object


class Silence(Protocol):
    """What a classic member says of itself."""

    @property
    def session_timeout_ms(self) -> int:
        """How long it may be silent."""
        ...

    @property
    def is_static(self) -> bool:
        """Whether it has a group.instance.id."""
        ...


class SilenceOfGuest(NamedTuple):
    """The same of a member of a group that is shown as a classic one."""

    session_timeout_ms: int
    is_static: bool


PATIENT_CLIENTS = frozenset({"confluent-kafka-python", "librdkafka", "kafka-python", "apache-kafka-java", "equipoise"})
_AIOKAFKA = re.compile(r"aiokafka-\d+\.\d+")  # its client id
_AIOKAFKA_NAME = "aiokafka"
_OWN = "equipoise"  # its first heartbeat comes with its assignment, so that it can be told of what follows
_SKIPPING = frozenset({"confluent-kafka-python", "librdkafka"})  # no heartbeat if one is in flight when it is due
_SPINNING = "apache-kafka-java"  # of `consumer` groups: it does not rest while a heartbeat is due and one is in flight
_HASTY_CLIENTS = frozenset({"kafka-python", _AIOKAFKA_NAME})
_HASTY_LIMIT_MS = 1_800
_STATIC_LIMIT_MS = 500
_MARGIN_MS = 100  # for the answer to reach the client before its next heartbeat is due
_SKIPPING_MARGIN_MS = 150  # the same where a late answer costs a heartbeat
_FAILING_MARGIN_MS = 500  # and where it costs the connection: librdkafka, in `consumer` groups
_SHORTEST_MS = 50  # a hold not worth its bookkeeping; also what is no heartbeat interval
_USUAL_INTERVAL_MS = 3_000  # heartbeat.interval.ms of every client, unless it is set
_BLOCKED_WITHIN_MS = 5
_BLOCKED_TIMES = 3


class HeartbeatIntervals:
    """What one member shows of its heartbeats, over all its connections, and who it is."""

    __slots__ = (
        "_blocked",
        "_held_ms",
        "_interval",
        "_is_confirmed",
        "_is_late",
        "_last_heartbeat",
        "_margin_ms",
        "connections",
        "listener",
        "principal",
        "was_cut_off",
    )

    def __init__(self) -> None:
        self._interval: int | None = None
        self._last_heartbeat: int | None = None  # None: there is none from which a gap could be counted
        self._held_ms = 0  # the last heartbeat
        self._blocked = 0
        self._is_confirmed = False  # the interval was seen twice
        self._margin_ms = _MARGIN_MS
        self._is_late = False  # answers may reach the client after its next heartbeat was due: it skipped one
        self.connections = 0  # open ones that have carried a request of the member, see `carriers.py`
        self.was_cut_off = False  # a connection was closed during a hold
        self.principal = self.listener = ""  # of the last connection

    def limit(self, member: Noted, longest: int, now: int, *, is_own: bool, is_sent_past: bool) -> int:
        """How long this heartbeat may be held, 0: not at all. `is_sent_past`: it has ended the hold of the last."""
        last, self._last_heartbeat = self._last_heartbeat, now
        if not self.bears_holds:
            return 0
        limit = 0
        if last is None or self._learn(now - last, is_sent_past):
            if self._interval is None and is_own:
                self._interval = _USUAL_INTERVAL_MS
            known = self._interval
            limit = self.limit_within(known) if known is not None else _first_limit(now - member.last_seen)
        limit = min(limit, longest)
        self._held_ms = limit if limit >= _SHORTEST_MS else 0
        return self._held_ms

    def limit_within(self, interval_ms: int, *, is_confirmed: bool | None = None) -> int:
        """How long a heartbeat may be held so that the next one is not late: most of its interval, for in the rest of
        it nobody can be told anything."""
        tenth = interval_ms // 10
        is_sure = self._is_confirmed if is_confirmed is None else is_confirmed
        return interval_ms - (min(tenth, self._margin_ms) if is_sure and not self._is_late else tenth)

    def skipped(self) -> None:
        """A heartbeat has not come when it was due, because the answer to the last one was late."""
        self._is_late = True

    def may_skip(self) -> None:
        """The client does not send a heartbeat that is due while the last one is not answered."""
        self._margin_ms = _SKIPPING_MARGIN_MS

    @property
    def bears_holds(self) -> bool:
        """Whether the client has shown no sign that it waits for the answer."""
        return not self.was_cut_off and self._blocked < _BLOCKED_TIMES

    def _learn(self, gap: int, is_sent_past: bool) -> bool:
        """False: the interval must be looked at again, with a heartbeat that is answered at once.

        A client that waits for the answer sends the next one when the hold ends, librdkafka at a multiple of its
        interval: only a gap of twice the hold shows the interval itself, or a heartbeat sent past the held one.
        """
        known = self._interval
        if gap < _SHORTEST_MS:
            return True  # sent again at once, after an error or a rebalance: that is no interval
        if is_sent_past or self._held_ms == 0 or (known is None and gap >= 2 * self._held_ms):
            self._interval = gap
            self._is_confirmed = False
            return True
        if known is not None and self._held_ms + (known - self._held_ms) // 2 <= gap <= known + known // 10:
            self._interval = min(known, gap)  # no client is early
            self._is_confirmed = True
            return True
        if self._is_confirmed and known is not None and gap > known:
            self.skipped()
        self._interval, self._is_confirmed = None, False
        return False

    def forget_last(self) -> None:
        """The next gap is no interval."""
        self._last_heartbeat = None

    def was_blocked(self) -> None:
        """The client spoke up just when a hold had run out: it may have waited for that."""
        self._blocked += 1


def _first_limit(silent_ms: int) -> int:
    """The interval is not known. Most clients send their first heartbeat one interval after they were answered;
    librdkafka sends it at once, which tells nothing."""
    interval = min(silent_ms, _USUAL_INTERVAL_MS) if silent_ms >= _SHORTEST_MS else _USUAL_INTERVAL_MS
    return interval * 2 // 5


class HeldHeartbeat:
    """The software behind a connection, and the heartbeat of it that is held."""

    __slots__ = ("_is_sent_past", "_ran_out_at", "_software", "held", "is_patient")

    def __init__(self) -> None:
        self.is_patient = False
        self._software = ""
        self.held: tuple[GroupShard, _Request, HeartbeatIntervals, Call] | None = None
        self._is_sent_past = False
        self._ran_out_at = 0

    def known_as(self, software: str, client_id: str = "") -> None:
        """aiokafka sends no software name, but names itself by its client id unless it is told another."""
        is_aiokafka = not software and _AIOKAFKA.match(client_id) is not None
        self._software = _AIOKAFKA_NAME if is_aiokafka else software
        self.is_patient = is_aiokafka or software in PATIENT_CLIENTS

    def limit(self, config: BrokerConfig, member: Noted | None, silence: Silence | None, now: int) -> int:
        """How long this heartbeat may be held; 0: not at all."""
        if not self.is_patient or member is None or silence is None:
            return 0
        is_sent_past, self._is_sent_past = self._is_sent_past, False
        longest = min(config.group_heartbeat_hold_max_ms, silence.session_timeout_ms // 3)
        if self._software in _HASTY_CLIENTS:
            longest = min(longest, _HASTY_LIMIT_MS)
        if silence.is_static:
            longest = min(longest, _STATIC_LIMIT_MS)
        is_own = self._software == _OWN
        if self._software in _SKIPPING:
            intervals_of(member).may_skip()
        return intervals_of(member).limit(member, longest, now, is_own=is_own, is_sent_past=is_sent_past)

    def limit_of_consumer(
        self, config: BrokerConfig, presence: Presence, interval_ms: int, now: int, *, is_static: bool
    ) -> int:
        """The same for a member of a `consumer` group, to whom the broker tells the interval. Rule A23.6."""
        notes = intervals_of(presence)
        if not self.is_patient or not notes.bears_holds:
            return 0
        if now - presence.last_seen > interval_ms * 3 // 2:
            notes.skipped()
        if self._software in (*_SKIPPING, _SPINNING) and presence.told_interval_ms:
            interval_ms = min(interval_ms, presence.told_interval_ms)
        longest = min(config.group_heartbeat_hold_max_ms, notes.limit_within(interval_ms, is_confirmed=True))
        if self._software in _SKIPPING:  # it gives a heartbeat up after the interval that it was told
            longest = min(longest, interval_ms - _FAILING_MARGIN_MS)
        if self._software in _HASTY_CLIENTS:
            longest = min(longest, _HASTY_LIMIT_MS)
        if is_static:
            longest = min(longest, _STATIC_LIMIT_MS)
        return longest if longest >= _SHORTEST_MS else 0

    def begin(self, shard: GroupShard, request: _Request, member: Noted, call: Call) -> None:
        """The coordinator has kept the heartbeat instead of answering it."""
        self.held = (shard, request, intervals_of(member), call)

    def interrupt(self, is_heartbeat: bool, now: int) -> None:
        """A request has come in: the hold ends, and if it ended by itself just now, that is a sign."""
        assert self.held is not None
        shard, request, intervals, call = self.held
        self.held = None
        if call.pieces is None:
            self._is_sent_past = is_heartbeat
            shard.run(shard.core.release_heartbeat(request.group_id, request.member_id, now, not is_heartbeat))
        elif not is_heartbeat and 0 <= now - self._ran_out_at <= _BLOCKED_WITHIN_MS:
            intervals.was_blocked()

    def ran_out(self, now: int) -> None:
        """The hold has ended because its time was over."""
        self._ran_out_at = now

    def cut_off(self, now: int) -> None:
        """The connection has ended. If a heartbeat was still held, the client may have lost patience with it."""
        if self.held is None:
            return
        shard, request, intervals, call = self.held
        self.held = None
        if call.pieces is None:
            intervals.was_cut_off = True
            shard.run(shard.core.release_heartbeat(request.group_id, request.member_id, now))


def intervals_of(member: Noted) -> HeartbeatIntervals:
    """What is known of a member; it begins with nothing."""
    if member.notes is None:
        member.notes = HeartbeatIntervals()
    assert isinstance(member.notes, HeartbeatIntervals)
    return member.notes


def note_rejoin(member: Noted | None) -> None:
    """While a client waits for a rebalance it sends no heartbeats: the gap is not its interval."""
    if member is not None and member.notes is not None:
        intervals_of(member).forget_last()
