"""ZooKeeper servers as processes: what they survive, and what is said where none can be had."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.retry import KazooRetry

from equipoise.wire.errors import EquipoiseError, UsageError
from equipoise.zookeeper import server as servers
from equipoise.zookeeper.server import ZooKeeperServer, ZooKeeperUnavailable
from tests.zookeeper.town import connected

PATIENCE_S = 60


def test_nodes_survive_a_kill(tmp_path: Path) -> None:
    with ZooKeeperServer(data=tmp_path) as server, connected(server.connect) as client:
        client.create("/here", b"still")
        server.kill()
        server.start()
        assert KazooRetry(max_tries=-1, max_delay=0.5)(client.get, "/here")[0] == b"still"
        assert server.packets_received() > 0


def test_the_command_serves_quietly_until_it_is_told_to_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "equipoise", "zookeeper", "serve", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            assert words[:-1] == ["zookeeper", "ready", "on"]
            with connected(words[-1]) as client:
                assert client.exists("/zookeeper")
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=PATIENCE_S) == ("", "")
        finally:
            process.kill()
    assert process.returncode == 0
    with pytest.raises(UsageError, match="no ZooKeeper server answers"), connected(words[-1], timeout=0.5):
        pass


def test_a_server_whose_port_is_taken_says_so() -> None:
    server = ZooKeeperServer()
    with (
        socket.create_server(("127.0.0.1", server.port)),
        pytest.raises(EquipoiseError, match="Address already in use"),
        server,
    ):
        pass


def test_without_java_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(servers.sys, "prefix", "/nowhere")
    with pytest.raises(ZooKeeperUnavailable, match="Java 17 or newer"):
        ZooKeeperServer()


def test_without_pyspark_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ZooKeeperUnavailable, match=r"pip install 'equipoise\[spark\]'"):
        ZooKeeperServer()
