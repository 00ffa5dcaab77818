"""A small HTTP server on asyncio: one answer for each connection, bounded requests. For `/metrics` and for faults."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from equipoise.wire.errors import UsageError

_MOST_BYTES = 8 << 10  # of a request's head, and of its body
_MOST_DIGITS = 9
_PATIENCE_S = 10.0
_PHRASES = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Request(NamedTuple):
    """What a client wants. Names of headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


class Page(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


def names_this_machine(request: Request) -> bool:
    """Whether the header `Host` does. A page in a browser can make a name of its own point here (DNS rebinding)."""
    host = request.headers.get("host", "")
    name, _, port = host.rpartition(":")
    return is_loopback((name if port.isdecimal() else host).strip("[]"))


Respond = Callable[[Request], Page | Awaitable[Page]]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def has_token(authorization: str, token: str) -> bool:
    """Whether the header `Authorization` has this token. Tokens are compared in a time that tells nothing of them."""
    kind, _, given = authorization.partition(" ")
    return kind.lower() == "bearer" and is_token(given.strip(), token)


def is_token(given: str, token: str) -> bool:
    """Whether this is the token."""
    return hmac.compare_digest(given.encode(), token.encode())


def parse_listen(listen: str, example: str) -> tuple[str, int]:
    """Host and port. UsageError: it is none."""
    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{listen!r} is no address: write HOST:PORT, for instance {example}")
    return host.strip("[]") or "127.0.0.1", int(port)


def bind(address: tuple[str, int]) -> socket.socket:
    """Binds at once, so that a port in use is told before anything begins."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        return socket.create_server(address, family=family)
    except OSError as error:
        raise UsageError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}") from None


async def start_server(listener: socket.socket, respond: Respond) -> asyncio.Server:
    """A server that answers until it is closed, on a socket that is bound."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                page = await _answer(head, reader, respond)
                writer.write(_encode(page, is_head=head.startswith(b"HEAD ")))
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, sock=listener, limit=_MOST_BYTES)


async def serve_pages(listener: socket.socket, respond: Respond) -> None:
    """Answers until it is cancelled; nothing stays open then."""
    server = await start_server(listener, respond)
    async with server:
        await server.serve_forever()


async def _answer(head: bytes, reader: asyncio.StreamReader, respond: Respond) -> Page:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Page(400, b"this is no HTTP/1 request\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    size = headers.get("content-length", "0")
    if not size.isdecimal() or len(size) > _MOST_DIGITS or int(size) > _MOST_BYTES:
        return Page(413, b"that is more than a request may be\n")
    body = await reader.readexactly(int(size))
    page = respond(Request(words[0], words[1].partition("?")[0], headers, body))
    return page if isinstance(page, Page) else await page


def _encode(page: Page, *, is_head: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {page.status} {_PHRASES[page.status]}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if page.status == 401:
        lines.append("WWW-Authenticate: Bearer")
    return "\r\n".join((*lines, "", "")).encode() + (b"" if is_head else page.body)
