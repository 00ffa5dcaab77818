"""What groups have been through: history, explain, watch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Producer
from equipoise.console.commands.groups.watch import screen
from equipoise.console.output import Output
from tests.broker.conftest import eventually
from tests.commands import Command
from tests.console.groups.golden import masked
from tests.watching.conftest import Join

PATIENCE_S = 60


def test_a_join_explained(groups: Command, broker: Broker, join: Join) -> None:
    join("billing", "one")
    assert broker.groups["billing"].rebalances
    assert masked(groups("explain", "billing").out).splitlines() == [
        "Generation 0 → 1 of billing, TIME, took T",
        "  why      one-ID (client one, 127.0.0.1) joined",
        "  phases   detect N ms   join N ms   assign N ms   sync N ms",
        "  moved    4 of 4 partitions: orders:0,1,2,3 to one-ID",
        "  zone     UTC",
    ]


def test_the_transaction_that_readers_wait_for_is_named(groups: Command, broker: Broker, join: Join) -> None:
    """Rule T.98: why a reader of committed records stands still."""
    join("billing", "one")
    assert broker.groups["billing"].rebalances
    with Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "bills"}) as producer:
        producer.begin_transaction()
        offset = producer.send("orders", b"1", partition=2).result(PATIENCE_S).offset
        producer.send("orders", b"2", partition=2).result(PATIENCE_S)
        told = [line for line in groups("explain", "billing").out.splitlines() if line.startswith("  waits ")]
        assert [re.sub(r"(producer|for) \d+", r"\1 N", line) for line in told] == [
            f"  waits    orders-2: readers of committed records stop at offset {offset}, before a transaction of bills "
            "(producer N) that is open for N s; it times out after 60 s"
        ]
        producer.commit_transaction()
        eventually(lambda: "waits" not in groups("explain", "billing").out, "nobody waits")


def test_a_removal_explained_the_worst_and_by_its_generation(groups: Command, broker: Broker, join: Join) -> None:
    consumer = join("billing", "one")
    groups("remove-member", "billing", consumer.member_id, "--reason", "drill")
    assert len(broker.groups["billing"].rebalances) == 2
    lines = masked(groups("explain", "billing", "2").out).splitlines()
    assert lines[1] == '  why      one-ID (client one, 127.0.0.1) left, saying "drill"'
    assert lines[3:-1] == ["  ended    without members", "  moved    0 of 4 partitions; nobody has orders:0,1,2,3"]
    assert "joined" in groups("explain", "billing", "worst").out
    ended = groups("explain", "billing", "9")
    assert ended.status == 2
    assert "generation 9 of 'billing' is not known; known are 1, 2, last and worst" in ended.err


def test_a_target_epoch_explained(groups: Command, broker: Broker, join: Join) -> None:
    join("billing", "one", group_protocol="consumer")
    assert broker.groups["billing"].rebalances
    first, why, *_ = masked(groups("explain", "billing").out).splitlines()
    assert re.fullmatch(r"Epoch \d+ → \d+ of billing, TIME, took T", first)
    assert "joined" in why


def test_history_tells_all_in_order(groups: Command, broker: Broker, join: Join) -> None:
    consumer = join("billing", "one")
    groups("remove-member", "billing", consumer.member_id)
    assert len(broker.groups["billing"].rebalances) == 2
    shown = groups("history", "billing", "--since", "10m").out
    assert re.search(r"0 -> 1  because one-.*joined(?s:.*)1 -> 2  because one-.*left", shown)
    assert shown.endswith("Source: the journal of this broker. Times in UTC.\n")
    found = json.loads(groups("history", "billing", "--json").out)
    assert (found["schema"], found["group_id"], len(found["rebalances"])) == ("equipoise.rebalances/1", "billing", 2)
    assert found["rebalances"][0]["words"][1].startswith("  why      one-")
    assert groups("history", "billing", "--since", "soon").status == 2


@contextmanager
def watched(broker: Broker, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`equipoise groups watch` as a process whose output is a pipe."""
    command = [sys.executable, "-m", "equipoise", "groups", *arguments, "-b", broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.mark.parametrize("arguments", [["watch", "billing", "--json"], ["watch", "--all", "--json"]])
def test_watch_on_a_pipe_is_an_object_for_each_event(broker: Broker, join: Join, arguments: list[str]) -> None:
    consumer = join("billing", "one")
    assert broker.groups["billing"].rebalances
    with watched(broker, *arguments, "--every", "1h") as process, Admin(broker.bootstrap_servers) as admin:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {
            "type": "state", "group_id": "billing", "state": "Stable", "members": 1,
        }  # fmt: skip
        admin.remove_members("billing", [(consumer.member_id, None)])
        event = json.loads(process.stdout.readline())
        assert (event["type"], event["group_id"], event["cause"]["trigger"]) == ("rebalance", "billing", "member_left")


def test_watch_says_that_a_group_is_not_there_and_goes_on(broker: Broker, join: Join) -> None:
    with watched(broker, "watch", "billing", "--every", "100ms", "--utc") as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        join("billing", "one")
        lines = iter(process.stdout.readline, "")
        assert any("billing  Stable, " in line for line in lines)
        process.kill()  # how it ends is not asked here
    assert re.fullmatch(
        r"[-\d]+ [:\d]+  billing  there is no group 'billing'; check its name: `equipoise groups list` shows all\n",
        first,
    )


def test_watch_tells_a_program_that_a_group_is_not_there(broker: Broker, join: Join) -> None:
    with watched(broker, "watch", "billing", "--every", "100ms", "--json") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        join("billing", "one")
        events = (json.loads(line) for line in iter(process.stdout.readline, ""))
        assert any(one["type"] == "state" and one["state"] == "Stable" for one in events)
        process.kill()
    assert first == {"type": "state", "group_id": "billing", "state": None, "members": 0}


def test_the_screen_shows_members_and_rebalances(broker: Broker, join: Join) -> None:
    from rich.console import Console

    from equipoise.views.model import ClusterView
    from tests.watching.test_watcher import look

    join("billing\x1b[2J", "one")
    assert broker.groups["billing\x1b[2J"].rebalances
    found: ClusterView = look(broker)
    console = Console(width=200, record=True, force_terminal=False)
    with console.capture() as shown:
        console.print(screen(found.groups, Output(utc=True)))
    text = shown.get()
    assert "\x1b[2J" not in text
    assert r"billing\x1b[2J  Stable" in text
    assert "127.0.0.1" in text
    assert "joined" in text
    with console.capture() as several:
        console.print(screen((*found.groups, *found.groups), Output(utc=True)))
    assert several.get().count("Stable") == 2
