"""Quotas on the wire: who is above a bound is told for how long, and is not read for that time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.security.session import Session
from equipoise.wire.apis.k01_fetch import FetchResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest
from equipoise.wire.apis.k48_describe_client_quotas import DescribeClientQuotasRequest
from equipoise.wire.apis.k49_alter_client_quotas import AlterClientQuotasRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import (
    BY_NAME,
    NONE,
    append,
    batch_of,
    create_topic,
    fetch_request,
    produce_request,
)
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient
from tests.security.test_client_quotas import Names, entry

RAW: Names = {"client-id": "raw"}  # as RawClient calls itself
ALL = DescribeClientQuotasRequest(components=[], strict=False)


def alter(client: RawClient, *entries: Any, validate_only: bool = False) -> list[int]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return [one.error_code for one in client.call(request).entries]


def set_quota(client: RawClient, key: str, value: float | None, names: Names = RAW) -> None:
    assert alter(client, entry(names, (key, value))) == [ErrorCode.NONE]


def described(client: RawClient) -> dict[tuple[str | None, ...], dict[str, float]]:
    answer = client.call(ALL)
    assert answer.error_code == ErrorCode.NONE
    return {
        tuple(row.entity_name for row in one.entity): {row.key: row.value for row in one.values}
        for one in answer.entries
    }


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def standing(start: Start, clock: StandingClock) -> Broker:
    """A broker whose time moves only when a test says so."""
    return start(clock=clock)


def produce_size(client: RawClient, size: int, **options: Any) -> Any:
    client.send(produce_request(batch_of(b"x" * size), **options), BY_NAME)
    return client.receive()


class TestStored:
    def test_quotas_from_their_beginning_to_their_end(self, client: RawClient) -> None:
        assert described(client) == {}
        entries = entry({"user": "a"}, ("request_percentage", 12.5)), entry({"user": None}, ("producer_byte_rate", 7))
        assert alter(client, *entries, validate_only=True) == [ErrorCode.NONE] * 2
        assert described(client) == {}
        assert alter(client, *entries) == [ErrorCode.NONE] * 2
        assert described(client) == {(None,): {"producer_byte_rate": 7}, ("a",): {"request_percentage": 12.5}}
        assert alter(client, entry({"user": "a"}, ("request_percentage", None))) == [ErrorCode.NONE]
        assert described(client) == {(None,): {"producer_byte_rate": 7}}

    def test_a_restart_keeps_them_in_force(self, start: Start, connect: Connect, tmp_path: Path) -> None:
        broker = start(data=tmp_path)
        set_quota(connect(broker), "consumer_byte_rate", 5)
        broker.stop()
        broker.start()
        assert described(connect(broker)) == {("raw",): {"consumer_byte_rate": 5}}
        assert broker.call(lambda server: server.throttling.is_enabled)

    def test_a_filter_that_is_refused(self, client: RawClient) -> None:
        from tests.security.test_client_quotas import component

        answer = client.call(DescribeClientQuotasRequest(components=[component("foo")], strict=False))
        assert (answer.error_code, answer.entries) == (ErrorCode.UNSUPPORTED_VERSION, None)

    @pytest.mark.parametrize("allowed", [AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS])
    def test_both_need_a_right_on_the_cluster(self, start: Start, connect: Connect, allowed: AclOperation) -> None:
        def authorizer(session: Session, operation: AclOperation, resource: Resource) -> bool:
            return resource.type is ResourceType.CLUSTER and operation is allowed

        client = connect(start(authorizer=authorizer))
        may_describe = allowed is AclOperation.DESCRIBE_CONFIGS
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert client.call(ALL).error_code == (ErrorCode.NONE if may_describe else denied)
        code = alter(client, entry(RAW, ("producer_byte_rate", 1)))
        assert code == [denied if may_describe else ErrorCode.NONE]


class TestProduce:
    def test_a_producer_above_its_rate_is_told_and_not_read(
        self, standing: Broker, clock: StandingClock, connect: Connect
    ) -> None:
        client = connect(standing)
        create_topic(client)
        set_quota(client, "producer_byte_rate", 1000)
        assert produce_size(client, 5000).throttle_time_ms == 0  # 5000 in 10 s
        throttled = produce_size(client, 14_800)
        size = 20_000 / 10
        assert throttled.throttle_time_ms == pytest.approx((size - 1000) / 1000 * 10_000, rel=0.02)
        assert throttled.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        client.send(ListGroupsRequest())
        connect(standing).call(ListGroupsRequest())  # others are served
        assert not client.has_reply()
        advance(standing, clock, throttled.throttle_time_ms - 1)
        assert not client.has_reply()
        advance(standing, clock, 1)
        assert client.receive().error_code == ErrorCode.NONE

    def test_requests_that_have_come_already_wait_too(
        self, standing: Broker, clock: StandingClock, connect: Connect
    ) -> None:
        client = connect(standing)
        create_topic(client)
        set_quota(client, "producer_byte_rate", 100)
        for _ in range(3):
            client.send(produce_request(batch_of(b"x" * 2000)), BY_NAME)
        first = client.receive()
        assert first.throttle_time_ms > 0
        assert not client.has_reply()
        advance(standing, clock, first.throttle_time_ms)
        second = client.receive()
        advance(standing, clock, second.throttle_time_ms)
        client.receive()

    def test_without_acks_it_is_muted_all_the_same(
        self, standing: Broker, clock: StandingClock, connect: Connect
    ) -> None:
        client = connect(standing)
        create_topic(client)
        set_quota(client, "producer_byte_rate", 100)
        client.send(produce_request(batch_of(b"x" * 2000), acks=NONE), BY_NAME, answered=False)
        client.send(ListGroupsRequest())
        connect(standing).call(ListGroupsRequest())
        assert not client.has_reply()
        advance(standing, clock, 20_000)
        assert client.receive().error_code == ErrorCode.NONE

    def test_a_quota_that_is_removed_throttles_nobody(self, standing: Broker, connect: Connect) -> None:
        client = connect(standing)
        create_topic(client)
        set_quota(client, "producer_byte_rate", 1)
        set_quota(client, "producer_byte_rate", None)
        assert produce_size(client, 100_000).throttle_time_ms == 0
        assert not standing.call(lambda server: server.throttling.is_enabled)

    def test_another_user_is_not_throttled(self, standing: Broker, connect: Connect) -> None:
        client = connect(standing)
        create_topic(client)
        set_quota(client, "producer_byte_rate", 1, {"user": "somebody"})
        assert produce_size(client, 100_000).throttle_time_ms == 0
        set_quota(client, "producer_byte_rate", 1, {"user": "ANONYMOUS"})
        assert produce_size(client, 1000).throttle_time_ms > 0


class TestFetch:
    def fetch(self, client: RawClient, offset: int = 0, **options: Any) -> FetchResponse:
        answer: FetchResponse = client.call(fetch_request(offset, **options), BY_NAME)
        return answer

    def size(self, answer: FetchResponse) -> int:
        return sum(len(row.records or b"") for topic in answer.responses for row in topic.partitions)

    def test_a_consumer_above_its_rate_gets_nothing_and_comes_back(
        self, standing: Broker, clock: StandingClock, connect: Connect
    ) -> None:
        client = connect(standing)
        create_topic(client)
        for _ in range(30):
            append(client, b"x" * 900)
        set_quota(client, "consumer_byte_rate", 1000)
        first = self.fetch(client)
        assert 9000 < self.size(first) <= 10_000  # no more than can be had without being throttled
        assert first.throttle_time_ms == 0
        second = self.fetch(client, 10)
        assert (second.responses, second.error_code) == ([], ErrorCode.NONE)
        assert second.throttle_time_ms > 0
        client.send(fetch_request(10), BY_NAME)
        assert not client.has_reply()
        advance(standing, clock, 11_000)
        third = client.receive()
        assert (self.size(third) > 0, third.throttle_time_ms) == (True, 0)

    def test_a_session_goes_on_where_it_was(self, standing: Broker, clock: StandingClock, connect: Connect) -> None:
        client = connect(standing)
        create_topic(client)
        set_quota(client, "consumer_byte_rate", 100)
        opened = self.fetch(client, session_id=0, session_epoch=0)
        append(client, b"x" * 900)
        assert self.size(self.fetch(client, session_id=opened.session_id, session_epoch=1)) > 900
        append(client, b"y" * 900)
        throttled = self.fetch(client, 1, session_id=opened.session_id, session_epoch=2)
        assert (throttled.session_id, throttled.responses) == (opened.session_id, [])
        assert throttled.throttle_time_ms > 0
        advance(standing, clock, 11_000)
        assert self.size(self.fetch(client, 1, session_id=opened.session_id, session_epoch=3)) > 900

    def test_a_full_fetch_that_is_throttled_makes_no_session(self, standing: Broker, connect: Connect) -> None:
        client = connect(standing)
        create_topic(client)
        append(client, b"x" * 9000)
        set_quota(client, "consumer_byte_rate", 100)
        throttled = self.fetch(client, session_id=0, session_epoch=0)
        assert (throttled.session_id, throttled.responses) == (0, [])
        assert standing.call(lambda server: len(server.fetch_sessions)) == 0


class TestTime:
    def test_requests_that_take_more_of_the_loop_than_allowed(
        self, standing: Broker, clock: StandingClock, connect: Connect
    ) -> None:
        client = connect(standing)
        set_quota(client, "request_percentage", 1e-9)
        answer = client.call(ListGroupsRequest())
        assert answer.throttle_time_ms == 1000  # never longer than a sample
        client.send(ListGroupsRequest())
        assert not client.has_reply()
        advance(standing, clock, 1000)
        assert client.receive().throttle_time_ms == 1000

    def test_heartbeats_count_also_those_that_are_repeated(
        self, standing: Broker, clock: StandingClock, connect: Connect
    ) -> None:
        client, other = connect(standing), connect(standing)
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")
        assert client.call(beat).throttle_time_ms == 0
        set_quota(other, "request_percentage", 1e-9)
        assert client.call(beat).throttle_time_ms == 1000

    def test_a_request_that_waits_uses_no_time(self, standing: Broker, clock: StandingClock, connect: Connect) -> None:
        """A Fetch that is delayed for 5 s does not count as 5 s of work."""
        client = connect(standing)
        create_topic(client)
        set_quota(client, "request_percentage", 40)  # 4 s of work in 10 s
        client.send(fetch_request(0, max_wait_ms=5000, min_bytes=1), BY_NAME)
        eventually(lambda: standing.call(lambda server: any(one.is_waiting for one in server.connections)), "it waits")
        advance(standing, clock, 5000)
        assert client.receive().throttle_time_ms == 0
