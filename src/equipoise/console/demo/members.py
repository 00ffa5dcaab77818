"""The members of the demo's group: pipelines on Spark, each in its own process, and a stock consumer in a thread."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from equipoise.console.demo.accounts import QueryOutput
from equipoise.console.demo.orders import SHIPPED, TOPIC
from equipoise.process_guard import GuardedProcess
from equipoise.wire.errors import EquipoiseError

GROUP = "orders-etl"
SESSION_MS = 6_000
_STOP_S = 40.0
_COMMIT_S = 0.5
PIPELINE = f"""group = "{GROUP}"
sql = "select 'NAME' as key, value from source"
trigger = "1 second"

[source]
subscribe = "{TOPIC}"
startingOffsets = "earliest"
kafka.session.timeout.ms = {SESSION_MS}
kafka.heartbeat.interval.ms = 1000

[sink]
format = "topic"
topic = "{SHIPPED}"
delivery = "exactly-once"

[spark]
driver.memory = "512m"
driver.extraJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # less to compile: it starts sooner
sql.codegen.wholeStage = false
"""


def query_command(name: str, directory: Path, bootstrap_servers: str) -> list[str]:
    """`equipoise run`, with its checkpoint in `directory`: a query that comes back goes on there."""
    pipeline = directory / f"{name}.toml"
    pipeline.write_text(PIPELINE.replace("NAME", name), encoding="utf-8")
    values = {"source.kafka.client.id": name, "checkpoint": directory / f"{name}.at", "spark.local.dir": directory}
    settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "equipoise", "run", str(pipeline), "--master", "local[2]"]
    return [*command, "--bootstrap-servers", bootstrap_servers, *settings]


class DemoMember(Protocol):
    """A member of the group."""

    name: str

    def check(self) -> None:
        """Raises an error if it has ended by itself."""

    def leave(self) -> None:
        """Leaves the group in good order, and returns when it has."""


class DemoQuery:
    """A pipeline in its own session, so that all of it can be killed at once."""

    def __init__(self, name: str, directory: Path, bootstrap_servers: str) -> None:
        self.name = name
        self._said = directory / f"{name}.said"
        with self._said.open("w") as said:
            self._process: GuardedProcess[bytes] = GuardedProcess(
                query_command(name, directory, bootstrap_servers),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(directory)},  # who is killed does not tidy up
            )

    def check(self) -> None:
        """EquipoiseError with the last line of its output, if the process is gone."""
        if self._process.poll() is not None:
            said = self._said.read_text(encoding="utf-8").strip().splitlines()
            raise EquipoiseError(f"{self.name} ended: {said[-1] if said else 'without a word'}")

    def kill(self) -> None:
        """SIGKILL: Python, the JVM and the source's process, all at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def leave(self) -> None:
        """As by Ctrl-C."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            raise EquipoiseError(f"{self.name} has not ended within {_STOP_S:g} s") from None
        finally:
            self.kill()


class PlainConsumer:
    """confluent-kafka in its usual way: it commits from time to time, and before it revokes partitions."""

    def __init__(self, name: str, bootstrap_servers: str, commit_s: float = _COMMIT_S) -> None:
        from confluent_kafka import Consumer

        self.name = name
        self.read: list[int] = []
        self._commit_s = commit_s
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": GROUP,
                "client.id": name,
                "partition.assignment.strategy": "cooperative-sticky",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 1_000,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([TOPIC], on_revoke=self._commit)
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        committed = time.monotonic()
        while not self._leaving.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.append(json.loads(message.value() or b"{}")["order"])
            if time.monotonic() - committed >= self._commit_s:
                self._commit()
                committed = time.monotonic()
        self._commit()
        self._consumer.close()

    def _commit(self, *_: Any) -> None:
        from confluent_kafka import KafkaException

        # There is nothing to commit; or a rebalance is on, and the next will do.
        with contextlib.suppress(KafkaException):
            self._consumer.commit(asynchronous=False)

    def output(self) -> QueryOutput:
        """All that it has read: what it reads counts as written."""
        return QueryOutput(self.name, self.read)

    def check(self) -> None:
        """EquipoiseError if its thread is gone."""
        if not self._thread.is_alive():
            raise EquipoiseError(f"{self.name} ended")

    def leave(self) -> None:
        """Closes the consumer, which commits and leaves the group."""
        self._leaving.set()
        self._thread.join()
