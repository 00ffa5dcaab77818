"""What `equipoise serve` does beside the broker: its registration in ZooKeeper, `/metrics`, faults, the console."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from equipoise.process_guard import ProcessGuard
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    from equipoise.broker.server import Server

FAULTS_AT = "127.0.0.1:9083"
CONSOLE_AT = "127.0.0.1:9080"


def check_kazoo() -> None:
    """UsageError if the extra is not installed, before anything is started."""
    try:
        import kazoo  # noqa: F401
    except ImportError:
        raise UsageError("this needs kazoo, a client of ZooKeeper: pip install 'equipoise[zookeeper]'") from None


@contextmanager
def registering(hosts: str | None) -> Iterator[Callable[[Server], None]]:
    """Returns the hook for a broker that is ready: it registers the broker in ZooKeeper until the end, if asked to."""
    if hosts is None:
        yield lambda _server: None
        return
    check_kazoo()
    from equipoise.testing.registering import register
    from equipoise.zookeeper.registration import BrokerRegistration

    with BrokerRegistration(hosts) as registration:
        yield partial(register, registration=registration)


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


@contextmanager
def console_beside(
    listen: str | None, *, is_open: bool, metrics_at: str | None = None
) -> Iterator[Callable[[str], None]]:
    """Gives what starts a console for a broker, in a process of its own: a page that is looked at must not slow what
    it looks at. UsageError: the broker lets in only those who log in, and the console would have to."""
    if listen is None:
        yield lambda _address: None
        return
    if not is_open:
        raise UsageError(
            "--console knows no password for this broker: start `equipoise console --command-config FILE` beside it"
        )
    import equipoise.console.web.serving  # noqa: F401  the extra is missing now, or never

    started: list[subprocess.Popen[bytes]] = []
    guard = ProcessGuard()

    def start(address: str) -> None:
        command = [sys.executable, "-m", "equipoise", "console", "--bootstrap-servers", address, "--listen", listen]
        if metrics_at is not None:
            command += ["--broker-metrics", f"http://{metrics_at}/metrics"]
        started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        guard.watch(started[0].pid)

    try:
        yield start
    finally:
        for process in started:
            process.terminate()
            process.wait()
            guard.forget(process.pid)
