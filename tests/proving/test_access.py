"""ACLs beside Kafka's StandardAuthorizer: a restricted principal, API by API, on both brokers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from proving.conformance.access import ADMIN, AccessSide, Compared, GuardedKafka, compare, listed
from proving.conformance.access_requests import access_requests
from proving.conformance.line import Line

OURS: dict[str, object] = {
    "authorizer.class.name": "acl",
    "super.users": f"User:{ADMIN}",
    "group.initial.rebalance.delay.ms": 0,
}


def side_of(broker: Broker) -> AccessSide:
    """Our broker in this process; its connections are given their users."""

    def login(port: int, user: str) -> Line:
        line = Line(port, user)

        def become(server: Server) -> None:
            for connection in server.connections:
                if connection._transport.get_extra_info("peername")[1] == line.local_port:
                    connection.session = replace(connection.session, principal=f"User:{user}")

        broker.call(become)
        return line

    return AccessSide("equipoise", int(broker.bootstrap_servers.rpartition(":")[2]), login)


@pytest.fixture
def ours() -> Iterator[AccessSide]:
    with Broker(OURS) as broker, side_of(broker) as side:
        side.prepare()
        yield side


def different(compared: list[Compared]) -> list[str]:
    return [str(one) for one in compared if not one.is_equal and listed(one) is None]


def test_two_of_ours_agree_and_the_comparison_is_large(ours: AccessSide) -> None:
    with Broker(OURS) as broker, side_of(broker) as other:
        other.prepare()
        compared = list(compare(ours, other, access_requests()))
    assert len(compared) >= 300
    assert different(compared) == []
    assert sum("AUTHORIZATION_FAILED" in str(one.ours) for one in compared) > 300
    assert sum("AUTHORIZATION_FAILED" not in str(one.ours) for one in compared) > 300


@pytest.mark.kafka
def test_ours_answers_as_kafka_does(ours: AccessSide) -> None:
    with GuardedKafka() as broker, AccessSide("kafka", broker.port) as kafka:
        kafka.prepare()
        compared = list(compare(kafka, ours, access_requests()))
    assert different(compared) == []
    reasons = {listed(one) for one in compared if not one.is_equal}
    assert len(reasons) == 3, "every difference that is listed occurs"
