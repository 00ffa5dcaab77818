"""Transactions by their id, whoever began them: what became of them, how another process ends them, who is fenced.

Each function asks the coordinator in charge, until there is an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from equipoise.client.group.membership import NEWEST_WITH_NAMES
from equipoise.client.transactions import verdicts
from equipoise.client.transactions.coordinators import CoordinatorKey, Coordinators, KeyType, RefusedError
from equipoise.member import OffsetAndMetadata
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from equipoise.wire.apis.k26_end_txn import EndTxnRequest, EndTxnResponse
from equipoise.wire.apis.k65_describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from equipoise.wire.apis.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse
from equipoise.wire.errors import KafkaError

FEATURE = "transaction.version"  # its level is the version of transactions (KIP-584, KIP-890)
# InitProducerId v6 is not final in any release. EndTxn v5 means version 2 of transactions
# (TransactionVersion.transactionVersionForEndTxn).
NEWEST_INIT = 5
NEWEST_END = {True: 5, False: 4}
_IMPLICIT = 2
ONGOING, COMMITTED = "Ongoing", ("PrepareCommit", "CompleteCommit")


class ProducerEpoch(NamedTuple):
    """A transaction by its producer id and epoch, as the coordinator knows it."""

    producer_id: int
    producer_epoch: int


class DescribedState(NamedTuple):
    """The state of an id, in the coordinator's word; empty: it does not know the id."""

    state: str
    epoch: ProducerEpoch


async def committed_offset(
    coordinators: Coordinators, group_id: str, partition: TopicPartition
) -> OffsetAndMetadata | None:
    """The group's commit, after all transactions that may change it; None: there is none."""
    topics = [OffsetFetchRequestTopic(name=partition.topic, partition_indexes=[partition.partition])]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    request = OffsetFetchRequest(group_id=group_id, topics=topics, groups=[group], require_stable=True)
    key = CoordinatorKey(KeyType.GROUP, group_id)
    table, newest = verdicts.OFFSET_FETCH, NEWEST_WITH_NAMES
    answer = await coordinators.ask(key, request, OffsetFetchResponse, table, newest=newest)
    found = answer.groups[0].topics if answer.groups else answer.topics
    ((row,),) = (topic.partitions for topic in found)
    return None if row.committed_offset < 0 else OffsetAndMetadata(row.committed_offset, row.metadata or "")


async def describe(coordinators: Coordinators, transactional_ids: Iterable[str]) -> dict[str, DescribedState]:
    """The states of these ids, from their coordinators."""
    names = list(transactional_ids)
    return dict(zip(names, await asyncio.gather(*(_describe(coordinators, name) for name in names)), strict=True))


async def _describe(coordinators: Coordinators, transactional_id: str) -> DescribedState:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    table = verdicts.DESCRIBE_TRANSACTIONS
    answer = await coordinators.ask(_key(transactional_id), request, DescribeTransactionsResponse, table)
    (row,) = answer.transaction_states
    return DescribedState(row.transaction_state, ProducerEpoch(row.producer_id, row.producer_epoch))


async def end(
    coordinators: Coordinators, transactional_id: str, epoch: ProducerEpoch, *, committed: bool
) -> KafkaError | None:
    """Commits or aborts a transaction that another process has prepared. An error: it is not there any more. To repeat
    a request is harmless."""
    key = _key(transactional_id)
    is_implicit = (await coordinators.connection(key)).feature(FEATURE) >= _IMPLICIT
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=epoch.producer_id,
        producer_epoch=epoch.producer_epoch,
        committed=committed,
    )
    table = verdicts.COMMIT_TXN if committed else verdicts.ABORT_TXN
    try:
        await coordinators.ask(key, request, EndTxnResponse, table, newest=NEWEST_END[is_implicit])
    except RefusedError as error:
        return error
    return None


async def ongoing(coordinators: Coordinators, prefix: str) -> set[str]:
    """The ids with this prefix that have an open transaction, of all brokers that answer."""
    await coordinators.cluster.refresh()
    request = ListTransactionsRequest(state_filters=[ONGOING], producer_id_filters=[])
    found: set[str] = set()
    for node_id in coordinators.cluster.nodes:
        connection = await coordinators.cluster.connection(node_id)
        answer = await connection.send(request, ListTransactionsResponse, coordinators.timeout)
        found |= {one.transactional_id for one in answer.transaction_states if one.transactional_id.startswith(prefix)}
    return found


async def fence(coordinators: Coordinators, transactional_id: str, timeout_ms: int) -> None:
    """Whoever has the id cannot go on, and its open transaction is aborted (FenceProducersHandler)."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    table = verdicts.INIT_PRODUCER_ID
    await coordinators.ask(_key(transactional_id), request, InitProducerIdResponse, table, newest=NEWEST_INIT)


def _key(transactional_id: str) -> CoordinatorKey:
    return CoordinatorKey(KeyType.TRANSACTION, transactional_id)
