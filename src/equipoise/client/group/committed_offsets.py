"""OffsetFetch: asks the coordinator for a group's committed offsets, until there is a valid answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from equipoise.client.group.membership import Membership
from equipoise.client.net.backoff import Backoff
from equipoise.client.net.errors import error_from
from equipoise.member import BrokerNode, OffsetAndMetadata, TopicPartition
from equipoise.member.partitions import by_topic
from equipoise.security.acls import AclOperation
from equipoise.security.denials import AclAction, on_group, on_topic
from equipoise.wire.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError

Found = dict[TopicPartition, OffsetAndMetadata]

_NOTHING_COMMITTED = -1
_PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,  # a transaction is being written
    ErrorCode.REQUEST_TIMED_OUT,
}
# The member's epoch is about to change, or the member is about to hear that it is out. Whoever took these for a
# partition without a commit would begin where auto.offset.reset says.
_OF_MEMBERS = {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}


class CommittedOffsetFetcher:
    """Always waits for commits of transactions under way, as Java's consumer does whatever its isolation level: who
    reads from an offset that is about to be replaced reads records twice (KIP-447,
    ConsumerCoordinator.sendOffsetFetchRequest)."""

    def __init__(self, membership: Membership) -> None:
        config = membership.member.config
        self._membership = membership
        self._group_id = config.group_id
        self._timeout = config.request_timeout_ms / 1000
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    async def fetch(self, partitions: Iterable[TopicPartition]) -> Found:
        """Only partitions that have a commit. Tries for ever: bound it by a timeout. Each attempt has the member's
        newest epoch (rule B11.4)."""
        wanted, failures = by_topic(partitions), 0
        while True:
            try:
                return await self._ask(wanted)
            except EquipoiseError as error:
                if isinstance(error, KafkaError) and error.code not in _PASSING | _OF_MEMBERS:
                    raise
                if isinstance(error, KafkaError) and error.code in _OF_MEMBERS:
                    self._membership.act(lambda member, now: member.epoch_refused(now))
            failures += 1
            await asyncio.sleep(self._backoff.pause(failures))

    async def _ask(self, wanted: dict[str, list[int]]) -> Found:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in wanted.items()]
        member_id, epoch = self._membership.member.offset_fetch_identity
        group = OffsetFetchRequestGroup(group_id=self._group_id, member_id=member_id, member_epoch=epoch, topics=topics)
        request = OffsetFetchRequest(group_id=self._group_id, topics=topics, groups=[group], require_stable=True)
        response = await self._membership.ask(request, await self._coordinator(), self._timeout)
        assert isinstance(response, OffsetFetchResponse)
        answer = response.groups[0] if response.groups else response
        self._check(answer.error_code, f"offsets of group {self._group_id!r} cannot be fetched")
        return dict(row for topic in answer.topics for row in self._rows(topic))

    async def _coordinator(self) -> BrokerNode:
        """The member's, if it has one: a consumer that assigns itself has looked for none."""
        known = self._membership.member.coordinator
        if known is not None:
            return known
        request = FindCoordinatorRequest(key=self._group_id, coordinator_keys=[self._group_id])
        response = await self._membership.ask(request, None, self._timeout)
        assert isinstance(response, FindCoordinatorResponse)
        found = response.coordinators[0] if response.coordinators else response
        self._check(found.error_code, f"the coordinator of group {self._group_id!r} cannot be found")
        return BrokerNode(found.node_id, found.host, found.port)

    def _rows(self, topic: OffsetFetchResponseTopic) -> Iterable[tuple[TopicPartition, OffsetAndMetadata]]:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            what = f"the committed offset of {partition} cannot be fetched"
            self._check(row.error_code, what, on_topic(AclOperation.READ, topic.name))
            if row.committed_offset != _NOTHING_COMMITTED:
                yield partition, _committed(row)

    def _check(self, code: int, what: str, *actions: AclAction) -> None:
        """A consumer needs READ on its group, which includes DESCRIBE."""
        if code != ErrorCode.NONE:
            config = self._membership.member.config
            group = on_group(AclOperation.READ, config.group_id)
            raise error_from(code, what, group, *actions, principal=config.principal)


def _committed(row: OffsetFetchResponsePartition) -> OffsetAndMetadata:
    return OffsetAndMetadata(row.committed_offset, row.metadata or "", row.committed_leader_epoch)
