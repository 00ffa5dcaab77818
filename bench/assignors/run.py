"""`python -m bench assignors`: sticky assignments of groups small and very large, beside kafka-python's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from bench.assignors.figures import FULL, QUICK, Results, Row, Size
from bench.machine import check_packages, progress
from equipoise.assignors import Cluster, CooperativeStickyAssignor, GroupMember, Members, Topic
from equipoise.assignors.order import Subscribers
from equipoise.assignors.sticky_core.numbering import NOBODY, Ints, Numbering
from equipoise.assignors.sticky_core.plan import balance, mixture
from equipoise.wire.consumer_protocol import (
    Partitions,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

_CLASSES = 10  # of members, where subscriptions are mixed: each has half of the topics
_GENERATION = 1


def run_bench(as_json: bool, quick: bool) -> None:
    """Measures for some minutes (quick: some seconds) and prints a table, or one JSON object."""
    check_packages("assignors", "kafka")
    results = Results(QUICK if quick else FULL)
    began = time.perf_counter()
    with progress(len(results.rows)) as advance:
        for size in results.sizes:
            for event, group in _groups(size):
                _measure(results.row(size, event), size, group, event in size.beside_kafka_python)
                advance()
    results.print(as_json, time.perf_counter() - began)


class _Group(NamedTuple):
    """A group before it is assigned. Members are numbered in the order of their ids, topics in that of their names."""

    cluster: Cluster
    topics: list[list[str]]  # of each member
    owner: Ints  # of each partition

    def member_ids(self) -> list[str]:
        return [f"member-{number:06}" for number in range(len(self.topics))]

    def owned(self) -> list[Partitions]:
        return Numbering.of(self.cluster, list(self.cluster)).by_member(self.owner, len(self.topics))

    def members(self) -> Members:
        return {
            member_id: GroupMember(Subscription(topics=topics, owned_partitions=owned, generation_id=_GENERATION))
            for member_id, topics, owned in zip(self.member_ids(), self.topics, self.owned(), strict=True)
        }

    def assigner(self) -> Callable[[], Ints]:
        """The core, with all names and payloads done."""
        subscribers = Subscribers(self.cluster, self.members(), self.member_ids())
        numbering = Numbering.of(self.cluster, subscribers.topics)
        group = mixture(subscribers, numbering)
        return lambda: balance(self.owner, len(self.topics), numbering, group)


def _groups(size: Size) -> Iterator[tuple[str, _Group]]:
    """By event: from scratch, and from what came of it."""
    cluster = {f"topic-{number:04}": Topic(size.partitions) for number in range(size.topics)}
    nobody = np.full(size.topics * size.partitions, NOBODY)
    choices = {"uniform": [list(cluster)], "mixed": _halves(list(cluster))}
    for kind, choice in choices.items():
        topics = [choice[number % len(choice)] for number in range(size.members)]
        scratch = _Group(cluster, topics, nobody)
        yield f"{kind}_scratch", scratch
        owner = scratch.assigner()()
        yield f"{kind}_leave", _Group(cluster, topics[:-1], np.where(owner == size.members - 1, NOBODY, owner))
        yield f"{kind}_join", _Group(cluster, [*topics, choice[0]], owner)
        more = [choice[number % len(choice)] for number in range(size.members // 10)]
        yield f"{kind}_join_10_percent", _Group(cluster, topics + more, owner)


def _halves(topics: list[str]) -> list[list[str]]:
    """A half of the topics for each class; what none of them has is the last one's too."""
    random = Random(1)
    halves = [set(random.sample(topics, len(topics) // 2)) for _ in range(_CLASSES)]
    halves[-1] |= set(topics).difference(*halves)
    return [sorted(half) for half in halves]


def _measure(row: Row, size: Size, group: _Group, beside_kafka_python: bool) -> None:
    assign, members = group.assigner(), group.members()
    payloads = {name: encode_subscription(member.subscription) for name, member in members.items()}
    row.moves = int(np.count_nonzero(assign() != group.owner))
    row.values["numbers"] = [_cpu_ms(assign) for _ in range(size.rounds)]
    edge = range(size.rounds_at_the_edge)
    row.values["names"] = [_cpu_ms(lambda: CooperativeStickyAssignor().assign(group.cluster, members)) for _ in edge]
    row.values["payloads"] = [_cpu_ms(lambda: _lead(group.cluster, payloads)) for _ in edge]
    if beside_kafka_python:
        row.values["kafka_python"] = [_kafka_python_ms(group)]


def _cpu_ms(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e3


def _lead(cluster: Cluster, payloads: Mapping[str, bytes]) -> dict[str, bytes]:
    """All that a leader does between JoinGroup and SyncGroup."""
    members = {name: GroupMember(decode_subscription(payload)) for name, payload in payloads.items()}
    assignments = CooperativeStickyAssignor().assign(cluster, members)
    return {name: encode_assignment(assignment) for name, assignment in assignments.items()}


# -- kafka-python


class _KafkaPythonCluster(NamedTuple):
    """What its assignors ask of the metadata."""

    counts: dict[str, int]

    def topics(self) -> set[str]:
        return set(self.counts)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(self.counts[topic]))


class _KafkaPythonMember(NamedTuple):
    member_id: str
    metadata: Any
    group_instance_id: str | None = None


def _kafka_python_ms(group: _Group) -> float:
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    cluster = _KafkaPythonCluster({name: topic.partitions for name, topic in group.cluster.items()})
    members = _kafka_python_members(group)
    return _cpu_ms(lambda: StickyPartitionAssignor().assign(cluster, members))


def _kafka_python_members(group: _Group) -> Sequence[_KafkaPythonMember]:
    from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    return [
        _KafkaPythonMember(
            member_id,
            ConsumerProtocolSubscription(0, topics, StickyAssignorUserData(list(owned.items()), _GENERATION)),
        )
        for member_id, topics, owned in zip(group.member_ids(), group.topics, group.owned(), strict=True)
    ]
