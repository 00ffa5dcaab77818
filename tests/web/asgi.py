"""Asks an ASGI application without a socket. Streams can be read event by event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

from equipoise.console.web.guard import App, Message, Scope

PATIENCE_S = 10.0


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    text: str

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def _scope(method: str, address: str, headers: Mapping[str, str]) -> Scope:
    path, _, query = address.partition("?")
    given = {"host": "localhost:9080", **{name.lower(): value for name, value in headers.items()}}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "server": ("127.0.0.1", 9080),
        "client": ("127.0.0.1", 50_000),
    }


class _Exchange:
    def __init__(self, body: bytes = b"") -> None:
        self.body = body
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.gone = asyncio.Event()
        self._sent = False

    async def receive(self) -> Message:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [(name.decode().lower(), value.decode()) for name, value in message["headers"]]
        else:
            await self.pieces.put(message.get("body", b""))
            if not message.get("more_body"):
                await self.pieces.put(None)


async def ask(app: App, address: str, *, method: str = "GET", **headers: str) -> Answer:
    """One whole answer. Underscores in names of headers stand for hyphens."""
    return await post(app, address, b"", method=method, **headers)


async def post(app: App, address: str, body: bytes, *, method: str = "POST", **headers: str) -> Answer:
    """As `ask`, with a body."""
    exchange = _Exchange(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with asyncio.timeout(PATIENCE_S):
        await app(_scope(method, address, named), exchange.receive, exchange.send)
    body = b""
    while (piece := await exchange.pieces.get()) is not None:
        body += piece
    return Answer(exchange.status, exchange.headers, body.decode())


class Event(NamedTuple):
    seq: int
    type: str
    data: Any


class Stream:
    """A stream that is open."""

    def __init__(self, exchange: _Exchange) -> None:
        self.exchange = exchange
        self._text = ""

    async def block(self) -> str | None:
        """Text up to the next empty line; None at the end."""
        while "\n\n" not in self._text:
            async with asyncio.timeout(PATIENCE_S):
                piece = await self.exchange.pieces.get()
            if piece is None:
                return None
            self._text += piece.decode()
        block, _, self._text = self._text.partition("\n\n")
        return block

    async def event(self) -> Event | None:
        """The next event; None at the end."""
        while (block := await self.block()) is not None:
            rows = dict(line.split(": ", 1) for line in block.splitlines())
            if "event" in rows:
                return Event(int(rows["id"]), rows["event"], json.loads(rows["data"]))
        return None


@asynccontextmanager
async def streaming(app: App, address: str, **headers: str) -> AsyncIterator[Stream]:
    """Opens a stream, and goes away at the end as a browser does."""
    exchange = _Exchange()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    task = asyncio.create_task(_run(app, _scope("GET", address, named), exchange))
    try:
        stream = Stream(exchange)
        assert await stream.block() == "retry: 2000"
        yield stream
    finally:
        exchange.gone.set()
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)


async def _run(app: App, scope: Scope, exchange: _Exchange) -> None:
    await app(scope, exchange.receive, exchange.send)
