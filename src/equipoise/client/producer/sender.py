"""Sends batches to the leaders of their partitions, which store each once and in order (Sender.sendProducerData,
TransactionManager.canRetry).

Several requests are in flight on a connection. When a batch fails, its partition waits until all its batches are
answered. The sender then sends the failed batches again, one at a time and with the same sequence numbers, until each
is stored or its time is up. The broker knows the numbers, and does not store a batch twice.

A broker accepts any first sequence number of an unknown producer. The first batch therefore goes alone, a partition's
batches go to one broker at a time, and the sender uses a new connection only after all batches of the old one have
failed. Otherwise a broker could store a later batch without the earlier ones, and then take these for stored.

A batch that is given up leaves a gap in the sequence of its partition, which a broker does not accept. The next batches
therefore get new numbers, under a new producer id (KIP-360, TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded).
The broker refused the batches after the gap as out of order and has not stored them: they get new numbers too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable
from functools import partial

from equipoise.client.metadata.cluster import Cluster
from equipoise.client.metadata.list_offsets import PASSING
from equipoise.client.metadata.metadata import Leader
from equipoise.client.net.backoff import Backoff
from equipoise.client.net.connection import AsyncConnection
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.client.net.pool import Purpose
from equipoise.client.producer.accumulator import PartitionQueue, RecordAccumulator
from equipoise.client.producer.config import ACKS, ProducerConfig
from equipoise.client.producer.delivery import ProducerBatch
from equipoise.client.producer.identity import WITHOUT_IDS, IdempotentIdentity, Identity, ProducerIdAndEpoch
from equipoise.client.transactions.verdicts import SOON_S
from equipoise.member import BrokerNode
from equipoise.member.partitions import TopicPartition
from equipoise.security.denials import AuthorizationError
from equipoise.settings import INT_MAX
from equipoise.wire.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError
from equipoise.wire.records.batch import HEADER_SIZE
from equipoise.wire.records.build import TRANSACTIONAL, close_batch, frame_batch

log = logging.getLogger(__name__)

_REPEATED = PASSING | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.CONCURRENT_TRANSACTIONS,  # the transaction before is being completed
}
_MOVED = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
_STORED = {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
_OUT_OF_ORDER = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
_NEVER = float("inf")
_LOOK_S = 0.5  # at deadlines, when nothing else happens


class Sender:
    """Everything here runs on one loop; `wake` may be called by any thread."""

    def __init__(self, cluster: Cluster, config: ProducerConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._is_woken = False
        self.accumulator = RecordAccumulator(config, self.wake)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._in_flight: dict[int, int] = {}  # requests by node
        self._connections: dict[int, AsyncConnection] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self.identity: Identity = IdempotentIdentity(
            cluster, config, note=self._note, give_up=self._give_up_all, found=self._news.set
        )
        self._gaps: set[TopicPartition] = set()  # behind which batches are numbered anew
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self.unseen: EquipoiseError | None = None  # the first failure that nobody watches
        cluster.watchers.append(self._news.set)

    def start(self) -> None:
        """Begins to send, on the running loop."""
        self._main = asyncio.create_task(self._run())

    async def close(self) -> None:
        """What is still under way is given up."""
        self.accumulator.close()
        working = self._main, *self._tasks, *self._connecting.values()
        tasks = [task for task in working if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.identity.close()
        closed = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the producer was closed before the record was stored")
        for queue in self.accumulator.busy():
            for batch in [*queue.under_way, *queue.failed, *queue.waiting]:
                self._conclude(batch, closed)

    def wake(self) -> None:
        """One crossing of threads for all batches that begin before the sender looks."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._news.set)

    async def flush(self) -> None:
        """Returns when every batch there is now has its fate."""
        for batch in self.accumulator.flush():
            waiter: asyncio.Future[None] = self._loop.create_future()
            batch.when_done(0, partial(_release, waiter))
            await waiter

    # -- the loop

    async def _run(self) -> None:
        while True:
            self._news.clear()
            self._is_woken = False
            try:
                pause = self._look()
            except Exception:  # a bug of ours: records would wait for ever, in silence
                log.exception("batches could not be sent")
                pause = _LOOK_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()

    def _look(self) -> float:
        """Sends what is due. Returns the seconds until something may be, if nothing happens before."""
        if (refusal := self._cluster.refusal or self.identity.dropping) is not None:
            self._give_up_all(refusal)
        now = time.monotonic()
        due = now + _LOOK_S
        by_node: dict[int, list[ProducerBatch]] = {}
        for queue in self.accumulator.busy():
            self._expire(queue, now)
            at = self._due(queue, now)
            if at > now:
                due = min(due, at)
            elif (node_id := self._sendable_to(queue)) is not None:
                by_node.setdefault(node_id, []).extend(self._take(queue, node_id))
        for node_id, batches in by_node.items():
            for portion in self._portions(batches):
                self._send(node_id, portion)
        return max(due - now, 0.0) if not self._has_more(now) else 0.0

    def _has_more(self, now: float) -> bool:
        """Whether a partition has another batch for a request that may be sent at once."""
        return any(
            self._due(queue, now) <= now and self._sendable_to(queue) is not None for queue in self.accumulator.busy()
        )

    def _sendable_to(self, queue: PartitionQueue) -> int | None:
        """The broker to which the partition's next batch may go at once; None: there is none yet."""
        node_id = self._node(queue)
        return node_id if node_id is not None and self._can_send(node_id, queue.partition) else None

    def _due(self, queue: PartitionQueue, now: float) -> float:
        """When the partition's next batch may go."""
        if queue.failed:
            return _NEVER if queue.under_way else queue.retry_at
        if not queue.waiting or (queue.under_way and not self._may_follow(queue)):
            return _NEVER
        return now if self.accumulator.is_ready(queue, now) else queue.waiting[0].ready_at

    def _may_follow(self, queue: PartitionQueue) -> bool:
        """Whether a batch may go while others are under way. What is sent again goes alone. What was numbered under an
        old id may have to be sent again, and nothing behind it may overtake it. So a new id goes alone as well, until
        the broker has stored a batch under it; or goes with others, if the broker refuses a gap at its beginning."""
        if queue.under_way[-1].is_repeated:
            return False
        if not self._config.enable_idempotence or queue.known_as is self.identity.current:
            return True
        return self.identity.refuses_gaps and queue.under_way[0].identity is self.identity.current

    def _node(self, queue: PartitionQueue) -> int | None:
        """The leader, unless batches are still under way to the one before."""
        leader = self._cluster.leader(queue.partition)
        if leader is None:
            self._cluster.request_refresh()
            return None
        return None if queue.under_way and queue.node_id != leader.node_id else leader.node_id

    def _can_send(self, node_id: int, partition: TopicPartition) -> bool:
        if self._config.enable_idempotence and self.identity.current is None:
            self.identity.ask()
            return False
        connection, in_flight = self._connections.get(node_id), self._in_flight.get(node_id, 0)
        if connection is None or connection.is_closed:
            if not in_flight and node_id not in self._connecting:
                self._connecting[node_id] = asyncio.create_task(self._connect(node_id))
            return False
        has_room = in_flight < self._config.max_in_flight_requests_per_connection
        return has_room and self.identity.may_send_to(partition)

    async def _connect(self, node_id: int) -> None:
        try:
            self._connections[node_id] = await self._cluster.connection(node_id, Purpose.PRODUCE)
        except EquipoiseError as error:
            self._note(error, node_id)
            self._cluster.request_refresh()
            await asyncio.sleep(self._backoff.pause(1))
        finally:
            del self._connecting[node_id]
            self._news.set()

    def _take(self, queue: PartitionQueue, node_id: int) -> list[ProducerBatch]:
        """The next batch, numbered; from now on it is under way. None, if it cannot be built: it is given up."""
        if queue.failed:
            batch = next(batch for batch in queue.failed if not batch.is_passed_over)
            queue.failed.remove(batch)
            batch.is_repeated = True
        else:
            batch = self.accumulator.take(queue)
        if not self._build(batch):
            return []
        if batch.identity is None and (identity := self.identity.current) is not None:
            batch.identity, batch.sequence = identity, identity.take(batch)
        queue.under_way.append(batch)
        queue.node_id = node_id
        return [batch]

    def _build(self, batch: ProducerBatch) -> bool:
        """Whether the batch has its bytes. It is in no queue here: were the error to pass by, its records would never
        have a fate, and the records of a transaction would be missing in its commit."""
        try:
            if batch.header is None:
                batch.header, batch.body = close_batch(batch.rows, self._config.codec)
        except Exception as error:  # send() refuses what it knows of; anything may come from the codec
            log.exception("a batch for %s could not be built", batch.partition)
            what = f"{_words(batch)} not stored: the batch cannot be built: {error!r}"
            self._give_up(batch, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, what))
            return False
        return True

    def _portions(self, batches: list[ProducerBatch]) -> Iterable[list[ProducerBatch]]:
        """Requests of at most max.request.size, or of one batch."""
        portion: list[ProducerBatch] = []
        size = 0
        for batch in batches:
            more = HEADER_SIZE + len(batch.body)
            if portion and size + more > self._config.max_request_size:
                yield portion
                portion, size = [], 0
            portion.append(batch)
            size += more
        if portion:
            yield portion

    # -- a request

    def _send(self, node_id: int, batches: list[ProducerBatch]) -> None:
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        task = asyncio.create_task(self._produce(node_id, self._connections[node_id], batches))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _produce(self, node_id: int, connection: AsyncConnection, batches: list[ProducerBatch]) -> None:
        try:
            request = self._request(batches)
            if request.acks == 0:
                await connection.tell(request, WITHOUT_IDS)
                answer = None
            else:
                answer = await self._answer(node_id, connection, request, batches)
        except EquipoiseError as error:
            for batch in batches:
                self._fail(batch, error)
            self._cluster.request_refresh()
        else:
            self._take_answer(batches, answer)
        finally:
            self._in_flight[node_id] -= 1
            self._news.set()

    async def _answer(
        self, node_id: int, connection: AsyncConnection, request: ProduceRequest, batches: list[ProducerBatch]
    ) -> ProduceResponse:
        """Of the leader. One that is silent, and that nobody takes for the leader any more, is left: the connection
        goes with it, because all that is under way on it must fail before anything is sent again."""
        timeout, partitions = self._config.request_timeout_ms / 1000, [batch.partition for batch in batches]
        answer = connection.send(request, ProduceResponse, timeout, newest=self.identity.newest_produce)
        try:
            return await self._cluster.while_leading(node_id, partitions, answer)
        except KafkaConnectionError:
            connection.close()
            raise

    def _request(self, batches: list[ProducerBatch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        transactional_id = self.identity.transactional_id
        for batch in batches:
            name, number = batch.partition
            topic = topics.setdefault(name, TopicProduceData(name=name, partition_data=[]))
            framed = _framed(batch, is_transactional=transactional_id is not None)
            topic.partition_data.append(PartitionProduceData(index=number, records=memoryview(framed)))
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=ACKS[self._config.acks],
            timeout_ms=min(self._config.request_timeout_ms, INT_MAX),
            topic_data=list(topics.values()),
        )

    def _take_answer(self, batches: list[ProducerBatch], answer: ProduceResponse | None) -> None:
        if answer is None:
            for batch in batches:
                self._store(batch)
            return
        nodes = {one.node_id: BrokerNode(one.node_id, one.host, one.port, one.rack) for one in answer.node_endpoints}
        found = {TopicPartition(t.name, one.index): one for t in answer.responses for one in t.partition_responses}
        for batch in batches:
            one = found.get(batch.partition)
            if one is None:
                self._fail(batch, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer lacks the partition"))
            else:
                self._judge(batch, one, nodes)

    def _judge(self, batch: ProducerBatch, answer: PartitionProduceResponse, nodes: dict[int, BrokerNode]) -> None:
        code = answer.error_code
        if code in _STORED:
            batch.base_offset, batch.append_time = answer.base_offset, answer.log_append_time_ms
            self._store(batch)
            return
        what = answer.error_message or f"{batch.partition} was refused"
        error = self._config.topic_error(code, batch.partition.topic, what)
        if code in _OUT_OF_ORDER and self._config.enable_idempotence:
            self._fail_out_of_order(batch, error)
        elif code in _REPEATED:
            self._fail(batch, error, at_once=self._learn(batch, answer, nodes))
        else:
            self._give_up(batch, _refused(batch, error))

    def _learn(self, batch: ProducerBatch, answer: PartitionProduceResponse, nodes: dict[int, BrokerNode]) -> bool:
        """The new leader, where the old one tells it (KIP-951): then it is not waited for. Else it is asked for."""
        hint = answer.current_leader
        if hint is not None and hint.leader_id >= 0:
            leader = Leader(hint.leader_id, hint.leader_epoch)
            self._cluster.learn_leader(batch.partition, leader, nodes.get(hint.leader_id))
            known = self._cluster.leader(batch.partition)
            if known is not None and known.node_id != self._queue(batch).node_id:
                return True
        if answer.error_code in _MOVED:
            self._cluster.request_refresh()
        return False

    # -- fates

    def _queue(self, batch: ProducerBatch) -> PartitionQueue:
        return self.accumulator.queues[batch.partition]

    def _store(self, batch: ProducerBatch) -> None:
        queue = self._queue(batch)
        queue.under_way.remove(batch)
        queue.known_as = batch.identity
        queue.failures = 0
        queue.retry_at = 0.0
        for passed in [one for one in queue.failed if one.is_passed_over]:
            queue.failed.remove(passed)
            self._conclude(passed, None)
        self._conclude(batch, None)
        if not queue.failed and not queue.under_way:
            self._gaps.discard(batch.partition)

    def _fail(self, batch: ProducerBatch, error: EquipoiseError, *, at_once: bool = False) -> None:
        """It will be sent again."""
        queue = self._queue(batch)
        queue.under_way.remove(batch)
        batch.failure = error
        queue.failed.append(batch)
        queue.failed.sort(key=lambda one: one.number)
        if not queue.under_way:
            queue.retry_at = 0.0 if at_once else time.monotonic() + self._pause(queue, error)

    def _pause(self, queue: PartitionQueue, error: EquipoiseError) -> float:
        """The coordinator completes the transaction before this one within milliseconds."""
        if isinstance(error, KafkaError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            return SOON_S
        queue.failures += 1
        return self._backoff.pause(queue.failures)

    def _fail_out_of_order(self, batch: ProducerBatch, error: EquipoiseError) -> None:
        """Behind a gap it is not stored, and is numbered anew. Behind one that failed it is not stored either: it is
        sent again. If it is out of order though it was sent again, alone, the broker was killed and
        remembers only the last batch it had of us, and finds those before it out of order instead of known. They are
        passed over: where the broker has, or takes, one that is behind them, it has them too."""
        self._fail(batch, error)
        if batch.partition in self._gaps and batch.identity is not self.identity.current:
            _unnumber(batch)
            return
        if not batch.is_repeated:
            return
        batch.is_passed_over = True
        queue = self._queue(batch)
        if all(one.is_passed_over for one in queue.failed):
            self._begin_anew(queue, error)

    def _begin_anew(self, queue: PartitionQueue, error: EquipoiseError) -> None:
        """The broker has none of these batches, and lacks those before them: an unclean election has cut the log. They
        are sent under new numbers until delivery.timeout.ms is over (KIP-360, TransactionManager.canRetry). In a
        transaction nothing may be missing: they fail, and the application aborts."""
        failed = list(queue.failed)
        self._leave_gap(queue.partition, error)
        if self.identity.transactional_id is None:
            for one in failed:
                _unnumber(one)
            return
        queue.failed = []
        for one in failed:
            self._conclude(one, _refused(one, error))

    def _give_up(self, batch: ProducerBatch, error: EquipoiseError) -> None:
        queue = self._queue(batch)
        if batch in queue.under_way:
            queue.under_way.remove(batch)
        if batch.identity is not None:
            self._leave_gap(batch.partition, error)
        else:
            self.identity.lose_batch(error, is_numbered=False)
        self._conclude(batch, error)

    def _leave_gap(self, partition: TopicPartition, error: EquipoiseError) -> None:
        if self.identity.transactional_id is None:  # else nothing behind the gap is sent any more
            self._gaps.add(partition)
        self.identity.lose_batch(error, is_numbered=True)

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        """All that is overdue, or the next would wait until the sender looks again
        (RecordAccumulator.expiredBatches)."""
        for batch in [one for one in queue.failed if one.deadline < now]:
            queue.failed.remove(batch)
            self._give_up_late(batch)
        while queue.waiting and queue.waiting[0].deadline < now:
            self._give_up_late(self.accumulator.take(queue))

    def _give_up_late(self, batch: ProducerBatch) -> None:
        why = batch.failure or self._cluster.last_failure or "its leader was not found"
        late = f"not stored within {self._config.delivery_timeout_ms} ms (delivery.timeout.ms): {why}"
        self._give_up(batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{_words(batch)} {late}"))

    def be_refused(self) -> None:
        """The cluster refuses TLS or the login, for good."""
        self._news.set()

    def _give_up_all(self, refusal: EquipoiseError) -> None:
        for queue in list(self.accumulator.busy()):
            failed, queue.failed = queue.failed, []
            while queue.waiting:
                failed.append(queue.waiting[0])
                self.accumulator.take(queue)
            for batch in failed:
                self._give_up(batch, refusal)

    def _conclude(self, batch: ProducerBatch, error: EquipoiseError | None) -> None:
        if error is not None and not batch.is_watched and self.unseen is None:
            self.unseen = error
        self.accumulator.release(batch)
        batch.conclude(error)

    def _note(self, error: EquipoiseError, node_id: int | None = None) -> None:
        """Every batch that waits for an id, or for this node, will say why, if its time runs out."""
        for queue in self.accumulator.busy():
            leader = self._cluster.leader(queue.partition)
            if node_id is None or (leader is not None and leader.node_id == node_id):
                for batch in (*queue.failed, *list(queue.waiting)):
                    batch.failure = error


def _unnumber(batch: ProducerBatch) -> None:
    """Its numbers are worth nothing any more; it gets others when it is sent again."""
    batch.identity, batch.sequence, batch.is_passed_over = None, -1, False


def _release(waiter: asyncio.Future[None], *_: object) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _framed(batch: ProducerBatch, *, is_transactional: bool) -> bytearray:
    assert batch.header is not None
    header = batch.header
    if isinstance(batch.identity, ProducerIdAndEpoch):
        header = header._replace(
            producer_id=batch.identity.producer_id,
            producer_epoch=batch.identity.producer_epoch,
            base_sequence=batch.sequence,
            attributes=header.attributes | (TRANSACTIONAL if is_transactional else 0),
        )
    return frame_batch(header, batch.body)


def _refused(batch: ProducerBatch, error: EquipoiseError) -> KafkaError:
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    remedy = ""
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        remedy = f", {len(batch.body)} bytes: raise max.message.bytes of the topic"
        remedy += " or lower batch.size" if batch.count > 1 else ""
    kind = AuthorizationError if isinstance(error, AuthorizationError) else KafkaError
    return kind(code, f"{_words(batch)} not stored: {error}{remedy}")


def _words(batch: ProducerBatch) -> str:
    more = f" and {batch.count - 1} more" if batch.count > 1 else ""
    return f"{batch.label}{more}, for {batch.partition},"
