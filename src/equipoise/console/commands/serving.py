"""What `equipoise serve` does beside the broker: `/metrics`, and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.broker.server import Server

FAULTS_AT = "127.0.0.1:9083"


@contextmanager
def measuring(listen: str | None) -> Iterator[Callable[[Server], None]]:
    """Binds the port at once; what it yields starts to serve, on the loop of the broker. Without an address it does
    nothing."""
    if listen is None:
        yield lambda server: None
        return
    from equipoise.broker.metrics import BrokerMetrics
    from equipoise.http_server import bind, serve_pages
    from equipoise.metrics_server import Pages, check_address

    tasks: list[asyncio.Task[None]] = []

    def measure(server: Server) -> None:
        metrics = BrokerMetrics(server)
        loop = asyncio.get_running_loop()
        tasks.append(loop.create_task(serve_pages(listener, Pages(metrics.text).respond)))
        tasks.append(loop.create_task(metrics.watch_loop()))

    with bind(check_address(listen, None)) as listener:
        yield measure


@contextmanager
def faulting(listen: str | None) -> Iterator[Callable[[Server], None]]:
    """The same for the endpoint of faults."""
    if listen is None:
        yield lambda server: None
        return
    from equipoise.broker.faults_server import Faults, check_address
    from equipoise.http_server import bind, serve_pages

    tasks: list[asyncio.Task[None]] = []

    def begin(server: Server) -> None:
        respond = Faults(server).respond
        tasks.append(asyncio.get_running_loop().create_task(serve_pages(listener, respond)))

    with bind(check_address(listen)) as listener:
        yield begin
