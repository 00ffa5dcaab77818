"""`equipoise serve --faults` and `equipoise faults`: a broker process whose members a test disturbs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import NamedTuple

import pytest

from equipoise import Admin, Consumer, TopicPartition
from equipoise.server_process import free_port
from tests.commands import Command, check_line
from tests.console.test_serve import serving

PATIENCE_S = 30
ORDERS_0 = TopicPartition("orders", 0)


class Running(NamedTuple):
    """A broker process with one member, and where its faults are set."""

    member: Consumer
    port: int
    admin: Admin

    @property
    def at(self) -> tuple[str, str]:
        return "--at", f"127.0.0.1:{self.port}"

    def member_ids(self) -> list[str]:
        return [one.member_id for one in self.admin.describe_group("billing").members]

    def until(self, condition: Callable[[], object]) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < ends
            self.member.poll(0.01)


@pytest.fixture
def running() -> Iterator[Running]:
    port = free_port()
    arguments = ("--memory", "--set", "group.initial.rebalance.delay.ms=0", "--faults", f"127.0.0.1:{port}")
    with serving(*arguments) as (_, address):
        settings = {"bootstrap.servers": address, "group.id": "billing", "client.id": "first"}
        settings |= {"heartbeat.interval.ms": "100", "enable.auto.commit": "false"}
        with Admin(address) as admin, Consumer(settings) as member:
            admin.create_topic("orders", 2)
            member.subscribe(["orders"])
            found = Running(member, port, admin)
            found.until(member.assignment)
            yield found


def ask(port: int, method: str, path: str = "/faults", body: str | None = None, **headers: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_kicked_member_comes_back(running: Running, command: Command) -> None:
    before = running.member_ids()
    ended = command("faults", "kick", "billing", "first", *running.at)
    assert (ended.status, ended.out, ended.err) == (0, "done\n", "")
    running.until(lambda: running.member_ids() not in ([], before))


def test_a_fault_is_listed_counted_and_ended(running: Running, command: Command) -> None:
    lose = ("faults", "lose", "OffsetCommit", "--times", "1", "--who", "first", *running.at)
    assert command(*lose).out == "fault 1 is in force: equipoise faults end 1\n"
    running.member.commit({ORDERS_0: 3})
    assert running.member.committed([ORDERS_0])[ORDERS_0].offset == 3
    assert command("faults", "list", *running.at).out.count("\n") == 1  # spent, and gone
    assert command("faults", "delay", "OffsetCommit", "--ms", "200", *running.at).status == 0
    began = time.monotonic()
    running.member.commit({ORDERS_0: 4})
    assert time.monotonic() - began >= 0.2
    listed = command("faults", "list", *running.at).out.splitlines()[1].split()
    assert listed == ["2", "delay", "OffsetCommit", "1"]
    assert command("faults", "end", "2", *running.at).out == "ended: 1\n"
    assert command("faults", "end", "--all", *running.at).out == "ended: 0\n"


def test_clear_refusals(running: Running, command: Command) -> None:
    check_line(command("faults", "kick", "billing", "nobody", *running.at), "there is no member 'nobody'")
    check_line(command("faults", "kick", "other", "first", *running.at), "there is no group 'other'")
    check_line(command("faults", "delay", "OfsetCommit", "--ms", "1", *running.at), "no API 'OfsetCommit' is served")
    check_line(command("faults", "end", "9", *running.at), "no fault 9 is in force")
    check_line(command("faults", "end", *running.at), "or --all")
    fail = ("faults", "fail", "JoinGroup", "--error", "NO_SUCH", *running.at)
    check_line(command(*fail), "Kafka has no error 'NO_SUCH'")
    check_line(command("faults", "list", "--at", f"127.0.0.1:{free_port()}"), "serve --faults", status=3)
    check_line(command("serve", "--memory", "--faults", "0.0.0.0:0"), "can be reached from other machines")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("[]", "send a JSON object"),
        ("{", "send a JSON object"),
        ('{"do": "explode"}', "cannot do 'explode': kick"),
        ('{"do": ["kick"]}', "cannot do"),
        ('{"do": "kick", "group": "billing"}', "give group and who"),
        ('{"do": "kick", "group": "billing", "who": 3}', "give group and who"),
        ('{"do": "delay", "apis": ["Fetch"]}', "give ms too"),
        ('{"do": "delay", "apis": ["Fetch"], "ms": true}', "ms is no int"),
        ('{"do": "delay", "apis": [1], "ms": 1}', "a list of names"),
        ('{"do": "delay", "apis": ["Fetch"], "ms": -1}', "ms is negative"),
        ('{"do": "lose", "ms": 5}', "'ms' is not for this fault"),
        ("[" * 4000, "send a JSON object"),
    ],
)
def test_what_is_posted_is_checked(running: Running, body: str, told: str) -> None:
    status, text = ask(running.port, "POST", body=body)
    assert (status, told in text) == (400, True), text
    assert json.loads(ask(running.port, "GET")[1]) == []


def test_no_browser_reaches_it(running: Running) -> None:
    assert ask(running.port, "GET", Host="evil.example:80")[0] == 403
    assert ask(running.port, "POST", body="{}", Origin="http://127.0.0.1:9080")[0] == 403
    assert ask(running.port, "GET", "/")[0] == 404
    assert ask(running.port, "PUT")[0] == 405
    assert ask(running.port, "POST", body="x" * 10_000)[0] == 413
