"""The cluster as its brokers describe it: nodes, topics, leaders and their epochs; and when to ask them again.

Pure data and rules. The consumer's cluster on its loop, the blocking administrator and Spark's executors all keep a
`Metadata`; how they ask, and whom first, is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from equipoise.client.net.addresses import Address
from equipoise.client.net.backoff import Backoff
from equipoise.member import BrokerNode
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from equipoise.wire.errors import ErrorCode

NO_LEADER = -1
_FIRST_PATIENCE_S = 1.0  # with a broker that may hang, while there are others
# These do not pass by waiting: the application has to know.
LASTING_ERRORS = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})


class Leader(NamedTuple):
    """The broker that leads a partition, and the epoch of its leadership."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What assignors and readers need to know of a topic."""

    partitions: int
    racks: tuple[frozenset[str], ...]  # of each partition's replicas, offline ones too
    is_internal: bool
    topic_id: bytes


def metadata_request(topics: Iterable[str] | None, *, allow_auto_create: bool = False) -> MetadataRequest:
    """Asks for these topics; None: for all."""
    names = None if topics is None else [MetadataRequestTopic(name=name) for name in sorted(set(topics))]
    return MetadataRequest(topics=names, allow_auto_topic_creation=allow_auto_create)


def metadata_request_by_id(topic_ids: Iterable[bytes]) -> MetadataRequest:
    """Asks for topics of which the id alone is known: from v12 on."""
    topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(set(topic_ids))]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


class Metadata:
    """What is known of one cluster, as of the last answers."""

    def __init__(self) -> None:
        self.controller_id = -1
        self.nodes: dict[int, BrokerNode] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.errors: dict[str, int] = {}  # what brokers say of a topic in place of its partitions
        self.leaderless: set[TopicPartition] = set()
        self._leaders: dict[TopicPartition, Leader] = {}
        self._names: dict[bytes, str] = {}
        self._racks: dict[int, str] = {}  # also of brokers that are away at the moment

    # -- what brokers say

    def update(self, response: MetadataResponse) -> None:
        """Takes in an answer about every topic of interest: a topic that is not in it is forgotten."""
        self._take_in(response, is_partial=False)

    def merge(self, response: MetadataResponse) -> None:
        """Takes in an answer about some topics; others stay as they are (MetadataSnapshot.mergeWith)."""
        self._take_in(response, is_partial=True)

    def _take_in(self, response: MetadataResponse, *, is_partial: bool) -> None:
        self.controller_id = response.controller_id
        self.nodes = {one.node_id: BrokerNode(one.node_id, one.host, one.port, one.rack) for one in response.brokers}
        self._racks |= {one.node_id: one.rack for one in response.brokers if one.rack}
        known, leaders = self.topics, self._leaders
        self._forget({topic.name or "" for topic in response.topics} if is_partial else None)
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code:
                self.errors[name] = topic.error_code
                continue
            before, info = known.get(name), self._describe(topic)
            self.topics[name] = info
            is_same = before is not None and before.topic_id == info.topic_id
            for one in topic.partitions:
                partition = TopicPartition(name, one.partition_index)
                self._take_leader(partition, one, leaders.get(partition) if is_same else None)
        self._names = {info.topic_id: name for name, info in self.topics.items()}

    def _forget(self, topics: set[str] | None) -> None:
        """None: all."""

        def stays(name: str) -> bool:
            return topics is not None and name not in topics

        self.topics = {name: info for name, info in self.topics.items() if stays(name)}
        self.errors = {name: code for name, code in self.errors.items() if stays(name)}
        self.leaderless = {one for one in self.leaderless if stays(one.topic)}
        self._leaders = {one: leader for one, leader in self._leaders.items() if stays(one.topic)}

    def _describe(self, topic: MetadataResponseTopic) -> TopicInfo:
        ordered = sorted(topic.partitions, key=lambda one: one.partition_index)
        racks = tuple(
            frozenset(self._racks[node] for node in one.replica_nodes if node in self._racks) for one in ordered
        )
        return TopicInfo(len(ordered), racks, topic.is_internal, topic.topic_id)

    def _take_leader(self, partition: TopicPartition, one: MetadataResponsePartition, known: Leader | None) -> None:
        """A broker that has not heard of the newest leader yet changes nothing (Metadata.updateLatestMetadata)."""
        leader = Leader(one.leader_id, one.leader_epoch)
        if known is not None and known.epoch > leader.epoch >= 0:
            leader = known
        if leader.node_id == NO_LEADER:
            self.leaderless.add(partition)
        else:
            self._leaders[partition] = leader

    def learn_leader(self, partition: TopicPartition, leader: Leader, node: BrokerNode | None) -> bool:
        """What a broker has said besides, if it is news: only a newer epoch is (KIP-951,
        Metadata.updatePartitionLeadership)."""
        known = self._leaders.get(partition)
        if known is not None and known.epoch >= leader.epoch:
            return False
        if node is not None:
            self.nodes[node.node_id] = node
        if leader.node_id not in self.nodes:
            return False
        self._leaders[partition] = leader
        self.leaderless.discard(partition)
        return True

    # -- what follows from it

    def leader(self, partition: TopicPartition) -> Leader | None:
        """None: there is none at the moment, or its address is not known."""
        found = self._leaders.get(partition)
        return found if found is not None and found.node_id in self.nodes else None

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
        """None: partitions without a known leader."""
        found: dict[int | None, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self.leader(partition)
            found.setdefault(None if leader is None else leader.node_id, []).append(partition)
        return found

    def topic_name(self, topic_id: bytes) -> str | None:
        """None: no topic of interest has this id."""
        return self._names.get(topic_id)

    @property
    def controller(self) -> BrokerNode | None:
        """None: the cluster names none that it knows."""
        return self.nodes.get(self.controller_id)

    @property
    def missing(self) -> set[str]:
        """Topics that brokers do not describe, and may yet."""
        return {name for name, code in self.errors.items() if code not in LASTING_ERRORS}

    @property
    def is_settled(self) -> bool:
        """Whether nothing is missing that waiting could bring."""
        return not self.leaderless and not self.missing

    def addresses(self, bootstrap: Sequence[Address]) -> list[Address]:
        """Of all that may be asked: brokers that are known, then those to begin with."""
        return list(dict.fromkeys([*(node.address for node in self.nodes.values()), *bootstrap]))


def patience_rounds(whole: float) -> Iterator[float]:
    """How long each of several brokers is waited for, in seconds, round by round, up to the `whole` patience.

    A broker that hangs takes connections and requests, and says nothing: each is given a short while before any is
    waited for longer."""
    patience = _FIRST_PATIENCE_S
    while patience < whole:
        yield patience
        patience *= 5
    yield whole


class RefreshSchedule:
    """When metadata is asked for again: at once if it is urgent; not sooner than a pause after the last attempt if it
    has shown to be old; with growing pauses while something is missing; else at metadata.max.age.ms. In seconds."""

    def __init__(self, backoff: Backoff, max_age: float) -> None:
        self._backoff = backoff
        self._max_age = max_age
        self._unsettled = 0  # attempts in a row after which something was still missing
        self._is_asked = self._is_urgent = False
        self._last_attempt = 0.0
        self._draw_pauses()

    def request(self) -> None:
        """What is known has shown to be old."""
        self._is_asked = True

    def make_urgent(self) -> None:
        """It is due at once."""
        self._is_urgent = True

    def due_in(self, now: float) -> float:
        """0 or less: it is time."""
        if self._is_urgent:
            return 0.0
        pause = min(self._pause, self._shortest) if self._is_asked else self._pause
        return pause - (now - self._last_attempt)

    def begin(self, now: float) -> None:
        """An attempt begins: it answers all that was asked before."""
        self._is_asked = self._is_urgent = False
        self._last_attempt = now

    def end(self, *, is_settled: bool) -> None:
        """The attempt is over, in vain or not."""
        self._unsettled = 0 if is_settled else self._unsettled + 1
        self._draw_pauses()

    def _draw_pauses(self) -> None:
        self._pause = self._backoff.pause(self._unsettled) if self._unsettled else self._max_age
        self._shortest = self._backoff.pause(1)
