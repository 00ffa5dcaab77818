"""Three brokers of Apache Kafka and their controller, as processes: killed, stopped, hung, started again; leaders
elected, partitions moved.

with KafkaCluster() as cluster:
    cluster.create_topic("orders", partitions=6)
    cluster.kill(cluster.leader_of("orders", 0))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from equipoise.client.net.blocking import Connection
from equipoise.server_process import HOST, free_port
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse
from equipoise.wire.errors import EquipoiseError
from proving.brokers import STORAGE_TOOL, KafkaBroker, Settings, class_data, kafka_version
from proving.cluster import ASK_S, BROKER_IDS, OFFSETS_PARTITIONS, REPLICAS, Cluster
from proving.tools import Tools

CONTROLLER_ID = 100
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xss512k")

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
    "group.min.session.timeout.ms": 1_000,
    # Leaders stay where a trial has put them.
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.max.retries": 3,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "metadata.max.idle.interval.ms": 0,
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
            "log.dirs": self.logs,
            **self.settings,
        }

    def is_ready(self) -> bool:
        """A broker is when it finds itself among those that the controller has let in."""
        try:
            with Connection(HOST, self.port, timeout=ASK_S) as connection:
                if self.is_controller:
                    return True
                answer = connection.send(MetadataRequest(topics=[]), MetadataResponse)
                return any(broker.node_id == self.node_id for broker in answer.brokers)
        except (OSError, EquipoiseError):
            return False


class KafkaCluster(Cluster):
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
    def addresses(self) -> Mapping[int, str]:
        return {node_id: broker.address for node_id, broker in self.brokers.items()}

    @property
    def live(self) -> list[ClusterNode]:
        return [broker for broker in self.brokers.values() if broker.is_running and not broker.is_hung]

    @property
    def live_ids(self) -> Sequence[int]:
        return [broker.node_id for broker in self.live]

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

    # -- leaders, replicas

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

        self.wait(f"the partitions of {topic} have moved", is_done)

    def _tool(self, name: str, *arguments: str) -> str:
        ended = self.tools.run(name, *arguments, broker=Servers(self.live_servers))
        if ended.status != 0:
            raise EquipoiseError(f"{name} {' '.join(arguments)} has failed: {ended.stdout}{ended.stderr}")
        return ended.stdout

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
