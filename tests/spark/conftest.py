"""One Spark for all tests here: its JVM takes seconds to start."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.client.net.addresses import parse_bootstrap_servers
from equipoise.client.net.blocking import Connection
from equipoise.spark.pipeline.config import Pipeline
from equipoise.wire.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from proving.spark_classes import quick_options
from tests.spark.engine import Engine

Play = Callable[..., str]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on two cores, with the settings that `equipoise run` has, and this Python for its workers."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from equipoise.spark.settings import python_program, tuned

    home = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python_program(home)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": quick_options(),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home / "local"),
    }
    builder = tuned(SparkSession.builder.master("local[2]").appName("equipoise-tests"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _engines_end() -> Iterator[None]:
    """A query that a test has left, for instance by the error it expects, would look for its broker for ever."""
    yield
    for engine in list(Engine.running):
        engine.kill()


@pytest.fixture(autouse=True)
def _connections_are_closed() -> Iterator[None]:
    """Those that reading keeps for the next task of its process."""
    yield
    if "equipoise.spark.executor.leaders" in sys.modules:
        sys.modules["equipoise.spark.executor.leaders"].forget_all()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


def create(bootstrap_servers: str, topic: str, partitions: int = 1, **configs: str) -> None:
    """Underscores in the names of configs stand for dots."""
    with Admin(bootstrap_servers) as admin:
        admin.create_topic(topic, partitions, configs={key.replace("_", "."): value for key, value in configs.items()})


def delete_before(bootstrap_servers: str, topic: str, offset: int, partition: int = 0) -> None:
    ((host, port),) = parse_bootstrap_servers(bootstrap_servers)
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=10_000)
    with Connection(host, port) as connection:
        answer = connection.send(request, DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].error_code == 0


@pytest.fixture
def play(spark: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Runs a pipeline over the topic orders, with these values; what is shown comes back."""

    @contextmanager
    def session(*_: object) -> Iterator[Any]:
        yield spark

    from equipoise.spark.pipeline import runner

    monkeypatch.setattr(runner, "spark_session", session)

    def call(*, members: int = 1, until_idle: bool = True, function: str | None = None, **given: str) -> str:
        settings = {
            "source.kafka.bootstrap.servers": broker.bootstrap_servers,
            "source.subscribe": "orders",
            "source.startingOffsets": "earliest",
        }
        settings |= {name.replace("__", "."): value for name, value in given.items()}
        console = Console(file=io.StringIO(), width=160)
        pipeline = Pipeline.read(function or "tests.spark.test_pipeline:keys", settings)
        runner.run(runner.Run(pipeline=pipeline, members=members, until_idle=until_idle), console)
        return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]

    return call
