"""What a new user gets wrong: a line that says what is expected and what to do, status 2, and never a traceback."""

from __future__ import annotations

import asyncio
import errno
import gc
import io
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from equipoise.client import Admin, Producer, TopicPartition
from equipoise.console import edge, start
from equipoise.console.main import app
from tests.commands import Command, check_line, check_words, run_bare

PATIENCE_S = 60


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("run a:b --members two", "--members two: write a whole number, 1 or more"),
        ("run a:b --members 0", "--members 0: write a whole number, 1 or more"),
        ("run a:b --members 1.5", "--members 1.5: write a whole number, 1 or more"),
        ("topics create x --partitions two", "--partitions two: write a whole number, -1 or more"),
        ("zookeeper serve --port http", "--port http: write a whole number from 0 to 65535"),
        ("zookeeper serve --port 99999", "--port 99999: write a whole number from 0 to 65535"),
        ("demo --picture /nowhere/x.png", "--picture /nowhere/x.png: there is no directory /nowhere; make it first"),
        ("demo --picture /", "--picture /: this is a directory; name a file"),
        ("run a:b --log /nowhere/log", "--log /nowhere/log: there is no directory /nowhere; make it first"),
        ("run a:b --set =1", "--set =1: write NAME=VALUE, for instance --set source.subscribe=orders"),
        ("run /", "/ cannot be read: Is a directory"),
        (
            "run a:b --set snk.format=parquet",
            "unknown table [snk] in the pipeline (it holds 'format'); did you mean 'sink'?",
        ),
        ("run a:b --set sink.format=parket", "Spark has no such format; did you mean 'parquet'?"),
        ("serve --data /dev/null", "cannot use /dev/null: File exists; mend it, or choose another directory"),
        ("serve --memory --listen 127.0.0.1", "'127.0.0.1' is no address: write HOST:PORT"),
        ("topics list --bootstrap-servers localhost", "'localhost' is no server: write HOST:PORT"),
        ("topics lst", "Did you mean one of: 'list', 'set'?"),
        ("histry", "Did you mean 'history'?"),
        ("history --since 7x", "--since 7x: write a date (2026-01-31), a time, or an age (7d, 2h)"),
    ],
)
def test_a_slip_is_one_line(command: Command, arguments: str, told: str) -> None:
    check_line(command(*arguments.split()), told)


@pytest.mark.parametrize("host", ["a..b", ".", "x" * 64, "a\udcff", "é..", "a\nb"])
@pytest.mark.parametrize(
    "arguments",
    [
        "topics list --bootstrap-servers",
        "history --bootstrap-servers",
        "run a:b --set source.format=equipoise --bootstrap-servers",
        "serve --memory --listen",
        "zookeeper explain g --zookeeper",
    ],
)
def test_hosts_that_are_none(command: Command, monkeypatch: pytest.MonkeyPatch, arguments: str, host: str) -> None:
    monkeypatch.setattr("equipoise.console.commands.zookeeper._SESSION_MS", 300)
    check_line(command(*arguments.split(), f"{host}:9092"), "")


def test_files_that_cannot_be_read(command: Command, tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\x00\xff\xfe")
    check_line(command("run", str(binary)), "is no TOML")
    broken = tmp_path / "broken.toml"
    broken.write_text("[source\n")
    check_line(command("run", str(broken)), "is no TOML")
    check_line(command("run", str(tmp_path / "a\nb.toml")), r"a\nb.toml does not exist")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_files_that_may_not_be_used(command: Command, tmp_path: Path) -> None:
    secret = tmp_path / "secret.toml"
    secret.touch(mode=0)
    check_line(command("run", str(secret)), "cannot be read: Permission denied")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    check_line(command("serve", "--data", str(closed / "data")), "Permission denied")


def test_every_option_has_words() -> None:
    check_words(app)


# -- what is not installed, and what nobody has expected


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    told = edge.missing_package(ModuleNotFoundError("No module named 'confluent_kafka'", name="confluent_kafka"))
    assert str(told) == "this needs confluent-kafka: pip install 'equipoise[demo]'"
    with pytest.raises(ImportError, match="a bug"):
        edge.missing_package(ImportError("a bug", name="equipoise.nothing"))


@pytest.mark.parametrize("arguments", [["demo"], ["history"]])
def test_commands_without_their_packages(arguments: list[str]) -> None:
    check_line(run_bare("equipoise.console.main", *arguments), "pip install 'equipoise[")


def test_an_output_that_is_full_is_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "argv", ["equipoise", "topics", "list", "--json"])
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(SystemExit) as end:
        edge.fail(OSError(errno.ENOSPC, "No space left on device"))
    assert (end.value.code, capsys.readouterr().err) == (2, "equipoise: No space left on device\n")


@pytest.mark.parametrize(
    "arguments",
    [
        "groups reset billing --to file:{file}",
        "metrics --token-file {file}",
        "console --token-file {file}",
        "users add alice --password-file {file}",
        "simulate play {file}",
        "run {file}",
        "topics list --command-config {file}",
    ],
)
def test_a_file_that_is_no_text_is_named(command: Command, broker: Any, tmp_path: Path, arguments: str) -> None:
    file = tmp_path / "photo.png"
    file.write_bytes(b"\x89PNG")
    where = [] if arguments.startswith(("simulate", "run")) else ["--bootstrap-servers", broker.bootstrap_servers]
    check_line(command(*arguments.format(file=file).split(), *where), str(file))


def test_an_error_of_the_system_is_a_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/somewhere")

    monkeypatch.setattr("equipoise.console.options.ClusterOptions.admin", fails)
    check_line(command("topics", "list"), "equipoise: /somewhere: Permission denied")


# -- signals


@pytest.mark.parametrize("arguments", [["topics", "list"], ["groups", "list"], ["groups", "watch", "--all"]])
@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_without_a_word(arguments: list[str], signum: signal.Signals, status: int) -> None:
    """At once, while it waits for a broker that is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "equipoise", *arguments, "--bootstrap-servers", address]
        command += ["--timeout", f"{3 * PATIENCE_S}s"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_ctrl_c
        ) as process:
            connection, _ = silent.accept()  # now it waits for an answer
            with connection:
                process.send_signal(signum)
                out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err.strip()) == (status, "", "")


class _Referent:
    """An object that a weak reference can refer to."""


def _call_back(callback: Callable[[object], object]) -> None:
    """As Python does when the object of a weak reference is gone."""
    referent = _Referent()
    reference = weakref.ref(referent, callback)
    del referent
    assert reference() is None


def _wait_for_an_end(*callbacks: Callable[[object], object]) -> None:
    with edge.at_a_terminal():
        for one in callbacks:
            _call_back(one)
        time.sleep(PATIENCE_S)


@pytest.fixture
def _heeded_ctrl_c() -> Iterator[None]:
    """A shell ignores it for what it runs in the background, these tests too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_heeded_ctrl_c")
@pytest.mark.parametrize(("signum", "end"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_is_not_lost_in_a_callback_of_a_weak_reference(
    signum: signal.Signals, end: type[BaseException], capfd: pytest.CaptureFixture[str]
) -> None:
    """Python drops the exception there. The signal that is sent again comes in such a callback as well."""
    begun = time.monotonic()
    with pytest.raises(end):
        _wait_for_an_end(lambda _: signal.raise_signal(signum), lambda _: time.sleep(PATIENCE_S))
    assert time.monotonic() - begun < PATIENCE_S
    assert capfd.readouterr().err == ""


def test_a_signal_is_not_lost_while_another_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = threading.Timer

    def interrupted(*_: object) -> threading.Timer:
        monkeypatch.setattr(threading, "Timer", timer)
        signal.raise_signal(signal.SIGTERM)
        return timer(0, int)  # the first is lost

    monkeypatch.setattr(threading, "Timer", interrupted)
    begun = time.monotonic()
    with pytest.raises(SystemExit):
        _wait_for_an_end(lambda _: signal.raise_signal(signal.SIGTERM))
    assert time.monotonic() - begun < PATIENCE_S


def test_a_signal_in_the_middle_of_a_task_ends_the_loop_without_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    cleaned_up = []

    async def interrupted() -> None:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(PATIENCE_S)

    async def main() -> None:
        task = asyncio.create_task(interrupted())
        try:
            await asyncio.sleep(PATIENCE_S)
        finally:
            cleaned_up.append(task.cancel())

    with edge.at_a_terminal():
        handler = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as end:
            edge.run_loop(main())
        assert signal.getsignal(signal.SIGTERM) is handler
    gc.collect()  # tasks say then what nobody has asked them
    assert (end.value.code, cleaned_up, capfd.readouterr().err) == (edge.TERMINATED, [True], "")


def test_other_exceptions_that_python_drops_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with edge.at_a_terminal():
        _call_back(lambda _: [][0])
    assert "IndexError" in capfd.readouterr().err


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("arguments", [["groups", "watch", "--all"], ["consume", "orders"]])
def test_a_signal_ends_what_would_go_on_for_ever(
    broker: Any, arguments: list[str], signum: signal.Signals, status: int
) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 1)
        admin.commit_offsets("g", {TopicPartition("orders", 0): 0})
    command = [sys.executable, "-m", "equipoise", *arguments, "--bootstrap-servers", broker.bootstrap_servers]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_ctrl_c
    ) as process:
        assert process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            while not select.select([process.stdout], [], [], 0.1)[0]:  # until it prints
                producer.send("orders", b"x").result(PATIENCE_S)
                assert time.monotonic() < deadline
        process.send_signal(signum)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err.strip()) == (status, "")


def _heed_ctrl_c() -> None:
    """A shell makes its background processes deaf to it, and they their children: these tests may be among them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_while_modules_are_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "equipoise.console.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "equipoise.console.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        start.run()
    assert (end.value.code, capsys.readouterr().err) == (130, "")
    assert gc.isenabled()  # as before


def test_who_closes_the_streams_wants_no_words(broker: Any) -> None:
    command = f"{sys.executable} -m equipoise topics list --bootstrap-servers {broker.bootstrap_servers}"
    shell = ["sh", "-c", f"{command} >&-; echo $?; {command} 2>&- >&-; echo $?; {command} | true"]
    ended = subprocess.run(shell, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert (ended.stdout.split(), ended.stderr) == (["0", "0"], "")
