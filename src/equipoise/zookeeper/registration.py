"""A broker's registration in ZooKeeper: /brokers/ids/N while its session lasts, and /brokers/topics/T for its topics.

The broker calls `announce` once and `publish` after every change; neither waits. A thread writes the changes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from kazoo.exceptions import ConnectionClosedError, NodeExistsError
from kazoo.protocol.states import KazooState

from equipoise.closing import Closing
from equipoise.wire.errors import ProtocolError, UsageError
from equipoise.zookeeper.protocol.layout import (
    BROKER_IDS,
    PLAINTEXT,
    TOPICS,
    broker_json,
    topic_json,
    topic_path,
    topic_replicas,
)
from equipoise.zookeeper.session import open_client, session_id

log = logging.getLogger(__name__)

_AGAIN_S = 0.1


class Identity(NamedTuple):
    """What a broker publishes about itself."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    protocol: str = PLAINTEXT

    @property
    def path(self) -> str:
        """The broker's ephemeral node."""
        return f"{BROKER_IDS}/{self.node_id}"


class BrokerRegistration(Closing):
    """Connected when made; UsageError says if that cannot be."""

    def __init__(self, hosts: str, session_timeout_ms: int = 6_000) -> None:
        self.client = open_client(hosts, session_timeout_ms)
        self.client.add_listener(self._state_changed)
        self._identity: Identity | None = None
        self._topics: Mapping[str, int] = {}
        self._changed = threading.Event()
        self._is_closing = False
        self._told = ""
        self._thread = threading.Thread(target=self._run, name="equipoise-registration", daemon=True)
        self._thread.start()

    def announce(self, identity: Identity, topics: Mapping[str, int]) -> None:
        """Registers the broker, and the number of partitions of its topics."""
        self._identity = identity
        self.publish(topics)

    def publish(self, topics: Mapping[str, int]) -> None:
        """Remembers the topics, by name and partition count; the thread writes what has changed."""
        self._topics = topics
        self._changed.set()

    def close(self) -> None:
        """The session ends, and with it the broker's node, at once. Topics stay."""
        self._is_closing = True
        self._changed.set()
        self.client.stop()
        self._thread.join()
        self.client.close()

    def _state_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:  # perhaps in a new session, where the broker's node is missing
            self._changed.set()

    # -- the thread

    def _run(self) -> None:
        while not self._is_closing:
            self._changed.wait()
            self._changed.clear()
            try:
                if self._identity is not None and not self._is_closing:
                    self._write(self._identity)
                    self._told = ""
            except ConnectionClosedError:
                return
            except Exception as error:  # noqa: BLE001  kazoo's, or any: the broker must be found again in the end
                self._tell(f"the broker is not registered in ZooKeeper as it should be, trying again: {error!r}")
                time.sleep(_AGAIN_S)
                self._changed.set()

    def _tell(self, words: str) -> None:
        """Once, however often it is tried."""
        if words != self._told:
            log.warning("%s", words)
        self._told = words

    def _write(self, identity: Identity) -> None:
        self._register(identity)
        topics = dict(self._topics)
        self.client.ensure_path(TOPICS)
        for topic, count in topics.items():
            self._write_topic(topic, topic_json({number: [identity.node_id] for number in range(count)}))
        for topic in set(self.client.get_children(TOPICS)) - set(topics):
            self._drop_topic(topic, identity.node_id)

    def _register(self, identity: Identity) -> None:
        now_ms = time.time_ns() // 1_000_000
        data = broker_json(identity.host, identity.port, now_ms, identity.rack, protocol=identity.protocol)
        try:
            self.client.create(identity.path, data, ephemeral=True, makepath=True)
        except NodeExistsError:
            found = self.client.exists(identity.path)
            if found is None or found.ephemeralOwner != session_id(self.client):
                raise UsageError(
                    f"{identity.path} is there, of another broker or of one that ended a moment ago; "
                    "it goes with its session, or give this one another node.id"
                ) from None

    def _write_topic(self, topic: str, data: bytes) -> None:
        path = topic_path(topic)
        found = self.client.exists(path)
        if found is None:
            self.client.create(path, data)
        elif self.client.get(path)[0] != data:
            self.client.set(path, data)

    def _drop_topic(self, topic: str, node_id: int) -> None:
        """Only what is on this broker alone: other brokers may have topics there."""
        try:
            replicas = topic_replicas(topic, self.client.get(topic_path(topic))[0])
        except ProtocolError:
            return  # not written by us
        if all(nodes == [node_id] for nodes in replicas.values()):
            self.client.delete(topic_path(topic), recursive=True)
