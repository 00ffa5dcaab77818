"""The brokers of this process, and which of them leads which partition.

There is one log, on one loop: a move changes the placement of a partition, and nothing else. Where a partition belongs
to a topic with a coordinator, the coordinator is told, closes the shard and loads it anew from the log. A placement is
durable before anybody sees it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from equipoise.broker.cluster.node import Node
from equipoise.broker.cluster.placement import NOBODY, Placement
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call, Connection
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition, Topic

Moves = dict["Partition", Placement]


class Cluster:
    """All brokers of one server. With one broker it has nothing to do."""

    def __init__(self, server: Server) -> None:
        config = server.config
        self._server = server
        self.nodes = {
            node_id: Node(server, node_id, rack) for node_id, rack in zip(config.node_ids, config.racks, strict=True)
        }
        self.is_many = len(self.nodes) > 1
        self.coordinators: dict[str, Callable[[int], None]] = {}  # by topic: told of a partition with another leader
        self._adopt()
        server.topics.on_opened = self._opened

    def _opened(self, topic: Topic) -> None:
        """A broker may have gone while the partitions of a new topic were opened."""
        if self.is_many:
            live = self.live
            self._place({one: one.placement.elected(live, one.log.log_end_offset) for one in topic.partitions})

    def _adopt(self) -> None:
        """Partitions whose leader is gone since the last start have another; those that were never placed are."""
        placements, nodes, moves = self._server.topics.placements, list(self.nodes), Moves()
        if not self.is_many and placements.is_empty:
            return
        for partition in self._partitions():
            placement, end = partition.placement, partition.log.log_end_offset
            if self.is_many and not placements.is_placed(partition.topic.topic_id, partition.index):
                (replicas,) = placements.spread(1, None)
                placement = placement._replace(replicas=replicas)
                placement = placement if placement.leader == replicas[0] else placement.led_by(replicas[0], end)
            moves[partition] = placement.adopted(nodes, end)
        self._place(moves)

    def _partitions(self) -> Iterator[Partition]:
        return (partition for topic in self._server.topics for partition in topic.partitions)

    # -- what handlers ask

    def check_leader(self, call: Call, partition: Partition) -> None:
        """NOT_LEADER_OR_FOLLOWER: the caller has asked another broker than the one that leads it."""
        if partition.leader != call.connection.listener.node_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {partition.leader} leads {partition.topic.name}-{partition.index}",
            )

    @property
    def live(self) -> list[int]:
        """The brokers that are up."""
        return [node.node_id for node in self.nodes.values() if node.is_up]

    @property
    def controller_id(self) -> int:
        """The first that is up; clients send there what any broker would do."""
        return next(iter(self.live), NOBODY)

    def endpoints(self, connection: Connection) -> Iterator[tuple[Node, str, int]]:
        """The brokers that are up, and where the client of this connection reaches them."""
        for node in self.nodes.values():
            if node.is_up:
                yield node, *node.address_for(connection)

    def describe(self, partition: Partition) -> dict[str, Any]:
        """The fields that answers of Metadata and DescribeTopicPartitions share. Replicas that are up are in sync: all
        have the one log. Without a leader it is an error, and all the same described
        (KRaftMetadataCache.partitionMetadata)."""
        replicas = [one for one in partition.placement.replicas if one in self.nodes]
        return {
            "error_code": ErrorCode.NONE if partition.leader != NOBODY else ErrorCode.LEADER_NOT_AVAILABLE,
            "partition_index": partition.index,
            "leader_id": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replica_nodes": replicas,
            "isr_nodes": [one for one in replicas if self.nodes[one].is_up],
            "offline_replicas": [one for one in replicas if not self.nodes[one].is_up],
        }

    def racks_of(self, topic: Topic) -> tuple[frozenset[str], ...]:
        """The racks of each partition's replicas; nothing, where no broker has a rack."""
        if all(node.rack is None for node in self.nodes.values()):
            return ()
        named = {node_id: node.rack for node_id, node in self.nodes.items() if node.rack is not None}
        return tuple(
            frozenset(named[one] for one in partition.placement.replicas if one in named)
            for partition in topic.partitions
        )

    def check_replicas(self, replicas: Iterable[int]) -> tuple[int, ...]:
        """INVALID_REPLICA_ASSIGNMENT: they cannot be the replicas of a partition
        (ReplicationControlManager.validateManualPartitionAssignment)."""
        found = tuple(replicas)
        if not found or len(set(found)) < len(found):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "name each replica once, and one at least: the first leads"
            )
        if unknown := [one for one in found if one not in self.nodes]:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"there is no broker {unknown[0]}: {', '.join(map(str, self.nodes))}",
            )
        return found

    def check_assignment(self, rows: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
        """The replicas of new partitions, as many for each."""
        found = tuple(map(self.check_replicas, rows))
        if len(set(map(len, found))) > 1:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "every partition must have as many replicas")
        return found

    # -- moves

    def move(self, partition: Partition, leader: int) -> None:
        """This broker leads the partition from now on, and is one of its replicas."""
        node = self.find(leader)
        node.check_up(is_up=True)
        placement = partition.placement
        if leader not in placement.replicas:
            placement = placement._replace(replicas=(*placement.replicas, leader))
        self._place({partition: placement.led_by(leader, partition.log.log_end_offset)})

    def elect_preferred(self, partition: Partition) -> None:
        """The first replica leads again (ReplicationControlManager.electLeader). KafkaError says why not."""
        placement, live = partition.placement, self.live
        preferred = placement.replicas[0]
        if placement.leader == preferred:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred} leads it already")
        if preferred not in live:
            raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} is not running")
        self._place({partition: placement.led_by(preferred, partition.log.log_end_offset)})

    def elect_all_preferred(self) -> None:
        """The same for every partition whose first replica is up."""
        self._place(
            {
                one: one.placement.led_by(one.placement.replicas[0], one.log.log_end_offset)
                for one in self._partitions()
                if one.leader != one.placement.replicas[0] and one.placement.replicas[0] in self.live
            }
        )

    def reassign(self, changes: Mapping[Partition, tuple[int, ...]]) -> None:
        """Other replicas, at once: there are no records to copy."""
        self._place(
            {
                one: one.placement.reassigned(replicas, self.live, one.log.log_end_offset)
                for one, replicas in changes.items()
            }
        )

    async def elect_unclean(self, partition: Partition, leader: int, lose: int) -> int:
        """A broker leads that lacks the last records: they are cut off, whole batches, `lose` records at least.
        Returns the end of the log, where the new epoch begins. It waits until no thread syncs the log."""
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def elect() -> None:
            try:
                found.set_result(self._elect_unclean(partition, leader, lose))
            except (KafkaError, UsageError) as error:
                found.set_exception(error)

        if not self._server.flusher.after_round(elect):
            elect()
        return await found

    def _elect_unclean(self, partition: Partition, leader: int, lose: int) -> int:
        node = self.find(leader)
        node.check_up(is_up=True)
        log = partition.log
        if lose > 0:
            log.truncate(max(log.log_end_offset - lose, log.log_start_offset))
        replicas = partition.placement.replicas
        placement = partition.placement._replace(replicas=(leader, *(one for one in replicas if one != leader)))
        self._place({partition: placement.led_by(leader, log.log_end_offset)})
        return log.log_end_offset

    def _elect(self) -> None:
        """After a broker has come or gone."""
        live = self.live
        self._server.topics.live_nodes = live
        self._place({one: one.placement.elected(live, one.log.log_end_offset) for one in self._partitions()})

    def _place(self, moves: Moves) -> None:
        changed = {one: placement for one, placement in moves.items() if placement != one.placement}
        if not changed:
            return
        self._server.topics.placements.put(
            {(one.topic.topic_id, one.index): placement for one, placement in changed.items()}
        )
        for partition, placement in changed.items():
            had, name = partition.placement, partition.topic.name
            partition.place(placement)
            if had.epoch != placement.epoch and (tell := self.coordinators.get(name)) is not None:
                tell(partition.index)
            if set(had.replicas) != set(placement.replicas):
                self._server.topics.on_seen(name)  # its racks may be others

    # -- the life of brokers

    def find(self, node_id: int) -> Node:
        """UsageError: there is no such broker."""
        node = self.nodes.get(node_id)
        if node is None:
            raise UsageError(f"there is no broker {node_id}: {', '.join(map(str, self.nodes))}")
        return node

    def _find_up(self, node_id: int) -> Node:
        node = self.find(node_id)
        node.check_up(is_up=True)
        return node

    def kill(self, node_id: int) -> None:
        """As SIGKILL does: its connections are reset in the middle of whatever they do; the others take over."""
        node = self._find_up(node_id)
        node.is_up = False
        node.reset()
        self._elect()

    def stop(self, node_id: int) -> None:
        """A controlled shutdown: the others take over, then its connections end (ControlledShutdown)."""
        node = self._find_up(node_id)
        node.is_up = False
        self._elect()
        node.close_connections()

    async def start(self, node_id: int) -> None:
        """It is back at its addresses. It leads what nobody leads; the rest with an election of preferred leaders."""
        node = self.find(node_id)
        node.check_up(is_up=False)
        await node.resume()
        self._elect()

    def cut(self, node_id: int) -> None:
        """No client reaches it, and it leads on: a network that is gone."""
        node = self._find_up(node_id)
        node.is_cut = True
        node.reset()

    async def heal(self, node_id: int) -> None:
        """Clients reach it again. UsageError: it was not cut off."""
        node = self.find(node_id)
        if not node.is_cut or not node.is_up:
            raise UsageError(f"broker {node_id} is not cut off")
        await node.resume()

    async def open(self, host: str, port: int) -> None:
        """All brokers accept connections, or none. Host and port are those of the first without `listeners`."""
        address = None if self._server.config.listeners else (host, port)
        try:
            for node in self.nodes.values():
                await node.open(address)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """None accepts connections any more."""
        for node in self.nodes.values():
            node.listeners.close()

    async def end_handshakes(self) -> None:
        """Waits until handshakes that `close` has cancelled are gone."""
        for node in self.nodes.values():
            await node.listeners.end_handshakes()

    def reload(self) -> None:
        """Certificates and users of all listeners are read again."""
        for node in self.nodes.values():
            node.listeners.reload(always=True)
