"""Whole Spark applications: killed at the worst instant, on a cluster of its own, and through Spark Connect."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.server_process import free_port
from tests.client.writing import produce
from tests.spark.applications import Application
from tests.spark.streams import committed, departures, everything, members, until

PARTITIONS = 2
MEMBER = {
    "startingOffsets": "earliest",
    "maxOffsetsPerTrigger": "10",
    "group__id": "g",
    "kafka__session__timeout__ms": "6000",
    "kafka__heartbeat__interval__ms": "300",
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.lost.connection.grace.ms": 0}  # a killed driver's session
    with Broker(settings) as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic("t", PARTITIONS)
        produce(running, "t", 40, partitions=PARTITIONS)
        yield running


@pytest.mark.timeout(1_200)
def test_a_driver_that_is_killed_after_the_sink_and_before_the_commits(broker: Broker, tmp_path: Path) -> None:
    """The batch comes again as it was, and what follows it comes once."""
    application = Application(tmp_path / "a", broker.bootstrap_servers, **MEMBER)
    application.start(die_at=20).wait_for_death()
    assert len(application.places) == 20
    assert sum(committed(broker.bootstrap_servers).values()) == 10  # the first batch, known when the second was planned
    application.start(available_now=True)
    until("it has ended", lambda: not application.is_running)
    assert application.places == everything(PARTITIONS, 20), application.log
    assert "was under way when the query ended, and is read again: t-0 [5, 10), t-1 [5, 10)" in application.log
    assert sum(committed(broker.bootstrap_servers).values()) == 40
    until("both are gone", lambda: len(departures(broker.bootstrap_servers)) == 2)
    assert [why for why, _ in departures(broker.bootstrap_servers)] == ["session_expired", "left"]
    application.stop()


@pytest.mark.soak
@pytest.mark.timeout(1_200)
def test_spark_connect(broker: Broker, tmp_path: Path) -> None:
    application = Application(tmp_path / "a", broker.bootstrap_servers, **MEMBER)
    application.start(remote="local[2]")
    application.wait("all is read", lambda: application.places == everything(PARTITIONS, 20))
    until("it is committed", lambda: sum(committed(broker.bootstrap_servers).values()) == 40)
    assert len(members(broker.bootstrap_servers)) == 1
    application.stop()
    until("it is gone", lambda: departures(broker.bootstrap_servers))
    assert [why for why, _ in departures(broker.bootstrap_servers)] == ["left"]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_cluster_of_its_own_whose_executor_is_killed(broker: Broker, tmp_path: Path) -> None:
    with cluster(tmp_path) as (master, processes):
        application = Application(tmp_path / "a", broker.bootstrap_servers, **MEMBER)
        application.start(master=master)
        application.wait("all is read", lambda: application.places == everything(PARTITIONS, 20))
        for process in psutil.Process(processes[1].pid).children(recursive=True):
            process.kill()  # the executor, and its workers
        produce(broker, "t", 40, partitions=PARTITIONS)
        application.wait("all is read", lambda: application.places == everything(PARTITIONS, 40))
        application.stop()


@contextmanager
def cluster(home: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A master and a worker, on loopback."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    at = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [
        ["org.apache.spark.deploy.master.Master", *at, "--port", str(port)],
        ["org.apache.spark.deploy.worker.Worker", *at, "-c", "2", "-m", "1g", "-d", str(home / "work"), address],
    ]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number, command in enumerate(commands):
            with (home / f"cluster-{number}").open("w") as log:
                processes.append(_spark_class(command, log))
            until("the master listens", lambda: _listens(port))
        yield address, processes
    finally:
        for process in processes:
            family = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            for one in family:
                one.kill()
            process.wait()


def _spark_class(command: list[str], log: object) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen([home / "bin" / "spark-class", *command], stdout=log, stderr=log, env=environment)  # type: ignore[call-overload,no-any-return]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
