"""What the tests on a real ZooKeeper server share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient


@contextmanager
def connected(hosts: str, timeout: float = 30.0) -> Iterator[KazooClient]:
    client = KazooClient(hosts)
    try:
        client.start(timeout)
        yield client
    finally:
        client.stop()
        client.close()
