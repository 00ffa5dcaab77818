"""`equipoise topics` against our broker."""

from __future__ import annotations

import re
import sys

import pytest
from confluent_kafka import Producer

from equipoise.broker import Broker
from equipoise.console.tables import print_table
from tests.commands import Command, Ended


@pytest.fixture
def topics(command: Command, broker: Broker) -> Command:
    def call(*arguments: str) -> Ended:
        return command("topics", *arguments, "--bootstrap-servers", broker.bootstrap_servers)

    return call


def test_a_topic_from_its_creation_to_its_end(topics: Command) -> None:
    assert topics("list").out.startswith("no topics on 127.0.0.1:")
    assert topics("create", "orders", "--partitions", "3").out == "created topic orders with 3 partitions\n"
    assert topics("create", "audit").out == "created topic audit with 1 partition\n"
    assert topics("list").out.splitlines() == [
        "topic   partitions  replicas  internal",
        "audit   1           1",
        "orders  3           1",
    ]
    assert topics("delete", "orders", "audit").out == "deleted topic orders\ndeleted topic audit\n"
    assert topics("list").out.startswith("no topics on ")


def test_describe_shows_configs_and_offsets(topics: Command, broker: Broker) -> None:
    topics("create", "orders", "--partitions", "2", "--config", "retention.ms=60000", "--config", "segment.ms=1000")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(12):
        producer.produce("orders", b"x", partition=1)
    producer.flush()
    head, *rest = topics("describe", "orders").out.splitlines()
    assert re.fullmatch(r"topic orders, id [\w-]{22}", head)
    assert rest == [
        "2 partitions, 12 records",
        "retention.ms=60000",
        "segment.ms=1000",
        "partition  leader  replicas  in sync  earliest  latest",
        "0          1       1         1        0         0",
        "1          1       1         1        0         12",
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "explanation"),
    [
        (["describe", "nothing"], 1, "create it, or check its name (UNKNOWN_TOPIC_OR_PARTITION)"),
        (["delete", "nothing"], 1, "there is no topic 'nothing' (UNKNOWN_TOPIC_OR_PARTITION)"),
        (["create", "no spaces"], 2, "(INVALID_TOPIC_EXCEPTION)"),
        (["create", "orders", "--config", "retention"], 2, "--config retention: write NAME=VALUE, for instance"),
        (["create", "orders", "--config", "retention=1"], 2, "did you mean 'retention.ms'? (INVALID_CONFIG)"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_status(
    topics: Command, arguments: list[str], status: int, explanation: str
) -> None:
    ended = topics(*arguments)
    assert (ended.status, ended.out) == (status, "")
    assert ended.err.startswith("equipoise: ")
    assert explanation in ended.err
    assert ended.err.count("\n") == 1


def test_no_broker_there_is_one_line(command: Command) -> None:
    ended = command("topics", "list", "--bootstrap-servers", "127.0.0.1:1")
    assert ended == (
        3,
        "",
        "equipoise: cannot connect to 127.0.0.1:1: Connection refused; is a broker listening there?\n",
    )


def test_a_terminal_gets_a_table_with_rules(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(("topic", "partitions"), [("[red]orders", 3), ("audit", 12)])
    lines = capsys.readouterr().out.splitlines()
    assert any("───" in line for line in lines)
    assert any(re.search(r"\[red\]orders +3\b", line) for line in lines)
    assert any(re.search(r"audit +12\b", line) for line in lines)
