"""A transactional producer on the raw protocol, and the requests around its transactions."""

from __future__ import annotations

from typing import Any

from equipoise.wire.apis.k00_produce import PartitionProduceResponse
from equipoise.wire.apis.k01_fetch import PartitionData
from equipoise.wire.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest
from equipoise.wire.apis.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from equipoise.wire.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from equipoise.wire.apis.k26_end_txn import EndTxnRequest
from equipoise.wire.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import BY_NAME, batch_of, fetch, produce_request, produced
from tests.broker.rawclient import RawClient

READ_COMMITTED = 1
AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class RawProducer:
    """One transactional id. `bumps`: as a client of transaction version 2, which adds nothing beforehand."""

    def __init__(self, client: RawClient, transactional_id: str = "tx", *, bumps: bool = True) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.bumps = bumps
        self.sequences: dict[tuple[str, int], int] = {}
        self.init()

    def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        answer = self.client.call(request, 4)
        while answer.error_code in AGAIN:
            answer = self.client.call(request, 4)
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences = {}

    @property
    def who(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def batch(self, *values: bytes, topic: str = "t", partition: int = 0, **options: Any) -> bytearray:
        return batch_of(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences.get((topic, partition), 0),
            transactional=True,
            **options,
        )

    def send(self, *values: bytes, topic: str = "t", partition: int = 0, **options: Any) -> PartitionProduceResponse:
        """The answer to Produce. A client of version 1 has its partition added first."""
        if not self.bumps:
            self.add(topic, partition)
        request = produce_request(
            self.batch(*values, topic=topic, partition=partition, **options), topic=topic, partition=partition
        )
        request.transactional_id = self.transactional_id
        answer = produced(self.client.call(request, BY_NAME if self.bumps else 11))
        if answer.error_code == ErrorCode.NONE:
            self.sequences[topic, partition] = self.sequences.get((topic, partition), 0) + len(values)
        return answer

    def write(self, *values: bytes, **options: Any) -> int:
        answer = self.send(*values, **options)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        return answer.base_offset

    def add(self, topic: str, partition: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        while True:
            (row,) = self.client.call(request, 3).results_by_topic_v3_and_below[0].results_by_partition
            if row.partition_error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                assert row.partition_error_code == ErrorCode.NONE
                return

    def add_offsets(self, group_id: str) -> int:
        request = AddOffsetsToTxnRequest(**self.who, group_id=group_id)
        answer = self.client.call(request, 3)
        while answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = self.client.call(request, 3)
        return int(answer.error_code)

    def commit_offset(
        self, group_id: str, offset: int, *, topic: str = "t", partition: int = 0, version: int = 5, **member: Any
    ) -> int:
        """The error of TxnOffsetCommit for the partition."""
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=member.pop("metadata", "")
        )
        topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=[row])]
        request = TxnOffsetCommitRequest(**self.who, group_id=group_id, topics=topics, **member)
        ((answer,),) = [one.partitions for one in self.client.call(request, version).topics]
        return int(answer.error_code)

    def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(**self.who, committed=commit)
        answer = self.client.call(request, 5 if self.bumps else 4)
        while answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = self.client.call(request, 5 if self.bumps else 4)
        assert answer.error_code == ErrorCode.NONE
        if self.bumps:
            self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}


def fetch_committed(client: RawClient, offset: int = 0, **options: Any) -> PartitionData:
    return fetch(client, offset, isolation_level=READ_COMMITTED, **options)


def committed(
    client: RawClient, group_id: str, *, stable: bool = True, topic: str = "t", partition: int = 0
) -> tuple[int, int]:
    """(error, offset) of the partition."""
    asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=asked)], require_stable=stable
    )
    (group,) = client.call(request, 8).groups
    if group.error_code:
        return group.error_code, -1
    ((row,),) = [one.partitions for one in group.topics]
    return row.error_code, row.committed_offset


def settled(client: RawClient, group_id: str, **place: Any) -> int:
    """The stable offset, once the transaction's marker is durable."""
    while True:
        error, offset = committed(client, group_id, **place)
        if error != ErrorCode.UNSTABLE_OFFSET_COMMIT:
            assert error == ErrorCode.NONE
            return offset
