"""Connections by address and purpose, opened at first use, and opened again after a pause when they break.

A request that may wait long at the broker (a fetch, a join) has its own connection, so that no other request waits
behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from equipoise.client.config import ClientConfig
from equipoise.client.net.addresses import Address, address_of
from equipoise.client.net.backoff import Backoff
from equipoise.client.net.connection import AsyncConnection
from equipoise.client.net.errors import KafkaConnectionError, is_final
from equipoise.wire.errors import EquipoiseError


class Purpose(Enum):
    """What a connection is for: purposes do not wait for each other."""

    QUESTIONS = "questions"  # answered at once: metadata, offsets
    FETCH = "fetch"  # one long fetch
    FETCH_ASIDE = "fetch aside"  # short fetches while the long one waits
    PRODUCE = "produce"  # answered when all replicas have the records
    COORDINATOR = "coordinator"  # joins and heartbeats, which may be held
    TRANSACTIONS = "transactions"  # of their coordinators: answered when all replicas have the record
    OFFSETS = "offsets"  # of the coordinator too: any request behind a held heartbeat ends the hold


class PooledConnection:
    """At most one connection to an address, shared by all callers."""

    def __init__(self, address: Address, config: ClientConfig, pool: ConnectionPool) -> None:
        self.address = address
        self._pool = pool
        self.ready_at = 0.0  # on the loop's clock: no attempt before
        self._config = config
        self._backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        self._failures = 0
        self._connection: AsyncConnection | None = None
        self._attempt = asyncio.Lock()
        self._is_closed = False

    @property
    def open(self) -> AsyncConnection | None:
        """The connection, if there is one that works."""
        return None if self._connection is None or self._connection.is_closed else self._connection

    @property
    def trust(self) -> tuple[bool, bool, float]:
        """The order of brokers when any can answer: a broker that owes an answer comes last, for it may hang."""
        return self.open is not None and self.open.is_waiting, self.open is None, self.ready_at

    async def connection(self) -> AsyncConnection:
        """Waits out the pause after a failure, then tries once. Raises KafkaConnectionError.

        After a login that was refused no broker is tried any more: accounts get locked."""
        async with self._attempt:
            if self._pool.refusal is not None:
                raise self._pool.refusal
            if self.open is None:
                await self._connect()
            assert self._connection is not None
            return self._connection

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self.ready_at - loop.time()))
        self._check_open()
        try:
            self._connection = await AsyncConnection.connect(
                *self.address,
                client_id=self._config.client_id,
                timeout=self._config.socket_connection_setup_timeout_ms / 1000,
                receive_buffer=self._config.receive_buffer_bytes,
                security=self._config.security,
            )
        except (EquipoiseError, asyncio.CancelledError) as error:  # cancelled: another was quicker
            if isinstance(error, EquipoiseError) and is_final(error):
                self._pool.refuse(error)
            self._failures += 1
            self.ready_at = loop.time() + self._backoff.pause(self._failures)
            raise
        self._failures = 0
        self._check_open()

    def _check_open(self) -> None:
        if self._is_closed:
            self.close()
            raise KafkaConnectionError(f"{address_of(*self.address)}: this consumer is closed")

    def close(self) -> None:
        """For good."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()


class ConnectionPool:
    """The connections of one client."""

    def __init__(self, config: ClientConfig, on_refusal: Callable[[], None] = lambda: None) -> None:
        self.refusal: EquipoiseError | None = None  # of TLS or the login: another attempt would fail too
        self._config = config
        self._on_refusal = on_refusal
        self._connections: dict[tuple[Purpose, Address], PooledConnection] = {}

    def get(self, purpose: Purpose, address: Address) -> PooledConnection:
        """The connection's place in the pool; nothing is opened yet."""
        found = self._connections.get((purpose, address))
        if found is None:
            found = self._connections[purpose, address] = PooledConnection(address, self._config, self)
        return found

    def refuse(self, error: EquipoiseError) -> None:
        """No connection is made any more."""
        if self.refusal is None:
            self.refusal = error
            self._on_refusal()

    def close_idle(self, since: float) -> None:
        """Closes connections that were not used since then, on the loop's clock."""
        for key, pooled in list(self._connections.items()):
            connection = pooled.open
            if connection is not None and not connection.is_waiting and connection.last_used < since:
                pooled.close()
                del self._connections[key]

    def close(self) -> None:
        """Closes all, for good."""
        for pooled in self._connections.values():
            pooled.close()
