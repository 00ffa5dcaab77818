"""`equipoise serve` as a process: its ready line, its end by signal, and its refusals."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Connection
from tests.commands import Command

PATIENCE = 120


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that its ready line names."""
    command = [sys.executable, "-m", "equipoise", "serve", "--listen", "127.0.0.1:0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            assert words[:-1] == ["equipoise", "ready", "on"]
            yield process, words[-1]
        finally:
            process.kill()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well_while_clients_are_connected(signum: signal.Signals) -> None:
    with serving("--memory") as (process, address):
        host, _, port = address.rpartition(":")
        with Connection(host, int(port)):
            process.send_signal(signum)
            out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out, err) == (0, "", "")


def test_settings_and_data_are_those_of_the_command_line(tmp_path: Path) -> None:
    for expected in ([], ["orders"]):
        with serving("--data", str(tmp_path / "data"), "--set", "num.partitions=6") as (process, address):
            with Admin(address) as admin:
                assert [topic.name for topic in admin.topics()] == expected
                if not expected:
                    admin.create_topic("orders")
                assert len(admin.topic("orders").partitions) == 6
            process.terminate()
            assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("arguments", "explanation"),
    [
        ([], "--data DIR keeps them, --memory forgets them"),
        (["--memory", "--data", "x"], "--data DIR keeps them, --memory forgets them"),
        (["--memory", "--set", "nonsense"], "--set nonsense: write NAME=VALUE"),
        (["--memory", "--set", "num.partition=6"], "did you mean 'num.partitions'?"),
        (["--memory", "--set", "num.partitions=0"], "num.partitions=0: must be between 1 and"),
        (["--memory", "--listen", "nowhere"], "'nowhere' is no address: write HOST:PORT"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(command: Command, arguments: list[str], explanation: str) -> None:
    ended = command("serve", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("equipoise: ")
    assert explanation in ended.err
    assert ended.err.count("\n") == 1


def test_an_unknown_option_is_named(command: Command) -> None:
    ended = command("serve", "--bogus")
    assert ended.status == 2
    assert "--bogus" in ended.err


def test_a_port_in_use_is_named(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = command("serve", "--memory", "--listen", address)
    assert ended.status == 2
    assert f"cannot listen on {address}" in ended.err
    assert ended.err.count("\n") == 1


def test_a_directory_that_another_broker_uses_is_named(command: Command, tmp_path: Path) -> None:
    with Broker(data=tmp_path):
        ended = command("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert ended.status == 2
    assert str(tmp_path) in ended.err
    assert ended.err.count("\n") == 1
