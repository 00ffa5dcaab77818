"""Registers our broker in ZooKeeper. Broker and registration do not know each other; this module joins them."""

from __future__ import annotations

import socket

from equipoise.broker.server import Server
from equipoise.zookeeper.registration import BrokerRegistration, Identity

_EVERYWHERE = ("0.0.0.0", "::")


def register(server: Server, registration: BrokerRegistration) -> None:
    """Runs on the broker's loop, once it listens. From then on the nodes follow its topics."""
    topics = server.topics
    topics.on_change = lambda: registration.publish(topics.counts())
    registration.announce(Identity(server.node_id, *_address(server), server.rack), topics.counts())


def _address(server: Server) -> tuple[str, int]:
    advertised = server.listeners.all[0].advertised
    if advertised is not None:
        return advertised
    return socket.gethostname() if server.host in _EVERYWHERE else server.host, server.port
