"""Administration of transactions: list and describe them, the producers of a partition, and the end of one that hangs.

A transaction hangs if its coordinator does not know it any more, or never did: nobody will end it, and read_committed
readers stop before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from equipoise.client.admin_connections import metadata_of
from equipoise.client.admin_groups import GroupAdmin
from equipoise.client.net.blocking import Connection
from equipoise.client.net.errors import error_from
from equipoise.client.transactions.coordinators import CoordinatorKey, KeyType
from equipoise.member.partitions import TopicPartition, by_topic
from equipoise.security.acls import AclOperation
from equipoise.security.denials import on_cluster, on_topic
from equipoise.wire.apis.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from equipoise.wire.apis.k61_describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
)
from equipoise.wire.apis.k65_describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from equipoise.wire.apis.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse
from equipoise.wire.errors import KafkaError, UsageError

MAX_TIMEOUT_MS = 900_000  # Kafka's default of transaction.max.timeout.ms


class TransactionListing(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    transaction_state: str
    coordinator_id: int


class TransactionDescription(NamedTuple):
    """A transactional id, and the transaction that it has open, if any."""

    transactional_id: str
    coordinator_id: int
    transaction_state: str
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int  # -1: there is none
    partitions: list[TopicPartition]


class ProducerDescription(NamedTuple):
    """A producer that a partition remembers. `current_txn_start_offset` is -1 unless it has a transaction open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class OpenTransaction(NamedTuple):
    """A transaction in one of its partitions: read_committed readers stop before `start_offset`."""

    partition: TopicPartition
    start_offset: int
    producer_id: int
    producer_epoch: int
    last_timestamp: int  # of its newest record there
    transactional_id: str | None  # None: no coordinator knows it, so it hangs
    transaction_start_time_ms: int = -1
    transaction_timeout_ms: int = -1


class TransactionAdmin(GroupAdmin):
    """The calls of `Admin` about transactions."""

    def list_transactions(
        self, states: Iterable[str] = (), producer_ids: Iterable[int] = ()
    ) -> list[TransactionListing]:
        """All transactional ids, by name, or those in these states and of these producers. UsageError: a state is none
        of Kafka's."""
        request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
        found: list[TransactionListing] = []
        for broker in self._metadata([]).brokers:
            answer = self._connection((broker.host, broker.port)).send(request, ListTransactionsResponse)
            self._check(answer.error_code, None, "the transactions cannot be listed")
            if answer.unknown_state_filters:
                raise UsageError(f"{answer.unknown_state_filters[0]!r} is no state of a transaction, as Ongoing is")
            found += [
                TransactionListing(one.transactional_id, one.producer_id, one.transaction_state, broker.node_id)
                for one in answer.transaction_states
            ]
        return sorted(found)

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription | KafkaError]:
        """Each of these ids, or the error that its coordinator gave."""
        names = list(dict.fromkeys(transactional_ids))
        found: dict[str, TransactionDescription | KafkaError] = {}
        for row in self._coordinators(names, KeyType.TRANSACTION) if names else []:
            if row.error_code:
                found[row.key] = self._transaction_error(row.error_code, row.key)
                continue
            request = DescribeTransactionsRequest(transactional_ids=[row.key])
            answer = self._connection((row.host, row.port)).send(request, DescribeTransactionsResponse)
            (one,) = answer.transaction_states
            if one.error_code:
                found[row.key] = self._transaction_error(one.error_code, row.key)
            else:
                found[row.key] = _described(one, row.node_id)
        return found

    def _transaction_error(self, code: int, name: str) -> KafkaError:
        key = CoordinatorKey(KeyType.TRANSACTION, name)
        action = key.action._replace(operation=AclOperation.DESCRIBE)
        return error_from(code, f"{key} cannot be described", action, principal=self._security.principal)

    def describe_producers(self, partition: TopicPartition) -> list[ProducerDescription]:
        """The producers that the leader of the partition remembers, those with an open transaction first."""
        topic = DescribeProducersTopicRequest(name=partition.topic, partition_indexes=[partition.partition])
        answer = self._leader(partition).send(DescribeProducersRequest(topics=[topic]), DescribeProducersResponse)
        ((row,),) = (one.partitions for one in answer.topics)
        found = self._producers(partition, row)
        return sorted(found, key=lambda one: (one.current_txn_start_offset < 0, one))

    def _producers(
        self, partition: TopicPartition, row: DescribeProducersPartitionResponse
    ) -> list[ProducerDescription]:
        what = f"the producers of {partition} cannot be described"
        self._check(row.error_code, row.error_message, what, on_topic(AclOperation.READ, partition.topic))
        return [
            ProducerDescription(
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.last_timestamp,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in row.active_producers
        ]

    def open_transactions(self, topics: Iterable[str] = ()) -> list[OpenTransaction]:
        """What is open in these topics, or in all, the internal ones too: by partition and offset. Each has the id
        that will end it. A transaction without an id hangs."""
        found = self._transactions_in(list(topics))
        known = self._known({one.producer_id for one in found})
        named = {one: known.get((one.producer_id, one.partition)) for one in found}
        if None in named.values():  # it may have ended while the coordinators were asked
            still = {one[:3] for one in self._transactions_in(sorted({one.partition.topic for one in found}))}
            named = {one: of for one, of in named.items() if one[:3] in still}
        return [one if of is None else _of_id(one, of) for one, of in named.items()]

    def _transactions_in(self, topics: list[str]) -> list[OpenTransaction]:
        metadata = metadata_of(self._metadata(topics or None))
        for name, code in metadata.errors.items():
            self._check(code, None, f"topic {name!r} cannot be described", on_topic(AclOperation.DESCRIBE, name))
        places = [TopicPartition(name, n) for name, info in metadata.topics.items() for n in range(info.partitions)]
        found: list[OpenTransaction] = []
        for node_id, mine in metadata.by_leader(places).items():
            if node_id is not None:
                found += self._transactions_at(self._connection(metadata.nodes[node_id].address), mine)
        return sorted(found)

    def _transactions_at(self, leader: Connection, places: list[TopicPartition]) -> Iterator[OpenTransaction]:
        asked = by_topic(places)
        request = DescribeProducersRequest(
            topics=[DescribeProducersTopicRequest(name=name, partition_indexes=ids) for name, ids in asked.items()]
        )
        for topic in leader.send(request, DescribeProducersResponse).topics:
            for row in topic.partitions:
                place = TopicPartition(topic.name, row.partition_index)
                for one in self._producers(place, row):
                    if one.current_txn_start_offset >= 0:
                        offset = one.current_txn_start_offset
                        who = one.producer_id, one.producer_epoch, one.last_timestamp
                        yield OpenTransaction(place, offset, *who, None)

    def _known(self, producer_ids: set[int]) -> dict[tuple[int, TopicPartition], TransactionDescription]:
        """What coordinators have open for these producers."""
        names = [one.transactional_id for one in self.list_transactions((), producer_ids)] if producer_ids else []
        described = [one for one in self.describe_transactions(names).values() if not isinstance(one, KafkaError)]
        return {(one.producer_id, place): one for one in described for place in one.partitions}

    def hanging_transactions(
        self, topics: Iterable[str] = (), older_than_ms: int = MAX_TIMEOUT_MS
    ) -> list[OpenTransaction]:
        """Those without an id whose newest record is older: transaction.max.timeout.ms by default, after which a
        coordinator would have ended it. `kafka-transactions find-hanging` does the same."""
        before = time.time() * 1000 - older_than_ms
        found = self.open_transactions(topics)
        return [one for one in found if one.transactional_id is None and one.last_timestamp < before]

    def abort_transaction(self, partition: TopicPartition, start_offset: int) -> None:
        """Ends a hanging transaction, which begins at this offset, in this partition alone: the leader writes an abort
        marker. To a transaction that its coordinator knows this does harm: it may commit the rest."""
        begun = [one for one in self.describe_producers(partition) if one.current_txn_start_offset == start_offset >= 0]
        if not begun:
            raise UsageError(f"no transaction that begins at offset {start_offset} is open in {partition}")
        (producer,) = begun
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        answer = self._leader(partition).send(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
        (((row,),),) = ((topic.partitions for topic in one.topics) for one in answer.markers)
        what = f"the transaction of producer {producer.producer_id} in {partition} was not aborted"
        self._check(row.error_code, None, what, on_cluster(AclOperation.CLUSTER_ACTION))


def _of_id(one: OpenTransaction, of: TransactionDescription) -> OpenTransaction:
    return one._replace(
        transactional_id=of.transactional_id,
        transaction_start_time_ms=of.transaction_start_time_ms,
        transaction_timeout_ms=of.transaction_timeout_ms,
    )


def _described(one: DescribedTransaction, coordinator_id: int) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=one.transactional_id,
        coordinator_id=coordinator_id,
        transaction_state=one.transaction_state,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        transaction_timeout_ms=one.transaction_timeout_ms,
        transaction_start_time_ms=one.transaction_start_time_ms,
        partitions=sorted(TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions),
    )
