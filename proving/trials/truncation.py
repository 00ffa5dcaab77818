"""A log that is cut behind its readers' backs: an unclean election gives the lead to a replica that lacks what they
have read already (KIP-320). They must read what is written in its place, all of it, and nothing again."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from equipoise.wire.errors import EquipoiseError
from proving.kafka_cluster import KafkaCluster
from proving.members.fleet import Fleet, Members
from proving.members.hosts import Membership
from proving.trials.accounts import Account, Spot, longest_stall, settle
from proving.trials.consumers import CLIENTS, Group
from proving.trials.stage import Tell, silently, until

_KEPT, _CUT = 100, 100
_LOST_S = 60.0
# By partition, what is written after the election: less than was cut, so that positions lie beyond the end, or more.
_AFTER = {0: 50, 1: 250}
_STAYS, _RETURNS = 1, 2  # the broker that has read on alone, and the one that leads without what it missed
_UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


def consumers_of_a_log_that_is_cut(
    cluster: KafkaCluster, log: Path, *, clients: Sequence[str] = CLIENTS, tell: Tell = silently
) -> list[Account]:
    """Of what was written after the election. Afterwards the topic is gone."""
    topic = f"cut-{uuid.uuid4()}"
    cluster.create_topic(topic, len(_AFTER), replicas=2, configs=_UNCLEAN)
    cluster.reassign(topic, {partition: [_STAYS, _RETURNS] for partition in _AFTER})
    cluster.elect(topic, *_AFTER)
    with ExitStack() as stack:
        fleet = stack.enter_context(Fleet(cluster.bootstrap_servers, log))
        groups = [_one_member(stack, fleet, client, topic) for client in clients]
        _write(fleet, groups, topic, dict.fromkeys(_AFTER, _KEPT))
        cluster.kill(_RETURNS)
        until("only one replica is in sync", lambda: _in_sync(cluster, topic) == [[_STAYS]] * len(_AFTER))
        _write(fleet, groups, topic, dict.fromkeys(_AFTER, _CUT))
        cut_at = time.monotonic()
        cluster.kill(_STAYS)
        tell(f"broker {_STAYS} is killed, and {_RETURNS} leads, which has {_CUT} records less in each partition")
        cluster.start(_RETURNS)
        for partition in _AFTER:
            cluster.leader_of(topic, partition)
        written = _write(fleet, groups, topic, _AFTER)
        accounts = [_account(group, written, cut_at) for group in groups]
    cluster.mend()
    cluster.delete_topic(topic)
    return accounts


def _one_member(stack: ExitStack, fleet: Fleet, client: str, topic: str) -> Group:
    members = stack.enter_context(Members(fleet, Membership.stock(f"group-{uuid.uuid4()}", (topic,))))
    members.join("only", client)
    return Group(client, members)


def _in_sync(cluster: KafkaCluster, topic: str) -> list[list[int]]:
    return [cluster.partition(topic, partition).isr_nodes for partition in _AFTER]


def _write(fleet: Fleet, groups: list[Group], topic: str, counts: Mapping[int, int]) -> set[Spot]:
    """Returns when all have read it. Who does not in time has lost it."""
    began = time.monotonic()
    rows = {row for partition, count in counts.items() for row in fleet.produce([(topic, partition)], count)}
    written = {(partition, offset) for _, partition, offset in rows}
    with contextlib.suppress(EquipoiseError):
        until("all have read it", lambda: all(written <= _read_since(group, began).keys() for group in groups), _LOST_S)
    return written


def _read_since(group: Group, at: float) -> Counter[Spot]:
    return Counter((one.partition, one.offset) for one in group.reads() if one.at > at)


def _account(group: Group, written: set[Spot], cut_at: float) -> Account:
    read = _read_since(group, cut_at)
    stalled_s = longest_stall(group.reads())
    return settle(group.name, written, read, stalled_s)
