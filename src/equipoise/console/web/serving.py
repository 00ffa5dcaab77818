"""The process of the console: a watcher that brings views, and a server that shows them, until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from equipoise.console.options import read_text
from equipoise.console.web.app import make_app, new_live
from equipoise.console.web.broker_figures import BrokerFiguresReader
from equipoise.console.web.guard import App, new_token
from equipoise.console.web.live import Live
from equipoise.console.web.source import until_one_ends, watch_cluster
from equipoise.console.web.wanted import Wanted
from equipoise.http_server import is_loopback
from equipoise.watching.access import Access, Questions
from equipoise.watching.topic_details import topic_details
from equipoise.wire.errors import UsageError

DEFAULT_LISTEN = "127.0.0.1:9080"
_DETAILS_S, _FIGURES_S = 5.0, 5.0  # between two questions for what an open page shows
_GRACE_S = 1  # open streams would hold Ctrl-C otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where the console listens, and who may ask."""

    host: str = "127.0.0.1"
    port: int = 9080
    names: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @classmethod
    def parse(cls, text: str, *, names: tuple[str, ...] = (), token: str | None = None, **tls: Path | None) -> Listen:
        """HOST:PORT. Beyond loopback there is always a token: one is made if none is given."""
        host, separator, port = text.rpartition(":")
        if not separator or not host or not port.isdecimal() or int(port) > 65_535:
            raise UsageError(f"--listen {text}: write HOST:PORT, for instance {DEFAULT_LISTEN}")
        if (tls.get("tls_cert") is None) != (tls.get("tls_key") is None):
            raise UsageError("--tls-cert and --tls-key belong together: give both")
        bare = host.strip("[]")
        if token is None and not is_loopback(bare):
            token = new_token()
        return cls(host=bare, port=int(port), names=(*names, host), token=token, **tls)

    @property
    def is_tls(self) -> bool:
        """Whether browsers reach it by https."""
        return self.tls_cert is not None

    def address(self, port: int) -> str:
        """What to open in a browser. The token stands in it once; the page puts it into a cookie."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        query = f"/?token={self.token}" if self.token is not None else ""
        return f"{'https' if self.is_tls else 'http'}://{host}:{port}{query}"


def read_token(file: Path) -> str:
    """The token in a file. UsageError: there is none that is hard to guess."""
    text = read_text(f"--token-file {file}", file).strip()
    if len(text) < 16 or not text.isascii() or not text.replace("-", "").replace("_", "").isalnum():
        raise UsageError(f"--token-file {file}: write one line of 16 or more letters, digits, - and _")
    return text


@asynccontextmanager
async def serving(app: App, listen: Listen) -> AsyncIterator[int]:
    """Serves while the block runs; gives the port."""
    bound = socket.socket(socket.AF_INET6 if ":" in listen.host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((listen.host, listen.port))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_S,
        server_header=False,
        date_header=False,
        ssl_certfile=str(listen.tls_cert) if listen.tls_cert else None,
        ssl_keyfile=str(listen.tls_key) if listen.tls_key else None,
        loop="none",
        http="h11",
        ws="none",
        h11_max_incomplete_event_size=32_768,
    )
    server: Any = uvicorn.Server(config)
    server.capture_signals = _no_signals  # the command has handlers of its own
    task = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        while not server.started:
            if task.done():
                task.result()
                raise UsageError("the console could not start")
            await asyncio.sleep(0.01)
        yield int(bound.getsockname()[1])
    finally:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a page that does not read is cut off, unsaid
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await task
        bound.close()


@contextmanager
def _no_signals() -> Iterator[None]:
    yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Shows:
    """How far back the console looks, and what it may do and show beyond groups."""

    window_ms: int
    actions: bool = False
    records: bool = False
    broker_metrics: str | None = None


async def run_console(access: Access, listen: Listen, shows: Shows, ready: Callable[[str], None]) -> None:
    """Watches and serves, until a signal ends it or the cluster refuses us. Actions have a connection of their own, and
    what only single pages show has one."""
    live = new_live(shows.window_ms)
    actions, details = Questions(access), Questions(access)
    asking = _ask_for_pages(live, access, details, shows)
    app = make_app(
        live,
        access.bootstrap_servers,
        hosts=listen.names,
        token=listen.token,
        is_tls=listen.is_tls,
        ask=actions.ask if shows.actions else None,
    )
    async with serving(app, listen) as port:
        ready(listen.address(port))
        watching = asyncio.create_task(watch_cluster(access, live, shows.window_ms))
        try:
            await _until_signal(watching)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            live.close()  # a stream that is open would hold the server
            actions.close()
            details.close()


def _ask_for_pages(live: Live, access: Access, questions: Questions, shows: Shows) -> list[asyncio.Task[None]]:
    """What single pages show is asked for while they are open."""
    ask = partial(topic_details, access, questions, with_records=shows.records)
    topics = Wanted(ask, _DETAILS_S, live.lists_changed)
    live.topic_details = topics.get
    tasks = [asyncio.create_task(topics.keep_asking())]
    if shows.broker_metrics is not None:
        figures = Wanted(BrokerFiguresReader().read, _FIGURES_S, live.lists_changed)
        live.broker_figures = partial(figures.get, shows.broker_metrics)
        tasks.append(asyncio.create_task(figures.keep_asking()))
    return tasks


async def _until_signal(watching: asyncio.Task[None]) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, over.set)
    await until_one_ends(watching, asyncio.create_task(over.wait()))
