"""Three brokers, whoever has made them: what a trial asks of a cluster, and what it does to it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from equipoise.client import Admin
from equipoise.client.admin import PartitionDescription
from equipoise.coordinator.placement import partition_for
from equipoise.wire.errors import EquipoiseError
from proving.members.events import Place
from proving.members.view import committed

BROKER_IDS = (1, 2, 3)
REPLICAS = len(BROKER_IDS)
OFFSETS_PARTITIONS = 6
ASK_S = 10.0
_PATIENCE_S = 120.0
_LOOK_AGAIN_S = 0.05


class Cluster(ABC):
    """Brokers are named by their ids, 1 to 3."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def addresses(self) -> Mapping[int, str]:
        """Of all brokers, whether they live or not."""

    @property
    @abstractmethod
    def live_ids(self) -> Sequence[int]:
        """The brokers that answer."""

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, as an application has them."""
        return ",".join(self.addresses.values())

    @property
    def live_servers(self) -> str:
        return ",".join(self.addresses[node_id] for node_id in self.live_ids)

    def admin(self) -> Admin:
        """Through a broker that answers."""
        return Admin(self.live_servers, timeout=ASK_S)

    # -- what happens to brokers

    @abstractmethod
    def kill(self, node_id: int) -> None:
        """SIGKILL, or what a client cannot tell from it."""

    @abstractmethod
    def stop(self, node_id: int) -> None:
        """As an operator does: its leaders move before it goes."""

    @abstractmethod
    def start(self, node_id: int) -> None:
        """After `kill` or `stop`. It takes part again; whether it has caught up is `wait_in_sync`."""

    @abstractmethod
    def mend(self) -> None:
        """All brokers run again, and all replicas of all topics are in sync: the next trial finds a whole cluster."""

    @abstractmethod
    def elect(self, topic: str, *partitions: int) -> None:
        """The preferred replicas lead."""

    @abstractmethod
    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Moves partitions to these brokers, the first of which is the preferred leader."""

    # -- topics, leaders, replicas

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int = REPLICAS, configs: Mapping[str, str] | None = None
    ) -> None:
        """Returns when all live brokers know it."""
        with self.admin() as admin:
            admin.create_topic(name, partitions, configs, replication_factor=replicas)
        live = [self.addresses[node_id] for node_id in self.live_ids]
        self.wait(f"all brokers know {name}", lambda: all(_knows(one, name, partitions) for one in live))

    def delete_topic(self, name: str) -> None:
        with self.admin() as admin:
            admin.delete_topic(name)

    def partition(self, topic: str, partition: int = 0) -> PartitionDescription:
        with self.admin() as admin:
            return admin.topic(topic).partitions[partition]

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of its leader. Waits until it has one that answers: after a kill that is a new one."""
        alive = set(self.live_ids)
        found = -1

        def has_one() -> bool:
            nonlocal found
            found = self.partition(topic, partition).leader_id
            return found in alive

        self.wait(f"partition {partition} of {topic} has a leader among {sorted(alive)}", has_one)
        return found

    def coordinator_of(self, group: str) -> int:
        """The broker that leads the group's partition of __consumer_offsets."""
        return self.leader_of("__consumer_offsets", partition_for(group, OFFSETS_PARTITIONS))

    def committed(self, group: str) -> dict[Place, int]:
        return committed(self.addresses[self.coordinator_of(group)], group)

    def wait_in_sync(self, *topics: str) -> None:
        """Every replica of these topics, or of all, is in sync."""

        def are_in_sync() -> bool:
            with self.admin() as admin:
                found = [topic for topic in admin.topics() if not topics or topic.name in topics]
            return all(set(one.isr_nodes) == set(one.replica_nodes) for topic in found for one in topic.partitions)

        self.wait(f"all replicas of {', '.join(topics) or 'all topics'} are in sync", are_in_sync)

    def wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """What goes wrong with a broker that was just killed is no answer yet."""
        end = time.monotonic() + _PATIENCE_S
        while not _holds(is_so):
            if time.monotonic() > end:
                raise EquipoiseError(f"not so within {_PATIENCE_S:.0f} s: {what}")
            time.sleep(_LOOK_AGAIN_S)


def _knows(address: str, topic: str, partitions: int) -> bool:
    with Admin(address, timeout=ASK_S) as admin:
        found = admin.topic(topic).partitions
    return sum(one.leader_id >= 0 for one in found) == partitions


def _holds(is_so: Callable[[], bool]) -> bool:
    try:
        return is_so()
    except (OSError, EquipoiseError):
        return False
