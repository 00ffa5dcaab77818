"""`equipoise serve --brokers 3 --faults` and `equipoise faults`: brokers that a test kills and moves to, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from equipoise import Admin, Consumer, Producer, TopicPartition
from equipoise.server_process import free_port
from tests.broker.cluster.test_moves import leaders
from tests.broker.rawclient import RawClient
from tests.commands import Command, check_line
from tests.console.test_faults import ask
from tests.console.test_serve import serving

PATIENCE_S = 60
ORDERS_0 = TopicPartition("orders", 0)


class Running(NamedTuple):
    addresses: list[str]
    port: int

    @property
    def at(self) -> tuple[str, str]:
        return "--at", f"127.0.0.1:{self.port}"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.addresses)

    def brokers(self) -> dict[int, dict[str, object]]:
        return {one["broker"]: one for one in json.loads(ask(self.port, "GET", "/brokers")[1])}

    def leader(self) -> int:
        with Admin(self.bootstrap_servers) as admin:
            return admin.topic("orders").partitions[0].leader_id


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    port = free_port()
    settings = ("--set", "group.initial.rebalance.delay.ms=0", "--set", "broker.rack=a,b,c")
    with serving("--memory", "--brokers", "3", *settings, "--faults", f"127.0.0.1:{port}") as (_, address):
        found = Running(address.split(","), port)
        with Admin(found.bootstrap_servers) as admin:
            admin.create_topic("orders", 1, replication_factor=3)
        yield found


def test_a_broker_is_killed_and_back(running: Running, command: Command) -> None:
    leader = running.leader()
    with Producer({"bootstrap.servers": running.bootstrap_servers}) as producer:
        producer.send("orders", b"one").result(PATIENCE_S)
        ended = command("faults", "kill-broker", str(leader), *running.at)
        assert (ended.status, ended.out, ended.err) == (0, "done\n", "")
        producer.send("orders", b"two").result(PATIENCE_S)
        assert running.leader() != leader
        listed = command("faults", "brokers", *running.at).out.splitlines()
        assert "not running" in listed[leader]
        assert command("faults", "start-broker", str(leader), *running.at).status == 0
        assert command("faults", "elect-leaders", *running.at).status == 0
        assert running.leader() == leader
        producer.send("orders", b"three").result(PATIENCE_S)
    assert [one["rack"] for one in running.brokers().values()] == ["a", "b", "c"]


def test_a_stop_and_a_cut(running: Running, command: Command) -> None:
    for down, up, state in (("stop-broker", "start-broker", "not running"), ("cut-broker", "heal-broker", "cut off")):
        assert command("faults", down, "2", *running.at).status == 0
        assert running.brokers()[2]["state"] == state
        assert command("faults", up, "2", *running.at).status == 0
        assert running.brokers()[2]["state"] == "running"


def test_leaders_and_coordinators_move_under_a_consumer(running: Running, command: Command) -> None:
    settings = {"bootstrap.servers": running.bootstrap_servers, "group.id": "g", "auto.offset.reset": "latest"}
    settings |= {"enable.auto.commit": "false"}
    with Consumer(settings) as consumer, Producer({"bootstrap.servers": running.bootstrap_servers}) as producer:
        consumer.subscribe(["orders"])
        ends = time.monotonic() + PATIENCE_S
        while not consumer.assignment():
            consumer.poll(0.01)
            assert time.monotonic() < ends
        consumer.position(ORDERS_0)
        for to in (1, 2, 3, 1):
            assert command("faults", "move-leader", "orders", "0", "--to", str(to), *running.at).out == "done\n"
            assert command("faults", "move-coordinator", "g", "--to", str(to), *running.at).out == "done\n"
            assert running.leader() == to
            offset = producer.send("orders", b"v").result(PATIENCE_S).offset
            while consumer.position(ORDERS_0) <= offset:
                consumer.poll(0.01)
                assert time.monotonic() < ends
            consumer.commit({ORDERS_0: offset + 1})
            assert consumer.committed([ORDERS_0])[ORDERS_0].offset == offset + 1


def test_records_are_lost_on_demand(running: Running, command: Command) -> None:
    with Producer({"bootstrap.servers": running.bootstrap_servers}) as producer:
        last = [producer.send("orders", b"v").result(PATIENCE_S).offset for _ in range(3)][-1]
    ended = command("faults", "elect-unclean", "orders", "0", "--to", "2", "--lose", "2", *running.at)
    assert ended.out == f"done: the log ends at offset {last - 1}\n"
    with Producer({"bootstrap.servers": running.bootstrap_servers}) as producer:
        assert producer.send("orders", b"new").result(PATIENCE_S).offset == last - 1


def test_a_crash_keeps_leaders_and_epochs(tmp_path: Path, command: Command) -> None:
    """SIGKILL behind the answer."""
    port = free_port()
    arguments = ("--data", str(tmp_path / "data"), "--brokers", "3", "--faults", f"127.0.0.1:{port}")
    with serving(*arguments) as (process, address):
        with Admin(address) as admin:
            admin.create_topic("orders", 3, replication_factor=3)
        for to in (2, 3, 1, 3):
            move = ("faults", "move-leader", "orders", "0", "--to", str(to), "--at", f"127.0.0.1:{port}")
            assert command(*move).status == 0
        process.kill()
    with serving(*arguments) as (_, address), RawClient(address.split(",")[0]) as client:
        assert leaders(client, "orders") == {0: (3, 4), 1: (2, 0), 2: (3, 0)}


def test_clear_refusals(running: Running, command: Command) -> None:
    check_line(command("faults", "start-broker", "1", *running.at), "broker 1 is running already")
    check_line(command("faults", "kill-broker", "7", *running.at), "there is no broker 7: 1, 2, 3")
    move = ("faults", "move-leader", "absent", "0", "--to", "1", *running.at)
    check_line(command(*move), "there is no topic 'absent'")
    check_line(command("serve", "--memory", "--brokers", "2", "--zookeeper", "127.0.0.1:1"), "leave --brokers out")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"do": "kill-broker"}', "give broker, and nothing else"),
        ('{"do": "kill-broker", "broker": "2"}', "broker is no int"),
        ('{"do": "kill-broker", "broker": true}', "broker is no int"),
        ('{"do": "elect-leaders", "broker": 2}', "give nothing else"),
        ('{"do": "elect-unclean", "topic": "orders", "partition": 0, "to": 1, "lose": -1}', "lose=-1"),
    ],
)
def test_what_is_posted_is_checked(running: Running, body: str, told: str) -> None:
    status, text = ask(running.port, "POST", body=body)
    assert (status, told in text) == (400, True), text
