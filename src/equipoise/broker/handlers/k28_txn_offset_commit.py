"""TxnOffsetCommit (28). The handler answers unknown partitions; the transaction's coordinator and the group decide on
the rest.

Up to v4 the group's partition must have been added to the transaction; from v5 on this request adds it (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from equipoise.broker.groups.shards import GroupShard
from equipoise.broker.handlers.committed_topics import sort_out
from equipoise.broker.handlers.groups import authorize_group, caller_of
from equipoise.broker.handlers.transactions import authorize_id
from equipoise.broker.topics.topics import OFFSETS_TOPIC
from equipoise.coordinator.offsets.commit import txn_commit_response
from equipoise.coordinator.offsets.transactional import commit_transactional_offsets
from equipoise.coordinator.placement import partition_for
from equipoise.coordinator.step import Producer
from equipoise.coordinator.transactions.config import EPOCH_BUMP
from equipoise.coordinator.transactions.requests import AddPartitions, Answer
from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

NAMES_PARTITIONS = True
_FIRST_WITH_LOADING = 2
_FIRST_WITH_ABORTABLE = 4
_FIRST_THAT_ADDS = 5
_UNAVAILABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


def handle(server: Server, request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse | None:
    """Asks the transaction, then the group (KafkaApis.handleTxnOffsetCommitRequest). Rules T.65 and T.66."""
    try:
        authorize_id(server, call, AclOperation.WRITE, request.transactional_id)
        authorize_group(server, call, request.group_id)
    except KafkaError as error:
        return txn_commit_response(request, error.code)
    request.topics, refused, known = sort_out(
        server, call, request.topics, key_of=lambda topic: topic.name, refuse=_refuse
    )
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    topic_ids = {topic.name: topic.topic_id for topic in known}
    _Committing(server, request, call, refused, topic_ids).begin()
    return None


@dataclass(slots=True)
class _Committing:
    """One request: answered when the transaction has the group's partition, and the offsets are durable."""

    _server: Server
    _request: TxnOffsetCommitRequest
    _call: Call
    _refused: list[TxnOffsetCommitResponseTopic]
    _topic_ids: dict[str, bytes]
    _producer: Producer = field(init=False)
    _index: int = field(init=False)  # of the group's shard
    _is_admitted: bool = False
    _answer: Answer | None = None
    _response: TxnOffsetCommitResponse | None = None

    def __post_init__(self) -> None:
        self._producer = Producer(self._request.producer_id, self._request.producer_epoch)
        self._index = partition_for(self._request.group_id, len(self._server.group_coordinator.shards))

    @property
    def _shard(self) -> GroupShard:
        return self._server.group_coordinator.shards[self._index]

    def begin(self) -> None:
        """A group that cannot be asked is not added to a transaction."""
        error = self._unavailable()
        if error is not ErrorCode.NONE:
            self._finish(txn_commit_response(self._request, self._known(error)))
            return
        partition = OFFSETS_TOPIC, self._index
        asked = AddPartitions(self._request.transactional_id, *self._producer, frozenset({partition}))
        coordinator = self._server.transaction_coordinator
        if self._call.version >= _FIRST_THAT_ADDS:
            asked = asked._replace(client_transaction_version=EPOCH_BUMP, is_beside=True)
            coordinator.ask(asked, self, self._call.version)
        elif self._server.config.transaction_partition_verification_enable:
            self._verified(coordinator.verify(asked)[partition])
        else:
            self._verified(ErrorCode.NONE)

    def _unavailable(self) -> ErrorCode:
        if not self._request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        try:
            self._server.transaction_coordinator.unknown.check(self._shard.partition, self._producer.producer_id)
        except KafkaError:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._shard.core.unavailable

    def _verified(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.admitted()
        self.reply(Answer(error))

    def admitted(self) -> None:
        """The transaction has the partition, or its record is on the way: the offsets go with it. Rule T.63."""
        self._is_admitted = True
        token = _OffsetsToken(self)
        caller, now = caller_of(self._call, token), self._server.clock.now()
        core, ids = self._shard.core, self._topic_ids
        self._shard.run(commit_transactional_offsets(core, self._request, caller, now, topic_ids=ids))

    def reply(self, answer: Answer) -> None:
        """The transaction has the partition for good, or has not."""
        self._answer = answer
        if answer.error_code is not ErrorCode.NONE:
            if self._is_admitted:
                self._take_back()
            self._response = txn_commit_response(self._request, self._told(answer.error_code))
        self._try_complete()

    def _take_back(self) -> None:
        """No coordinator knows of the offsets."""
        partition = self._server.topics.partition(OFFSETS_TOPIC, self._index)
        self._shard.write_gathered(self._producer.producer_id)
        self._server.transaction_coordinator.unknown.abort(partition, *self._producer)

    def offsets_written(self, response: TxnOffsetCommitResponse) -> None:
        """The group has answered."""
        if self._response is None:
            self._response = response
        self._try_complete()

    def _try_complete(self) -> None:
        if self._answer is not None and self._response is not None:
            self._finish(self._response)
            self._answer = None  # once

    def _finish(self, response: TxnOffsetCommitResponse) -> None:
        self._call.reply(TxnOffsetCommitResponse(topics=[*self._refused, *response.topics]))

    def _known(self, error: ErrorCode) -> ErrorCode:
        """Versions 0 and 1 have no word for a group that is loaded (KafkaApis.handleTxnOffsetCommitRequest)."""
        is_old = self._call.version < _FIRST_WITH_LOADING and error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_old else error

    def _told(self, error: ErrorCode) -> ErrorCode:
        """An error of the transaction's coordinator as this API tells it. Rule T.66."""
        if error is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if error is ErrorCode.TRANSACTION_ABORTABLE and self._call.version < _FIRST_WITH_ABORTABLE:
            return ErrorCode.INVALID_TXN_STATE
        if error is ErrorCode.CONCURRENT_TRANSACTIONS and self._call.version >= _FIRST_THAT_ADDS:
            return error
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if error in _UNAVAILABLE else error


class _OffsetsToken:
    """The caller's token for the group."""

    def __init__(self, committing: _Committing) -> None:
        self._committing = committing

    def reply(self, response: TxnOffsetCommitResponse) -> None:
        """The group's answer."""
        self._committing.offsets_written(response)


def _refuse(
    topic: TxnOffsetCommitRequestTopic, rows: Iterable[TxnOffsetCommitRequestPartition], error: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    answers = [TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error) for row in rows]
    return TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers)
