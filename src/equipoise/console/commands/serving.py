"""What `equipoise serve` does beside the broker: `/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.broker.server import Server


@contextmanager
def measuring(listen: str | None) -> Iterator[Callable[[Server], None]]:
    """Binds the port at once; what it yields starts to serve, on the loop of the broker. Without an address it does
    nothing."""
    if listen is None:
        yield lambda server: None
        return
    from equipoise.broker.metrics import BrokerMetrics
    from equipoise.metrics_server import Pages, bind, check_address, serve_pages

    tasks: list[asyncio.Task[None]] = []

    def measure(server: Server) -> None:
        metrics = BrokerMetrics(server)
        loop = asyncio.get_running_loop()
        tasks.append(loop.create_task(serve_pages(listener, Pages(metrics.text))))
        tasks.append(loop.create_task(metrics.watch_loop()))

    with bind(check_address(listen, None)) as listener:
        yield measure
