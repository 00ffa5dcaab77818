"""Figures of a running broker for Prometheus: requests by API, connections, bytes, the delay of the loop,
transactions.

A broker that is not measured has no cost of it: a route is wrapped when it is made, and only then.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_SELF, getpagesize, getrusage
from time import perf_counter
from typing import TYPE_CHECKING, Any

from equipoise.broker.transactions.metrics import families
from equipoise.histogram import Histogram
from equipoise.wire.apis import APIS

if TYPE_CHECKING:
    from equipoise.broker.handlers import ReplyHead, Route
    from equipoise.broker.server import Server

_LOOK_S = 1.0  # between two looks at the delay of the loop
_STATM = Path("/proc/self/statm")
_SIZE = 4  # bytes of a frame's size
BOUNDS_S = (0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)


class _CountingHead:
    """The head of replies, which has their size: every reply is made with one."""

    __slots__ = ("_count", "_pack", "size")

    def __init__(self, head: ReplyHead, count: Callable[[int], None]) -> None:
        self.size: int = head.size
        self._pack = head.pack
        self._count = count

    def pack(self, size: int, correlation_id: int, /) -> bytes:
        """Packs, and counts the reply with its size in front."""
        self._count(size + _SIZE)
        return self._pack(size, correlation_id)


class BrokerMetrics:
    """Counts what a server does. Made before the server's first request."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._requests: Counter[int] = Counter()  # by API key
        self._spans: dict[int, Histogram] = {}
        self._received = 0
        self._sent = 0
        self._delay_s = 0.0  # the longest of the last look
        server.metrics = self

    def measure(self, route: Route) -> None:
        """From now on this route counts its requests and replies, their bytes, and the time in their handler."""
        decode, handle, key = route.decode, route.handle, route.api_key
        spans = self._spans.setdefault(key, Histogram(BOUNDS_S))

        def counting_decode(buf: Any, pos: int, budget: int) -> Any:
            self._received += len(buf) + _SIZE
            return decode(buf, pos, budget)

        def timing_handle(server: Server, request: Any, call: Any) -> Any:
            began = perf_counter()
            try:
                return handle(server, request, call)
            finally:
                self._requests[key] += 1
                spans.add(perf_counter() - began)

        route.decode, route.handle = counting_decode, timing_handle
        route.reply_head = _CountingHead(route.reply_head, self._count_sent)

    def _count_sent(self, size: int) -> None:
        self._sent += size

    def repeated_heartbeat(self, api_key: int, received: int, sent: int) -> None:
        """A heartbeat was answered by its bytes, without a route: the size of its frame, and that of the reply."""
        self._requests[api_key] += 1
        self._received += received + _SIZE
        self._sent += sent

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
        _family(lines, "request_seconds", "histogram", "Time in handlers, without waiting.")
        for key in names:
            lines += _histogram("request_seconds", f'api="{names[key]}"', self._spans.get(key) or Histogram(BOUNDS_S))
        server = self._server
        size = sum(partition.log.size for topic in server.topics for partition in topic.partitions)
        groups = sum(1 for shard in server.group_coordinator.opened for _ in shard.all_groups())
        _single(lines, "received_bytes_total", "counter", "Bytes of requests.", value=self._received)
        _single(lines, "sent_bytes_total", "counter", "Bytes of replies.", value=self._sent)
        _single(lines, "connections", "gauge", "Open connections.", value=len(server.connections))
        _single(lines, "topics", "gauge", "Topics.", value=sum(1 for _ in server.topics))
        _single(lines, "groups", "gauge", "Groups.", value=groups)
        _single(lines, "log_bytes", "gauge", "Bytes of all logs.", value=size)
        _single(lines, "memory_bytes", "gauge", "Bytes of memory that the process has.", value=_memory())
        _single(
            lines, "loop_delay_seconds", "gauge", "How late the loop came to its work.", value=round(self._delay_s, 6)
        )
        for family in families(server):
            _family(lines, family.name, family.kind, family.text)
            lines += [_sample(family.name, one.labels, one.value) for one in family.samples]
        return ("\n".join(lines) + "\n").encode()


def _memory() -> int:
    """What Linux counts as resident now; elsewhere the most that it ever was."""
    try:
        return int(_STATM.read_text().split()[1]) * getpagesize()
    except OSError:
        return getrusage(RUSAGE_SELF).ru_maxrss


def _family(lines: list[str], name: str, kind: str, text: str) -> None:
    lines += [f"# HELP equipoise_broker_{name} {text}", f"# TYPE equipoise_broker_{name} {kind}"]


def _histogram(name: str, labels: str, spans: Histogram) -> list[str]:
    """Counts up to each bound, as Prometheus has them."""
    lines, so_far = [], 0
    for bound, count in zip((*BOUNDS_S, "+Inf"), spans.counts, strict=True):
        so_far += count
        lines.append(f'equipoise_broker_{name}_bucket{{{labels},le="{bound}"}} {so_far}')
    lines.append(f"equipoise_broker_{name}_count{{{labels}}} {so_far}")
    lines.append(f"equipoise_broker_{name}_sum{{{labels}}} {spans.total_s:.6f}")
    return lines


def _sample(name: str, labels: str, value: float) -> str:
    return f"equipoise_broker_{name}{{{labels}}} {value}" if labels else f"equipoise_broker_{name} {value}"


def _single(lines: list[str], name: str, kind: str, text: str, *, value: float) -> None:
    _family(lines, name, kind, text)
    lines.append(_sample(name, "", value))
