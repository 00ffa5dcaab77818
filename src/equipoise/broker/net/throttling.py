"""Enforces quotas: counts what each request uses, says `throttle_time_ms`, and mutes the connection for that long.

A throttled client gets its answer at once, and is not read until its time is over (KIP-219). Time that a request only
waits, held or parked, is not counted. Without any quota a request costs one look at `is_enabled`.
"""

from __future__ import annotations

import copy
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING

from equipoise.security.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from equipoise.security.quotas import QuotaManager, Windows
from equipoise.wire.apis.k00_produce import ProduceResponse

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.wire.schema import Message

_THROTTLE_TIME = Struct(">i")


class Usage:
    """What one request has used: bytes on the wire, and time of the loop."""

    __slots__ = ("_began", "_spent", "is_charged", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_charged = False
        self._began: float | None = monotonic()
        self._spent = 0.0

    def pause(self) -> None:
        """From now on the request waits, and others use the loop."""
        self._spent, self._began = self.spent, None

    @property
    def spent(self) -> float:
        """Seconds."""
        return self._spent if self._began is None else self._spent + monotonic() - self._began


class Throttling:
    """The quotas in force (QuotaFactory.QuotaManagers)."""

    def __init__(self, server: Server) -> None:
        windows = Windows(server.config.quota_window_num, server.config.quota_window_size_seconds * 1000)
        self._server = server
        self._produce = QuotaManager(PRODUCER_BYTE_RATE, windows)
        self._fetch = QuotaManager(CONSUMER_BYTE_RATE, windows)
        self._request = QuotaManager(REQUEST_PERCENTAGE, windows, windows.size_ms)  # ClientRequestQuotaManager
        self._epoch = 0  # of the quotas that were taken in
        self.is_enabled = False

    def update(self) -> None:
        """Takes in the quotas as they are now. Every heartbeat is counted from now on, repeated ones too."""
        state, managers = self._server.security.state, (self._produce, self._fetch, self._request)
        if self._epoch == state.quotas_epoch:  # a user or an access rule has changed
            return
        self._epoch = state.quotas_epoch
        for one in managers:
            one.update(state.bounds.get(one.key, {}))
        self.is_enabled = any(one.is_enabled for one in managers)
        for connection in self._server.connections if self.is_enabled else ():
            connection.decode_all()

    def charge(self, call: Call, usage: Usage, response: Message | bytes) -> Message | bytes:
        """Counts a request that is answered now. Returns the answer, with its throttle time if there is one."""
        if usage.is_charged:
            return response
        usage.is_charged = True
        throttle_ms = self._charge_time(call, usage)
        if isinstance(response, ProduceResponse):
            throttle_ms = max(throttle_ms, self._charge_produce(call, usage))
        return self._throttled(call, response, throttle_ms) if throttle_ms else response

    def charge_unanswered(self, call: Call, usage: Usage) -> None:
        """Counts a Produce with acks=0; its time is exempt (KafkaApis.handleProduceRequest)."""
        usage.is_charged = True
        self._mute(call, self._charge_produce(call, usage))

    def charge_fetch(self, call: Call, usage: Usage, size: int) -> int:
        """Counts a Fetch that could be answered with `size` bytes. If it returns a throttle time, the answer is to be
        empty, and the bytes are not counted (KafkaApis.handleFetchRequest)."""
        usage.is_charged = True
        (user, client_id), now = _client(call), self._server.clock.now()
        throttle_ms = max(self._charge_time(call, usage), self._fetch.record(user, client_id, size, now))
        if throttle_ms:
            self._fetch.unrecord(user, client_id, size, now)
            self._mute(call, throttle_ms)
        return throttle_ms

    def max_fetch_bytes(self, call: Call) -> float:
        """The most that a Fetch can be answered with and not be throttled."""
        return self._fetch.max_value_in_window(*_client(call))

    def _charge_time(self, call: Call, usage: Usage) -> int:
        return self._request.record(*_client(call), usage.spent * 100, self._server.clock.now())

    def _charge_produce(self, call: Call, usage: Usage) -> int:
        return self._produce.record(*_client(call), usage.size, self._server.clock.now())

    def _throttled(self, call: Call, response: Message | bytes, throttle_ms: int) -> Message | bytes:
        self._mute(call, throttle_ms)
        if isinstance(response, bytes):  # of a Heartbeat, which has the time in front since version 1
            return response if call.version == 0 else _THROTTLE_TIME.pack(throttle_ms) + response[_THROTTLE_TIME.size :]
        if "throttle_time_ms" in response.fields:
            response = copy.copy(response)  # others may get the same answer
            response.throttle_time_ms = throttle_ms  # type: ignore[attr-defined]
        return response

    def _mute(self, call: Call, throttle_ms: int) -> None:
        if throttle_ms:
            call.connection.mute()
            self._server.clock.call_later(throttle_ms, call.connection.unmute)


def _client(call: Call) -> tuple[str, str]:
    """User and client id, by which quotas are set."""
    return call.connection.session.principal.partition(":")[2], call.client_id
