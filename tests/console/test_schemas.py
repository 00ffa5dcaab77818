"""What `--json` prints keeps to docs/schemas, which are made from the dataclasses of the views."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, TopicPartition
from proving.tree import ROOT
from tests.commands import Command
from tests.console.schemas import all_schemas, check
from tests.watching.conftest import Join, Produce
from tests.watching.conftest import join as join
from tests.watching.conftest import produce as produce
from tests.watching.conftest import topic as topic

DIRECTORY = ROOT / "docs" / "schemas"


@pytest.mark.parametrize("name", sorted(all_schemas()))
def test_the_schema_is_that_of_the_code(name: str, pytestconfig: pytest.Config) -> None:
    text = json.dumps(all_schemas()[name], indent=1) + "\n"
    file = DIRECTORY / f"{name}-1.json"
    if pytestconfig.getoption("--rewrite-transcripts"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_is_printed_keeps_to_the_schema(
    command: Command, broker: Broker, join: Join, produce: Produce, protocol: str
) -> None:
    produce(10)
    consumer = join("billing", "worker", group_protocol=protocol)
    consumer.commit({TopicPartition("orders", 0): 4})
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("reports", {TopicPartition("orders", 0): 3})
    assert broker.groups["billing"].rebalances
    for arguments, name in (
        (["groups", "list"], "groups"),
        (["groups", "describe", "billing", "reports"], "groups"),
        (["groups", "members", "billing"], "groups"),
        (["groups", "lag", "reports"], "groups"),
        (["groups", "offsets", "billing"], "groups"),
        (["groups", "history", "billing"], "rebalances"),
        (["groups", "explain", "billing"], "rebalances"),
        (["cluster"], "cluster"),
        (["topics", "list"], "topics"),
        (["topics", "describe", "orders"], "topics"),
        (["groups", "reset", "reports", "--to", "latest", "--dry-run"], "reset"),
    ):
        ended = command(*arguments, "--json", "-b", broker.bootstrap_servers)
        assert ended.status == 0, ended.err
        check(json.loads(ended.out), all_schemas()[name])


def test_what_changes_something_keeps_to_the_schema(command: Command, broker: Broker, topic: str) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        for name in ("reports", "audit"):
            admin.commit_offsets(name, {TopicPartition("orders", number): 0 for number in range(2)})
    for arguments, name in (
        (["topics", "create", "payments", "--partitions", "2"], "changes"),
        (["topics", "add-partitions", "payments", "3"], "changes"),
        (["topics", "set", "payments", "retention.ms=1000"], "changes"),
        (["topics", "trim", "payments", "--before", "latest", "--yes"], "changes"),
        (["topics", "delete", "payments"], "changes"),
        (["groups", "reset", "reports", "--to", "earliest", "--yes"], "reset"),
        (["groups", "delete-offsets", "reports", "--topic", "orders:1", "--yes"], "changes"),
        (["groups", "delete", "audit", "--yes"], "changes"),
        (["groups", "check", "reports", "--max-lag", "0"], "checks"),
    ):
        ended = command(*arguments, "--json", "-b", broker.bootstrap_servers)
        assert ended.status == 0, ended.err
        check(json.loads(ended.out), all_schemas()[name])


def test_a_member_that_is_removed_and_a_group_that_is_not_well(command: Command, broker: Broker, join: Join) -> None:
    member = join("billing", "worker")
    at = "-b", broker.bootstrap_servers, "--json"
    removed = command("groups", "remove-member", "billing", member.member_id, *at)
    assert removed.status == 0
    check(json.loads(removed.out), all_schemas()["changes"])
    unwell = command("groups", "check", "nothing", *at)
    assert unwell.status == 1
    check(json.loads(unwell.out), all_schemas()["checks"])
    assert json.loads(unwell.out)["groups"][0]["is_well"] is False


def test_one_of_several_that_fails_says_so_in_its_row(command: Command, broker: Broker, topic: str) -> None:
    at = "-b", broker.bootstrap_servers, "--json"
    for arguments in (["topics", "delete", "orders", "nothing"], ["groups", "delete", "nothing", "--yes"]):
        ended = command(*arguments, *at)
        assert ended.status == 1
        check(json.loads(ended.out), all_schemas()["changes"])
        *_, last = json.loads(ended.out)["changes"]
        assert last["name"] == "nothing"
        assert last["error"]["code"] in ("UNKNOWN_TOPIC_OR_PARTITION", "GROUP_ID_NOT_FOUND")
        assert "equipoise: nothing: " in ended.err


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["groups", "members", "nothing"], 1, "GROUP_ID_NOT_FOUND"),
        (["topics", "describe", "nothing"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["topics", "create", "no/name"], 2, "INVALID_TOPIC_EXCEPTION"),
        (["groups", "explain", "nothing", "--since", "soon"], 2, "USAGE"),
        (["groups", "lag", "nothing", "-b", "127.0.0.1:1", "--timeout", "1s"], 3, "UNREACHABLE"),
    ],
)
def test_an_error_is_an_object_too(
    command: Command, broker: Broker, arguments: list[str], status: int, code: str
) -> None:
    where = [] if "-b" in arguments else ["-b", broker.bootstrap_servers]
    ended = command(*arguments, *where, "--json")
    assert ended.status == status
    told = json.loads(ended.out)
    check(told, all_schemas()["error"])
    assert told["error"]["code"] == code
    assert ended.err.startswith("equipoise: ")
    assert ended.err.count("\n") == 1


def test_lines_of_streams_keep_to_the_schema(command: Command, broker: Broker, join: Join, produce: Produce) -> None:
    produce(2)
    at = "-b", broker.bootstrap_servers
    records = command("consume", "orders", "--exit", "--json", *at)
    lines = records.out.splitlines()
    join("billing", "worker")
    assert broker.groups["billing"].rebalances
    (view,) = json.loads(command("groups", "history", "billing", "--json", *at).out)["rebalances"]
    events = [json.loads(one) for one in lines] + [{"type": "rebalance", **view}]
    events.append({"type": "state", "group_id": "billing", "state": None, "members": 0})
    assert [one["type"] for one in events] == ["record", "record", "rebalance", "state"]
    for one in events:
        check(one, all_schemas()["events"])


def test_what_was_produced_keeps_to_the_schema(command: Command, broker: Broker, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("a\nb\n")
    ended = command("produce", "orders", str(file), "--json", "-b", broker.bootstrap_servers)
    assert ended.status == 0, ended.err
    check(json.loads(ended.out), all_schemas()["produced"])
    assert json.loads(ended.out)["records"] == 2


def test_no_name_in_json_can_move_the_cursor(command: Command, broker: Broker, topic: str) -> None:
    evil = "a\x1b[2J\x9b2J\u202e\x7fé"
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets(evil, {TopicPartition("orders", 0): 0})
    ended = command("groups", "list", "--json", "-b", broker.bootstrap_servers)
    assert ended.out.removesuffix("\n").isprintable()
    assert json.loads(ended.out)["groups"][0]["group_id"] == evil
