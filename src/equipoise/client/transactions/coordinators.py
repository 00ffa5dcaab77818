"""Requests to the coordinators of transactional ids and of groups: each is repeated until its answer is not to be, and
the coordinator is looked for anew when it has moved.

Nothing here bounds the time: the caller does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from equipoise.client.metadata.cluster import Cluster
from equipoise.client.net.api_versions import Response
from equipoise.client.net.backoff import Backoff
from equipoise.client.net.connection import AsyncConnection
from equipoise.client.net.errors import error_from, is_final
from equipoise.client.net.pool import Purpose
from equipoise.client.transactions.verdicts import FIND_COORDINATOR, SOON_S, TransactionVerdict, verdict_on
from equipoise.member import BrokerNode
from equipoise.member.errors import error_of
from equipoise.security.acls import AclOperation, ResourceType
from equipoise.security.denials import AclAction, on_group
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchResponse
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k24_add_partitions_to_txn import AddPartitionsToTxnResponse
from equipoise.wire.apis.k28_txn_offset_commit import TxnOffsetCommitResponse
from equipoise.wire.apis.k65_describe_transactions import DescribeTransactionsResponse
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, UsageError
from equipoise.wire.schema import Message

Table = Mapping[ErrorCode, TransactionVerdict]


class KeyType(IntEnum):
    """What FindCoordinator looks for."""

    GROUP = 0
    TRANSACTION = 1


class CoordinatorKey(NamedTuple):
    """A group or a transactional id, which has a coordinator."""

    kind: KeyType
    name: str

    def __str__(self) -> str:
        return f"{'group' if self.kind is KeyType.GROUP else 'transactional.id'} {self.name!r}"

    @property
    def action(self) -> AclAction:
        """What a producer must be allowed to do to it."""
        if self.kind is KeyType.GROUP:
            return on_group(AclOperation.READ, self.name)
        return AclAction(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, self.name)


class RefusedError(KafkaError):
    """A coordinator refuses, and repeating the request does not help. `verdict`: ABORTABLE or FATAL."""

    def __init__(self, code: ErrorCode, message: str, verdict: TransactionVerdict) -> None:
        super().__init__(code, message)
        self.verdict = verdict


class Coordinators:
    """The coordinators that one client asks. `last_failure` says why an answer is missing."""

    def __init__(self, cluster: Cluster) -> None:
        config = cluster.config
        self.last_failure: EquipoiseError | None = None
        self.cluster = cluster
        self.timeout = config.request_timeout_ms / 1000
        self._principal = config.security.principal
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._nodes: dict[CoordinatorKey, BrokerNode] = {}

    async def connection(self, key: CoordinatorKey) -> AsyncConnection:
        """To the coordinator, which is looked for if need be. Tries for ever."""
        failures = 0
        while True:
            try:
                return await self._connect(key)
            except EquipoiseError as error:
                self._let_through(error)
                self.lose(key)
            failures += 1
            await asyncio.sleep(self._backoff.pause(failures))

    async def ask(
        self,
        key: CoordinatorKey,
        request: Message,
        response: type[Response],
        table: Table,
        *,
        newest: int | None = None,
    ) -> Response:
        """The coordinator's answer without an error. RefusedError: it has one that lasts."""
        failures = 0
        while True:
            verdict = TransactionVerdict.COORDINATOR_GONE
            try:
                connection = await self._connect(key)
                answer = await connection.send(request, response, self.timeout, newest=newest)
            except EquipoiseError as error:
                self._let_through(error)
            else:
                verdict, code = worst(answer, table)
                if verdict is TransactionVerdict.DONE:
                    self.last_failure = None
                    return answer
                self._take(key, code, verdict, type(request).__name__.removesuffix("Request"))
            if verdict is TransactionVerdict.COORDINATOR_GONE:
                self.lose(key)
            failures += 1
            await asyncio.sleep(SOON_S if verdict is TransactionVerdict.SOON else self._backoff.pause(failures))

    def lose(self, key: CoordinatorKey) -> None:
        """It is elsewhere, or does not answer."""
        self._nodes.pop(key, None)

    async def _connect(self, key: CoordinatorKey) -> AsyncConnection:
        if key not in self._nodes:
            self._nodes[key] = await self._find(key)
        node = self._nodes[key]
        return await self.cluster.coordinator_connection(node.host, node.port, Purpose.TRANSACTIONS)

    async def _find(self, key: CoordinatorKey) -> BrokerNode:
        request = FindCoordinatorRequest(key=key.name, key_type=key.kind, coordinator_keys=[key.name])
        response = await self.cluster.ask(request, FindCoordinatorResponse)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            self._take(key, found.error_code, verdict_on(found.error_code, FIND_COORDINATOR), "FindCoordinator")
            raise KafkaError(error_of(found.error_code), str(self.last_failure))
        return BrokerNode(found.node_id, found.host, found.port)

    def _take(self, key: CoordinatorKey, code: int, verdict: TransactionVerdict, api: str) -> None:
        """Remembers an error that passes, and raises one that lasts."""
        what = f"the coordinator of {key} refuses {api}"
        self.last_failure = error_from(code, what, key.action, principal=self._principal)
        if verdict in (TransactionVerdict.ABORTABLE, TransactionVerdict.FATAL):
            raise RefusedError(error_of(code), str(self.last_failure), verdict)

    def _let_through(self, error: EquipoiseError) -> None:
        """Raises what another attempt does not mend; remembers anything else."""
        if isinstance(error, RefusedError | UsageError) or is_final(error):
            raise error
        self.last_failure = error


_SEVERITY = list(TransactionVerdict)


def worst(answer: Message, table: Table) -> tuple[TransactionVerdict, int]:
    """The verdict that decides, and its error: an answer may have one for each partition. OPERATION_NOT_ATTEMPTED
    only says that another partition has an error."""
    judged = [(verdict_on(code, table), code) for code in _codes(answer)]
    telling = [one for one in judged if one[1] != ErrorCode.OPERATION_NOT_ATTEMPTED and one[1]]
    return max(telling or judged, key=lambda one: _SEVERITY.index(one[0]), default=(TransactionVerdict.DONE, 0))


def _codes(answer: Message) -> Iterable[int]:
    if isinstance(answer, AddPartitionsToTxnResponse):
        added = answer.results_by_topic_v3_and_below
        return [one.partition_error_code for topic in added for one in topic.results_by_partition]
    if isinstance(answer, TxnOffsetCommitResponse):
        return [one.error_code for topic in answer.topics for one in topic.partitions]
    if isinstance(answer, OffsetFetchResponse):
        group = answer.groups[0] if answer.groups else answer
        return [group.error_code, *(one.error_code for topic in group.topics for one in topic.partitions)]
    if isinstance(answer, DescribeTransactionsResponse):
        return [one.error_code for one in answer.transaction_states]
    return [answer.error_code]  # type: ignore[attr-defined]
