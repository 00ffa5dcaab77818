"""`equipoise produce` and `equipoise consume`, `topics` that change, and `cluster`, on our broker."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from tests.commands import Command, Ended
from tests.console.schemas import all_schemas, check


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


def test_arguments_that_are_no_text_are_bytes(send: Command, call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = os.fsdecode(b"\xff")
    monkeypatch.setattr(sys, "stdin", _Stdin(b"7\xfflate\n"))
    call("produce", "orders", "--key-separator", typed, "--header", f"h={typed}")
    shown = json.loads(call("consume", "orders", "--exit", "--json").out)
    assert (shown["key"], shown["value"], shown["headers"]) == ("7", "late", [["h", "\\xff"]])
    stdout = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stdout)
    assert call("consume", "orders", "--exit", "--format", f"%k{typed}%s").status == 0
    assert stdout.buffer.getvalue() == b"7\xfflate"


def test_objects_become_records(send: Command, call: Command) -> None:
    text = '{"key": "7", "value": {"total": 3}, "headers": {"a": "b"}, "partition": 1}\n{"key": "8", "value": null}\n'
    assert send(text, "--input", "json", "--acks", "1").status == 0
    rows = [json.loads(line) for line in call("consume", "orders", "--exit", "--format", "json").out.splitlines()]
    assert {(one["key"], one["value"]) for one in rows} == {("7", '{"total":3}'), ("8", None)}
    ended = send("no object\n", "--input", "json")
    assert (ended.status, ended.out) == (2, "")
    assert "line 1 of the input is no JSON object" in ended.err


def test_what_consume_prints_can_be_produced_again(send: Command, call: Command, broker: Broker) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        several = (("a", b"1"), ("a", b"2"), ("none", None))
        producer.send("orders", b"\xc3\xa9\n", key=b"k", partition=1, headers=several, timestamp=1_700_000_000_123)
        producer.send("orders", None, key=b"gone", partition=1)
    first = call("consume", "orders", "--exit", "--json").out
    assert send(first, "--input", "json") == Ended(0, "", "produced 2 records to orders\n")
    rows = [json.loads(line) for line in call("consume", "orders", "--exit", "--json").out.splitlines()]
    assert rows[2:] == [row | {"offset": row["offset"] + 2} for row in rows[:2]]
    assert (rows[2]["timestamp"], rows[2]["headers"]) == (
        "2023-11-14T22:13:20.123Z", [["a", "1"], ["a", "2"], ["none", None]],
    )  # fmt: skip


_ODD_RECORDS: list[dict[str, Any]] = [
    {"value": None, "key": None},
    {"value": b"", "key": b""},
    {"value": b"\xff\x00\\xff", "key": b"\xc3"},
    {"value": b"x", "headers": [("a", b"\xff"), ("a", None), ("", b""), ("\u202eé", b"text")]},
    {"value": "\\xff \ud7ff\U0001f600\x00\x1b\u2028\n\r".encode()},
    {"value": b"x", "timestamp": -1},
    {"value": b"x", "timestamp": 1_700_000_000_123_456},  # microseconds
    {"value": b"x", "timestamp": (1 << 63) - 1},
    {"value": b"x", "timestamp": 0},
]


@pytest.mark.parametrize("given", _ODD_RECORDS)
def test_every_record_can_be_produced_again(
    send: Command, call: Command, broker: Broker, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.set_configs("orders", {"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    with monkeypatch.context() as other_client:  # ours would refuse the time
        other_client.setattr("equipoise.client.producer.engine._milliseconds", int)
        with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            producer.send("orders", partition=1, **given)
    printed = call("consume", "orders", "--exit", "--json").out
    check(json.loads(printed), all_schemas()["events"])
    assert send(printed, "--input", "json") == Ended(0, "", "produced 1 record to orders\n")
    place = TopicPartition("orders", 1)
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([place])
        found: list[ConsumerRecord] = []
        while len(found) < 2:
            found += consumer.poll(1)
    one, again = found
    assert (again.key, again.value, again.headers) == (one.key, one.value, one.headers)
    if one.timestamp < 0:
        assert json.loads(printed)["timestamp"] is None
    else:
        assert again.timestamp == one.timestamp


def test_bytes_are_written_in_base64(send: Command, call: Command) -> None:
    """They count before the name without."""
    row = {"value": "?", "value_base64": "/w==", "key_base64": None, "key": "k", "headers_base64": {"a": "/w=="}}
    assert send(json.dumps(row), "--input", "json").status == 0
    shown = json.loads(call("consume", "orders", "--exit", "--json").out)
    assert (shown["value"], shown["key"], shown["headers"]) == ("\\xff", "k", [["a", "\\xff"]])
    assert (shown["value_base64"], shown["headers_base64"]) == ("/w==", [["a", "/w=="]])
    assert "key_base64" not in shown


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("5", "is no JSON object, for instance"),
        ("[" * 100_000, "is no JSON object, for instance"),
        ('{"valu": "x"}', "has the unknown name 'valu'; did you mean 'value'?"),
        ('{"amount": 5}', "has the unknown name 'amount'; write value, key, headers, partition, timestamp"),
        ('{"headers": 5}', 'has headers 5; write {"name": "value"}, or'),
        ('{"headers": [["a"]]}', 'has headers [["a"]]; write'),
        ('{"headers": [[1, "a"]]}', 'has headers [[1, "a"]]; write'),
        ('{"partition": "0"}', 'has partition "0"; write a whole number, 0 or more'),
        ('{"partition": true}', "has partition true; write a whole number"),
        ('{"partition": -1}', "has partition -1; write a whole number"),
        ('{"partition": 9}', "partition=9: topic 'orders' has 2, from 0 to 1"),
        ('{"timestamp": 1.5}', "has timestamp 1.5; write milliseconds since 1970, or a time"),
        ('{"timestamp": -5}', "has timestamp -5; write"),
        ('{"timestamp": "soon"}', 'has timestamp "soon"; write'),
        ('{"timestamp": "0001-01-01"}', 'has timestamp "0001-01-01"; write'),
        ('{"timestamp": 9223372036854775808}', "has timestamp 9223372036854775808; write"),
        ('{"value_base64": "a"}', 'has value_base64 "a"; write bytes in base64'),
        ('{"key_base64": 5}', "has key_base64 5; write bytes in base64"),
        ('{"headers_base64": [["a", "é"]]}', "has headers_base64 "),
        ('{"headers_base64": "YQ=="}', 'has headers_base64 "YQ=="; write {"name": "value"}, or'),
        ('{"value": 1e400}', "has value Infinity; write numbers that JSON can hold"),
        ('{"value": {"a": [NaN]}}', 'has value {"a": [NaN]}; write numbers'),
        ('{"partition_base64": ""}', "has the unknown name 'partition_base64'"),
        ('{"key": "\\ud800"}', 'has key "\\ud800"; write text without half a surrogate pair'),
        ('{"headers": {"\\ud800": ""}}', 'has headers "\\ud800"; write text'),
    ],
)
def test_a_bad_line_is_named_and_those_before_it_are_sent(send: Command, call: Command, line: str, told: str) -> None:
    ended = send(f'{{"value": "good"}}\n\n{line}\n{{"value": "not reached"}}\n', "--input", "json")
    assert (ended.status, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith("equipoise: line 3 of the input")
    assert told in ended.err
    assert call("consume", "orders", "--exit").out == "good\n"


def test_a_line_that_is_too_long_is_named(send: Command) -> None:
    ended = send(f"short\n{'x' * 2_000_000}\n")
    assert ended.status == 2
    assert ended.err.startswith("equipoise: line 2 of the input: the record takes 2000")


def test_a_group_reads_on_where_it_was(send: Command, call: Command, broker: Broker) -> None:
    send("one\ntwo\n", "--partition", "0")
    assert call("consume", "orders", "--group", "billing", "--exit").out == "one\ntwo\n"
    send("three\n", "--partition", "0")
    assert call("consume", "orders", "--group", "billing", "--exit").out == "three\n"
    assert call("consume", "orders", "--group", "billing", "--from", "begin", "--exit").out == "one\ntwo\nthree\n"
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.committed("billing")[TopicPartition("orders", 0)].offset == 3


def test_a_member_without_partitions_ends_when_the_others_have_read_all(
    send: Command, call: Command, broker: Broker
) -> None:
    """Static members come first where partitions are shared out: nothing is left for the command."""
    send("one\ntwo\n", "--partition", "0")
    have_all, is_over = threading.Event(), threading.Event()

    def read() -> None:
        settings = broker.client_settings() | {"group.id": "billing", "enable.auto.commit": False}
        with Consumer(settings | {"group.instance.id": "a"}) as a, Consumer(settings | {"group.instance.id": "b"}) as b:
            for one in (a, b):
                one.subscribe(["orders"])
            while not is_over.is_set():
                for one in (a, b):
                    one.poll(0.02)
                if a.assignment() and b.assignment():
                    have_all.set()
                    if len(broker.groups["billing"].members) == 3:
                        a.commit({TopicPartition("orders", 0): 2})

    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read)
        try:
            assert have_all.wait(60)
            assert call("consume", "orders", "--group", "billing", "--exit").out == ""
        finally:
            is_over.set()
        reading.result(60)
    assert _committed(broker, "billing") == 2


def test_the_end_waits_no_longer_than_for_an_answer(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    close = Consumer.close

    def noted(self: Consumer, timeout: float = 30.0) -> None:
        waited.append(timeout)
        close(self, timeout)

    monkeypatch.setattr(Consumer, "close", noted)
    assert call("consume", "orders", "--group", "billing", "--exit", "--timeout", "7s").status == 0
    assert waited == [7.0]


def _committed(broker: Broker, group_id: str) -> int:
    with Admin(broker.bootstrap_servers) as admin:
        return admin.committed(group_id)[TopicPartition("orders", 0)].offset


def test_a_group_has_not_read_what_is_behind_the_count(send: Command, call: Command, broker: Broker) -> None:
    send("one\ntwo\nthree\n", "--partition", "0")
    for number, line in enumerate(("one", "two", "three"), 1):
        ended = call("consume", "orders", "--group", "billing", "--from", "stored", "--count", "1")
        assert (ended.out, _committed(broker, "billing")) == (f"{line}\n", number)


def test_a_group_has_not_read_what_came_after_the_command_began(
    send: Command, call: Command, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(*_: object) -> None:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"late", partition=0)

    send("one\ntwo\n", "--partition", "0")
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("equipoise.console.commands.consume._begin_group", too_late)
        ended = call("consume", "orders", "--group", "billing", "--exit")
    assert (ended.out, _committed(broker, "billing")) == ("one\ntwo\n", 2)
    assert call("consume", "orders", "--group", "billing", "--exit").out == "late\n"


def test_a_group_reads_up_to_a_time(call: Command, broker: Broker) -> None:
    """It has one offset: a record behind the first that is left out waits for the next command."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value, at in ((b"old", 1_700_000_000_000), (b"new", 1_700_000_060_000), (b"late", 1_700_000_000_001)):
            producer.send("orders", value, partition=0, timestamp=at)
    until = "--exit", "--until", "2023-11-14T22:14:00Z"
    assert call("consume", "orders", *until).out == "old\nlate\n"
    assert call("consume", "orders", "--group", "billing", *until).out == "old\n"
    assert _committed(broker, "billing") == 1
    assert call("consume", "orders", "--group", "billing", "--exit").out == "new\nlate\n"


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt, 130), (BrokenPipeError, 2), (SystemExit, 0)])
def test_a_group_has_not_read_what_could_not_be_printed(
    send: Command,
    call: Command,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    status: int,
) -> None:
    def renderer(_: str) -> Callable[[ConsumerRecord], bytes]:
        def render(record: ConsumerRecord) -> bytes:
            if record.value == b"five":
                raise error
            return b""

        return render

    send("one\ntwo\nthree\n", "--partition", "0")
    assert call("consume", "orders", "--group", "billing", "--exit").status == 0
    send("four\nfive\nsix\n", "--partition", "0")
    monkeypatch.setattr("equipoise.console.commands.consume._renderer", renderer)
    assert call("consume", "orders", "--group", "billing", "--exit").status == status
    assert _committed(broker, "billing") == 3


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
        (["consume", "orders", "--group", ""], 2, "--group '': write the name of a group"),
        (
            ["consume", "orders", "--exit", "--format", "%%%z"],
            2,
            "--format %%%z: there is no field %z; fields are %t %p",
        ),
        (["consume", "orders", "--exit", "--format", "5%"], 2, "--format 5%: there is no field %; fields are %t %p"),
        (["consume", "orders", "--from", "soon", "--exit"], 2, "--from soon: write an age"),
        (["consume", "orders", "--partition", "9"], 2, "orders has no such partition"),
        (["consume", "orders", "--partition", "0", "--partition", "9"], 2, "--partition 9: orders has no such"),
        (["consume", "nothing"], 1, "topic 'nothing' does not exist"),
        (["produce", "orders", "--input", "json", "--key-separator", ":"], 2, "--key-separator is for lines"),
        (["produce", "orders", "--key-separator", ""], 2, "--key-separator '': write what stands between"),
        (["topics", "add-partitions", "orders", "1"], 2, "(INVALID_PARTITIONS)"),
        (
            ["topics", "set", "orders", "retention"],
            2,
            "equipoise: retention: write NAME=VALUE, for instance retention.ms=3600000\n",
        ),
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


@pytest.mark.parametrize("numbers", ["5-0", "1-", "-1", "", "0,", "0-99999999999999"])
def test_a_slip_in_partitions_trims_no_others(send: Command, call: Command, numbers: str) -> None:
    send("one\n", "--partition", "1")
    ended = call("topics", "trim", f"orders:{numbers}", "--before", "latest", "--yes")
    if numbers == "0-99999999999999":  # more than there are, and than memory
        assert (ended.status, ended.out) == (0, "deleted 1 record of orders\n")
    else:
        assert (ended.status, ended.out) == (2, "")
        assert "for some partitions" in ended.err
        assert call("consume", "orders", "--exit").out == "one\n"


def test_the_cluster_says_what_it_cannot_tell(call: Command) -> None:
    first, *rest = call("cluster").out.splitlines()
    assert first.startswith("cluster ")
    assert first.endswith(", 0 groups")
    assert rest[1].split()[-1] == "controller"
    call("consume", "orders", "--group", "billing", "--exit")
    found = json.loads(call("cluster", "--json").out)
    assert (found["schema"], found["source"], found["unknown"]) == ("equipoise.cluster/1", "journal", [])
    assert (found["groups"], found["brokers"][0]["is_controller"]) == (1, True)
