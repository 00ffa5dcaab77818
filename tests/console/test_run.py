"""`equipoise run` as a process, with a Spark of its own; and what it refuses before it starts one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer

from equipoise.broker import Broker
from equipoise.server_process import free_port
from equipoise.spark.pipeline import checks
from proving.spark_classes import quick_options
from tests.commands import Command

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PATIENCE_S = 200


@pytest.mark.timeout(600)  # Spark takes its time on a busy machine
def test_an_example_with_a_broker_of_its_own_until_ctrl_c(tmp_path: Path) -> None:
    """Orders arrive in the topic, and nothing is printed but what is meant to be."""
    command = [sys.executable, "-m", "equipoise", "run", str(EXAMPLES / "orders.toml"), "--master", "local[2]"]
    command += ["--set", f"spark.driver.extraJavaOptions={quick_options()}"]
    said = tmp_path / "said"
    with said.open("w") as file, subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=file) as process:
        try:
            consumer = Consumer(
                {"bootstrap.servers": address(said), "group.id": "test", "auto.offset.reset": "earliest"}
            )
            consumer.subscribe(["orders"])
            message = consumer.poll(PATIENCE_S)
            consumer.close()
            assert message is not None
            assert message.error() is None
            assert set(json.loads(message.value() or b"")) == {"order", "cents"}
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
    lines = [line.strip() for line in said.read_text().splitlines() if line.strip()]
    assert lines[0].startswith("No brokers are named, so one runs here")
    expected = r"member +rows/s +lag +batch .*|─+|orders-0:? .*"
    assert [line for line in lines[1:] if not re.fullmatch(expected, line)] == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("members", "sign"), [(1, "org.apache.spark"), (2, "python_streaming_source_runner")])
def test_ctrl_c_while_spark_or_its_queries_start(tmp_path: Path, members: int, sign: str) -> None:
    """As a terminal sends it: to all processes at once."""
    command = [sys.executable, "-m", "equipoise", "run", str(EXAMPLES / "large_orders.toml"), "--members", str(members)]
    command += ["--master", "local[1]", "--set", f"spark.driver.extraJavaOptions={quick_options()}"]
    said = tmp_path / "said"
    with (
        said.open("w") as file,
        subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=file, start_new_session=True) as process,
    ):
        try:
            family = until_one_runs(process, sign)
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
    psutil.wait_procs(family, PATIENCE_S)
    assert [one for one in family if one.is_running()] == []
    told = [line for line in said.read_text().splitlines() if line.strip()]
    assert told[0].startswith("No brokers are named, so one runs here")
    expected = r" *(member +rows/s +lag +batch .*|─+|large_orders-[01]:? .*) *"
    assert [line for line in told[1:] if not re.fullmatch(expected, line)] == []


def until_one_runs(process: subprocess.Popen[bytes], sign: str) -> list[psutil.Process]:
    """All descendants, once the command line of one of them has `sign` in it."""
    while process.poll() is None:
        family = psutil.Process(process.pid).children(recursive=True)
        for one in family:
            with suppress(psutil.NoSuchProcess):  # some of them are gone, and not waited for
                if any(sign in part for part in one.cmdline()):
                    return family
        time.sleep(0.02)
    raise AssertionError("it ended by itself")


def address(said: Path) -> str:
    while True:
        found = re.search(r"127\.0\.0\.1:\d+", said.read_text())
        if found:
            return found.group()
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("arguments", "explanation"),
    [
        (["nowhere.toml"], "nowhere.toml does not exist: a pipeline is a file of TOML, or module:function"),
        (["a:b", "--set", "nonsense"], "--set nonsense: write NAME=VALUE, for instance --set source.subscribe=orders"),
        (["a:b", "--set", "sorce.subscribe=orders"], "did you mean 'source'?"),
        (["nowhere_at_all:b", "--bootstrap-servers", "x:1"], "there is no module 'nowhere_at_all'"),
        (["a:b", "--members", "0"], "--members"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(command: Command, arguments: list[str], explanation: str) -> None:
    ended = command("run", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert explanation in ended.err
    assert ended.err.count("\n") == 1


def pipeline(path: Path) -> str:
    file = path / "orders.toml"
    file.write_text('[source]\nsubscribe = "orders"')
    return str(file)


def test_a_topic_that_is_not_there(command: Command, tmp_path: Path) -> None:
    with Broker() as broker:
        ended = command("run", pipeline(tmp_path), "--bootstrap-servers", broker.bootstrap_servers)
        where = broker.bootstrap_servers
    assert ended.status == 2
    assert ended.err == f"equipoise: topic 'orders' does not exist at {where}: create it, or check its name\n"


def test_brokers_that_cannot_be_reached(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_REACH_MS", 300)
    nobody = f"127.0.0.1:{free_port()}"
    ended = command("run", pipeline(tmp_path), "--bootstrap-servers", nobody)
    assert ended.status == 2
    assert ended.err.startswith(f"equipoise: the brokers at {nobody} cannot be used: ")
    assert ended.err.count("\n") == 1


def test_java_that_is_missing(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    before = dict(os.environ)
    ended = command("run", str(EXAMPLES / "orders.toml"))
    assert ended.status == 2
    told = ended.err.splitlines()
    assert told[-1].startswith("equipoise: Spark needs Java 17 or newer and there is none: run `make java`")
    assert len(told) == 2  # the first is about the broker
    assert dict(os.environ) == before


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_killed", [False, True])
def test_the_jvm_ends_first(tmp_path: Path, is_killed: bool) -> None:
    """By SIGTERM to all, which is an end as asked for; or by SIGKILL, which is an error and no traceback."""
    file = tmp_path / "rate.toml"
    file.write_text('[source]\nformat = "rate"\n[sink]\nformat = "noop"\n')
    command = [sys.executable, "-m", "equipoise", "run", str(file), "--master", "local[1]"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("rate-0: rows/s ")
            java = next(one for one in psutil.Process(process.pid).children() if one.name() == "java")
            if is_killed:
                java.kill()
            else:
                os.killpg(process.pid, signal.SIGTERM)
            _, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert "Traceback" not in err
    assert process.returncode == (2 if is_killed else 0)
    assert ("equipoise: Spark's JVM has ended" in err) == is_killed
