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
from proving.trials.spark import OFFICIAL, queries_of_a_log_that_is_cut
from proving.trials.stage import Reader, Tell, silently, until

_KEPT, _CUT = 100, 100
_LOST_S = 60.0
_LATE_S = 15.0  # for Spark's own connector, when all others have read it: it does not know of epochs
# By partition, what is written after the election: less than was cut, so that positions lie beyond the end, or more.
_AFTER = {0: 50, 1: 250}
_STAYS, _RETURNS = 1, 2  # the broker that has read on alone, and the one that leads without what it missed
_UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


def readers_of_a_log_that_is_cut(
    cluster: KafkaCluster, home: Path, *, clients: Sequence[str] = CLIENTS, tell: Tell = silently
) -> list[Account]:
    """Consumers, and queries on Spark: what became of what was written after the election. Afterwards the topic is
    gone."""
    topic = f"cut-{uuid.uuid4()}"
    cluster.create_topic(topic, len(_AFTER), replicas=2, configs=_UNCLEAN)
    cluster.reassign(topic, {partition: [_STAYS, _RETURNS] for partition in _AFTER})
    cluster.elect(topic, *_AFTER)
    with ExitStack() as stack:
        app, queries = queries_of_a_log_that_is_cut(cluster, home, topic)
        stack.enter_context(app)
        fleet = stack.enter_context(Fleet(cluster.bootstrap_servers, home / "members.log"))
        readers = [*(_one_member(stack, fleet, client, topic) for client in clients), *queries]
        _write(fleet, readers, topic, dict.fromkeys(_AFTER, _KEPT))
        cluster.kill(_RETURNS)
        until("only one replica is in sync", lambda: _in_sync(cluster, topic) == [[_STAYS]] * len(_AFTER))
        _write(fleet, readers, topic, dict.fromkeys(_AFTER, _CUT))
        cut_at = time.monotonic()
        cluster.kill(_STAYS)
        tell(f"broker {_STAYS} is killed, and {_RETURNS} leads, which has {_CUT} records less in each partition")
        cluster.start(_RETURNS)
        for partition in _AFTER:
            cluster.leader_of(topic, partition)
        written = _write(fleet, readers, topic, _AFTER)
        app.stop()
        accounts = [_account(reader, written, cut_at) for reader in readers]
    cluster.mend()
    cluster.delete_topic(topic)
    return accounts


def _one_member(stack: ExitStack, fleet: Fleet, client: str, topic: str) -> Group:
    members = stack.enter_context(Members(fleet, Membership.stock(f"group-{uuid.uuid4()}", (topic,))))
    members.join("only", client)
    return Group(client, members)


def _in_sync(cluster: KafkaCluster, topic: str) -> list[list[int]]:
    return [cluster.partition(topic, partition).isr_nodes for partition in _AFTER]


def _write(fleet: Fleet, readers: list[Reader], topic: str, counts: Mapping[int, int]) -> set[Spot]:
    """Returns when all have read it. A reader that has not in time has lost it."""
    began = time.monotonic()
    rows = {row for partition, count in counts.items() for row in fleet.produce([(topic, partition)], count)}
    written = {(partition, offset) for _, partition, offset in rows}

    def has_read(reader: Reader) -> bool:
        return written <= _read_since(reader, began).keys()

    with contextlib.suppress(EquipoiseError):
        until("all but Spark's own", lambda: all(has_read(one) for one in readers if one.name != OFFICIAL), _LOST_S)
        until("all have read it", lambda: all(map(has_read, readers)), _LATE_S)
    return written


def _read_since(reader: Reader, at: float) -> Counter[Spot]:
    return Counter((one.partition, one.offset) for one in reader.reads() if one.at > at)


def _account(reader: Reader, written: set[Spot], cut_at: float) -> Account:
    read = _read_since(reader, cut_at)
    stalled_s = longest_stall(reader.reads())
    return settle(reader.name, written, read, stalled_s)
