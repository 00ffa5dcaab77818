"""The brokers of this process as a test sees them, and what the test can do to each: `broker.brokers[2].kill()`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from equipoise.broker.cluster import actions

if TYPE_CHECKING:
    from equipoise.broker.cluster.node import Node
    from equipoise.broker.running import Broker
    from equipoise.broker.server import Server

_Action = Callable[["Server", int], Coroutine[Any, Any, None]]


class LiveBroker:
    """One broker, by its node id. What is asked is as it is at this moment."""

    def __init__(self, broker: Broker, node_id: int) -> None:
        self._broker = broker
        self.node_id = node_id

    def __repr__(self) -> str:
        return f"LiveBroker({self.node_id}, {self.address}{'' if self.is_running else ', not running'})"

    def _node(self) -> Node:
        return self._broker.server.cluster.nodes[self.node_id]

    @property
    def address(self) -> str:
        """HOST:PORT; the same after a start."""
        return self._node().address

    @property
    def rack(self) -> str | None:
        """Its rack in Metadata; None: it has none."""
        return self._node().rack

    @property
    def is_running(self) -> bool:
        """Whether it is neither stopped nor killed."""
        return self._node().is_up

    @property
    def leads(self) -> set[tuple[str, int]]:
        """Topic and number of the partitions that it leads, internal ones too."""
        return self._broker.call(
            lambda server: {
                (topic.name, one.index)
                for topic in server.topics
                for one in topic.partitions
                if one.leader == self.node_id
            }
        )

    def _do(self, action: _Action) -> None:
        self._broker.call_async(lambda server: action(server, self.node_id))

    def kill(self) -> None:
        """As by SIGKILL: its connections are reset, and the others lead what it has led. Groups that it has coordinated
        are loaded anew from the log: joins and heartbeats that waited are lost, and every session begins again."""
        self._do(actions.kill)

    def stop(self) -> None:
        """A controlled shutdown: the others lead first, then its connections end."""
        self._do(actions.stop)

    def start(self) -> None:
        """It is back, at the same address. It leads again what it prefers after `Broker.elect_leaders`."""
        self._do(actions.start)

    def cut(self) -> LiveBroker:
        """No client reaches it, and it leads on: connections are reset, and new ones refused, until `heal` or the end
        of a `with` block."""
        self._do(actions.cut)
        return self

    def heal(self) -> None:
        """Clients reach it again."""
        self._do(actions.heal)

    def __enter__(self) -> LiveBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


class LiveBrokers(Mapping[int, LiveBroker]):
    """`broker.brokers[2]`, by node id. KeyError: there is no such broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __getitem__(self, node_id: int) -> LiveBroker:
        if node_id not in self._broker.server.cluster.nodes:
            raise KeyError(node_id)
        return LiveBroker(self._broker, node_id)

    def __iter__(self) -> Iterator[int]:
        return iter(self._broker.server.cluster.nodes)

    def __len__(self) -> int:
        return len(self._broker.server.cluster.nodes)
