"""Registers our broker in ZooKeeper. Broker and registration do not know each other; this module joins them."""

from __future__ import annotations

import socket

from equipoise.broker.server import Server
from equipoise.zookeeper.protocol.layout import PLAINTEXT
from equipoise.zookeeper.registration import BrokerRegistration, Identity

_EVERYWHERE = ("0.0.0.0", "::")


def register(server: Server, registration: BrokerRegistration) -> None:
    """Runs on the broker's loop, once it listens. From then on the nodes follow its topics."""
    topics = server.topics
    topics.on_change = lambda: registration.publish(topics.counts())
    registration.announce(_identity(server), topics.counts())


def _identity(server: Server) -> Identity:
    """By the first listener that speaks PLAINTEXT, which is all that old consumers speak. Without one, by the first."""
    there = server.listeners.all
    listener = next((one for one in there if one.protocol == PLAINTEXT), there[0])
    host = socket.gethostname() if listener.host in _EVERYWHERE else listener.host
    address = listener.advertised or (host, listener.port)
    return Identity(server.node_id, *address, server.rack, listener.protocol)
