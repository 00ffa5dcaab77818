"""Committed offsets of a member with an epoch: a stale epoch does not say that nothing is committed."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from equipoise.client.group.committed_offsets import CommittedOffsetFetcher, Found
from equipoise.client.group.membership import Membership
from equipoise.member import BrokerNode, MemberConfig, OffsetAndMetadata, TopicPartition
from equipoise.wire.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError

PLACE = TopicPartition("t", 0)
COMMITTED = [
    OffsetFetchResponseTopic(
        name="t", partitions=[OffsetFetchResponsePartition(partition_index=0, committed_offset=7, error_code=0)]
    )
]


class ScriptedMembership:
    """A member whose epoch grows with each answer."""

    def __init__(self, *errors: ErrorCode) -> None:
        self.config = MemberConfig(group_id="g", retry_backoff_ms=1, retry_backoff_max_ms=1)
        self.coordinator = BrokerNode(1, "h", 1)
        self.offset_fetch_identity = ("me", 1)
        self.member = self
        self.asked: list[tuple[str | None, int]] = []
        self.waits_for_transactions: list[bool] = []
        self._errors = list(errors)
        self.refused = 0

    def act(self, act: Any) -> None:
        self.refused += 1

    async def ask(self, request: Any, coordinator: BrokerNode | None, timeout: float) -> OffsetFetchResponse:
        assert isinstance(request, OffsetFetchRequest)
        self.waits_for_transactions.append(request.require_stable)
        self.asked.append((request.groups[0].member_id, request.groups[0].member_epoch))
        error = self._errors.pop(0)
        self.offset_fetch_identity = ("me", self.offset_fetch_identity[1] + 1)
        group = OffsetFetchResponseGroup(group_id="g", error_code=error, topics=[] if error else COMMITTED)
        return OffsetFetchResponse(groups=[group])


def fetch(membership: ScriptedMembership) -> Found:
    async def main() -> Found:
        return await CommittedOffsetFetcher(cast(Membership, membership)).fetch([PLACE])

    return asyncio.run(asyncio.wait_for(main(), 30))


def test_b11_4_a_stale_epoch_is_tried_again_with_the_newest() -> None:
    membership = ScriptedMembership(ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE)
    assert fetch(membership) == {PLACE: OffsetAndMetadata(7)}
    assert membership.asked == [("me", 1), ("me", 2), ("me", 3)]
    assert membership.refused == 2  # each time the member asks for its epoch


def test_b11_4_what_does_not_pass_is_raised() -> None:
    with pytest.raises(KafkaError) as raised:
        fetch(ScriptedMembership(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_every_question_waits_for_commits_of_transactions() -> None:
    """As Java's consumer asks, whatever its isolation level: who begins before such a commit reads records twice."""
    membership = ScriptedMembership(ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NONE)
    fetch(membership)
    assert membership.waits_for_transactions == [True, True]
