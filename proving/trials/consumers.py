"""Consumers on a cluster whose brokers die: ours, confluent-kafka and Java, each with a group of two, side by side."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from equipoise.coordinator.placement import partition_for
from proving.cluster import OFFSETS_PARTITIONS
from proving.kafka_cluster import KafkaCluster
from proving.members.events import Place
from proving.members.fleet import Fleet, Members, places_of
from proving.members.hosts import Membership
from proving.trials.accounts import Account, Read
from proving.trials.stage import PARTITIONS, Reader, Stage, Tell, silently
from proving.trials.writing import Writer

OURS = "equipoise"
CLIENTS = (OURS, "confluent-kafka", "java")


class Group(Reader):
    """Two members of one client, as nobody has configured them."""

    def __init__(self, client: str, members: Members) -> None:
        super().__init__(client)
        self.members = members
        self._reads: list[Read] = []
        self._seen = 0

    @property
    def group_id(self) -> str:
        return self.members.group

    def committed(self) -> dict[Place, int]:
        """The offsets whose commits its members know to be acknowledged."""
        return self.members.ledger.committed()

    def reads(self) -> list[Read]:
        events = self.members.ledger.events
        for event in events[self._seen :]:
            self._reads += [Read(event.at, partition, offset) for _, partition, offset in event.rows]
            self._seen += 1
        return self._reads

    def check(self) -> None:
        self.members.ledger.check_errors()


def group_ids(count: int) -> list[str]:
    """With one coordinator for all: what happens to it happens to all of them."""
    ids: list[str] = []
    while len(ids) < count:
        name = f"group-{uuid.uuid4()}"
        if partition_for(name, OFFSETS_PARTITIONS) == 0:
            ids.append(name)
    return ids


def consumers_through_faults(
    cluster: KafkaCluster,
    log: Path,
    *,
    clients: Sequence[str] = CLIENTS,
    rounds: int = 1,
    patient: bool = False,
    tell: Tell = silently,
) -> list[Account]:
    """Kills of a leader and of the coordinator, a stop, a broker that hangs, reassignments, elections.

    The broker hangs until the first of the groups has got over it; `patient`: until all have, which takes others a
    minute and more.
    """
    topic = f"trial-{uuid.uuid4()}"
    cluster.create_topic(topic, PARTITIONS)
    with ExitStack() as stack:
        fleet = stack.enter_context(Fleet(cluster.bootstrap_servers, log))
        groups = [
            Group(client, stack.enter_context(Members(fleet, Membership.stock(group_id, (topic,)))))
            for client, group_id in zip(clients, group_ids(len(clients)), strict=True)
        ]
        for group in groups:
            for name in ("first", "second"):
                group.members.join(name, group.name)
        stage = Stage(cluster, Writer(cluster.bootstrap_servers, topic, PARTITIONS), groups, tell)
        stage.until("all partitions have owners", lambda: all(is_shared(group, topic) for group in groups))
        with stage.writer:
            stage.until_all_go_on()
            for _ in range(rounds):
                _round(stage, groups, groups if patient else groups[:1])
            return stage.finish()


def is_shared(group: Group, topic: str) -> bool:
    """Whether its members own all partitions."""
    owned = [group.members.owned(name) for name in group.members.names]
    return all(owned) and set().union(*owned) == places_of(topic, PARTITIONS)


def _round(stage: Stage, groups: list[Group], awaited: list[Group]) -> None:
    group = groups[0].members.group
    stage.kill_leader()
    stage.kill_coordinator(group)
    stage.stop_leader()
    stage.move()
    stage.hang(stage.cluster.coordinator_of(group), lambda: _go_on_committing(stage, awaited))


def _go_on_committing(stage: Stage, groups: list[Group]) -> None:
    """They have found another coordinator, and commit there what they read."""
    goal = {(stage.topic, partition): end for partition, end in stage.until_all_go_on(groups).items()}

    def is_committed(group: Group) -> bool:
        known = stage.cluster.committed(group.members.group)
        return all(known.get(place, 0) > offset for place, offset in goal.items())

    stage.until(f"{', '.join(group.name for group in groups)} commit", lambda: all(map(is_committed, groups)))
