"""One broker's side of a script: requests are put, answers and what can be seen afterwards become plain values.

Producer ids are named in the order in which they are heard of: they differ between brokers. After each step the side
waits until the transaction is at rest, so that both brokers are asked the same thing in the same state.
"""

from __future__ import annotations

import time
from operator import attrgetter
from typing import Any

from equipoise.wire.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from equipoise.wire.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest
from equipoise.wire.apis.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from equipoise.wire.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from equipoise.wire.apis.k26_end_txn import EndTxnRequest
from equipoise.wire.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from equipoise.wire.apis.k65_describe_transactions import DescribeTransactionsRequest
from equipoise.wire.errors import EquipoiseError, ErrorCode
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.schema import Message
from proving.conformance.line import Line
from proving.conformance.transactions.steps import (
    TV2_END,
    Add,
    AddOffsets,
    CommitOffsets,
    End,
    Init,
    Send,
    Step,
)

PARTITIONS = 2
_BY_ID = 13
_LOADING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
_PATIENCE_S = 30.0
_LOOK_AGAIN_S = 0.005
_STRANGER = 999_999_999  # a producer id that nobody has
_NOW = 1_700_000_000_000
_COMMITTED = 1
_LATEST = -1


class Known:
    """What a producer has heard: its id and epoch, and how far it is in each partition."""

    def __init__(self) -> None:
        self.producer_id = self.epoch = -1
        self.sequences: dict[int, int] = {}

    def hear(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch


class Side:
    """One broker, one script: `topic`, the transactional id and the group are the script's own."""

    def __init__(self, port: int, topic: str, topic_id: bytes) -> None:
        self._line = Line(port, "conformance")
        self._topic = topic
        self._topic_id = topic_id
        self._name = f"id-{topic}"
        self._group = f"group-{topic}"
        self._known: dict[int, Known] = {}
        self._names: dict[int, str] = {-1: "-", _STRANGER: "stranger"}

    def close(self) -> None:
        self._line.close()

    def _call(self, request: Message, version: int) -> Any:
        return self._line.call(request, version)

    def _producer(self, number: int) -> Known:
        return self._known.setdefault(number, Known())

    def _said(self, step: Step) -> dict[str, Any]:
        """What a producer says about itself, bent as the step wants."""
        known = self._producer(step.producer)
        is_wrong = getattr(step, "wrong_id", False)
        epoch = max(min(known.epoch + step.epoch, 32767), -1)
        return {"producer_id": _STRANGER if is_wrong else known.producer_id, "producer_epoch": epoch}

    def _symbol(self, producer_id: int) -> str:
        return self._names.setdefault(producer_id, f"producer {len(self._names) - 1}")

    # -- steps

    def play(self, step: Step) -> Any:
        """The answer, when the broker is not busy with loading; then the transaction comes to rest."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            codes, told = self._ask(step)
            if not _LOADING & {*codes} or time.monotonic() > deadline:
                break
            time.sleep(_LOOK_AGAIN_S)
        self._rest()
        return [ErrorCode(code).name for code in codes], told

    def _ask(self, step: Step) -> tuple[list[int], Any]:
        match step:
            case Init():
                return self._init(step)
            case Add():
                return self._add(step)
            case AddOffsets():
                request = AddOffsetsToTxnRequest(transactional_id=self._name, group_id=self._group, **self._said(step))
                return [self._call(request, step.version).error_code], None
            case Send():
                return self._send(step)
            case CommitOffsets():
                return self._commit_offsets(step)
            case End():
                return self._end(step)

    def _init(self, step: Init) -> tuple[list[int], Any]:
        said: dict[str, Any] = {}
        if step.brings and step.version >= 3:
            said = self._said(step)
            if step.id_only:
                said["producer_epoch"] = -1
        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=step.timeout_ms, **said)
        answer = self._call(request, step.version)
        return [answer.error_code], self._hear(step.producer, answer)

    def _hear(self, number: int, answer: Any) -> tuple[str, int]:
        if answer.error_code == ErrorCode.NONE:
            self._producer(number).hear(answer.producer_id, answer.producer_epoch)
        return self._symbol(answer.producer_id), answer.producer_epoch

    def _add(self, step: Add) -> tuple[list[int], Any]:
        topics: dict[str, list[int]] = {}
        for one in step.partitions:
            topics.setdefault(self._topic if one.isdigit() else one, []).append(int(one) if one.isdigit() else 0)
        said = self._said(step)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=said["producer_id"],
            v3_and_below_producer_epoch=said["producer_epoch"],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=ids) for name, ids in topics.items()],
        )
        rows = sorted(
            (topic.name, row.partition_index, row.partition_error_code)
            for topic in self._call(request, step.version).results_by_topic_v3_and_below
            for row in topic.results_by_partition
        )
        return [code for *_, code in rows], None

    def _send(self, step: Send) -> tuple[list[int], Any]:
        said, known = self._said(step), self._producer(step.producer)
        rows = []
        for index in step.partitions:
            sequence = known.sequences.get(index, 0) + step.gap
            batch = build_batch(
                [Record(0, _NOW, None, b"value")],
                base_sequence=sequence if said["producer_id"] >= 0 else -1,
                transactional=step.is_transactional,
                **said,
            )
            rows.append(PartitionProduceData(index=index, records=bytes(batch)))
        is_by_id = step.version >= _BY_ID
        topic = TopicProduceData(
            name="" if is_by_id else self._topic,
            topic_id=self._topic_id if is_by_id else bytes(16),
            partition_data=rows,
        )
        request = ProduceRequest(
            transactional_id=None if step.without_id else self._name, acks=-1, timeout_ms=30_000, topic_data=[topic]
        )
        answers = sorted(self._call(request, step.version).responses[0].partition_responses, key=attrgetter("index"))
        for answer in answers:
            if answer.error_code == ErrorCode.NONE and step.epoch == 0:
                known.sequences[answer.index] = known.sequences.get(answer.index, 0) + step.gap + 1
        return [answer.error_code for answer in answers], [answer.base_offset for answer in answers]

    def _commit_offsets(self, step: CommitOffsets) -> tuple[list[int], Any]:
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self._name,
            group_id=self._group,
            generation_id=step.generation if step.version >= 3 else -1,
            member_id=step.member_id if step.version >= 3 else "",
            topics=[TxnOffsetCommitRequestTopic(name=self._topic, partitions=[row])],
            **self._said(step),
        )
        (topic,) = self._call(request, step.version).topics
        return [row.error_code for row in topic.partitions], None

    def _end(self, step: End) -> tuple[list[int], Any]:
        request = EndTxnRequest(transactional_id=self._name, committed=step.commit, **self._said(step))
        answer = self._call(request, step.version)
        if step.version < TV2_END:
            return [answer.error_code], None
        return [answer.error_code], self._hear(step.producer, answer)

    # -- what can be seen

    def _describe(self) -> Any:
        (found,) = self._call(DescribeTransactionsRequest(transactional_ids=[self._name]), 0).transaction_states
        return found

    def _rest(self) -> None:
        """The last marker is written, and the coordinator knows it."""
        deadline = time.monotonic() + _PATIENCE_S
        while (found := self._describe()).transaction_state.startswith("Prepare") or found.error_code in _LOADING:
            if time.monotonic() > deadline:
                raise EquipoiseError(f"{self._name} does not come to rest: {found}")
            time.sleep(_LOOK_AGAIN_S)

    def view(self) -> dict[str, Any]:
        """The id, its partitions, and the group's offset."""
        found = self._describe()
        topics = sorted((one.topic, sorted(one.partitions)) for one in found.topics)
        return {
            "id": (ErrorCode(found.error_code).name, found.transaction_state, found.transaction_timeout_ms),
            "producer": (self._symbol(found.producer_id) if found.transaction_state else "-", found.producer_epoch),
            "has begun": found.transaction_start_time_ms > 0,
            "partitions": [(name, ids if name == self._topic else len(ids)) for name, ids in topics],
            "end offsets": self._end_offsets(0),
            "last stable offsets": self._end_offsets(_COMMITTED),
            "offset": self._offset(),
        }

    def _end_offsets(self, isolation_level: int) -> list[tuple[int, int]]:
        rows = [ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in range(PARTITIONS)]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=self._topic, partitions=rows)],
        )
        (topic,) = self._call(request, 7).topics
        found = sorted(topic.partitions, key=attrgetter("partition_index"))
        return [(row.error_code, row.offset) for row in found]

    def _offset(self) -> Any:
        topics = [OffsetFetchRequestTopic(name=self._topic, partition_indexes=[0])]
        answer = self._call(OffsetFetchRequest(group_id=self._group, topics=topics, require_stable=True), 7)
        if answer.error_code or not answer.topics:
            return ErrorCode(answer.error_code).name
        (row,) = answer.topics[0].partitions
        return ErrorCode(row.error_code).name, row.committed_offset
