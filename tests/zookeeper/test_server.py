"""ZooKeeper servers as processes: what they survive, and what is said where none can be had."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from kazoo.retry import KazooRetry

from equipoise.console.main import run
from equipoise.server_process import free_port
from equipoise.wire.errors import EquipoiseError, UsageError
from equipoise.zookeeper.server import ZooKeeperServer, ZooKeeperUnavailable
from tests.zookeeper.town import connected

PATIENCE_S = 60


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


def test_nodes_are_kept_in_the_directory_that_was_named(tmp_path: Path) -> None:
    """Whatever its name: the file of settings is one of Java's properties."""
    data = tmp_path / "w\xe4sche \\u0041 \u65e5\u672c"
    with ZooKeeperServer(data=data):
        assert [path.name for path in data.iterdir()] == ["version-2"]
    assert list(tmp_path.iterdir()) == [data]


def test_a_server_whose_port_is_taken_says_so() -> None:
    server = ZooKeeperServer()
    with (
        socket.create_server(("127.0.0.1", server.port)),
        pytest.raises(EquipoiseError, match="Address already in use"),
        server,
    ):
        pass


def equipoise(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "equipoise", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def serve(*arguments: str) -> tuple[int, str, str]:
    return equipoise("zookeeper", "serve", *arguments)


def test_the_command_on_the_port_of_another_server_is_not_ready(zookeeper: ZooKeeperServer) -> None:
    """The other one would answer for it."""
    told = (
        f"equipoise: zookeeper cannot listen on {zookeeper.connect}: Address already in use; choose another port, or "
        "end what has it\n"
    )
    assert serve("--port", str(zookeeper.port)) == (2, "", told)
    assert zookeeper.is_ready()


def test_nobody_at_the_address_is_said_once() -> None:
    """Both commands wait at the same time."""
    nobody = f"127.0.0.1:{free_port()}"
    told = (
        f"equipoise: no ZooKeeper server answers at {nobody} within 6 s (Connection refused): start one (equipoise "
        "zookeeper serve), or correct the address (zookeeper.connect, --zookeeper)\n"
    )
    commands = [("zookeeper", "explain", "g"), ("serve", "--memory", "--listen", "127.0.0.1:0")]
    with ThreadPoolExecutor(len(commands)) as pool:
        ended = list(pool.map(lambda words: equipoise(*words, "--zookeeper", nobody), commands))
    assert ended == [(2, "", told)] * len(commands)


def test_a_kill_loses_no_nodes_and_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However often kazoo tries: every attempt is a warning to it."""
    with ZooKeeperServer(data=tmp_path) as server, connected(server.connect) as client:
        client.create("/here", b"still")
        server.kill()
        began = time.monotonic()
        while client.connected or time.monotonic() - began < 1.5:  # some five attempts
            time.sleep(0.05)
        server.start()
        assert KazooRetry(max_tries=-1, max_delay=0.5)(client.get, "/here")[0] == b"still"
        assert server.packets_received() > 0
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert lines, "it is said"
    assert all(one != two for one, two in pairwise(lines))


def test_the_command_with_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    told = f"equipoise: cannot use {file}: File exists; choose another directory\n"
    assert serve("--port", "0", "--data", str(file)) == (2, "", told)


def test_a_server_that_ends_says_why_in_a_line() -> None:
    """Java's own words, without its stack."""
    with pytest.raises(EquipoiseError) as caught, ZooKeeperServer({"clientPort": "none"}):
        pass
    told = str(caught.value)
    assert told.startswith("zookeeper has ended with status 2: ")
    assert 'NumberFormatException: For input string: "none"' in told
    assert "\n" not in told
    assert " at org." not in told


def test_without_java_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    with pytest.raises(ZooKeeperUnavailable, match="Java 17 or newer"):
        ZooKeeperServer()


def test_with_a_java_that_is_too_old_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that JAVA_HOME names, which stands for all there is here; with another on the path, that one is taken."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with ZooKeeperServer() as server:
        assert server.is_ready()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    monkeypatch.setattr(sys, "argv", ["equipoise", "zookeeper", "serve", "--port", "0"])
    with pytest.raises(SystemExit) as end:
        run()
    assert end.value.code == 2
    out, err = capsys.readouterr()
    told = f"equipoise: a ZooKeeper server needs Java 17 or newer and finds only 11 in {tmp_path}: "
    assert (out, err[: len(told)], err.count("\n")) == ("", told, 1)


def test_without_pyspark_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ZooKeeperUnavailable, match=r"pip install 'equipoise\[spark\]'"):
        ZooKeeperServer()
