"""Figures of a running broker for Prometheus: requests by API, connections, bytes, the delay of the loop.

A broker that is not measured has no cost of it: a route is wrapped when it is made, and only then.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from time import perf_counter
from typing import TYPE_CHECKING, Any

from equipoise.wire.apis import APIS

if TYPE_CHECKING:
    from equipoise.broker.handlers import Route
    from equipoise.broker.server import Server

_LOOK_S = 1.0  # between two looks at the delay of the loop


class BrokerMetrics:
    """Counts what a server does. Made before the server's first request."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._requests: Counter[int] = Counter()  # by API key
        self._seconds: dict[int, float] = defaultdict(float)
        self._received = 0
        self._delay_s = 0.0  # the longest of the last look
        server.metrics = self

    def measure(self, route: Route) -> None:
        """From now on this route counts its requests, their bytes, and the time in their handler."""
        decode, handle, key = route.decode, route.handle, route.api_key

        def counting_decode(buf: Any, pos: int, budget: int) -> Any:
            self._received += len(buf)
            return decode(buf, pos, budget)

        def timing_handle(server: Server, request: Any, call: Any) -> Any:
            began = perf_counter()
            try:
                return handle(server, request, call)
            finally:
                self._requests[key] += 1
                self._seconds[key] += perf_counter() - began

        route.decode, route.handle = counting_decode, timing_handle

    def repeated_heartbeat(self, api_key: int, size: int) -> None:
        """A heartbeat was answered by its bytes, without a route."""
        self._requests[api_key] += 1
        self._received += size

    async def watch_loop(self) -> None:
        """Measures, for ever, how late the loop comes to its work."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LOOK_S
            await asyncio.sleep(_LOOK_S)
            self._delay_s = max(0.0, loop.time() - due)

    def text(self) -> bytes:
        """All figures in Prometheus's text format."""
        lines: list[str] = []
        names = {key: APIS[key].name for key in sorted(self._requests)}
        _family(lines, "requests_total", "counter", "Requests by API.")
        lines += [f'equipoise_broker_requests_total{{api="{names[key]}"}} {self._requests[key]}' for key in names]
        _family(lines, "request_seconds_total", "counter", "Time in handlers, without waiting.")
        lines += [
            f'equipoise_broker_request_seconds_total{{api="{names[key]}"}} {self._seconds[key]:.6f}' for key in names
        ]
        server = self._server
        size = sum(partition.log.size for topic in server.topics for partition in topic.partitions)
        groups = sum(1 for shard in server.group_coordinator.opened for _ in shard.all_groups())
        _single(lines, "received_bytes_total", "counter", "Bytes of requests.", value=self._received)
        _single(lines, "connections", "gauge", "Open connections.", value=len(server.connections))
        _single(lines, "topics", "gauge", "Topics.", value=sum(1 for _ in server.topics))
        _single(lines, "groups", "gauge", "Groups.", value=groups)
        _single(lines, "log_bytes", "gauge", "Bytes of all logs.", value=size)
        _single(
            lines, "loop_delay_seconds", "gauge", "How late the loop came to its work.", value=round(self._delay_s, 6)
        )
        return ("\n".join(lines) + "\n").encode()


def _family(lines: list[str], name: str, kind: str, text: str) -> None:
    lines += [f"# HELP equipoise_broker_{name} {text}", f"# TYPE equipoise_broker_{name} {kind}"]


def _single(lines: list[str], name: str, kind: str, text: str, *, value: float) -> None:
    _family(lines, name, kind, text)
    lines.append(f"equipoise_broker_{name} {value}")
