"""Fetches ahead, broker by broker, and looks up new positions if the log no longer has the old ones.

The fetcher asks a broker for all its partitions in one long fetch, within a session. A partition that becomes fetchable
after that fetch has left (newly assigned, sought in, or drained by the application) does not wait for its end: short
fetches bring it, on their own connection, until the next long fetch includes it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.fetch.fetch_buffer import FetchBuffer
from equipoise.client.fetch.fetch_request import (
    FetchLimits,
    PartitionFetch,
    answered,
    completed_fetch,
    diverging_position,
    fetch_request,
    is_retriable,
    new_leader,
    newest_version,
)
from equipoise.client.fetch.fetch_session import FetchSessionHandler
from equipoise.client.fetch.offset_reset import OffsetResets
from equipoise.client.fetch.records import Undecodable
from equipoise.client.fetch.subscription_state import (
    BY_POLICY,
    FetchFailure,
    OffsetOutOfRangeError,
    SubscriptionState,
    TopicPartitionState,
)
from equipoise.client.fetch.validation import UnvalidatedPosition, UnvalidatedPositions, Validation
from equipoise.client.metadata.cluster import Cluster
from equipoise.client.metadata.leader_epochs import NO_EPOCH, EpochAnswers, LogPosition, Truncation
from equipoise.client.metadata.list_offsets import Timestamps
from equipoise.client.metadata.metadata import Leader
from equipoise.client.metadata.offset_lookup import OffsetLookup
from equipoise.client.net.backoff import Backoff
from equipoise.client.net.connection import AsyncConnection
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.client.net.pool import Purpose
from equipoise.member import BrokerNode
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k01_fetch import FetchResponse, PartitionData
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError
from equipoise.wire.schema import ZERO_UUID

log = logging.getLogger(__name__)

_ASIDE_WAIT_MS = 25  # of a short fetch for partitions that had nothing: the next long one takes them in
_OVERDUE_S = 1.5  # of silence after fetch.max.wait.ms, before others are asked for the leader
_AHEAD = 2  # fetches of a partition that may be queued before the next is sent

Plan = dict[int, list[TopicPartitionState]]  # by broker


class _Asked(NamedTuple):
    """What a fetch asks of one partition, and for which epoch of its reader. `number` is the fetch's own."""

    state: TopicPartitionState
    number: int
    epoch: int
    fetch: PartitionFetch

    @property
    def is_current(self) -> bool:
        """Whether nothing has happened to the partition since, and no new leader is known: what an old one sends may be
        lost by now."""
        state = self.state
        return (
            state.epoch == self.epoch
            and state.fetch_offset == self.fetch.offset
            and state.validated_epoch == self.fetch.leader_epoch
        )


_Asking = Mapping[TopicPartition, _Asked]


class _Node:
    """One broker, and what is under way to it: the long fetch, and a short one aside."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.session = FetchSessionHandler()
        self.long: _Flight | None = None
        self.aside: _Flight | None = None

    @property
    def flights(self) -> list[_Flight]:
        return [flight for flight in (self.long, self.aside) if flight is not None]


class _Flight(NamedTuple):
    task: asyncio.Task[None]
    asking: _Asking
    since: float


class Fetcher:
    """Made on the loop. `on_data` is called there when there is something to take from `fetched`."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscriptions: SubscriptionState,
        on_data: Callable[[], None] = lambda: None,
    ) -> None:
        self._lookup = OffsetLookup(cluster, config)
        self.fetch_buffer = FetchBuffer(subscriptions, config, self._wake)
        self._cluster = cluster
        self._config = config
        self._subscriptions = subscriptions
        self._on_data = on_data
        self._loop = asyncio.get_running_loop()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._nodes: dict[int, _Node] = {}
        self._offset_resets = OffsetResets(subscriptions, self._lookup, config, on_data)
        self._validation = Validation(subscriptions, cluster, config)
        self._validations: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._is_running = self._is_woken = False

    def start(self) -> None:
        """Begins to fetch."""
        self._is_running = True
        self._subscriptions.on_change = self._wake
        self._cluster.watchers.append(self._follow_metadata)
        self._watch = self._begin(self._watch_flights())
        self._pump()

    async def close(self) -> None:
        """Ends all that is under way."""
        self._is_running = False
        if self._timer is not None:
            self._timer.cancel()
        await self._offset_resets.close()
        tasks = [flight.task for node in self._nodes.values() for flight in node.flights]
        tasks += [*self._validations, *([self._watch] if self._watch is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def list_offsets(self, timestamps: Timestamps) -> dict[TopicPartition, int | None]:
        """The offset of each timestamp (LATEST, EARLIEST, milliseconds); None: no record is as young.

        Tries until all are found: bound it by a timeout. Raises KafkaError for what waiting does not mend.
        """
        found = await self._lookup.list_offsets(timestamps)
        return {partition: one.offset if one.offset >= 0 else None for partition, one in found.items()}

    def _wake(self) -> None:
        """By any thread."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._pump)

    def _follow_metadata(self) -> None:
        with self._subscriptions.lock:
            is_told = self._validation.check_topics()
        if is_told:
            self._on_data()
        for node in self._nodes.values():
            for flight in node.flights:
                self._release(node, flight)
        self._pump()

    def _pump(self) -> None:
        """Sends whatever can be sent now."""
        self._is_woken = False
        if not self._is_running:
            return
        fetches, unvalidated = self._plan()
        for node_id, plan in unvalidated.items():
            task = self._begin(self._validate(node_id, self._begin_validation(plan)))
            self._validations.add(task)
            task.add_done_callback(self._validations.discard)
        for node_id, plan in fetches.items():
            node = self._nodes.setdefault(node_id, _Node(node_id))
            if node.long is None and node.aside is None:
                node.long = self._take_off(node, plan, is_long=True)
            elif node.long is not None and node.aside is None:
                node.aside = self._take_off(node, plan, is_long=False)
        self._offset_resets.begin()

    def _take_off(self, node: _Node, plan: Sequence[TopicPartitionState], *, is_long: bool) -> _Flight:
        asking = self._ask(plan)
        return _Flight(self._begin(self._fetch(node, asking, is_long=is_long)), asking, self._loop.time())

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._loop.create_task(work)

    # -- brokers that do not answer

    async def _watch_flights(self) -> None:
        """A broker that hangs answers nothing; the others learn of the new leader in time."""
        while True:
            await asyncio.sleep(_OVERDUE_S)
            if any(self._is_overdue(flight) for node in self._nodes.values() for flight in node.flights):
                self._cluster.request_refresh()

    def _is_overdue(self, flight: _Flight) -> bool:
        return self._loop.time() - flight.since > _OVERDUE_S + self._config.fetch_max_wait_ms / 1000

    def _release(self, node: _Node, flight: _Flight) -> None:
        """What others lead by now is fetched from them; a fetch of nothing else is given up."""
        is_gone = node.node_id not in self._cluster.nodes
        with self._subscriptions.lock:
            for partition, asked in flight.asking.items():
                leader = self._cluster.leader(partition)
                has_moved = leader is not None and leader.epoch != asked.fetch.leader_epoch
                if (has_moved or is_gone) and asked.state.in_flight == asked.number:
                    asked.state.in_flight, asked.state.preferred = 0, -1
            is_in_vain = all(asked.state.in_flight != asked.number for asked in flight.asking.values())
        if is_in_vain and self._is_overdue(flight):
            flight.task.cancel()

    # -- what to fetch

    def _plan(self) -> tuple[Plan, Plan]:
        """What may be fetched and is not under way, by the broker to ask, what has least in store first
        (AbstractFetch.prepareFetchRequests); and what a new leader is to validate before."""
        now, subscriptions = self._loop.time(), self._subscriptions
        fetches: Plan = {}
        unvalidated: Plan = {}
        retry_at: list[float] = []
        is_leaderless = False
        with subscriptions.lock:
            queued = subscriptions.takeable_bytes()
            for state in subscriptions.assignment.values():
                if not state.is_fetchable:
                    continue
                if state.retry_at > now:
                    retry_at.append(state.retry_at)
                    continue
                leader = self._cluster.leader(state.partition)
                if leader is None:
                    is_leaderless = True
                elif leader.epoch != state.validated_epoch and not self._validation.is_valid(state, leader):
                    self._plan_validation(state, leader, unvalidated, retry_at)
                elif self._is_full(state, queued):
                    subscriptions.is_short_of_room = True
                else:
                    fetches.setdefault(self._node_of(state, leader, now), []).append(state)
        if is_leaderless:
            self._cluster.request_refresh()
        self._pump_at(min(retry_at, default=0.0))
        for found in fetches.values():
            found.sort(key=lambda one: one.queued_bytes)
        return fetches, unvalidated

    def _plan_validation(
        self, state: TopicPartitionState, leader: Leader, unvalidated: Plan, retry_at: list[float]
    ) -> None:
        if self._validation.is_stale(state, leader):
            self._retry_later(state)
            retry_at.append(state.retry_at)
            self._cluster.request_refresh()
        else:
            unvalidated.setdefault(leader.node_id, []).append(state)

    def _is_full(self, state: TopicPartitionState, queued: int) -> bool:
        most = _AHEAD * self._config.max_partition_fetch_bytes
        return state.queued_bytes >= most or queued >= self._config.queued_max_bytes

    def _node_of(self, state: TopicPartitionState, leader: Leader, now: float) -> int:
        if state.preferred >= 0:
            if now < state.preferred_until and state.preferred in self._cluster.nodes:
                return state.preferred
            state.preferred = -1
        return leader.node_id

    def _pump_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._pump) if when else None

    # -- positions to validate

    def _begin_validation(self, plan: Sequence[TopicPartitionState]) -> UnvalidatedPositions:
        """From here on these are under way, as with fetches."""
        found = {}
        with self._subscriptions.lock:
            for state in plan:
                leader = self._cluster.leader(state.partition)
                if leader is not None:
                    state.in_flight, state.preferred = next(self._numbers), -1
                    position = state.fetch_position
                    asked = UnvalidatedPosition(state, state.in_flight, state.epoch, position, leader)
                    found[state.partition] = asked
        return found

    async def _validate(self, node_id: int, unvalidated: UnvalidatedPositions) -> None:
        answers: EpochAnswers = {}
        try:
            answers = await self._validation.ask(node_id, unvalidated)
        except EquipoiseError as error:
            log.debug("where epochs end: %s", error)
        except Exception:  # a bug of ours: it must not stop fetching in silence
            log.exception("positions could not be validated with broker %d", node_id)
        with self._subscriptions.lock:
            is_told = False
            for partition, asked in unvalidated.items():
                if asked.state.in_flight == asked.number:
                    asked.state.in_flight = 0
                answer = answers.get(partition)
                if answer is None or isinstance(answer, KafkaError):
                    self._retry_later(asked.state)
                if answer is not None and asked.is_current:
                    is_told |= self._validation.complete(asked, answer)
        if len(answers) < len(unvalidated):
            self._cluster.request_refresh()
        if is_told:
            self._on_data()
        self._pump()

    # -- one fetch

    async def _fetch(self, node: _Node, asking: _Asking, *, is_long: bool) -> None:
        try:
            purpose = Purpose.FETCH if is_long else Purpose.FETCH_ASIDE
            connection = await self._cluster.connection(node.node_id, purpose)
            answer = await self._exchange(connection, node, asking, is_long)
            self._take_in(node, asking, answer)
        except asyncio.CancelledError:  # what the broker makes of the session nobody knows
            node.session.reset()
            raise
        except EquipoiseError as error:
            node.session.reset()
            self._give_up(asking, error)
        except Exception:  # a bug of ours: it must not stop fetching in silence
            log.exception("a fetch from broker %d failed in a way that nobody expected", node.node_id)
            self._give_up(asking, KafkaConnectionError("fetching failed"))
        finally:
            self._done(asking)
            if is_long:
                node.long = None
            else:
                node.aside = None
            self._pump()

    def _ask(self, plan: Sequence[TopicPartitionState]) -> _Asking:
        """Before anything else is planned: from here on these are under way."""
        asking, number = {}, next(self._numbers)
        with self._subscriptions.lock:
            for state in plan:
                state.in_flight = number
                leader = self._cluster.leader(state.partition)
                topic = self._cluster.topics.get(state.partition.topic)
                if topic is not None and state.topic_id == ZERO_UUID:
                    state.topic_id = topic.topic_id
                offset, last_fetched_epoch = state.fetch_position
                fetch = PartitionFetch(
                    offset,
                    self._config.max_partition_fetch_bytes,
                    NO_EPOCH if leader is None else leader.epoch,
                    last_fetched_epoch,
                    ZERO_UUID if topic is None else topic.topic_id,
                )
                asking[state.partition] = _Asked(state, number, state.epoch, fetch)
        return asking

    async def _exchange(
        self, connection: AsyncConnection, node: _Node, asking: _Asking, is_long: bool
    ) -> FetchResponse:
        config, limits = self._config, self._limits(asking, is_long)
        fetches = {partition: asked.fetch for partition, asked in asking.items()}
        request = node.session.request(limits, fetches) if is_long else fetch_request(limits, fetches)
        timeout = (config.request_timeout_ms + config.fetch_max_wait_ms) / 1000
        answer = await connection.send(request, FetchResponse, timeout, newest=newest_version(fetches.values()))
        if is_long and not answer.error_code:
            node.session.answered(answer.session_id)
        return answer

    def _limits(self, asking: _Asking, is_long: bool) -> FetchLimits:
        config = self._config
        with self._subscriptions.lock:
            room = (config.queued_max_bytes - self._subscriptions.takeable_bytes()) // (2 * len(self._nodes))
        return FetchLimits(
            max_wait_ms=config.fetch_max_wait_ms if is_long else self._wait_aside(asking),
            max_bytes=max(1, min(config.fetch_max_bytes, room)),
            isolation_level=config.isolation,
            min_bytes=config.fetch_min_bytes,
            rack_id=config.client_rack,
        )

    def _wait_aside(self, asking: _Asking) -> int:
        if any(asked.state.may_have_data for asked in asking.values()):
            return 0
        return min(_ASIDE_WAIT_MS, self._config.fetch_max_wait_ms)

    def _done(self, asking: _Asking) -> None:
        with self._subscriptions.lock:
            for asked in asking.values():
                if asked.state.in_flight == asked.number:
                    asked.state.in_flight = 0

    # -- what came of it

    def _take_in(self, node: _Node, asking: _Asking, answer: FetchResponse) -> None:
        if answer.error_code:
            log.debug("fetch session of broker %d: error %d", node.node_id, answer.error_code)
            node.session.reset()
            return
        nodes = {one.node_id: BrokerNode(one.node_id, one.host, one.port, one.rack) for one in answer.node_endpoints}
        has_news = False
        with self._subscriptions.lock:
            for asked, data in answered(answer, asking):
                is_hinted = data.error_code and self._follow_hint(asked, data, nodes)
                if asked.is_current and not is_hinted:
                    has_news |= self._take_in_partition(asked, data)
        if has_news:
            self._on_data()

    def _follow_hint(self, asked: _Asked, data: PartitionData, nodes: Mapping[int, BrokerNode]) -> bool:
        """The leader that the answer names is asked at once, without new metadata."""
        hint = new_leader(data)
        if hint is None:
            return False
        asked.state.preferred = -1
        leader = Leader(hint.leader_id, hint.leader_epoch)
        return self._cluster.learn_leader(asked.state.partition, leader, nodes.get(hint.leader_id))

    def _take_in_partition(self, asked: _Asked, data: PartitionData) -> bool:
        """Under the lock. True if the application has something to look at."""
        state = asked.state
        if data.error_code:
            return self._refused(asked, data.error_code)
        divergent = diverging_position(data)
        if divergent is not None:
            return self._diverged(asked, divergent)
        state.failures = 0
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            state.preferred = data.preferred_read_replica
            state.preferred_until = self._loop.time() + self._config.metadata_max_age_ms / 1000
        offset = asked.fetch.offset
        try:
            fetch = completed_fetch(data, offset)
        except KafkaError as error:
            told = Undecodable(offset, offset + 1, error).told(state.partition)
            return self._fail(state, FetchFailure(told, passes=False))
        if fetch is None or fetch.next_offset == offset:
            return False
        self._subscriptions.add_completed_fetch(state, fetch)
        return True

    def _diverged(self, asked: _Asked, divergent: LogPosition) -> bool:
        """The broker's log has less of the epoch last fetched. A follower may only be behind: the leader knows."""
        if asked.state.preferred >= 0:
            asked.state.preferred = -1
            return False
        position = LogPosition(asked.fetch.offset, asked.fetch.last_fetched_epoch)
        return self._validation.truncated(asked.state, Truncation(position, divergent))

    def _refused(self, asked: _Asked, code: int) -> bool:
        state = asked.state
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range(asked)
        state.preferred = -1
        self._retry_later(state)
        if is_retriable(code):
            self._cluster.request_refresh()
            return False
        error = self._cluster.config.topic_error(code, state.partition.topic, f"{state.partition} cannot be fetched")
        return self._fail(state, FetchFailure(error, passes=True))

    def _out_of_range(self, asked: _Asked) -> bool:
        state = asked.state
        if state.preferred >= 0:  # a follower may be behind: the leader knows
            state.preferred = -1
        elif state.completed_fetches:  # what is there is read first; then it is tried again
            self._retry_later(state)
        elif self._config.auto_offset_reset == "none":
            error = OffsetOutOfRangeError(state.partition, asked.fetch.offset)
            return self._fail(state, FetchFailure(error, passes=False))
        else:
            log.warning(
                "%s has no offset %d: what was there is deleted by now, or the log has lost its end; "
                "auto.offset.reset=%s decides where to go on",
                state.partition,
                asked.fetch.offset,
                self._config.auto_offset_reset,
            )
            self._subscriptions.look_up(state, BY_POLICY)
        return False

    def _give_up(self, asking: _Asking, error: EquipoiseError) -> None:
        """No answer: the connection is made anew, after its pause, perhaps to another broker."""
        log.debug("fetch: %s", error)
        self._cluster.request_refresh()
        is_lasting = not isinstance(error, KafkaConnectionError)
        with self._subscriptions.lock:
            for asked in asking.values():
                if asked.state.epoch == asked.epoch:
                    asked.state.preferred = -1
                    if is_lasting:
                        self._retry_later(asked.state)
                        self._fail(asked.state, FetchFailure(error, passes=True))
        if is_lasting:
            self._on_data()

    def _retry_later(self, state: TopicPartitionState) -> None:
        state.failures += 1
        state.retry_at = self._loop.time() + self._backoff.pause(state.failures)

    def _fail(self, state: TopicPartitionState, failure: FetchFailure) -> bool:
        state.failure = failure
        self._subscriptions.ready.setdefault(state.partition, state)
        return True
