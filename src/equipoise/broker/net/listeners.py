"""Listeners: each accepts connections on its own address, with its own protocol.

A plain listener leaves accepting to the loop. A TLS listener accepts by itself: a client that says nothing costs a
socket and no TLS object, plain text is told from TLS by its first byte, and each handshake takes the context of now.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Set
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.net.connection import Connection
from equipoise.broker.net.listener_config import ConfiguredListener
from equipoise.security.session import ANONYMOUS
from equipoise.security.tls.principals import PrincipalMapper
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    from equipoise.broker.config import BrokerConfig
    from equipoise.broker.net.tls_acceptor import TlsAcceptor
    from equipoise.broker.security.listener_logins import ListenerLogins
    from equipoise.broker.security.logins import Logins
    from equipoise.broker.server import Server
    from equipoise.security.sasl.authentication import Mechanisms

log = logging.getLogger(__name__)

_BACKLOG = 1024
_RELOAD_MS = 60_000
_LAST_PORT = 65_535
_NO_LIMIT = 2**31 - 1


def _tls_of(server: Server, listener: Listener) -> TlsAcceptor:
    from equipoise.broker.net.tls_acceptor import TlsAcceptor  # most brokers are without: milliseconds of the start

    return TlsAcceptor(server, listener)


def _logins_of(server: Server, all_configured: list[ConfiguredListener]) -> ListenerLogins | None:
    """None: nobody can log in, and nothing that is configured for logins has to be checked."""
    config = server.config
    if not config.sasl_users_file and not any(
        one.uses_sasl or one.of_mechanism("PLAIN").sasl_jaas_config for one in all_configured
    ):
        return None
    from equipoise.broker.security.listener_logins import ListenerLogins  # so here

    return ListenerLogins(server)


class Listener:
    """One address of a broker. It is open from `open` to `close`, and may be opened again at the same address.

    Where there are several brokers it keeps its port while it is closed: a client that connects is refused, and no
    other process can take it.
    """

    def __init__(
        self, server: Server, configured: ConfiguredListener, logins: ListenerLogins | None, node_id: int
    ) -> None:
        self.name, self.protocol = configured.name, configured.protocol
        self.node_id = node_id  # of the broker that clients reach by it
        self.uses_sasl = configured.uses_sasl
        self.advertised = configured.advertised
        self.config = configured.config
        self.host, self.port = configured.host, configured.port
        self.principals = PrincipalMapper(configured.config.ssl_principal_mapping_rules)
        self.tls = _tls_of(server, self) if configured.uses_tls else None
        self.logins: Logins | None = None
        self.mechanisms: Mechanisms | None = None
        if logins is not None:
            self.logins, self.mechanisms = logins.of(configured)
        self.connections_of: Counter[str] = Counter()  # by the peer's address
        self._max_connections = configured.max_connections
        self._server = server
        self._plain: asyncio.Server | None = None
        self._kept: list[socket.socket] = []  # bound, and never listening

    async def open(self) -> None:
        """UsageError: the address cannot be used."""
        loop = asyncio.get_running_loop()
        try:
            if self._server.config.brokers > 1 and not self._kept:
                self._kept = await _bind(self.host, self.port)
                self.host, self.port = self._kept[0].getsockname()[:2]
            if self.tls is None:
                factory = partial(Connection, self._server, self)
                self._plain = await loop.create_server(factory, self.host, self.port, backlog=_BACKLOG)
                self.host, self.port = self._plain.sockets[0].getsockname()[:2]
            else:
                sockets = await _bind(self.host, self.port)
                self.host, self.port = sockets[0].getsockname()[:2]
                self.tls.open(sockets, _BACKLOG)
        except OSError as error:
            is_numbered = error.errno is not None and error.errno > 0  # below: a host that is not found
            why = os.strerror(error.errno or 0) if is_numbered else error.strerror
            raise UsageError(
                f"cannot listen on {self.host}:{self.port}: {why}; choose another with --listen HOST:PORT "
                "(port 0 takes a free one)"
            ) from None

    def close(self) -> None:
        """Accepts no more, and ends handshakes that are under way."""
        if self._plain is not None:
            self._plain.close()
        if self.tls is not None:
            self.tls.close()

    def release(self) -> None:
        """The port is free for others."""
        for one in self._kept:
            one.close()
        self._kept = []

    @property
    def address(self) -> str:
        """HOST:PORT where it listens."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def handshakes(self) -> Set[asyncio.Task[None]]:
        """Those under way."""
        return self.tls.handshakes if self.tls is not None else frozenset()

    def has_room_for(self, peer: str) -> bool:
        """max.connections and max.connections.per.ip of this listener, with handshakes counted."""
        of_all = self.connections_of.total() if self._max_connections < _NO_LIMIT else 0
        return of_all < self._max_connections and self.connections_of[peer] < self.config.max_connections_per_ip

    def principal_of(self, transport: asyncio.BaseTransport) -> str:
        """Of mutual TLS: the subject of the client's certificate; without one, anonymous. NoMatchingRule: refuse it."""
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        return self.principals.principal_of(certificate) if certificate else ANONYMOUS

    def forget(self, peer: str) -> None:
        """A connection or a handshake of this address has ended."""
        self.connections_of[peer] -= 1
        if not self.connections_of[peer]:
            del self.connections_of[peer]


async def _bind(host: str, port: int) -> list[socket.socket]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, (name, number, *rest) in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            address = (name, number or (bound[0].getsockname()[1] if bound else 0), *rest)
            bound.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            one.setblocking(False)
    except BaseException:
        for one in bound:
            one.close()
        raise
    return bound


class Listeners:
    """All listeners of a broker, and what they share."""

    def __init__(self, server: Server, node_id: int) -> None:
        self._server = server
        all_configured = configured_for(server.config, node_id)
        self._logins = _logins_of(server, all_configured)
        self.all = [Listener(server, configured, self._logins, node_id) for configured in all_configured]

    def named(self, name: str) -> Listener:
        """Each broker has listeners of the same names."""
        return next(one for one in self.all if one.name == name)

    async def open(self) -> None:
        """Opens all of them, or none."""
        await self.resume()
        if any(listener.tls is not None for listener in self.all):
            self._server.clock.call_later(_RELOAD_MS, self._look_again)

    async def resume(self) -> None:
        """Opens all of them again, or none."""
        try:
            for listener in self.all:
                await listener.open()
        except BaseException:
            self.pause()
            raise

    def pause(self) -> None:
        """Accepts no more connections, until `resume`."""
        for listener in self.all:
            listener.close()

    def _look_again(self) -> None:
        self.reload()
        self._server.clock.call_later(_RELOAD_MS, self._look_again)

    def reload(self, *, always: bool = False) -> None:
        """Takes new certificates and users into use, where files have changed."""
        if self._logins is not None:
            self._logins.look()
        for listener in self.all:
            if listener.tls is not None:
                listener.tls.reload(always=always)

    async def end_handshakes(self) -> None:
        """Waits until handshakes that `close` has cancelled are gone."""
        under_way = [task for listener in self.all for task in listener.handshakes]
        await asyncio.gather(*under_way, return_exceptions=True)

    def close(self) -> None:
        """Accepts no more connections, ever."""
        self.pause()
        for listener in self.all:
            listener.release()
        if self._logins is not None:
            self._logins.close()


def configured_for(config: BrokerConfig, node_id: int) -> list[ConfiguredListener]:
    """Those of one of several brokers: the ports of the first, shifted, so that none stands twice. Port 0 stays."""
    ports = [one.port for one in config.configured_listeners if one.port] or [0]
    shift = (node_id - config.node_id) * (max(ports) - min(ports) + 1)
    return [
        replace(one, port=shifted(one.port, shift), advertised=one.advertised and _advertised(one.advertised, shift))
        for one in config.configured_listeners
    ]


def _advertised(address: tuple[str, int], shift: int) -> tuple[str, int]:
    return address[0], shifted(address[1], shift)


def shifted(port: int, shift: int) -> int:
    """A port for one of several brokers; 0, a free one, stays. UsageError: there is none."""
    if port + shift > _LAST_PORT:
        raise UsageError(f"port {port}: the other brokers have no ports above it; choose a lower one")
    return port + shift if port else 0
