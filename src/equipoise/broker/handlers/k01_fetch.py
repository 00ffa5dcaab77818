"""Fetch (1). Waits for `min_bytes` up to `max_wait_ms`; appends wake it. The answer has whole batches.

`min_bytes` counts the bytes up to the limits, as in Kafka, which fills them with a cut batch. The first batch is always
sent, however large, so that no limit can stop a consumer.

A consumer with isolation level read_committed gets what lies below the last stable offset, and the list of transactions
in it that were aborted: it drops their records itself (KIP-98).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from equipoise.broker.handlers.leader_hints import LeaderHints
from equipoise.broker.net.purgatory import Completion, DelayedOperation
from equipoise.broker.topics.fetch_sessions import CachedPartition, FetchContext, FetchData, FetchMetadata
from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.wire.apis.k01_fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition
    from equipoise.log.partition import PartitionLog

NAMES_PARTITIONS = True
_FIRST_VERSION_WITH_IDS = 13
_FIRST_WITH_HINTS = 16
_NOT_TOLD = -1  # an epoch
_READ_COMMITTED = 1
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(server: Server, request: FetchRequest, call: Call) -> FetchResponse | None:
    """Answers what is there, or delays the answer until there is enough (KafkaApis.handleFetchRequest,
    ReplicaManager.fetchMessages)."""
    try:
        context = _new_context(server, request, call)
    except KafkaError as error:
        return FetchResponse(error_code=error.code, responses=[])
    fetch = DelayedFetch(server, request, call, context)
    results = fetch.read()
    if request.max_wait_ms <= 0 or fetch.is_satisfied_by(results):
        return fetch.response(results)
    fetch.wait()
    return None


def _new_context(server: Server, request: FetchRequest, call: Call) -> FetchContext:
    by_id = call.version >= _FIRST_VERSION_WITH_IDS
    partitions = [
        CachedPartition((topic.topic_id if by_id else topic.topic, asked.partition), asked)
        for topic in request.topics
        for asked in topic.partitions
    ]
    forgotten = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    metadata = FetchMetadata(request.session_id, request.session_epoch)
    asked = FetchData(partitions, forgotten, by_id)
    return server.fetch_sessions.new_context(metadata, asked, server.clock.now(), call.connection)


class LogReadResult(NamedTuple):
    """What a fetched partition gives now."""

    partition: CachedPartition
    data: PartitionData
    size: int


class DelayedFetch:
    """One Fetch: read when it comes, perhaps delayed, answered once (DelayedFetch.tryComplete)."""

    def __init__(self, server: Server, request: FetchRequest, call: Call, context: FetchContext) -> None:
        self._server = server
        self._request = request
        self._call = call
        self._context = context
        self._max_bytes = min(request.max_bytes, server.config.fetch_max_bytes)
        if call.usage is not None:
            self._max_bytes = int(min(self._max_bytes, server.throttling.max_fetch_bytes(call)))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._operation: DelayedOperation | None = None
        self._is_completing = False
        self._is_follower = not server.allows_all and _replica_of(request) >= 0
        self._is_committed = request.isolation_level == _READ_COMMITTED
        self._watched: list[Partition] = []

    # -- waiting

    def is_satisfied_by(self, results: list[LogReadResult]) -> bool:
        """Whether there are `min_bytes`, or an error to tell."""
        errors = any(one.data.error_code or one.data.diverging_epoch for one in results)
        size = sum(one.size for one in results)
        return errors or not results or size >= self._min_bytes or (size > 0 and self._has_min_bytes())

    def _has_min_bytes(self) -> bool:
        """The same, asked again after an append; most often no, so nothing is read for it."""
        missing = self._min_bytes
        for cached in self._context.partitions:
            try:
                partition = self._find(cached)
                limit = self._limit(partition.log)
                missing -= partition.has_bytes(cached.fetch_offset, cached.max_bytes, missing, limit)
            except KafkaError:
                return True
            if missing <= 0:
                return True
        return False

    def wait(self) -> None:
        """Until an append brings enough, or `max_wait_ms` is over."""
        self._operation = DelayedOperation(self._call, self._server.clock, self._request.max_wait_ms, self._on_complete)
        self._watched = [self._find(cached) for cached in self._context.partitions]
        for partition in self._watched:
            partition.watch(self._try_complete)

    def _try_complete(self) -> None:
        """What else becomes readable in this turn of the loop is then in the same answer."""
        if not self._is_completing and self._has_min_bytes():
            self._is_completing = True
            asyncio.get_running_loop().call_soon(self._complete)

    def _complete(self) -> None:
        if self._operation is not None:
            self._operation.complete(Completion.SATISFIED)

    def _on_complete(self, reason: Completion) -> FetchResponse:
        for partition in self._watched:
            partition.unwatch(self._try_complete)
        if reason is Completion.DISCONNECTED:
            return FetchResponse(responses=[])
        return self.response(self.read())

    # -- answering

    def read(self) -> list[LogReadResult]:
        """What each partition gives, as far as `max_bytes` reach (ReplicaManager.readFromLog)."""
        left, is_first, results = self._max_bytes, True, []
        for cached in self._context.partitions:
            data = self._read_partition(cached, left, is_first)
            size = sum(map(len, data.records)) if isinstance(data.records, list) else 0
            left -= size
            is_first = is_first and not size
            results.append(LogReadResult(cached, data, size))
        return results

    def response(self, results: list[LogReadResult]) -> FetchResponse:
        """Every partition, or in an incremental fetch those with news."""
        if self._call.usage is not None:
            size = sum(one.size for one in results)
            throttle_ms = self._server.throttling.charge_fetch(self._call, self._call.usage, size)
            if throttle_ms:
                return self._throttled_response(throttle_ms)
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        hints = LeaderHints(self._server, self._call) if self._has_moved(results) else None
        for cached, data, size in results:
            if hints is not None and data.error_code in _MOVED:
                data.current_leader = hints.leader_of(cached.topic, cached.index)
            if not self._context.incremental or cached.must_respond(data):
                _topic_of(topics, cached.topic).partitions.append(data)
                self._note(cached, data, size)
        response = FetchResponse(session_id=self._context.session_id, responses=list(topics.values()))
        if hints is not None:
            response.node_endpoints = hints.endpoints
        return response

    def _has_moved(self, results: list[LogReadResult]) -> bool:
        """Whether the client must be told of another leader."""
        return self._call.version >= _FIRST_WITH_HINTS and any(one.data.error_code in _MOVED for one in results)

    def _throttled_response(self, throttle_ms: int) -> FetchResponse:
        """Nothing, for a client above its quota. It comes back with the same offsets, and a full fetch has made no
        session (FetchContext.getThrottledResponse)."""
        session_id = self._context.session_id
        if not self._context.incremental:
            self._server.fetch_sessions.close(session_id)
            session_id = 0
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id, responses=[])

    def _read_partition(self, cached: CachedPartition, left: int, is_first: bool) -> PartitionData:
        try:
            partition = self._find(cached)
            log = partition.log
            is_of_earlier_leader = cached.last_fetched_epoch not in (_NOT_TOLD, partition.leader_epoch)
            if is_of_earlier_leader and (diverging := _diverging(partition, cached)) is not None:
                return diverging
            room, limit = min(cached.max_bytes, left), self._limit(log)
            records = partition.read(cached.fetch_offset, room, at_least_one=is_first, limit_offset=limit)
            aborted = _aborted(log, cached.fetch_offset, records) if self._is_committed else None
        except KafkaError as error:
            return _failed(cached, error.code)
        return PartitionData(
            partition_index=cached.index,
            error_code=ErrorCode.NONE,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )

    def _limit(self, log: PartitionLog) -> int:
        """The end of what the client may read (UnifiedLog.read)."""
        return log.last_stable_offset if self._is_committed else log.high_watermark

    def _find(self, cached: CachedPartition) -> Partition:
        if self._is_follower:
            partition = self._find_for_follower(cached)
        else:
            partition = self._server.find_led(self._call, AclOperation.READ, cached.topic, cached.index)
        partition.check_leader_epoch(cached.leader_epoch)
        return partition

    def _find_for_follower(self, cached: CachedPartition) -> Partition:
        """A follower needs the cluster's permission, and no topic's (KafkaApis.handleFetchRequest)."""
        if not self._server.is_authorized(self._call, AclOperation.CLUSTER_ACTION, CLUSTER):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self._server.topics.partition(cached.topic, cached.index)

    def _note(self, cached: CachedPartition, data: PartitionData, size: int) -> None:
        """Remembers what the session's client now knows."""
        cached.high_watermark, cached.log_start_offset = data.high_watermark, data.log_start_offset
        if self._context.session is not None and size:
            self._context.session.rotate(cached.key)


def _aborted(log: PartitionLog, offset: int, records: Sequence[memoryview]) -> list[AbortedTransaction]:
    """The aborted transactions in what is sent (LocalLog.addAbortedTransactions). Rule T.49."""
    if not records or offset > log.last_aborted:
        return []
    return [
        AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)
        for txn in log.aborted_transactions(offset, log.offset_behind(records))
    ]


def _replica_of(request: FetchRequest) -> int:
    """The broker that fetches; -1: a consumer. From v15 on it is a tagged field."""
    return request.replica_id if request.replica_state is None else request.replica_state.replica_id


def _topic_of(topics: dict[str | bytes, FetchableTopicResponse], key: str | bytes) -> FetchableTopicResponse:
    found = topics.get(key)
    if found is None:
        found = topics[key] = FetchableTopicResponse(partitions=[])
        if isinstance(key, str):
            found.topic = key
        else:
            found.topic_id = key
    return found


def _diverging(partition: Partition, cached: CachedPartition) -> PartitionData | None:
    """Where the log of the client and this one part, if they do (Partition.readRecords, KIP-595)."""
    epoch, end_offset = partition.epoch_end(cached.last_fetched_epoch)
    if epoch < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {cached.last_fetched_epoch} is not known here")
    if epoch == cached.last_fetched_epoch and end_offset >= cached.fetch_offset:
        return None
    found = _failed(cached, ErrorCode.NONE)
    found.high_watermark = found.last_stable_offset = partition.log.high_watermark
    found.log_start_offset = partition.log.log_start_offset
    found.diverging_epoch = DivergingEpoch(epoch=epoch, end_offset=end_offset)
    return found


def _failed(cached: CachedPartition, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=cached.index, error_code=code, high_watermark=-1, aborted_transactions=[], records=b""
    )
