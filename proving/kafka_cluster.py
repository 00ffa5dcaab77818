"""Three brokers of Apache Kafka and their controller, as processes: killed, stopped, hung, started again; leaders
elected, partitions moved.

with KafkaCluster() as cluster:
    cluster.create_topic("orders", partitions=6)
    cluster.kill(cluster.leader_of("orders", 0))
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

from equipoise.client import Admin
from equipoise.client.admin import PartitionDescription
from equipoise.client.net.blocking import Connection
from equipoise.coordinator.placement import partition_for
from equipoise.server_process import HOST, free_port
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse
from equipoise.wire.errors import EquipoiseError
from proving.brokers import STORAGE_TOOL, KafkaBroker, Settings, class_data, kafka_version
from proving.members.events import Place
from proving.members.view import committed
from proving.tools import Tools

CONTROLLER_ID = 100
BROKER_IDS = (1, 2, 3)
REPLICAS = len(BROKER_IDS)
OFFSETS_PARTITIONS = 6
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xss512k")
_PATIENCE_S = 120.0
_LOOK_AGAIN_S = 0.05
_ASK_S = 10.0

_CLUSTER: Settings = {
    # The controller takes a silent broker for dead after this while. Shorter, and a busy machine would do what a trial
    # has not asked for.
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 4000,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": REPLICAS,
    "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
    "transaction.state.log.replication.factor": REPLICAS,
    "transaction.state.log.num.partitions": 3,
    "share.coordinator.state.topic.replication.factor": REPLICAS,
    "group.initial.rebalance.delay.ms": 0,
    # Leaders stay where a trial has put them.
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.max.retries": 3,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
}


class Servers(NamedTuple):
    bootstrap_servers: str


class ClusterNode(KafkaBroker):
    """One node of the cluster: its controller, which no trial kills, or a broker."""

    def __init__(self, node_id: int, controller_port: int, settings: Settings) -> None:
        super().__init__(settings, jvm=(*_JVM, *class_data()))
        self.node_id = node_id
        self._controller_port = controller_port
        self.name = f"kafka node {node_id}"  # type: ignore[misc]
        if self.is_controller:
            self.port = controller_port

    @property
    def is_controller(self) -> bool:
        return self.node_id == CONTROLLER_ID

    def _all_settings(self) -> dict[str, object]:
        listener = "CONTROLLER" if self.is_controller else "PLAINTEXT"
        return {
            "process.roles": "controller" if self.is_controller else "broker",
            "node.id": self.node_id,
            "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{self._controller_port}",
            "listeners": f"{listener}://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.data / "logs",
            **self.settings,
        }

    def is_ready(self) -> bool:
        """A broker is when it finds itself among those that the controller has let in."""
        try:
            with Connection(HOST, self.port, timeout=_ASK_S) as connection:
                if self.is_controller:
                    return True
                answer = connection.send(MetadataRequest(topics=[]), MetadataResponse)
                return any(broker.node_id == self.node_id for broker in answer.brokers)
        except (OSError, EquipoiseError):
            return False


class KafkaCluster:
    """Brokers are named by their ids, 1 to 3. One controller beside them: whichever brokers die, the quorum lives."""

    name = "kafka cluster"

    def __init__(self, settings: Settings | None = None) -> None:
        port, everything = free_port(), {**_CLUSTER, **(settings or {})}
        self.tools = Tools()
        self.controller = ClusterNode(CONTROLLER_ID, port, everything)
        self.brokers = {node_id: ClusterNode(node_id, port, everything) for node_id in BROKER_IDS}

    @property
    def version(self) -> str:
        return kafka_version()

    @property
    def nodes(self) -> list[ClusterNode]:
        return [self.controller, *self.brokers.values()]

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, whether they live or not, as an application has them."""
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def live(self) -> list[ClusterNode]:
        return [broker for broker in self.brokers.values() if broker.is_running and not broker.is_hung]

    def admin(self) -> Admin:
        """Through a broker that answers."""
        return Admin(self._live_servers.bootstrap_servers, timeout=_ASK_S)

    @property
    def _live_servers(self) -> Servers:
        return Servers(",".join(broker.address for broker in self.live))

    # -- what happens to brokers

    def kill(self, node_id: int) -> None:
        """SIGKILL."""
        self.brokers[node_id].kill()

    def stop(self, node_id: int) -> None:
        """As an operator does: its leaders move before it goes."""
        self.brokers[node_id].stop()

    def hang(self, node_id: int) -> None:
        """SIGSTOP: its connections stay open, and nothing is answered on them."""
        self.brokers[node_id].hang()

    def resume(self, node_id: int) -> None:
        self.brokers[node_id].resume()

    def start(self, node_id: int) -> None:
        """After `kill` or `stop`. It takes part again; whether it has caught up is `wait_in_sync`."""
        self.brokers[node_id].start()

    def mend(self) -> None:
        """All brokers run again, and all replicas of all topics are in sync: the next trial finds a whole cluster.

        A partition that has lost all its replicas is in sync no more: who has made such a topic deletes it.
        """
        for broker in self.brokers.values():
            if broker.is_hung:
                broker.resume()
            elif not broker.is_running:
                broker.launch()
        for broker in self.brokers.values():
            broker.await_ready()
        self.wait_in_sync()

    # -- topics, leaders, replicas

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int = REPLICAS, configs: Mapping[str, str] | None = None
    ) -> None:
        """Returns when all live brokers know it."""
        with self.admin() as admin:
            admin.create_topic(name, partitions, configs, replication_factor=replicas)
        self._wait(f"all brokers know {name}", lambda: all(_knows(one, name, partitions) for one in self.live))

    def delete_topic(self, name: str) -> None:
        with self.admin() as admin:
            admin.delete_topic(name)

    def partition(self, topic: str, partition: int = 0) -> PartitionDescription:
        with self.admin() as admin:
            return admin.topic(topic).partitions[partition]

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of its leader. Waits until it has one that answers: after a kill that is a new one."""
        alive = {broker.node_id for broker in self.live}
        found = -1

        def has_one() -> bool:
            nonlocal found
            found = self.partition(topic, partition).leader_id
            return found in alive

        self._wait(f"partition {partition} of {topic} has a leader among {sorted(alive)}", has_one)
        return found

    def coordinator_of(self, group: str) -> int:
        """The broker that leads the group's partition of __consumer_offsets."""
        return self.leader_of("__consumer_offsets", partition_for(group, OFFSETS_PARTITIONS))

    def committed(self, group: str) -> dict[Place, int]:
        return committed(self.brokers[self.coordinator_of(group)].address, group)

    def wait_in_sync(self, *topics: str) -> None:
        """Every replica of these topics, or of all, is in sync."""

        def are_in_sync() -> bool:
            with self.admin() as admin:
                found = [topic for topic in admin.topics() if not topics or topic.name in topics]
            return all(set(one.isr_nodes) == set(one.replica_nodes) for topic in found for one in topic.partitions)

        self._wait(f"all replicas of {', '.join(topics) or 'all topics'} are in sync", are_in_sync)

    def elect(self, topic: str, *partitions: int, unclean: bool = False) -> None:
        """The preferred replicas lead; or, `unclean`, any that live, whatever they have not got. Partition 0 if none
        is named. One that has the right leader already is left as it is."""
        kind = "unclean" if unclean else "preferred"
        places = [{"topic": topic, "partition": partition} for partition in partitions or (0,)]
        file = self._plan({"partitions": places})
        self._tool("kafka-leader-election", "--election-type", kind, "--path-to-json-file", file)

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Moves partitions to these brokers, the first of which is the preferred leader."""
        plan = {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": partition, "replicas": list(nodes)}
                for partition, nodes in replicas.items()
            ],
        }
        self._tool("kafka-reassign-partitions", "--reassignment-json-file", self._plan(plan), "--execute")
        self._wait_reassigned(topic, replicas)

    def _plan(self, plan: Mapping[str, object]) -> str:
        file = self.controller.directory / "plan.json"
        file.write_text(json.dumps(plan))
        return str(file)

    def _wait_reassigned(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        def is_done() -> bool:
            with self.admin() as admin:
                found = admin.topic(topic).partitions
            return all(found[partition].replica_nodes == list(nodes) for partition, nodes in replicas.items())

        self._wait(f"the partitions of {topic} have moved", is_done)

    def _tool(self, name: str, *arguments: str) -> str:
        ended = self.tools.run(name, *arguments, broker=self._live_servers)
        if ended.status != 0:
            raise EquipoiseError(f"{name} {' '.join(arguments)} has failed: {ended.stdout}{ended.stderr}")
        return ended.stdout

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """What goes wrong with a broker that was just killed is no answer yet."""
        end = time.monotonic() + _PATIENCE_S
        while not _holds(is_so):
            if time.monotonic() > end:
                raise EquipoiseError(f"not so within {_PATIENCE_S:.0f} s: {what}")
            time.sleep(_LOOK_AGAIN_S)

    # -- its life

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                ended = self.tools.run(STORAGE_TOOL, *node.format_log())
                if ended.status != 0:
                    raise EquipoiseError(f"{node.name} could not format its log: {ended.stdout}{ended.stderr}")
                node.launch()
            for node in self.nodes:
                node.await_ready()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        self.tools.close()
        for node in reversed(self.nodes):
            node.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _knows(broker: ClusterNode, topic: str, partitions: int) -> bool:
    with Admin(broker.address, timeout=_ASK_S) as admin:
        found = admin.topic(topic).partitions
    return sum(one.leader_id >= 0 for one in found) == partitions


def _holds(is_so: Callable[[], bool]) -> bool:
    try:
        return is_so()
    except (OSError, EquipoiseError):
        return False
