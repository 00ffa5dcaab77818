"""The end of a broker: nothing stays open, whoever comes at the last moment."""

from __future__ import annotations

import socket
from contextlib import closing

from equipoise.broker import Broker
from equipoise.broker.server import parse_address

TIMES = 60


def test_who_connects_at_the_last_moment_is_let_go() -> None:
    """A connection that is accepted and not yet known when the broker stops: the loop would not end with it."""
    for _ in range(TIMES):
        broker = Broker().start()
        address = parse_address(broker.bootstrap_servers)
        with closing(socket.create_connection(address)) as first, closing(socket.create_connection(address)) as last:
            broker.stop()
            for one in (first, last):
                one.settimeout(10)
                try:
                    assert one.recv(1) == b""
                except ConnectionResetError:
                    continue
