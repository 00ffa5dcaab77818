"""`equipoise produce` and `equipoise consume`, `topics` that change, and `cluster`, on our broker."""

from __future__ import annotations

import io
import json
import sys

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, TopicPartition
from tests.commands import Command, Ended


class _Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)
        self.encoding = "utf-8"


@pytest.fixture
def call(command: Command, broker: Broker) -> Command:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 2)

    def run(*arguments: str) -> Ended:
        return command(*arguments, "-b", broker.bootstrap_servers)

    return run


@pytest.fixture
def send(call: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`send("a\\nb\\n", "--partition", "0")` pipes lines into `equipoise produce orders`."""

    def pipe(text: str, *arguments: str) -> Ended:
        monkeypatch.setattr(sys, "stdin", _Stdin(text.encode()))
        return call("produce", "orders", *arguments)

    return pipe


def test_lines_become_records_and_records_lines(send: Command, call: Command) -> None:
    assert send("one\ntwo\n", "--partition", "1") == Ended(0, "", "produced 2 records to orders\n")
    assert call("consume", "orders", "--exit").out == "one\ntwo\n"
    assert call("consume", "orders", "--exit", "--partition", "0").out == ""
    assert call("consume", "orders", "--from", "-1", "--count", "1").out == "two\n"
    assert call("consume", "orders", "--partition", "1", "--from", "1", "--exit").out == "two\n"
    assert call("consume", "orders", "--from", "1h", "--exit").out == "one\ntwo\n"
    assert call("consume", "orders", "--until", "1h", "--exit").out == ""


def test_keys_headers_and_forms(send: Command, call: Command) -> None:
    send("7:late\n", "--key-separator", ":", "--header", "origin=shop", "--partition", "0", "--compression", "zstd")
    shown = call("consume", "orders", "--exit", "--format", r"%t %p %o %k=%s %h 100%%\n").out
    assert shown == "orders 0 0 7=late origin=shop 100%\n"
    row = json.loads(call("consume", "orders", "--exit", "--format", "json").out)
    assert (row["type"], row["key"], row["value"], row["headers"]) == ("record", "7", "late", [["origin", "shop"]])


def test_objects_become_records(send: Command, call: Command) -> None:
    text = '{"key": "7", "value": {"total": 3}, "headers": {"a": "b"}, "partition": 1}\n{"key": "8", "value": null}\n'
    assert send(text, "--input", "json", "--acks", "1").status == 0
    rows = [json.loads(line) for line in call("consume", "orders", "--exit", "--format", "json").out.splitlines()]
    assert {(one["key"], one["value"]) for one in rows} == {("7", '{"total":3}'), ("8", None)}
    ended = send("no object\n", "--input", "json")
    assert (ended.status, ended.out) == (2, "")
    assert "line 1 of the input is no JSON object" in ended.err


def test_a_group_reads_on_where_it_was(send: Command, call: Command, broker: Broker) -> None:
    send("one\ntwo\n", "--partition", "0")
    assert call("consume", "orders", "--group", "billing", "--exit").out == "one\ntwo\n"
    send("three\n", "--partition", "0")
    assert call("consume", "orders", "--group", "billing", "--exit").out == "three\n"
    assert call("consume", "orders", "--group", "billing", "--from", "begin", "--exit").out == "one\ntwo\nthree\n"
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.committed("billing")[TopicPartition("orders", 0)].offset == 3


def test_at_a_terminal_a_record_cannot_move_the_cursor(
    send: Command, call: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    send("a\x1b[2Jb\n")
    assert call("consume", "orders", "--exit").out == "a\x1b[2Jb\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert call("consume", "orders", "--exit").out == "a\\x1b[2Jb\n"


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["consume", "orders", "--group", "g", "--partition", "1"], 2, "--partition and --group exclude each other"),
        (["consume", "orders", "--from", "stored"], 2, "--from stored needs --group"),
        (["consume", "orders", "--from", "soon", "--exit"], 2, "--from soon: write an age"),
        (["consume", "orders", "--partition", "9"], 2, "orders has no such partition"),
        (["consume", "nothing"], 1, "topic 'nothing' does not exist"),
        (["produce", "orders", "--input", "json", "--key-separator", ":"], 2, "--key-separator is for lines"),
        (["topics", "add-partitions", "orders", "1"], 2, "(INVALID_PARTITIONS)"),
        (["topics", "set", "orders", "retention"], 2, "retention: write NAME=VALUE"),
        (["topics", "trim", "orders:9", "--before", "1"], 2, "topic 'orders' has no such partition"),
    ],
)
def test_a_slip_is_one_line(call: Command, arguments: list[str], status: int, told: str) -> None:
    ended = call(*arguments)
    assert (ended.status, ended.out) == (status, "")
    assert told in ended.err
    assert ended.err.count("\n") == 1


def test_topics_grow_are_configured_and_trimmed(call: Command, send: Command, broker: Broker) -> None:
    assert call("topics", "add-partitions", "orders", "3").out == "topic orders has 3 partitions\n"
    assert call("topic", "set", "orders", "retention.ms=60000").out == "topic orders:\n  retention.ms=60000\n"
    assert call("topics", "set", "orders", "retention.ms=").out == (
        "topic orders:\n  retention.ms has the broker's default\n"
    )
    send("a\nb\nc\n", "--partition", "0")
    assert call("topics", "trim", "orders:0", "--before", "2", "--yes").out == "deleted 2 records of orders\n"
    assert call("consume", "orders", "--exit").out == "c\n"
    assert call("topics", "trim", "orders", "--before", "latest", "--yes").out == "deleted 1 record of orders\n"
    found = json.loads(call("topics", "describe", "orders", "--json").out)
    assert (found["schema"], found["topics"][0]["configs"]) == ("equipoise.topics/1", {})
    assert [one["log_start"] for one in found["topics"][0]["partitions"]] == [3, 0, 0]
    listed = json.loads(call("topics", "list", "--json").out)
    assert [one["name"] for one in listed["topics"]] == ["orders"]
    told = json.loads(call("topics", "create", "more", "--json").out)
    assert told["changes"] == [{"name": "more", "error": None, "partitions": 1, "deleted_records": None}]
    assert json.loads(call("topics", "delete", "more", "--json").out)["changes"][0]["name"] == "more"


def test_the_cluster_says_what_it_cannot_tell(call: Command) -> None:
    first, *rest = call("cluster").out.splitlines()
    assert first.startswith("cluster ")
    assert first.endswith(", 0 groups")
    assert rest[1].split()[-1] == "controller"
    call("consume", "orders", "--group", "billing", "--exit")
    found = json.loads(call("cluster", "--json").out)
    assert (found["schema"], found["source"], found["unknown"]) == ("equipoise.cluster/1", "journal", [])
    assert (found["groups"], found["brokers"][0]["is_controller"]) == (1, True)
