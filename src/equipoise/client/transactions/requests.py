"""The requests of a transaction that name partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.client.transactions.transaction import Transaction
from equipoise.member import OffsetAndMetadata
from equipoise.member.partitions import TopicPartition, by_topic
from equipoise.wire.apis.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from equipoise.wire.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


def add_partitions_request(transaction: Transaction, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
    """These partitions, of one transaction: clients have no later form."""
    topics = [
        AddPartitionsToTxnTopic(name=name, partitions=sorted(numbers)) for name, numbers in by_topic(partitions).items()
    ]
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.producer_epoch,
        v3_and_below_topics=topics,
    )


def txn_offset_commit_request(
    transaction: Transaction, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
) -> TxnOffsetCommitRequest:
    """Offsets of a group, with the consumer's place in it."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, number), at in sorted(offsets.items()):
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name, partitions=[]))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=at.offset,
                committed_leader_epoch=at.leader_epoch,
                committed_metadata=at.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        **group._asdict(),
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=list(topics.values()),
    )
