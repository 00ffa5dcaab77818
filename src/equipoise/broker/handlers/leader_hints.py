"""Hints for clients that have asked the wrong broker: who leads now, and where it is (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.wire.apis.k00_produce import LeaderIdAndEpoch, NodeEndpoint

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


class LeaderHints:
    """Those of one answer (KafkaApis.getCurrentLeader)."""

    def __init__(self, server: Server, call: Call) -> None:
        self._server = server
        self._call = call
        self._leaders: dict[int, None] = {}

    def leader_of(self, topic: str | bytes, index: int) -> LeaderIdAndEpoch:
        """The leader of a partition that there is."""
        partition = self._server.topics.partition(topic, index)
        self._leaders[partition.leader] = None
        return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)

    @property
    def endpoints(self) -> list[NodeEndpoint]:
        """Of each leader that was named."""
        return [
            NodeEndpoint(node_id=node.node_id, host=host, port=port, rack=node.rack)
            for node, host, port in self._server.cluster.endpoints(self._call.connection)
            if node.node_id in self._leaders
        ]
