"""The demo: its play with members that need no Spark, and the accounts it gives of the orders."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from equipoise import Broker, Producer
from equipoise.console.demo import members, with_spark
from equipoise.console.demo.accounts import QueryOutput, account, has_open_transactions, read_shipped
from equipoise.console.demo.orders import SHIPPED, SHIPPED_PARTITIONS
from equipoise.console.demo.picture import Span, spans
from equipoise.console.demo.watch import Sighting
from equipoise.views.model import ClusterView, Ms
from equipoise.watching.access import Access
from equipoise.watching.watcher import Watched, watching
from tests.commands import Command

SCRIPT = Path(__file__).with_name("demo_query.py")


def test_the_play(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that is killed with SIGKILL and comes back, and others; only Spark itself is left out."""
    monkeypatch.setattr(
        members,
        "query_command",
        lambda name, directory, servers: [sys.executable, str(SCRIPT), name, servers],
    )
    monkeypatch.setattr(with_spark, "_FLOW_S", 1.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    picture = tmp_path / "picture.png"
    ended = command("demo", "--picture", str(picture))
    assert ended.status == 0, ended
    assert "0 orders are missing, 0 orders are there twice." in ended.out
    assert re.search(r"lost its connection and did not come back \(silent for [\d.]+ s", ended.out)
    assert f"Who had which partition when: {picture}" in ended.out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_spark(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = command("demo", "--without-spark")
    assert ended.status == 0, ended
    assert "0 orders are missing, 0 orders are there twice." in ended.out
    assert re.search(r"why +consumer-1-\w+ \(client consumer-1, 127.0.0.1\) left", ended.out), ended.out
    assert "4 of 12 partitions" in ended.out
    told = re.search(r"equipoise serve --data (\S+) --console\n +http://127.0.0.1:9080/groups/(\S+)", ended.out)
    assert told is not None, ended.out
    check_history(Path(told[1]), told[2])


def check_history(data: Path, group_id: str) -> None:
    """What the demo has left is what a console will show."""
    with Broker(data=data) as broker:

        async def look() -> ClusterView:
            access = Access(bootstrap_servers=broker.bootstrap_servers)
            async with watching(access, Watched(since=Ms(0))) as watcher:
                return await watcher.look()

        (group,) = [one for one in asyncio.run(look()).groups if one.group_id == group_id]
    assert len(group.rebalances) >= 3
    assert group.state == "Empty"


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_make_run(tmp_path: Path) -> None:
    """All of it, as a process and with Spark: what was written is found in the outputs, once."""
    picture = tmp_path / "picture.png"
    command = [sys.executable, "-m", "equipoise", "demo", "--picture", str(picture)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=850, check=False)
    assert ended.returncode == 0, ended
    assert ended.stderr == ""
    told = re.search(r"([\d,]+) orders written; found in the outputs: (.+)\.", ended.stdout)
    assert told is not None, ended.stdout
    found = dict(part.rsplit(" ", 1) for part in told[2].split(", "))
    assert set(found) == {"query-1", "query-2", "query-3", "plain consumer"}
    counts = {name: int(count.replace(",", "")) for name, count in found.items()}
    assert min(counts.values()) > 0
    assert sum(counts.values()) == int(told[1].replace(",", ""))
    assert "0 orders are missing, 0 orders are there twice." in ended.stdout
    assert "lost its connection and did not come back" in ended.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_query_that_ends_is_told_of(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fails = "import sys; print('equipoise: no luck', file=sys.stderr); sys.exit(2)"
    waits = "import time; time.sleep(3600)"  # until it is killed: which of two ended first would be chance
    programs = {"query-1": fails, "query-2": waits}
    monkeypatch.setattr(members, "query_command", lambda name, *_: [sys.executable, "-c", programs[name]])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = command("demo", "--picture", str(tmp_path / "picture.png"))
    assert ended.status == 2
    assert ended.err == "equipoise: query-1 ended: equipoise: no luck\n"
    assert not list(tmp_path.iterdir()), "data of which nobody was told"


def test_without_java_one_sentence(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    ended = command("demo")
    assert ended.status == 2
    assert ended.err.startswith("equipoise: Spark needs Java 17 or newer and there is none: run `make java`")
    assert ended.err.count("\n") == 1


# -- accounts


def test_all_is_well() -> None:
    found = account(4, [QueryOutput("a", [0, 1]), QueryOutput("b", [3, 2])])
    assert found.is_right
    assert found.lines() == [
        "4 orders written; found in the outputs: a 2, b 2.",
        "0 orders are missing, 0 orders are there twice.",
    ]


def test_what_is_there_twice_is_named() -> None:
    found = account(4, [QueryOutput("a", [0, 1, 2]), QueryOutput("b", [1, 2, 3])])
    assert not found.is_right
    assert "2 orders are there TWICE, the first is 1." in found.lines()


def test_what_is_missing_is_named() -> None:
    found = account(4, [QueryOutput("a", [0, 3])])
    assert not found.is_right
    assert "2 orders are MISSING, the first is 1." in found.lines()


def test_only_what_is_committed_counts() -> None:
    with Broker(topics={SHIPPED: SHIPPED_PARTITIONS}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "a"}
        with Producer(settings) as producer:
            for order in range(3):
                producer.begin_transaction()
                producer.send(SHIPPED, json.dumps({"order": order}), key="a")
                producer.flush()
                assert has_open_transactions(broker.bootstrap_servers)
                producer.abort_transaction() if order == 1 else producer.commit_transaction()
        until_closed = time.monotonic() + 60
        while has_open_transactions(broker.bootstrap_servers):
            assert time.monotonic() < until_closed
        found = read_shipped(broker.bootstrap_servers, ["a", "b"])
        assert [(one.name, sorted(one.orders)) for one in found] == [("a", [0, 2]), ("b", [])]


# -- the picture


def test_spans_of_a_partition() -> None:
    looks = [Sighting(at, owners, 0) for at, owners in ((0, {}), (1, {0: "a"}), (2, {0: "a"}), (3, {0: "b"}))]
    assert list(spans(looks, 1)) == [Span(0, "", 0, 1), Span(0, "a", 1, 3), Span(0, "b", 3, 3)]
