"""Brokers as processes: ours, Apache Kafka, librdkafka's mock cluster. Started, killed, started again, measured alike.

with KafkaBroker({"group.initial.rebalance.delay.ms": 0}) as kafka:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    kafka.kill()
    kafka.start()
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from equipoise.client.connection import Connection
from equipoise.proving.fetched import Unavailable, jars, java
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse
from equipoise.wire.errors import EquipoiseError

Settings = Mapping[str, object]

_START_SECONDS = 120.0
_STOP_SECONDS = 30.0
_SCHEDULER_CLOCK = 2  # Linux: the process clock that counts what the scheduler gave, in nanoseconds
_LAST_WORDS = 2000
# A JVM that is soon there and small, for tests; and what Kafka's own start script gives it, for measurements.
QUICK_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
STOCK_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


class BrokerProcess(ABC):
    """A broker on a port and a data directory of its own, which outlive `kill`, `stop` and `start`.

    Without `data` the directory is temporary, and gone when the `with` ends.
    """

    name: ClassVar[str]

    def __init__(self, settings: Settings | None = None, *, data: Path | None = None) -> None:
        self.settings = dict(settings or {})
        self.port = free_port()
        self.seconds_to_ready = 0.0
        self._scratch = contextlib.ExitStack()
        given = tempfile.TemporaryDirectory(prefix=f"equipoise-{self.name}-", ignore_cleanup_errors=True)
        scratch = Path(self._scratch.enter_context(given))
        self.data = data or scratch / "data"
        self.log = scratch / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What to run, on `self.port`."""

    def prepare(self) -> None:  # noqa: B027  most need nothing
        """Before each start."""

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise EquipoiseError(f"{self.name} is not running: call start()")
        return self._process.pid

    # -- its life

    def start(self) -> Self:
        """Returns when a client would find it ready: it answers Metadata with a broker in it."""
        self.prepare()
        command = list(self.command())
        began = time.perf_counter()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            self._await_ready(began + _START_SECONDS)
        except BaseException:
            self.kill()
            raise
        self.seconds_to_ready = time.perf_counter() - began
        return self

    def _await_ready(self, deadline: float) -> None:
        while not _answers(self.port):
            self._check_start(deadline)
            time.sleep(0.01)

    def _check_start(self, deadline: float) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise EquipoiseError(f"{self.name} has ended with status {self._process.returncode}: {self.last_words()}")
        if time.perf_counter() > deadline:
            raise EquipoiseError(f"{self.name} was not ready within {_START_SECONDS:.0f} s: {self.last_words()}")

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-_LAST_WORDS:]

    def kill(self) -> None:
        """SIGKILL: no time for a last word."""
        self._end(kill=True)

    def stop(self) -> None:
        self._end(kill=False)

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            (process.kill if kill else process.terminate)()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self._scratch.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._scratch.close()

    # -- what it costs

    def cpu_seconds(self) -> float:
        """CPU of all threads so far. /proc's own figure comes in steps of 10 ms, too coarse here."""
        return time.clock_gettime(~self.pid << 3 | _SCHEDULER_CLOCK)

    def resident_mb(self) -> float:
        return self._status_mb("VmRSS")

    def anonymous_mb(self) -> float:
        """Resident memory without pages of mapped files, which are the kernel's to take back."""
        return self._status_mb("RssAnon")

    def _status_mb(self, name: str) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise EquipoiseError(f"{self.name} has ended in the middle of the measurement")


def _answers(port: int) -> bool:
    try:
        with Connection("127.0.0.1", port, timeout=_START_SECONDS) as connection:
            return bool(connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers)
    except (OSError, EquipoiseError):
        return False


class EquipoiseBroker(BrokerProcess):
    name = "equipoise"

    def command(self) -> Sequence[str]:
        options = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        listen = ["--listen", self.bootstrap_servers]
        return [sys.executable, "-m", "equipoise", "serve", *listen, *self._storage(), *options]

    def _storage(self) -> Sequence[str]:
        return "--data", str(self.data)


class MemoryBroker(EquipoiseBroker):
    """Ours without a disk: it has forgotten everything when it is started again."""

    name = "equipoise in memory"

    def _storage(self) -> Sequence[str]:
        return ("--memory",)


class KafkaBroker(BrokerProcess):
    """Apache Kafka, one node of KRaft that is broker and controller."""

    name = "kafka"

    def __init__(
        self, settings: Settings | None = None, *, data: Path | None = None, jvm: Sequence[str] = QUICK_JVM
    ) -> None:
        self._jars = jars("kafka")
        self._java = java()
        super().__init__(settings, data=data)
        self._jvm = jvm
        self._controller_port = free_port()

    @property
    def version(self) -> str:
        return kafka_version()

    def command(self) -> Sequence[str]:
        return [*self._run("kafka.Kafka", self._jvm), str(self._properties)]

    def _run(self, main: str, jvm: Sequence[str]) -> list[str]:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return [self._java, *jvm, quiet, "-cp", f"{self._jars}/*", main]

    @property
    def _properties(self) -> Path:
        return self.data / "server.properties"

    def prepare(self) -> None:
        if self._properties.exists():
            return
        self.data.mkdir(parents=True, exist_ok=True)
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in self._all_settings().items()))
        format_log = [*self._run("kafka.tools.StorageTool", QUICK_JVM), "format", "--config", str(self._properties)]
        cluster = ["--cluster-id", "equipoise-proving-0000"]
        ended = subprocess.run([*format_log, *cluster], capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise EquipoiseError(f"kafka could not format its log: {ended.stdout}{ended.stderr}")

    def _all_settings(self) -> dict[str, object]:
        listeners = {"PLAINTEXT": self.port, "CONTROLLER": self._controller_port}
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.data / "logs",
            # One node: no replicas of the internal topics.
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            **self.settings,
        }


class AnnouncedBroker(BrokerProcess):
    """A broker that chooses its port itself, and says so when it is ready."""

    def _await_ready(self, deadline: float) -> None:
        while not (said := self.log.read_text()).endswith("\n"):
            self._check_start(deadline)
            time.sleep(0.01)
        self.port = int(said.rpartition(":")[2])


class MockBroker(AnnouncedBroker):
    """librdkafka's mock cluster: it takes no settings, has no data, and keeps 5 MB a partition."""

    name = "librdkafka mock"

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "equipoise.proving.mock"]


def kafka_version() -> str:
    for jar in jars("kafka").glob("kafka-clients-*.jar"):
        return jar.stem.removeprefix("kafka-clients-")
    raise Unavailable("there is no kafka-clients among the fetched jars: remove them from the cache, and fetch again")
