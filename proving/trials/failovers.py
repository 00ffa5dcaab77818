"""Groups whose coordinator is killed again and again, and comes back: of any client, on any cluster. No record and no
commit that was acknowledged may be lost, and each group must go on."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from equipoise.wire.errors import EquipoiseError
from proving.cluster import BROKER_IDS, Cluster
from proving.equipoise_cluster import EquipoiseCluster
from proving.members.fleet import Fleet, Members
from proving.members.hosts import Membership
from proving.trials.accounts import Account
from proving.trials.consumers import Group, group_ids, is_shared
from proving.trials.spark import Queries
from proving.trials.stage import PARTITIONS, Stage, Tell, silently
from proving.trials.writing import Writer

WAYS = ("kill", "stop", "move")
SPARK = "spark"  # queries as members of a group
CLIENTS = ("equipoise", "confluent-kafka", "java", "kafka-python", "aiokafka", "kafkajs", SPARK)
AnyGroup = Group | Queries


class Pauses(NamedTuple):
    """How long a group was without progress: from each failover until it had read and committed something new of every
    partition."""

    group: str
    seconds: list[float]

    def __str__(self) -> str:
        return (
            f"{self.group}: {len(self.seconds)} failovers, "
            f"without progress {median(self.seconds):.2f} s (median), {max(self.seconds):.2f} s (longest)"
        )


class Outcome(NamedTuple):
    accounts: list[Account]  # the first is of the log itself
    pauses: list[Pauses]
    commits: int  # acknowledged ones, each of which was found again after the next failover

    @property
    def lost(self) -> int:
        return sum(account.lost for account in self.accounts)


def groups_through_failovers(
    cluster: Cluster,
    log: Path,
    *,
    clients: Sequence[str] = CLIENTS,
    failovers: int = 3,
    assignor: str = "range",
    ways: Sequence[str] = WAYS,
    tell: Tell = silently,
) -> Outcome:
    """Two members of each client in a group of its own, queries of Spark among them; one coordinator for all. It is
    killed, stopped and moved in turn, or as `ways` say; only ours can be moved. CLIENT/ASSIGNOR is a client with an
    assignor of its own."""
    topic = f"failovers-{uuid.uuid4()}"
    cluster.create_topic(topic, PARTITIONS)
    with ExitStack() as stack:
        groups = _groups(stack, cluster, log, topic, assignor=assignor, clients=clients)
        stage = Stage(cluster, Writer(cluster.bootstrap_servers, topic, PARTITIONS, rate=120), groups, tell)
        members = [group for group in groups if isinstance(group, Group)]
        stage.until("all partitions have owners", lambda: all(is_shared(group, topic) for group in members))
        with stage.writer:
            stage.until_all_go_on()
            stage.until("all commit", lambda: all(len(group.committed()) == PARTITIONS for group in groups))
            pauses = {group.name: list[float]() for group in groups}
            commits = 0
            for number in range(failovers):
                commits += _failover(stage, groups, _way(cluster, ways, number), pauses)
            accounts = stage.finish()
    return Outcome(accounts, [Pauses(name, seconds) for name, seconds in pauses.items()], commits)


def _groups(
    stack: ExitStack, cluster: Cluster, log: Path, topic: str, *, assignor: str, clients: Sequence[str]
) -> list[AnyGroup]:
    """Of two members each. Queries begin when the other groups have, for Spark takes all cores to start."""
    fleet = stack.enter_context(Fleet(cluster.bootstrap_servers, log))
    found: list[AnyGroup] = []
    for client, group_id in sorted(zip(clients, group_ids(len(clients)), strict=True), key=lambda one: one[0] == SPARK):
        if client == SPARK:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="equipoise-queries-")))
            queries = Queries(cluster, home, topic, group_id)
            stack.enter_context(queries.app)
            found.append(queries)
            continue
        kind, _, own = client.partition("/")
        membership = replace(_membership(kind, group_id, topic), assignor=own or assignor)
        group = Group(client, stack.enter_context(Members(fleet, membership)))
        for name in ("first", "second"):
            group.members.join(name, kind)
        found.append(group)
    return found


def _membership(client: str, group_id: str, topic: str) -> Membership:
    """Commits after each batch: those that are acknowledged are known. kafkajs begins anew when a commit was refused
    too often, and its group then waits for the session of the member that it was."""
    session_ms = 6_000 if client == "kafkajs" else 30_000
    return Membership(group_id, (topic,), heartbeat_ms=500, session_ms=session_ms, max_poll_ms=60_000)


def _way(cluster: Cluster, ways: Sequence[str], number: int) -> str:
    possible = [way for way in ways if way != "move" or isinstance(cluster, EquipoiseCluster)]
    return possible[number % len(possible)]


def _failover(stage: Stage, groups: list[AnyGroup], way: str, pauses: dict[str, list[float]]) -> int:
    """Returns the commits that were acknowledged before it, all of which are still there after it."""
    told = {group.name: group.committed() for group in groups}
    began = time.monotonic()
    down = _fail(stage, groups[0].group_id, way)
    _wait_all(stage, groups, began, pauses)
    for group in groups:
        _check_commits(stage.cluster, group, told[group.name])
    if down is not None:
        stage.cluster.start(down)
        stage.cluster.wait_in_sync(stage.topic)
    return sum(map(len, told.values()))


def _fail(stage: Stage, group: str, way: str) -> int | None:
    """The broker that is down now, if one is."""
    cluster, coordinator = stage.cluster, stage.cluster.coordinator_of(group)
    stage.note(f"{way} the coordinator, broker {coordinator}")
    if isinstance(cluster, EquipoiseCluster) and way == "move":
        cluster.move_coordinator(group, next(one for one in BROKER_IDS if one != coordinator))
        return None
    (cluster.kill if way == "kill" else cluster.stop)(coordinator)
    return coordinator


def _wait_all(stage: Stage, groups: Iterable[AnyGroup], began: float, pauses: dict[str, list[float]]) -> None:
    """Each group has read, and committed, of every partition what was written after the failover; when was that?"""
    waiting = {group.name: group for group in groups}
    stage.until("all partitions are written to", lambda: len(stage.writer.since(began)) == stage.writer.partitions)
    goal = {(stage.topic, partition): offset for partition, offset in stage.writer.since(began).items()}

    def has_passed(group: AnyGroup) -> bool:
        known = group.committed()
        return all(known.get(place, 0) > offset for place, offset in goal.items())

    def all_go_on() -> bool:
        for name, group in list(waiting.items()):
            if has_passed(group):
                pauses[name].append(time.monotonic() - began)
                del waiting[name]
        return not waiting

    stage.until("all read and commit", all_go_on)


def _check_commits(cluster: Cluster, group: AnyGroup, told: dict[tuple[str, int], int]) -> None:
    found: dict[tuple[str, int], int] = {}

    def is_loaded() -> bool:
        nonlocal found
        found = cluster.committed(group.group_id)
        return bool(found) or not told

    cluster.wait(f"the offsets of {group.name} are to be had", is_loaded)
    lost = {place: (offset, found.get(place)) for place, offset in told.items() if found.get(place, -1) < offset}
    if lost:
        raise EquipoiseError(f"{group.name}: commits that were acknowledged are lost: {lost}")
