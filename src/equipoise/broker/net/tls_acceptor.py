"""A listener that speaks TLS: connections are accepted by hand, and their handshakes have a deadline and a limit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.net.tls import (
    PROTOCOL_VERSION_ALERT,
    ListenerTls,
    accepted_socket,
    begins_tls,
    describe_failure,
    describe_plain,
)
from equipoise.broker.net.tls_connection import TlsConnection

if TYPE_CHECKING:
    from equipoise.broker.net.listeners import Listener
    from equipoise.broker.server import Server

log = logging.getLogger(__name__)

_ACCEPTED_PER_TURN = 20  # a handshake takes a millisecond of the loop
_WHEN_OUT_OF_FILES_S = 1.0
_SHUTDOWN_S = 1.0  # a peer that is gone does not keep a connection for longer
_PEEKED = 8


class TlsAcceptor:
    """Accepts for a listener, from `open` to `close`, and may be opened again."""

    def __init__(self, server: Server, listener: Listener) -> None:
        self.handshakes: set[asyncio.Task[None]] = set()  # those under way
        self._server = server
        self._listener = listener
        self._tls = ListenerTls(listener.name, listener.config)
        self._sockets: list[socket.socket] = []

    def open(self, sockets: list[socket.socket], backlog: int) -> None:
        """Listens at these addresses."""
        self._sockets = sockets
        for one in sockets:
            one.listen(backlog)
            asyncio.get_running_loop().add_reader(one.fileno(), self._accept, one)

    def close(self) -> None:
        """Accepts no more, and ends handshakes that are under way."""
        for one in self._sockets:
            asyncio.get_running_loop().remove_reader(one.fileno())
            one.close()
        self._sockets = []
        for task in self.handshakes:
            task.cancel()

    def reload(self, *, always: bool = False) -> None:
        """Takes new certificates into use, where files have changed."""
        self._tls.reload(always=always)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_PER_TURN):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_accepting(listening, error)
                return
            accepted.setblocking(False)
            if not self._server.has_room(len(self.handshakes)) or not self._listener.has_room_for(peer[0]):
                accepted.close()
                continue
            task = asyncio.get_running_loop().create_task(self._handshake(accepted, peer[0]))
            self.handshakes.add(task)
            task.add_done_callback(partial(self._shaken, accepted))

    def _shaken(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step has closed nothing; nor has one that fails by what uvloop says
        of a transport that was closed meanwhile."""
        self.handshakes.discard(task)
        if task.cancelled():
            accepted.close()
        elif (error := task.exception()) is not None:
            accepted.close()
            log.error("listener %s: a handshake has failed", self._listener.name, exc_info=error)

    def _pause_accepting(self, listening: socket.socket, error: OSError) -> None:
        log.error("listener %s: accepting failed, and is tried again: %s", self._listener.name, error)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())

        def go_on() -> None:
            if listening in self._sockets:
                loop.add_reader(listening.fileno(), self._accept, listening)

        loop.call_later(_WHEN_OUT_OF_FILES_S, go_on)

    async def _handshake(self, accepted: socket.socket, peer: str) -> None:
        """One deadline for the first byte and the handshake."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._server.config.request_receive_timeout_ms / 1000
        self._listener.connections_of[peer] += 1
        try:
            async with asyncio.timeout_at(deadline):
                first = await _first_bytes(accepted)
            if not begins_tls(first):
                self._refuse_plain(accepted, peer, first)
                return
            accepted_socket.set(accepted)
            await loop.connect_accepted_socket(
                partial(TlsConnection, self._server, self._listener),
                accepted,
                ssl=self._tls.context,
                ssl_handshake_timeout=max(deadline - loop.time(), 0.001),
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except OSError as error:
            accepted.close()
            self._warn(peer, describe_failure(error))
        finally:
            self._listener.forget(peer)

    def _refuse_plain(self, accepted: socket.socket, peer: str, first: bytes) -> None:
        """The alert tells a client that asks for plain text what the port speaks."""
        if first:
            with contextlib.suppress(OSError):
                accepted.send(PROTOCOL_VERSION_ALERT)
            self._warn(peer, describe_plain(first))
        accepted.close()

    def _warn(self, peer: str, why: str | None) -> None:
        told = self._server.client_warnings.about(peer, why) if why is not None else None
        if told is not None:
            log.warning("%s: connection to listener %s closed: %s", peer, self._listener.name, told)


async def _first_bytes(accepted: socket.socket) -> bytes:
    """The first bytes of a connection, which stay to be read. Empty: the client has gone."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(accepted.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(accepted.fileno())
    return accepted.recv(_PEEKED, socket.MSG_PEEK)
