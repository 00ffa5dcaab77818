"""Sessions with ZooKeeper."""

from __future__ import annotations

from kazoo.client import KazooClient

from equipoise.wire.errors import UsageError

# Back soon after a connection is lost: the session runs out meanwhile.
_RECONNECT = {"max_tries": -1, "delay": 0.05, "max_delay": 0.5, "backoff": 2}
# A server that is starting may take a connection and never answer it. kazoo waits for the time of a session divided by
# the number of servers: with one server for so long that the session is over.
_ATTEMPTS = 3


def open_client(hosts: str, session_timeout_ms: int, connection_timeout_ms: int | None = None) -> KazooClient:
    """Connected. UsageError if no server answers in time, or if there is no such address."""
    seconds = (connection_timeout_ms or session_timeout_ms) / 1000
    try:
        client = KazooClient(hosts, timeout=session_timeout_ms / 1000, connection_retry=dict(_RECONNECT))
    except ValueError:
        raise UsageError(f"zookeeper.connect={hosts}: write HOST:PORT, several with commas, then /CHROOT") from None
    try:
        client.start_async().wait(seconds)  # start() would warn of a chroot that is not there yet
        if not client.connected:
            raise UsageError(
                f"no ZooKeeper server answers at {hosts} within {seconds:g} s: start one (equipoise zookeeper serve), "
                "or correct zookeeper.connect"
            )
        if client.chroot:
            client.ensure_path("/")
    except BaseException:
        client.stop()
        client.close()
        raise
    client.hosts *= -(-_ATTEMPTS // len(client.hosts))
    return client


def session_id(client: KazooClient) -> int:
    """0 between two sessions."""
    known = client.client_id
    return int(known[0]) if known else 0
