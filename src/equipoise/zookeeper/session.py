"""Sessions with ZooKeeper."""

from __future__ import annotations

import logging
import socket
import uuid

from kazoo.client import KazooClient

from equipoise.settings import is_host
from equipoise.wire.errors import UsageError

# Back soon after a connection is lost: the session runs out meanwhile.
_RECONNECT = {"max_tries": -1, "delay": 0.05, "max_delay": 0.5, "backoff": 2}
# A server that is starting may take a connection and never answer it. kazoo waits for the time of a session divided by
# the number of servers: with one server for so long that the session is over.
_ATTEMPTS = 3
_GIVEN_UP = "Failed connecting to Zookeeper within the connection retry policy."  # said of a client that is closed


class _Attempts(logging.Filter):
    """kazoo warns of every attempt to connect. Until the first succeeds, our error says it once and better; later, what
    repeats itself is said once."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        self.is_open = False

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        before, self.last = self.last, record.getMessage()
        record.msg, record.args = f"ZooKeeper: {self.last}", ()
        return self.is_open and self.last not in (before, _GIVEN_UP)


def _logger(attempts: _Attempts) -> logging.Logger:
    """Of one client, below kazoo's own, which others may use too."""
    logger = logging.Logger("kazoo.client")
    logger.parent = logging.getLogger("kazoo.client")
    logger.addFilter(attempts)
    return logger


def open_client(
    hosts: str, session_timeout_ms: int, connection_timeout_ms: int | None = None, *, makes_chroot: bool = True
) -> KazooClient:
    """Connected. UsageError if no server answers in time, or if there is no such address."""
    seconds = (connection_timeout_ms or session_timeout_ms) / 1000
    attempts = _Attempts()
    options = {"connection_retry": dict(_RECONNECT), "logger": _logger(attempts)}
    try:
        if not all(is_host(host.rpartition(":")[0] or host) for host in hosts.partition("/")[0].split(",")):
            raise ValueError(hosts)
        client = KazooClient(hosts, timeout=session_timeout_ms / 1000, **options)
    except ValueError:
        raise UsageError(f"zookeeper.connect={hosts}: write HOST:PORT, several with commas, then /CHROOT") from None
    try:
        client.start_async().wait(seconds)  # start() would warn of a chroot that is not there yet
        if not client.connected:
            why = f" ({attempts.last.rpartition(': ')[2]})" if attempts.last else ""
            raise UsageError(
                f"no ZooKeeper server answers at {hosts} within {seconds:g} s{why}: start one (equipoise zookeeper "
                "serve), or correct the address (zookeeper.connect, --zookeeper)"
            )
        if client.chroot and makes_chroot:
            _make_chroot(client)
    except BaseException:
        client.stop()
        client.close()
        raise
    attempts.is_open = True
    client.hosts *= -(-_ATTEMPTS // len(client.hosts))
    return client


def _make_chroot(client: KazooClient) -> None:
    """From the root: below its chroot kazoo makes the last node of it alone."""
    chroot, client.chroot = client.chroot, ""
    try:
        client.ensure_path(chroot)
    finally:
        client.chroot = chroot


def unique_name(now_ms: int) -> str:
    """Of a consumer without a `consumer.id`: host, time and chance."""
    return f"{socket.gethostname()}-{now_ms}-{uuid.uuid4().hex[:8]}"


def session_id(client: KazooClient) -> int:
    """0 between two sessions."""
    known = client.client_id
    return int(known[0]) if known else 0
