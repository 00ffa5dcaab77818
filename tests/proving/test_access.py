"""ACLs beside Kafka's StandardAuthorizer: a restricted principal, API by API, on both brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.client import AclFilter, Admin
from proving.brokers import KafkaBroker
from proving.conformance.access import ADMIN, AccessSide, Compared, compare, listed
from proving.conformance.access_requests import access_requests
from proving.conformance.access_run import run
from proving.conformance.line import Line
from proving.tools import Tools

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
def test_ours_answers_as_kafka_does(record_property: Callable[[str, object], None]) -> None:
    """Both as processes, with a login by PLAIN."""
    summary = run()
    print(summary.text())
    record_property("comparisons", len(summary.compared))
    assert len(summary.compared) >= 300
    assert [str(one) for one in summary.different] == []
    assert len(summary.reasons) == 2, "every difference that is listed occurs"
    assert summary.is_good


OPEN: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
KAFKA_ACLS = """
--add --allow-principal User:alice --operation Read --topic orders --group billing --force
--add --deny-principal User:b --deny-host 10.1.1.1 --operation Write --topic o --resource-pattern-type prefixed --force
--add --allow-principal User:carol --producer --topic orders --force
--add --allow-principal User:carol --cluster --operation Alter --force
--list
--list --topic orders --resource-pattern-type match
--list --principal User:carol
--remove --topic orders --allow-principal User:alice --operation Read --force
--remove --group billing --force
--list
"""


def said(tools: Tools, broker: Broker | KafkaBroker) -> list[list[str]]:
    """What kafka-acls prints for each line, without its order, which is of hash maps."""
    ended = [tools.run("kafka-acls", *line.split(), broker=broker) for line in KAFKA_ACLS.split("\n") if line]
    assert [one.status for one in ended] == [0] * len(ended), ended
    return [sorted(one.stdout.split("\n")) for one in ended]


@pytest.mark.kafka
def test_kafka_acls_and_our_admin_say_the_same_on_both_brokers() -> None:
    with KafkaBroker(OPEN) as kafka, Broker(OPEN) as ours, Tools() as tools:
        assert said(tools, ours) == said(tools, kafka)
        found = []
        for broker in (kafka, ours):
            with Admin(broker.bootstrap_servers) as admin:
                there = admin.describe_acls()
                assert admin.delete_acls([AclFilter()]) == there
                _wait_for(lambda admin=admin: not admin.describe_acls())  # type: ignore[misc]
                admin.create_acls(there)
                _wait_for(lambda admin=admin, there=there: admin.describe_acls() == there)  # type: ignore[misc]
            found.append(there)
        assert found[0] == found[1]
        assert len(found[0]) == 5


def _wait_for(is_so: Callable[[], bool]) -> None:
    """A broker of Kafka learns of a change from its controller."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
