"""Who numbers the batches of a producer: a producer id without transactions, found by `IdempotentIdentity`. With a
transactional id the transaction manager has the place of that class."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from equipoise.client.metadata.cluster import Cluster
from equipoise.client.net.backoff import Backoff
from equipoise.client.net.errors import error_from
from equipoise.client.producer.config import ProducerConfig
from equipoise.client.producer.delivery import ProducerBatch
from equipoise.member.partitions import TopicPartition
from equipoise.security.acls import AclOperation
from equipoise.security.denials import AuthorizationError, on_cluster
from equipoise.settings import INT_MAX
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from equipoise.wire.errors import EquipoiseError, KafkaError

_MAX_SEQUENCE = 2**31 - 1
WITHOUT_IDS = 12  # the newest version of Produce that has topics by name


class ProducerIdAndEpoch:
    """A producer id, and the next sequence number of each partition."""

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self._sequences: dict[TopicPartition, int] = {}

    def take(self, batch: ProducerBatch) -> int:
        """Gives a batch its first sequence number. Those of the next batch follow, and wrap round after 2^31 - 1."""
        sequence = self._sequences.get(batch.partition, 0)
        self._sequences[batch.partition] = (sequence + batch.count) & _MAX_SEQUENCE
        return sequence


class Identity(Protocol):
    """What the sender needs of it."""

    current: ProducerIdAndEpoch | None

    @property
    def transactional_id(self) -> str | None:
        """Under which batches are sent; None: outside transactions."""

    @property
    def newest_produce(self) -> int:
        """The newest version of Produce that may be sent."""

    @property
    def refuses_gaps(self) -> bool:
        """Whether a broker refuses a first batch that does not have the number 0."""

    @property
    def dropping(self) -> EquipoiseError | None:
        """Why what is not on its way shall not be sent at all; None: it shall."""

    def ask(self) -> None:
        """There is none, and one is needed."""

    def may_send_to(self, partition: TopicPartition) -> bool:
        """Whether a batch may go to the partition now. If not, the sender is woken when it may."""

    def lose_batch(self, error: EquipoiseError, *, is_numbered: bool) -> None:
        """A batch is given up. If it has a number, nothing can follow it under these numbers."""

    async def close(self) -> None:
        """Ends what is under way."""


class IdempotentIdentity:
    """An id that any broker gives. `note` is told of failures, `give_up` of a denial; `found` is called at success."""

    transactional_id = None
    newest_produce = WITHOUT_IDS
    refuses_gaps = False
    dropping = None

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        *,
        note: Callable[[EquipoiseError], None],
        give_up: Callable[[EquipoiseError], None],
        found: Callable[[], None],
    ) -> None:
        self.current: ProducerIdAndEpoch | None = None
        self._cluster = cluster
        self._config = config
        self._note, self._give_up, self._found = note, give_up, found
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._asking: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """One question at a time."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._find())

    def may_send_to(self, partition: TopicPartition) -> bool:
        """Anywhere."""
        return True

    def lose_batch(self, error: EquipoiseError, *, is_numbered: bool) -> None:
        """The next batches get new numbers, under a new id
        (TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded)."""
        if is_numbered:
            self.current = None

    async def close(self) -> None:
        """Ends the question."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _find(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT_MAX)
        failures = 0
        while self.current is None:
            try:
                answer = await self._cluster.ask(request, InitProducerIdResponse)
                if not answer.error_code:
                    self.current = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
                    break
                error = self._refusal(answer.error_code)
                if isinstance(error, AuthorizationError):  # it does not pass; Java's producer fails, too
                    self._give_up(error)
                    return
                self._note(error)
            except EquipoiseError as error:
                self._note(error)
            failures += 1
            await asyncio.sleep(self._backoff.pause(failures))
        self._found()

    def _refusal(self, code: int) -> KafkaError:
        """From Kafka 3.0 on WRITE on some topic will do (KIP-679, KafkaApis.handleInitProducerIdRequest)."""
        what = "the cluster gives no producer id, which WRITE on a topic or IDEMPOTENT_WRITE on the cluster allows"
        action, principal = on_cluster(AclOperation.IDEMPOTENT_WRITE), self._config.security.principal
        return error_from(code, what, action, principal=principal)
