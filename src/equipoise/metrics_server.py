"""A small HTTP server for `/metrics`, on asyncio: one answer for each connection, nothing else.

It serves GET and HEAD of `/metrics` and `/healthz`, bounds what it reads, and asks for a bearer token if it has one.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from equipoise.wire.errors import UsageError

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
_MOST_BYTES = 8 << 10  # of a request
_PATIENCE_S = 10.0
_PHRASES = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed"}
_PHRASES |= {500: "Internal Server Error", 503: "Service Unavailable"}


class Page(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


class Pages(NamedTuple):
    """What is served: the metrics, and whether all is well, with the reason if not."""

    metrics: Callable[[], bytes]
    trouble: Callable[[], str | None] = lambda: None
    content_type: str = CONTENT_TYPE
    token: str | None = None


def check_address(listen: str, token: str | None) -> tuple[str, int]:
    """Host and port. UsageError: it is none, or others could read it without a token."""
    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{listen!r} is no address: write HOST:PORT, for instance 127.0.0.1:9081")
    host = host.strip("[]") or "127.0.0.1"
    if token is None and not _is_loopback(host):
        raise UsageError(f"{listen} can be reached from other machines: give --token-file, or listen on 127.0.0.1")
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def start_server(listener: socket.socket, pages: Pages) -> asyncio.Server:
    """A server that answers until it is closed, on a socket that is bound."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_encode(_page(head, pages), is_head=head.startswith(b"HEAD ")))
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, sock=listener, limit=_MOST_BYTES)


async def serve_pages(listener: socket.socket, pages: Pages) -> None:
    """Answers until it is cancelled; nothing stays open then."""
    server = await start_server(listener, pages)
    async with server:
        await server.serve_forever()


def bind(address: tuple[str, int]) -> socket.socket:
    """Binds at once, so that a port in use is told before anything begins."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        return socket.create_server(address, family=family)
    except OSError as error:
        raise UsageError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}") from None


def _page(head: bytes, pages: Pages) -> Page:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Page(400, b"this is no HTTP/1 request\n")
    if words[0] not in ("GET", "HEAD"):
        return Page(405, b"only GET and HEAD\n")
    path = words[1].partition("?")[0]
    if path == "/healthz":
        trouble = pages.trouble()
        return Page(200, b"ok\n") if trouble is None else Page(503, f"{trouble}\n".encode())
    if path != "/metrics":
        return Page(404, b"there is /metrics and /healthz\n")
    if pages.token is not None and not _has_token(lines[1:], pages.token):
        return Page(401, b"a bearer token is needed\n")
    return Page(200, pages.metrics(), pages.content_type)


def _has_token(lines: list[str], token: str) -> bool:
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip().lower() == "authorization":
            return hmac.compare_digest(value.strip().encode(), f"Bearer {token}".encode())
    return False


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
