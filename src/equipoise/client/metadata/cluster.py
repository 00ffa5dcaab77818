"""The cluster as a client sees it: brokers, the leaders of wanted topics' partitions, and connections to them.

One task keeps the metadata fresh: when it is old, when somebody asks, and, with growing pauses, as long as a
wanted topic does not exist or a partition has no leader. All of it lives on one asyncio loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.net.api_versions import KafkaConnectionError, Response, error_from, parse_bootstrap_servers
from equipoise.client.net.connection import AsyncConnection
from equipoise.client.net.hedging import PATIENCE_S, first_answer, while_in_charge
from equipoise.client.net.lasting_warnings import LastingWarning, LastingWarnings
from equipoise.client.net.pool import Backoff, ConnectionPool, PooledConnection, Purpose
from equipoise.member import Node
from equipoise.member.partitions import TopicPartition
from equipoise.member.subscription import TopicsOfInterest
from equipoise.wire.apis.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError
from equipoise.wire.schema import Message

log = logging.getLogger(__name__)

NO_LEADER = -1
# These do not pass by waiting: the application has to know.
_LASTING = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION}


class Leader(NamedTuple):
    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    partitions: int
    racks: tuple[frozenset[str], ...]  # of each partition's replicas, offline ones too
    is_internal: bool
    topic_id: bytes


Snapshot = Mapping[str, TopicInfo]
OnMetadata = Callable[[Snapshot, TopicsOfInterest], None]


class Cluster:
    """`on_metadata(topics, wanted)` is called after each refresh with what is known of the topics that were asked for.

    `start()` begins the work, on the running loop; `close()` ends it.
    """

    def __init__(self, config: ConsumerConfig, on_metadata: OnMetadata = lambda topics, wanted: None) -> None:
        self.config = config
        self.on_metadata = on_metadata
        self.watchers: list[Callable[[], None]] = []  # called when leaders may have changed
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.errors: dict[str, KafkaError] = {}  # by topic: what waiting does not mend
        self.last_failure: EquipoiseError | None = None  # of the attempts since the last success
        self._bootstrap = parse_bootstrap_servers(config.bootstrap_servers)
        self._leaders: dict[TopicPartition, Leader] = {}
        self._names: dict[bytes, str] = {}
        self._racks: dict[int, str] = {}  # also of brokers that are away at the moment
        self._pool = ConnectionPool(config)
        self._wanted: TopicsOfInterest = frozenset()
        self._also: frozenset[str] = frozenset()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._is_asked = self._is_urgent = False
        self._news = asyncio.Event()  # that one of the two was set
        self._last_attempt = 0.0
        self._unreachable = LastingWarning(self._tell_unreachable)
        self._missing = LastingWarnings(self._tell_missing)
        self._leaderless = LastingWarnings(self._tell_leaderless)
        self._awaited: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._make_urgent()
        self._tasks = [asyncio.create_task(self._keep_fresh()), asyncio.create_task(self._close_idle())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._unreachable.end()
        self._missing.keep(set())
        self._leaderless.keep(set())
        self._pool.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for waiter in self._awaited:
            waiter.cancel()

    # -- metadata

    def subscribe_topics(self, topics: Iterable[str] | None) -> None:
        """The topics to know about from now on; None: all there are. News about them are fetched at once."""
        wanted = None if topics is None else frozenset(topics)
        if wanted != self._wanted:
            self._wanted = wanted
            self._make_urgent()

    def know_also(self, topics: Iterable[str]) -> None:
        """Besides those subscribed to, for good: somebody asks for offsets."""
        also = self._also.union(topics)
        if also != self._also:
            self._also = also
            if not also <= self.topics.keys():
                self._make_urgent()

    def request_refresh(self) -> None:
        """What is known has shown to be old. It is asked for anew, but not more often than retry.backoff.ms."""
        self._is_asked = True
        self._news.set()

    async def refresh(self) -> None:
        """Returns when metadata has come that was asked for after this call. Tries for ever: bound it by a timeout."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited.append(waiter)
        self._make_urgent()
        await waiter

    def _make_urgent(self) -> None:
        self._is_urgent = True
        self._news.set()

    def leader(self, partition: TopicPartition) -> Leader | None:
        found = self._leaders.get(partition)
        return found if found is not None and found.node_id in self.nodes else None

    def learn_leader(self, partition: TopicPartition, leader: Leader, node: Node | None) -> bool:
        """What a broker has said besides (KIP-951), if it is news: only a newer epoch is."""
        known = self._leaders.get(partition)
        if known is not None and known.epoch >= leader.epoch:
            return False
        if node is not None:
            self.nodes[node.node_id] = node
        if leader.node_id not in self.nodes:
            return False
        self._leaders[partition] = leader
        return True

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    # -- connections

    async def connection(self, node_id: int, purpose: Purpose = Purpose.QUESTIONS) -> AsyncConnection:
        """Tries once, after a pause if it has failed before. Raises KafkaConnectionError."""
        node = self.nodes.get(node_id)
        if node is None:
            raise KafkaConnectionError(f"the cluster's metadata knows no broker {node_id}; it may be down")
        return await self._pool.get(purpose, node.address).connection()

    async def coordinator_connection(
        self, host: str, port: int, purpose: Purpose = Purpose.COORDINATOR
    ) -> AsyncConnection:
        """Connections that only the group uses: a parked JoinGroup holds up whatever comes behind it."""
        return await self._pool.get(purpose, (host, port)).connection()

    async def ask(self, request: Message, response: type[Response], timeout: float | None = None) -> Response:
        """The answer of whichever broker is first: known ones and those of bootstrap.servers are asked one after the
        other, the next when one fails or is silent for a while. Raises KafkaConnectionError when all have failed."""
        limit = self.config.request_timeout_ms / 1000 if timeout is None else timeout
        addresses = dict.fromkeys([node.address for node in self.nodes.values()] + self._bootstrap)
        pooled = sorted(
            (self._pool.get(Purpose.QUESTIONS, address) for address in addresses), key=lambda one: one.trust
        )

        async def ask(one: PooledConnection) -> Response:
            return await (await one.connection()).send(request, response, limit)

        return await first_answer([partial(ask, one) for one in pooled], PATIENCE_S)

    async def leader_answer(
        self, node_id: int, partitions: Iterable[TopicPartition], request: Message, response: type[Response]
    ) -> Response:
        """Of the leader of these partitions. KafkaConnectionError: there is none, or others lead all of them by now."""

        async def ask() -> Response:
            connection = await self.connection(node_id)
            return await connection.send(request, response, self.config.request_timeout_ms / 1000)

        async def look() -> str | None:
            self.request_refresh()
            leaders = [self.leader(partition) for partition in mine]
            if any(leader is None or leader.node_id == node_id for leader in leaders):
                return None
            return f"broker {node_id} does not answer, and does not lead any more"

        mine = list(partitions)
        return await while_in_charge(ask(), look, PATIENCE_S, PATIENCE_S)

    # -- what is amiss for long

    def _tell_unreachable(self, seconds: float) -> str:
        servers = self.config.bootstrap_servers
        cause = str(self.last_failure or "they take connections and do not answer")
        stop = "" if cause.endswith("?") else "."
        return (
            f"no broker of bootstrap.servers={servers} has answered for {seconds:.0f} s: {cause}{stop} Check the "
            "address, and that a broker runs there; this client goes on trying"
        )

    def _tell_missing(self, topic: str, seconds: float) -> str:
        why = ", and the broker does not create it by itself" if self.config.allow_auto_create_topics else ""
        return (
            f"topic {topic!r} does not exist at {self.config.bootstrap_servers}{why}: create it, or check its name; "
            f"it has been waited for {seconds:.0f} s, and is waited for"
        )

    def _tell_leaderless(self, partition: str, seconds: float) -> str:
        return (
            f"{partition} has had no leader for {seconds:.0f} s, and cannot be read: are the brokers that hold its "
            "replicas running?"
        )

    # -- the task that keeps it fresh

    async def _keep_fresh(self) -> None:
        unsettled = 0  # refreshes in a row after which something was still missing
        while True:
            await self._until_due(unsettled)
            awaited, self._awaited = self._awaited, []
            self._unreachable.begin()
            try:
                is_settled = await self._refresh()
            except EquipoiseError as error:
                log.debug("metadata: %s", error)
                self.last_failure = error
                self._awaited = awaited + self._awaited
                is_settled = False
            except Exception:  # a bug of ours: leaders would never be found again, in silence
                log.exception("what the metadata say could not be taken in")
                self._awaited = awaited + self._awaited
                is_settled = False
            else:
                self.last_failure = None
                self._unreachable.end()
                _release(awaited)
            unsettled = 0 if is_settled else unsettled + 1

    async def _until_due(self, unsettled: int) -> None:
        """Until news are wanted: at once if urgent, else so long after the last attempt that the brokers are spared."""
        pause = self._backoff.pause(unsettled) if unsettled else self.config.metadata_max_age_ms / 1000
        asked_pause = self._backoff.pause(1)
        while not self._is_urgent:
            since = asyncio.get_running_loop().time() - self._last_attempt
            left = (min(pause, asked_pause) if self._is_asked else pause) - since
            if left <= 0:
                return
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()

    async def _refresh(self) -> bool:
        """True if nothing is missing."""
        self._is_asked = self._is_urgent = False
        self._last_attempt = asyncio.get_running_loop().time()
        wanted = self._wanted
        names = None if wanted is None else sorted(wanted | self._also)
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self.config.allow_auto_create_topics)
        answer = await self.ask(request, MetadataResponse)
        if not answer.brokers:
            raise KafkaConnectionError("the cluster has no brokers yet")
        self._learn_nodes(answer)
        is_settled = self._learn_topics(answer.topics)
        self._complain(answer.topics)
        self.on_metadata(self.topics, wanted)
        for watcher in self.watchers:
            watcher()
        return is_settled

    def _learn_nodes(self, answer: MetadataResponse) -> None:
        self.nodes = {one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in answer.brokers}
        self._racks |= {one.node_id: one.rack for one in answer.brokers if one.rack}

    def _learn_topics(self, topics: list[MetadataResponseTopic]) -> bool:
        known, known_leaders = self.topics, self._leaders
        self.topics, self._leaders, self.errors = {}, {}, {}
        is_settled = True
        for topic in topics:
            name = topic.name or ""
            if topic.error_code:
                is_settled &= self._note_error(name, topic.error_code)
                continue
            info = self.topics[name] = self._describe(topic)
            before = known.get(name)
            is_same = before is not None and before.topic_id == info.topic_id
            is_settled &= self._learn_leaders(name, topic, known_leaders if is_same else {})
        self._names = {info.topic_id: name for name, info in self.topics.items()}
        return is_settled

    def _complain(self, topics: list[MetadataResponseTopic]) -> None:
        self._missing.keep({topic.name for topic in topics if topic.name} - self.topics.keys() - self.errors.keys())
        self._leaderless.keep({str(one) for one in self._without_leader(topics)})

    def _without_leader(self, topics: list[MetadataResponseTopic]) -> Iterable[TopicPartition]:
        for topic in topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.name or "", one.partition_index)
                if one.leader_id == NO_LEADER and partition not in self._leaders:
                    yield partition

    def _note_error(self, topic: str, code: int) -> bool:
        if code in _LASTING:
            self.errors[topic] = error_from(code, f"topic {topic!r} cannot be read")
            return True
        return False

    def _describe(self, topic: MetadataResponseTopic) -> TopicInfo:
        ordered = sorted(topic.partitions, key=lambda one: one.partition_index)
        racks = tuple(
            frozenset(self._racks[node] for node in one.replica_nodes if node in self._racks) for one in ordered
        )
        return TopicInfo(len(ordered), racks, topic.is_internal, topic.topic_id)

    def _learn_leaders(self, name: str, topic: MetadataResponseTopic, before: Mapping[TopicPartition, Leader]) -> bool:
        has_all = True
        for one in topic.partitions:
            partition = TopicPartition(name, one.partition_index)
            leader = Leader(one.leader_id, one.leader_epoch)
            known = before.get(partition)
            if known is not None and known.epoch > leader.epoch >= 0:
                leader = known  # a broker that has not heard of the newest leader yet
            if leader.node_id == NO_LEADER:
                has_all = False
            else:
                self._leaders[partition] = leader
        return has_all

    async def _close_idle(self) -> None:
        longest = self.config.connections_max_idle_ms / 1000
        while longest >= 0:
            await asyncio.sleep(max(longest / 4, 0.01))
            self._pool.close_idle(asyncio.get_running_loop().time() - longest)


def _release(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
