"""The client's view of the cluster: brokers, the leaders of the partitions of wanted topics, and connections to them.

One task keeps the metadata fresh: when it is old, on request, and, with growing pauses, while a wanted topic does not
exist or a partition has no leader. All of it runs on one asyncio loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from equipoise.client.config import ClientConfig
from equipoise.client.metadata.metadata import (
    LASTING_ERRORS,
    Metadata,
    RefreshSchedule,
    TopicInfo,
    metadata_request,
    metadata_request_by_id,
)
from equipoise.client.net.addresses import parse_bootstrap_servers
from equipoise.client.net.api_versions import Response
from equipoise.client.net.backoff import Backoff
from equipoise.client.net.connection import AsyncConnection
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.client.net.hedging import PATIENCE_S, first_answer, while_in_charge
from equipoise.client.net.lasting_warnings import LastingWarning, LastingWarnings
from equipoise.client.net.pool import ConnectionPool, PooledConnection, Purpose
from equipoise.member import BrokerNode
from equipoise.member.partitions import TopicPartition
from equipoise.member.subscription import TopicsOfInterest
from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError
from equipoise.wire.schema import Message

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Snapshot = Mapping[str, TopicInfo]
OnMetadata = Callable[[Snapshot, TopicsOfInterest], None]


class Cluster:
    """`on_metadata(topics, wanted)` is called after each refresh with what is known of the topics that were asked for.

    `start()` begins the work, on the running loop; `close()` ends it.
    """

    def __init__(self, config: ClientConfig, on_metadata: OnMetadata = lambda topics, wanted: None) -> None:
        self.config = config
        self.on_metadata = on_metadata
        self.watchers: list[Callable[[], None]] = []  # called when leaders may have changed
        self.metadata = Metadata()
        self.leader, self.by_leader = self.metadata.leader, self.metadata.by_leader
        self.learn_leader, self.topic_name = self.metadata.learn_leader, self.metadata.topic_name
        self.errors: dict[str, KafkaError] = {}  # by topic: what waiting does not mend
        self.last_failure: EquipoiseError | None = None  # of the attempts since the last success
        self._bootstrap = parse_bootstrap_servers(config.bootstrap_servers)
        self._pool = ConnectionPool(config, self._refuse)
        self._until_refused: set[asyncio.Timeout] = set()  # what waits, and will not if the client is refused
        self.on_refusal: Callable[[], None] = lambda: None
        self._wanted: TopicsOfInterest = frozenset()
        self._wanted_ids: frozenset[bytes] = frozenset()
        self._also: frozenset[str] = frozenset()
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._schedule = RefreshSchedule(backoff, config.metadata_max_age_ms / 1000)
        self._news = asyncio.Event()  # that the schedule has changed
        self._unreachable = LastingWarning(self._tell_unreachable)
        self._missing = LastingWarnings(self._tell_missing)
        self._leaderless = LastingWarnings(self._tell_leaderless)
        self._awaited: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins to keep metadata fresh, on the running loop."""
        self._make_urgent()
        self._tasks = [asyncio.create_task(self._keep_fresh()), asyncio.create_task(self._close_idle())]

    async def close(self) -> None:
        """Ends it, and closes all connections."""
        for task in self._tasks:
            task.cancel()
        self._unreachable.end()
        self._missing.keep(set())
        self._leaderless.keep(set())
        self._pool.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for waiter in self._awaited:
            waiter.cancel()

    # -- TLS or the login is refused

    @property
    def refusal(self) -> EquipoiseError | None:
        """Why this client cannot work: another attempt would fail too. None: it can."""
        return self._pool.refusal

    async def unless_refused(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` returns or raises; the refusal, as soon as there is one."""
        limit = asyncio.timeout(0 if self.refusal else None)
        self._until_refused.add(limit)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired() or self.refusal is None:
                raise
            raise self.refusal from None
        finally:
            self._until_refused.discard(limit)

    def _refuse(self) -> None:
        self.last_failure = self.refusal
        self._unreachable.end()
        for limit in self._until_refused:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())
        self.on_refusal()

    # -- metadata

    @property
    def nodes(self) -> Mapping[int, BrokerNode]:
        """Brokers that are known, by id."""
        return self.metadata.nodes

    @property
    def topics(self) -> Mapping[str, TopicInfo]:
        """Topics of interest that exist."""
        return self.metadata.topics

    def subscribe_topics(self, topics: Iterable[str] | None, topic_ids: frozenset[bytes] = frozenset()) -> None:
        """The topics to know about from now on, by name and by id; None: all there are. News about them are fetched at
        once."""
        wanted = None if topics is None else frozenset(topics)
        if wanted != self._wanted or not topic_ids <= self._wanted_ids:
            self._make_urgent()
        self._wanted, self._wanted_ids = wanted, topic_ids

    def know_also(self, topics: Iterable[str]) -> None:
        """Adds topics beside the subscribed ones, for good: offsets of them are looked up."""
        also = self._also.union(topics)
        if also != self._also:
            self._also = also
            if not also <= self.topics.keys():
                self._make_urgent()

    def request_refresh(self) -> None:
        """What is known has shown to be old. It is asked for anew, but not more often than retry.backoff.ms."""
        self._schedule.request()
        self._news.set()

    async def refresh(self) -> None:
        """Returns when metadata has come that was asked for after this call. Tries for ever: bound it by a timeout."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited.append(waiter)
        self._make_urgent()
        await waiter

    async def check_topics(self, topics: Iterable[str]) -> None:
        """Raises what waiting does not mend: such as a topic that is denied, by metadata of now."""
        refused = [topic for topic in topics if topic in self.errors]
        if refused:
            await self.refresh()
        for topic in refused:
            if topic in self.errors:
                raise self.errors[topic]

    @property
    def only_looked_up(self) -> frozenset[str]:
        """Topics that are known for a lookup alone: nobody reads them."""
        return frozenset() if self._wanted is None else self._also - self._wanted

    def why_not_found(self, partitions: Iterable[TopicPartition]) -> str | None:
        """What keeps the first of them that is missing from being found; None: nothing does."""
        for partition in sorted(partitions):
            topic = self.topics.get(partition.topic)
            if topic is None and partition.topic in self.metadata.missing:
                return f"topic {partition.topic!r} does not exist at {self.config.bootstrap_servers}"
            if topic is not None and partition.partition >= topic.partitions:
                return f"topic {partition.topic!r} has no partition {partition.partition}: it has {topic.partitions}"
            if partition in self.metadata.leaderless:
                return f"{partition} has no leader: are the brokers that hold its replicas running?"
        return None

    def _make_urgent(self) -> None:
        self._schedule.make_urgent()
        self._news.set()

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
        addresses = self.metadata.addresses(self._bootstrap)
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

        return await self.while_leading(node_id, partitions, ask())

    async def while_leading(
        self, node_id: int, partitions: Iterable[TopicPartition], work: Coroutine[Any, Any, Result]
    ) -> Result:
        """What `work` returns or raises, which waits for this broker. KafkaConnectionError: the broker is silent, and
        others lead all these partitions by now."""

        async def look() -> str | None:
            self.request_refresh()
            leaders = [self.leader(partition) for partition in mine]
            if any(leader is None or leader.node_id == node_id for leader in leaders):
                return None
            return f"broker {node_id} does not answer, and does not lead any more"

        mine = list(partitions)
        return await while_in_charge(work, look, PATIENCE_S, PATIENCE_S)

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
        why = ", and the broker does not create it by itself" if self.config.may_create_topics else ""
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
        while True:
            await self._until_due()
            if self.refusal is not None:
                return
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
            self._schedule.end(is_settled=is_settled)

    async def _until_due(self) -> None:
        while (left := self._schedule.due_in(asyncio.get_running_loop().time())) > 0:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()

    async def _refresh(self) -> bool:
        """True if nothing is missing."""
        self._schedule.begin(asyncio.get_running_loop().time())
        wanted = self._wanted
        names = None if wanted is None else wanted | self._also
        answer = await self._ask_for(metadata_request(names, allow_auto_create=self.config.may_create_topics))
        by_id = None
        if self._wanted_ids and names is not None:  # a request has names or ids
            by_id = await self._ask_for(metadata_request_by_id(self._wanted_ids))
        self.metadata.update(answer)
        if by_id is not None:
            self.metadata.merge(by_id)
        self.errors = {
            name: self._topic_error(code, name) for name, code in self.metadata.errors.items() if code in LASTING_ERRORS
        }
        self._missing.keep(self.metadata.missing - {""})
        self._leaderless.keep({str(one) for one in self.metadata.leaderless})
        self.on_metadata(self.topics, wanted)
        for watcher in self.watchers:
            watcher()
        return self.metadata.is_settled

    async def _ask_for(self, request: MetadataRequest) -> MetadataResponse:
        answer = await self.ask(request, MetadataResponse)
        if not answer.brokers:
            raise KafkaConnectionError("the cluster has no brokers yet")
        return answer

    def _topic_error(self, code: int, name: str) -> KafkaError:
        """If it may be created, a missing topic is denied too (KafkaApis.handleTopicMetadataRequest)."""
        verb = "written" if self.config.topic_operation is AclOperation.WRITE else "read"
        what = f"topic {name!r} cannot be {verb}"
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and self.config.may_create_topics:
            what += ", or does not exist and CREATE is denied"
        return self.config.topic_error(code, name, what)

    async def _close_idle(self) -> None:
        longest = self.config.connections_max_idle_ms / 1000
        while longest >= 0:
            await asyncio.sleep(max(longest / 4, 0.01))
            self._pool.close_idle(asyncio.get_running_loop().time() - longest)


def _release(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
