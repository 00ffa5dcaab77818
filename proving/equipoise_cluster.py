"""Three brokers of ours in one process, `equipoise serve --brokers 3 --faults`: killed, stopped and started over HTTP,
as a test in any language does it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from typing import Any, Self

from equipoise.client.net.blocking import Connection
from equipoise.server_process import HOST, free_port
from equipoise.wire.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from equipoise.wire.errors import EquipoiseError
from proving.brokers import EquipoiseBroker, Settings
from proving.cluster import ASK_S, BROKER_IDS, OFFSETS_PARTITIONS, Cluster

_CLUSTER: Settings = {
    "brokers": len(BROKER_IDS),
    "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
    "group.initial.rebalance.delay.ms": 0,
}


class _Process(EquipoiseBroker):
    """It takes free ports, and tells them by HTTP."""

    name = "equipoise cluster"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.faults_port = free_port()

    def command(self) -> Sequence[str]:
        taken = [word if word != self.address else f"{HOST}:0" for word in super().command()]
        return [*taken, "--faults", f"{HOST}:{self.faults_port}"]

    def is_ready(self) -> bool:
        try:
            return bool(self.ask("GET", "/brokers"))
        except OSError:
            return False

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        connection = HTTPConnection(HOST, self.faults_port, timeout=ASK_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200:
            raise EquipoiseError(f"{path}: {text}")
        return json.loads(text)


class EquipoiseCluster(Cluster):
    """From `with` to its end. The data directory is a temporary one."""

    name = "equipoise cluster"

    def __init__(self, settings: Settings | None = None) -> None:
        self.process = _Process({**_CLUSTER, **(settings or {})})
        self._addresses: dict[int, str] = {}

    def _brokers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.process.ask("GET", "/brokers")
        return found

    @property
    def addresses(self) -> Mapping[int, str]:
        if not self._addresses:
            self._addresses = {one["broker"]: one["address"] for one in self._brokers()}
        return self._addresses

    @property
    def live_ids(self) -> Sequence[int]:
        return [one["broker"] for one in self._brokers() if one["state"] == "running"]

    def do(self, deed: str, **wanted: object) -> Any:
        """What `equipoise faults` does."""
        return self.process.ask("POST", "/faults", {"do": deed, **wanted})

    def kill(self, node_id: int) -> None:
        self.do("kill-broker", broker=node_id)

    def stop(self, node_id: int) -> None:
        self.do("stop-broker", broker=node_id)

    def start(self, node_id: int) -> None:
        self.do("start-broker", broker=node_id)

    def move_coordinator(self, group: str, to: int) -> None:
        self.do("move-coordinator", group=group, to=to)

    def mend(self) -> None:
        for one in self._brokers():
            if one["state"] == "not running":
                self.start(one["broker"])
            elif one["state"] == "cut off":
                self.do("heal-broker", broker=one["broker"])

    def elect(self, topic: str, *partitions: int) -> None:
        self.do("elect-leaders")

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        rows = [ReassignablePartition(partition_index=index, replicas=list(one)) for index, one in replicas.items()]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=rows)])
        host, _, port = self.addresses[self.live_ids[0]].rpartition(":")
        with Connection(host, int(port), timeout=ASK_S) as connection:
            answer = connection.send(request, AlterPartitionReassignmentsResponse)
        failed = [one.error_message for topic_row in answer.responses for one in topic_row.partitions if one.error_code]
        if failed:
            raise EquipoiseError(f"{topic} was not reassigned: {failed[0]}")

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.close()
