"""Runs the transactions of a producer on its loop: sends what the state machine asks for, and numbers the batches.

Every call of the application has max.block.ms. A call that is not answered in time can be made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from equipoise.client.metadata.cluster import Cluster
from equipoise.client.net.api_versions import Response
from equipoise.client.producer.config import ProducerConfig
from equipoise.client.producer.identity import WITHOUT_IDS, ProducerIdAndEpoch
from equipoise.client.transactions import verdicts
from equipoise.client.transactions.coordinators import CoordinatorKey, Coordinators, KeyType, RefusedError
from equipoise.client.transactions.errors import TransactionAbortableError, not_in_time
from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.client.transactions.others import FEATURE, NEWEST_END, NEWEST_INIT, ProducerEpoch
from equipoise.client.transactions.requests import add_partitions_request, txn_offset_commit_request
from equipoise.client.transactions.states import TransactionState
from equipoise.client.transactions.transaction import NO_PRODUCER, Transaction
from equipoise.client.transactions.verdicts import TransactionVerdict
from equipoise.member import OffsetAndMetadata
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from equipoise.wire.apis.k24_add_partitions_to_txn import AddPartitionsToTxnResponse
from equipoise.wire.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from equipoise.wire.apis.k26_end_txn import EndTxnRequest, EndTxnResponse
from equipoise.wire.apis.k28_txn_offset_commit import TxnOffsetCommitResponse
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError

Result = TypeVar("Result")

# The newest versions of requests by the version of transactions: TxnOffsetCommit v5 and Produce v12 mean version 2 to
# a broker (TxnOffsetCommitRequest.LAST_STABLE_VERSION_BEFORE_TRANSACTION_V2).
_NEWEST_ADD_PARTITIONS = 3
_NEWEST_OFFSETS = {True: 5, False: 4}
_NEWEST_PRODUCE = {True: WITHOUT_IDS, False: 11}
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class TransactionManager:
    """Has the place of `IdempotentIdentity`. `flush` waits for the fate of all batches, `wake` wakes the sender."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        *,
        flush: Callable[[], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        assert config.transactional_id is not None
        self.current: ProducerIdAndEpoch | None = None
        self.coordinators = Coordinators(cluster)
        self._cluster = cluster
        self._config = config
        self._flush, self._wake = flush, wake
        self._wanted: set[TopicPartition] = set()  # to be added before anything is sent to them
        self._adding: asyncio.Task[None] | None = None
        self.transaction = Transaction(config.transactional_id, config.transaction_timeout_ms)

    # -- what the application calls

    async def init(self, transactional_id: str | None = None) -> None:
        """Claims the id, and fences the producer that had it. With another id the producer goes on under that one."""
        async with self._in_time("init_transactions()"):
            if transactional_id is not None:
                self.transaction = Transaction(transactional_id, self._config.transaction_timeout_ms)
            await self._claim()

    async def begin(self) -> None:
        """The first one claims the id."""
        async with self._in_time("begin_transaction()"):
            if await self._must_claim():
                await self._claim()
        self.transaction.begin()

    async def send_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata) -> None:
        """The offsets are the group's when the transaction commits."""
        self.transaction.check_send()
        if not offsets:
            return
        async with self._in_time("send_offsets()"):
            request = txn_offset_commit_request(self.transaction, offsets, group)
            if not self.transaction.is_implicit and not self.transaction.has_group(group.group_id):
                await self._add_group(group.group_id)
            self.transaction.add_group(group.group_id)
            newest = _NEWEST_OFFSETS[self.transaction.is_implicit]
            key = CoordinatorKey(KeyType.GROUP, group.group_id)
            await self._heard(
                self.coordinators.ask(key, request, TxnOffsetCommitResponse, verdicts.TXN_OFFSET_COMMIT, newest=newest)
            )

    async def _add_group(self, group_id: str) -> None:
        """In version 1 the offsets of a group are in the transaction only if the coordinator knows of it before."""
        self.transaction.ask_group(group_id)
        add, table = AddOffsetsToTxnRequest(**self._whose(), group_id=group_id), verdicts.ADD_OFFSETS_TO_TXN
        try:
            await self._heard(self.coordinators.ask(self._key, add, AddOffsetsToTxnResponse, table))
        except TransactionAbortableError:
            self.transaction.drop_group(group_id)
            raise
        self.transaction.add_group(group_id)

    async def prepare(self) -> ProducerEpoch:
        """All is stored, and waits for a commit by whoever knows the producer id and epoch."""
        async with self._in_time("prepare_transaction()"):
            await self._flush()
        self.transaction.check_send()
        return ProducerEpoch(self.transaction.producer_id, self.transaction.producer_epoch)

    async def commit(self) -> None:
        """Returns when the commit is durable. The coordinator then completes it by itself."""
        async with self._in_time("commit_transaction()"):
            with self.transaction.taking_no_more():
                await self._flush()
                self.transaction.commit_begins()
            await self._end(committed=True)

    async def abort(self) -> None:
        """What is not sent yet is not sent any more; what is on its way is waited for."""
        self.transaction.abort_begins()
        async with self._in_time("abort_transaction()"):
            self._wake()
            await self._flush()
            if self._adding is not None:
                await asyncio.wait({self._adding})
            await self._end(committed=False)

    async def ask_others(self, work: Callable[[Coordinators], Coroutine[Any, Any, Result]]) -> Result:
        """What `work` returns, which asks coordinators of other transactions, in max.block.ms too."""
        async with self._in_time("a request to a coordinator"):
            return await self._cluster.unless_refused(work(self.coordinators))

    async def close(self) -> None:
        """Ends the request that is under way."""
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.gather(self._adding, return_exceptions=True)

    @asynccontextmanager
    async def _in_time(self, call: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                yield
        except TimeoutError:
            why = self.coordinators.last_failure or self._cluster.last_failure or "records are still on their way"
            raise not_in_time(call, self._config.max_block_ms, str(why)) from None

    # -- requests

    @property
    def _key(self) -> CoordinatorKey:
        return CoordinatorKey(KeyType.TRANSACTION, self.transaction.transactional_id)

    def _whose(self) -> dict[str, Any]:
        one = self.transaction
        return {
            "transactional_id": one.transactional_id,
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
        }

    async def _claim(self) -> None:
        """With the epoch that it has, if any: another producer may have claimed the id meanwhile (KIP-360)."""
        self.transaction.init_begins()
        request = InitProducerIdRequest(**self._whose(), transaction_timeout_ms=self.transaction.timeout_ms)
        table = verdicts.INIT_PRODUCER_ID
        answer = await self._heard(
            self.coordinators.ask(self._key, request, InitProducerIdResponse, table, newest=NEWEST_INIT)
        )
        version = (await self.coordinators.connection(self._key)).feature(FEATURE)
        self.transaction.initialized(answer.producer_id, answer.producer_epoch, version)
        self.current = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    async def _must_claim(self) -> bool:
        """At the first transaction, and when the cluster has gone to another version of transactions
        (TransactionManager.maybeUpdateTransactionV2Enabled)."""
        if self.transaction.state is not TransactionState.READY:
            return self.transaction.state in (TransactionState.UNINITIALIZED, TransactionState.INITIALIZING)
        version = (await self.coordinators.connection(self._key)).feature(FEATURE)
        before, self.transaction.version = self.transaction.is_implicit, version
        return before != self.transaction.is_implicit

    async def _end(self, *, committed: bool) -> None:
        one, told = self.transaction, ProducerEpoch(NO_PRODUCER, NO_PRODUCER)
        await self._settle_groups(committed=committed)
        if one.must_end:
            request = EndTxnRequest(**self._whose(), committed=committed)
            table = verdicts.COMMIT_TXN if committed else verdicts.ABORT_TXN
            answer = await self._heard(
                self.coordinators.ask(self._key, request, EndTxnResponse, table, newest=NEWEST_END[one.is_implicit])
            )
            told = ProducerEpoch(answer.producer_id, answer.producer_epoch)
        one.ended(*told)
        if told.producer_id != NO_PRODUCER:
            self.current = ProducerIdAndEpoch(one.producer_id, one.producer_epoch)
        if one.state is TransactionState.INITIALIZING:
            await self._claim()

    async def _settle_groups(self, *, committed: bool) -> None:
        """Of a transaction that it does not have, the coordinator does not take the end; and a late AddOffsetsToTxn
        would begin it after its end (rule P2.5)."""
        for group_id in self.transaction.asked_groups:
            try:
                await self._add_group(group_id)
            except TransactionAbortableError:
                if committed:
                    raise

    async def _heard(self, asking: Coroutine[Any, Any, Response]) -> Response:
        try:
            return await self._cluster.unless_refused(asking)
        except RefusedError as error:
            raise self._taken(error) from None

    def _taken(self, error: RefusedError) -> KafkaError:
        said = str(error)
        if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            said += (
                f": transaction.timeout.ms is {self.transaction.timeout_ms}, more than the broker's "
                "transaction.max.timeout.ms; lower the one or raise the other"
            )
        if error.verdict is TransactionVerdict.ABORTABLE:
            return self.transaction.refuse(error.code, said)
        return self.transaction.fail(error.code, said)

    # -- what the sender asks

    @property
    def transactional_id(self) -> str:
        """Of all its batches."""
        return self.transaction.transactional_id

    @property
    def newest_produce(self) -> int:
        """Produce v12 adds the partition to the transaction, v11 does not."""
        return _NEWEST_PRODUCE[self.transaction.is_implicit]

    @property
    def refuses_gaps(self) -> bool:
        """In version 2 a transaction's first batch of a partition must have the number 0 (ProducerAppendInfo)."""
        return self.transaction.is_implicit

    @property
    def dropping(self) -> EquipoiseError | None:
        """A transaction that cannot commit, or is to be aborted, sends nothing more
        (RecordAccumulator.abortUndrainedBatches)."""
        if self.transaction.state is TransactionState.ABORTING_TRANSACTION:
            return KafkaError(
                ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted before the record was stored"
            )
        return self.transaction.error

    def ask(self) -> None:
        """A batch has no numbers before the first transaction: there is none then."""

    def may_send_to(self, partition: TopicPartition) -> bool:
        """In version 1 a partition is added first, together with others that wait."""
        if self.transaction.may_send_to(partition):
            return True
        self._wanted.add(partition)
        if self._adding is None or self._adding.done():
            self._adding = asyncio.create_task(self._add())
        return False

    async def _add(self) -> None:
        while self._wanted and self.dropping is None:
            wanted, self._wanted = self._wanted, set()
            request, table = add_partitions_request(self.transaction, wanted), verdicts.ADD_PARTITIONS_TO_TXN
            try:
                newest = _NEWEST_ADD_PARTITIONS
                await self._heard(
                    self.coordinators.ask(self._key, request, AddPartitionsToTxnResponse, table, newest=newest)
                )
            except EquipoiseError as error:  # one of the coordinator's is in the transaction already
                self.transaction.lose_batch(error, is_numbered=False)
            self.transaction.added(wanted)
        self._wanted.clear()
        self._wake()

    def lose_batch(self, error: EquipoiseError, *, is_numbered: bool) -> None:
        """The transaction is lost with it."""
        self.transaction.lose_batch(error, is_numbered=is_numbered)
