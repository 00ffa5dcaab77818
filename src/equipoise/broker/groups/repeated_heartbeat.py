"""Repeated heartbeats: a member sends the same bytes again and again, except for the correlation id.

The broker recognises the next heartbeat by its bytes, and neither decodes nor routes it. That saves half the cost of
the most frequent request of groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.coordinator.shard import Shard
    from equipoise.wire.schema import Message

HeartbeatOfEither = HeartbeatRequest | ConsumerGroupHeartbeatRequest
_CORRELATION_ID = slice(4, 8)  # in a frame behind its size


class RepeatedHeartbeat:
    """A heartbeat that found all well, in a connection whose heartbeats are not held; and its answer."""

    __slots__ = ("_head", "_is_well", "_rest", "_size", "_tail")

    def __init__(self, is_well: Callable[[int], bool], frame: bytes, reply: bytes) -> None:
        self._is_well = is_well
        self._head, self._tail = frame[: _CORRELATION_ID.start], frame[_CORRELATION_ID.stop :]
        self._size, self._rest = reply[:4], reply[8:]

    def answer(self, frame: bytes | bytearray, now: int) -> bytes | None:
        """The reply, if this is the same heartbeat and all is still well."""
        if frame[8:] != self._tail or frame[:4] != self._head or not self._is_well(now):
            return None
        return self._size + frame[_CORRELATION_ID] + self._rest


def repeatable(
    request: HeartbeatOfEither, frame: bytes | bytearray, call: Call, response: Message | bytes | None
) -> RepeatedHeartbeat | None:
    """What the connection remembers of a heartbeat; None: the next is to be decoded."""
    connection, server = call.connection, call.connection.server
    if not isinstance(response, bytes) or connection.held_heartbeat.is_patient or not server.allows_all:
        return None
    if call.usage is not None or server.control is not None:
        return None
    return _repeated(server.group_coordinator.shard_of(request.group_id).core, request, call, bytes(frame))


def _repeated(core: Shard, request: HeartbeatOfEither, call: Call, frame: bytes) -> RepeatedHeartbeat:
    """A heartbeat that was answered at once, by the frame that it came in and the answer of its call."""
    assert call.pieces
    if isinstance(request, HeartbeatRequest):
        return RepeatedHeartbeat(_counted(partial(core.is_well, request), call, frame), frame, call.pieces[0])
    interval_ms = core.settings_of(request.group_id).heartbeat_interval_ms
    client = call.client_id, call.connection.client_host

    def is_well(now: int) -> bool:
        """The epoch of the answer stands in the request; the interval may be configured anew."""
        return core.quiet_interval(request, *client, now) == interval_ms

    return RepeatedHeartbeat(_counted(is_well, call, frame), frame, call.pieces[0])


def _counted(is_well: Callable[[int], bool], call: Call, frame: bytes) -> Callable[[int], bool]:
    """In a broker that is measured, these heartbeats count as others do."""
    metrics = call.connection.server.metrics
    if metrics is None:
        return is_well
    assert call.pieces
    api_key, received, sent = call.route.api_key, len(frame), len(call.pieces[0])

    def counting(now: int) -> bool:
        found = is_well(now)
        if found:
            metrics.repeated_heartbeat(api_key, received, sent)
        return found

    return counting
