"""A broker of ours tells our clients how long members still have; a strict one, and Kafka, do not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from equipoise import Broker, Consumer
from equipoise.client import Admin
from equipoise.client.admin_groups import MemberDescription

SESSION_MS = 20_000


def described(settings: Mapping[str, object], protocol: str) -> MemberDescription:
    with Broker({"group.initial.rebalance.delay.ms": 0, **settings}, topics={"orders": 2}) as broker:
        given: dict[str, object] = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "etl"}
        given["group.protocol"] = protocol
        if protocol == "classic":
            given["session.timeout.ms"] = SESSION_MS
        with Consumer(given) as consumer, Admin(broker.bootstrap_servers) as admin:
            consumer.subscribe(["orders"])
            while not consumer.assignment():
                consumer.poll(0.05)
            (member,) = admin.describe_group("etl").members
    return member


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_our_clients_are_told(protocol: str) -> None:
    found = described({}, protocol).deadlines
    assert found is not None
    assert found.last_seen_ms_ago is not None
    assert found.session_ms_left is not None
    session = SESSION_MS if protocol == "classic" else 45_000
    assert found.last_seen_ms_ago + found.session_ms_left == session


def test_an_eager_group_tells_for_how_long_it_has_had_its_state() -> None:
    settings = {"group.rebalance.incremental": "off"}
    found = described(settings, "classic").deadlines
    assert found is not None
    assert (found.awaiting, found.awaited_ms_left) == (None, None)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_strict_broker_answers_as_kafka_does(protocol: str) -> None:
    assert described({"strict": True}, protocol).deadlines is None
