"""docs/zookeeper.md says what the code does; the example does what the document says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.settings import render
from equipoise.wire.errors import UsageError
from equipoise.zookeeper import ZooKeeperConsumer, whitelist
from equipoise.zookeeper.config import ZooKeeperConsumerConfig, rows
from tests.commands import Command
from tests.console.conftest import command
from tests.test_documents import table

__all__ = ["command"]

ROOT = Path(__file__).parent.parent.parent


def test_the_page_lists_the_settings() -> None:
    expected = [[name, render(row.default) or "(empty)", row.metadata["doc"]] for name, row in rows().items()]
    assert table("docs/zookeeper.md", "Settings") == expected


def test_the_example_shows_the_orphan_and_the_refusal() -> None:
    command = [sys.executable, str(ROOT / "examples" / "zookeeper_orphan.py")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = ended.stdout.splitlines()
    document = (ROOT / "docs" / "zookeeper.md").read_text(encoding="utf-8")
    assert len(lines) == 4
    for number in (0, 1, 3):
        assert lines[number] in document
    assert "InconsistentStrategyError" not in ended.stderr
    assert lines[2].startswith("safe: c1 is refused: safe_c1-")


@pytest.mark.parametrize(
    ("settings", "explanation"),
    [
        ({}, "zookeeper.connect is missing"),
        ({"zookeeper.connect": "x:1"}, "group.id=''"),
        ({"zookeeper.connect": "x:1", "group.id": "a b"}, "group.id='a b'"),
        ({"zookeeper.connect": "x:1", "group.id": ".."}, "neither . nor .."),
        ({"zookeeper.connect": "x:1", "group.id": "a", "mode": "brave"}, "mode=brave: must be one of safe, faithful"),
        (
            {"zookeeper.connect": "x:1", "group.id": "a", "rebalance.backof.ms": 1},
            "did you mean 'rebalance.backoff.ms'?",
        ),
        ({"zookeeper.connect": "x:1", "group.id": "a", "auto.offset.reset": "latest"}, "one of largest, smallest"),
        (
            {"zookeeper.connect": "x:1", "group.id": "a", "roundrobin.equal.subscriptions": "true"},
            "it goes with mode=faithful",
        ),
    ],
)
def test_what_is_not_a_setting_is_refused_by_name(settings: dict[str, object], explanation: str) -> None:
    with pytest.raises(UsageError) as refused:
        ZooKeeperConsumerConfig.parse(settings)
    assert explanation in str(refused.value)


def test_a_consumer_without_streams_says_what_to_do() -> None:
    consumer = ZooKeeperConsumer(zookeeper_connect="127.0.0.1:1", group_id="g", zookeeper_session_timeout_ms=200)
    with pytest.raises(UsageError, match="call create_message_streams"):
        consumer.owned()
    with pytest.raises(UsageError, match="one stream at least"):
        consumer.create_message_streams({"orders": 0})
    for no_topics in ("orders", ["orders"], {"orders": "2"}, {"orders": None}):
        with pytest.raises(UsageError, match=r"for instance {'orders': 1}"):
            consumer.create_message_streams(no_topics)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"takes whitelist\('orders'\)"):
        consumer.create_message_streams_by_filter("orders")  # type: ignore[arg-type]
    for no_topic in ("", "..", "orders\n", "a/b", "wäsche"):
        with pytest.raises(UsageError, match="is no name of a topic"):
            consumer.create_message_streams({no_topic: 1})
    with pytest.raises(UsageError, match="one stream at least, not 0"):
        consumer.create_message_streams_by_filter(whitelist("orders"), 0)
    with pytest.raises(UsageError, match="no ZooKeeper server answers"):
        consumer.create_message_streams({"orders": 1})
    consumer.close()


def test_without_kazoo_the_pure_parts_and_the_server_still_work() -> None:
    script = (
        "import sys; sys.modules['kazoo'] = None\n"
        "from equipoise.zookeeper import ZooKeeperServer, whitelist\n"
        "from equipoise.zookeeper import ZooKeeperConsumer"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "ZooKeeperConsumer needs kazoo, a client of ZooKeeper: pip install 'equipoise[zookeeper]'" in ended.stderr


@pytest.mark.parametrize("words", [("serve", "--memory", "--zookeeper", "x:1"), ("zookeeper", "explain", "billing")])
def test_without_kazoo_a_command_says_what_to_install(
    words: tuple[str, ...], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kazoo", None)
    ended = command(*words)
    message = "equipoise: this needs kazoo, a client of ZooKeeper: pip install 'equipoise[zookeeper]'\n"
    assert ended == (2, "", message)
