"""A transactional producer by hand: each request in a line."""

from __future__ import annotations

from typing import Any

from equipoise.wire.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest
from equipoise.wire.apis.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from equipoise.wire.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from equipoise.wire.apis.k26_end_txn import EndTxnRequest
from equipoise.wire.apis.k65_describe_transactions import DescribedTransaction, DescribeTransactionsRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import batch_of
from tests.broker.rawclient import RawClient

TV1, TV2 = 11, 12  # the newest version of Produce of each
LAST_OF_CLIENTS = 3  # of AddPartitionsToTxn


class TransactionalProducer:
    """`version` is that of Produce: from 12 on partitions are added by producing, and EndTxn tells the next epoch."""

    def __init__(self, client: RawClient, name: str = "orders", version: int = TV2, timeout_ms: int = 60_000) -> None:
        self.client = client
        self.name = name
        self.version = version
        self.timeout_ms = timeout_ms
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, version: int | None = None, **values: Any) -> int:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=self.timeout_ms, **values)
        answer = self.client.call(request, version)
        if answer.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return int(answer.error_code)

    def add(self, *partitions: tuple[str, int], version: int = LAST_OF_CLIENTS) -> dict[tuple[str, int], int]:
        topics: dict[str, list[int]] = {}
        for topic, index in partitions or (("t", 0),):
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=ids) for name, ids in topics.items()],
        )
        results = self.client.call(request, version).results_by_topic_v3_and_below
        return {
            (topic.name, row.partition_index): row.partition_error_code
            for topic in results
            for row in topic.results_by_partition
        }

    def add_offsets(self, group_id: str, version: int | None = None) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group_id
        )
        return int(self.client.call(request, version).error_code)

    def request(self, *partitions: tuple[str, int]) -> ProduceRequest:
        """One record for each partition."""
        data = []
        for topic, index in partitions or (("t", 0),):
            sequence = self.sequences.get((topic, index), 0)
            self.sequences[topic, index] = sequence + 1
            batch = batch_of(
                b"%s-%d" % (self.name.encode(), sequence),
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                transactional=True,
            )
            rows = [PartitionProduceData(index=index, records=bytes(batch))]
            data.append(TopicProduceData(name=topic, partition_data=rows))
        return ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=data, transactional_id=self.name)

    def produce(self, *partitions: tuple[str, int], version: int | None = None) -> list[int]:
        before = dict(self.sequences)
        response = self.client.call(self.request(*partitions), version or self.version)
        errors = [row.error_code for topic in response.responses for row in topic.partition_responses]
        if any(errors):
            self.sequences = before
        return errors

    def end(self, commit: bool = True, version: int | None = None) -> int:
        """By the version of Produce."""
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        version = version if version is not None else 5 if self.version >= TV2 else 4
        answer = self.client.call(request, version)
        if version >= 5 and answer.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return int(answer.error_code)

    def describe(self) -> DescribedTransaction:
        (found,) = self.client.call(DescribeTransactionsRequest(transactional_ids=[self.name])).transaction_states
        assert isinstance(found, DescribedTransaction)
        return found
