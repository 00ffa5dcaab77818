"""A broker in ZooKeeper: its node and those of its topics, and how they follow it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.testing.registering import register
from equipoise.wire.errors import UsageError
from equipoise.zookeeper import BrokerRegistration, ZooKeeperServer
from proving.members.events import Ledger
from tests.zookeeper.town import Town, connected

NOWHERE = "127.0.0.1:1"


def nodes(town: Town, path: str) -> dict[str, Any]:
    """What stands in the children; some may go meanwhile."""
    found = {}
    for name in town.children(path):
        with suppress(NoNodeError):
            found[name] = json.loads(town.zk.get(f"{path}/{name}")[0])
    return found


def topics_of(town: Town) -> dict[str, dict[str, list[int]]]:
    return {name: node["partitions"] for name, node in nodes(town, "/brokers/topics").items()}


def test_the_brokers_node_is_where_clients_find_it(town: Town) -> None:
    town.wait_until("the broker is there", lambda: bool(town.children("/brokers/ids")))
    (number,) = town.children("/brokers/ids")
    data, stat = town.zk.get(f"/brokers/ids/{number}")
    node = json.loads(data)
    assert f"{node['host']}:{node['port']}" == town.broker.bootstrap_servers
    assert node["endpoints"] == [f"PLAINTEXT://{town.broker.bootstrap_servers}"]
    assert stat.ephemeralOwner != 0
    town.registration.close()
    assert town.children("/brokers/ids") == set()


@pytest.mark.parametrize("others", ["", ",PLAIN://127.0.0.1:0"])
def test_a_listener_is_published_with_its_protocol(town: Town, others: str) -> None:
    """A consumer of that time would speak plain text to it, and read nothing."""
    settings = {
        "listeners": f"SAFE://127.0.0.1:0{others}",
        "listener.security.protocol.map": "SAFE:SASL_PLAINTEXT,PLAIN:PLAINTEXT",
        "listener.name.safe.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.safe.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="a-secret";'
        ),
        "node.id": 7,
    }
    with BrokerRegistration(town.connect) as registration, Broker(settings) as broker:
        broker.call(lambda server: register(server, registration))
        town.wait_until("it is there", lambda: "7" in town.children("/brokers/ids"))
        node = nodes(town, "/brokers/ids")["7"]
        ports = broker.call(lambda server: [listener.port for listener in server.listeners.all])
    if others:
        assert (node["host"], node["port"], node["endpoints"]) == (
            "127.0.0.1",
            ports[1],
            [f"PLAINTEXT://127.0.0.1:{ports[1]}"],
        )
    else:
        assert (node["host"], node["port"], node["endpoints"]) == (
            None,
            -1,
            [f"SASL_PLAINTEXT://127.0.0.1:{ports[0]}"],
        )


def test_topics_follow_the_broker(town: Town) -> None:
    town.create_topic("orders", 2)
    number = town.broker.call(lambda server: server.node_id)
    assert topics_of(town) == {"orders": {"0": [number], "1": [number]}}
    town.admin.add_partitions("orders", 3)
    town.wait_until("there are three", lambda: len(topics_of(town)["orders"]) == 3)
    town.admin.delete_topic("orders")
    town.wait_until("it is gone", lambda: topics_of(town) == {})


def test_a_topic_of_other_brokers_is_left_alone(town: Town) -> None:
    town.zk.create("/brokers/topics/theirs", b'{"version":1,"partitions":{"0":[71]}}', makepath=True)
    town.create_topic("orders", 1)
    town.admin.delete_topic("orders")
    town.wait_until("orders is gone", lambda: town.children("/brokers/topics") == {"theirs"})


def test_a_topic_that_nobody_can_read_is_left_alone(town: Town) -> None:
    town.zk.create("/brokers/topics/odd", b"no JSON", makepath=True)
    town.create_topic("orders", 1)
    town.create_topic("payments", 1)
    assert town.children("/brokers/topics") == {"odd", "orders", "payments"}


def test_a_lost_session_is_made_good(town: Town) -> None:
    town.wait_until("the broker is there", lambda: bool(town.children("/brokers/ids")))
    (number,) = town.children("/brokers/ids")
    before = town.zk.exists(f"/brokers/ids/{number}").ephemeralOwner
    town.end_session(town.registration.client)

    def is_new() -> bool:
        found = town.zk.exists(f"/brokers/ids/{number}")
        return found is not None and found.ephemeralOwner != before

    town.wait_until("it is registered in another session", is_new)


def test_two_brokers_cannot_have_one_node(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    town.wait_until("the broker is there", lambda: bool(town.children("/brokers/ids")))
    with BrokerRegistration(town.connect) as other, Broker() as broker:
        broker.call(lambda server: register(server, other))
        town.wait_until("the second is told", lambda: "give this one another node.id" in caplog.text)
        town.registration.close()
        town.wait_until("its turn has come", lambda: _address(town) == broker.bootstrap_servers)


def _address(town: Town) -> str:
    return "".join(f"{node['host']}:{node['port']}" for node in nodes(town, "/brokers/ids").values())


def test_the_command_registers_its_broker(zookeeper: ZooKeeperServer) -> None:
    hosts = f"{zookeeper.connect}/command"
    command = [sys.executable, "-m", "equipoise", "serve", "--memory", "--listen", "127.0.0.1:0", "--zookeeper", hosts]
    with ExitStack() as stack, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            client = stack.enter_context(connected(hosts))
            with Admin(address) as admin:
                admin.create_topic("orders", 2)
            Ledger().wait_until("orders is there", lambda: bool(client.exists("/brokers/topics/orders")))
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
        assert client.get_children("/brokers/ids") == []


def test_a_zookeeper_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=f"no ZooKeeper server answers at {NOWHERE} within 0.2 s"):
        BrokerRegistration(NOWHERE, session_timeout_ms=200)
