"""One of the brokers of this process: its id, its rack, its listeners, and the connections that have come by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.net.listeners import Listeners, shifted
from equipoise.broker.net.purgatory import Completion
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Connection
    from equipoise.broker.server import Server


class Node:
    """`is_up`: it may lead. `is_cut`: it may, but no client reaches it."""

    def __init__(self, server: Server, node_id: int, rack: str | None) -> None:
        self.node_id = node_id
        self.rack = rack
        self.listeners = Listeners(server, node_id)
        self.is_up = True
        self.is_cut = False
        self.is_open = True  # a connection that was accepted at the last moment is refused when it is not
        self._server = server

    @property
    def address(self) -> str:
        """HOST:PORT of its first listener."""
        return self.listeners.all[0].address

    @property
    def connections(self) -> list[Connection]:
        """Those that are open now."""
        return [one for one in self._server.connections if one.listener.node_id == self.node_id]

    def address_for(self, connection: Connection) -> tuple[str, int]:
        """Where a client reaches this broker that has come by `connection` to one of them: by the listener of the same
        name, as configured, or at the address that it has reached us at (RequestContext)."""
        listener = self.listeners.named(connection.listener.name)
        return listener.advertised or (connection.local_host, listener.port)

    async def open(self, address: tuple[str, int] | None) -> None:
        """Accepts connections, without `listeners` at this address."""
        if address is not None:
            first, shift = self.listeners.all[0], self.node_id - self._server.node_id
            first.host, first.port = address[0], shifted(address[1], shift)
        await self.listeners.open()

    async def resume(self) -> None:
        """Accepts connections again, at the same addresses."""
        self.is_open = True
        try:
            await self.listeners.resume()
        except BaseException:
            self.is_open = False
            raise
        self.is_up, self.is_cut = True, False

    def reset(self) -> None:
        """No client reaches it any more: connections are reset, new ones refused."""
        self.is_open = False
        self.listeners.pause()
        for connection in self.connections:
            connection.reset()

    def close_connections(self) -> None:
        """Accepts no more, and ends the connections when the answers that are there have left."""
        self.is_open = False
        self.listeners.pause()
        for connection in self.connections:
            connection.complete_delayed(Completion.SHUTDOWN)
            connection.close()

    def check_up(self, *, is_up: bool) -> None:
        """UsageError: it is not so."""
        if self.is_up is not is_up:
            raise UsageError(f"broker {self.node_id} is {'not running' if is_up else 'running already'}")
