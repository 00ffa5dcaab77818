"""Brokers as processes: ours, Apache Kafka, librdkafka's mock cluster. Started, killed, started again, measured alike.

with KafkaBroker({"group.initial.rebalance.delay.ms": 0}) as kafka:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    kafka.kill()
    kafka.start()
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from equipoise.client.net.blocking import Connection
from equipoise.server_process import ServerProcess, free_port
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse
from equipoise.wire.errors import EquipoiseError
from proving.fetched import Unavailable, jars, java, made_once
from proving.tree import python_module, with_tree

Settings = Mapping[str, object]

_ANSWER_SECONDS = 120.0
_SCHEDULER_CLOCK = 2  # Linux: the process clock that counts what the scheduler gave, in nanoseconds
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
# For a broker that is killed and comes back: until the session of its former self has ended, it is not let in.
SOON_BACK: Settings = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 300}
# Soon there, and with less CPU while it is idle: 4 % of a processor instead of 5.
_SMALL: Settings = {
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "metadata.max.idle.interval.ms": 0,
}
STORAGE_TOOL = "kafka.tools.StorageTool"
_CLASSES = "classes.jsa"
_CLUSTER_ID = "--cluster-id"
_FORMATTED = ("meta.properties", "bootstrap.checkpoint")


class BrokerProcess(ServerProcess):
    """A broker on a port and a data directory of its own."""

    def __init__(self, settings: Settings | None = None, *, data: Path | None = None) -> None:
        super().__init__(data=data)
        self.settings = dict(settings or {})

    @property
    def bootstrap_servers(self) -> str:
        return self.address

    def is_ready(self) -> bool:
        """It answers Metadata with a broker in it."""
        try:
            with Connection("127.0.0.1", self.port, timeout=_ANSWER_SECONDS) as connection:
                return bool(connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers)
        except (OSError, EquipoiseError):
            return False

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
        self, settings: Settings | None = None, *, data: Path | None = None, jvm: Sequence[str] | None = None
    ) -> None:
        """`jvm`: QUICK_JVM with `class_data`, and as small as it can be, if nothing else is said."""
        self._jars = jars("kafka")
        self._java = java()
        super().__init__(settings, data=data)
        self._jvm = (*QUICK_JVM, *class_data()) if jvm is None else jvm
        self._small = _SMALL if jvm is None else {}
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
        """A formatted log is the same for all brokers with the same words to the storage tool: each gets a copy."""
        if self._properties.exists():
            return
        command = self.format_log()
        words = " ".join(command[command.index(_CLUSTER_ID) :])
        made_from = f"{self._jars.name} {words}".encode()
        shutil.copytree(made_once("formatted", made_from, self._formats(command)), self.logs, dirs_exist_ok=True)

    def _formats(self, command: Sequence[str]) -> Callable[[Path], None]:
        def run_tool(kept: Path) -> None:
            ended = subprocess.run(
                [*self._run(STORAGE_TOOL, self._jvm), *command], capture_output=True, text=True, check=False
            )
            if ended.returncode != 0:
                raise EquipoiseError(f"kafka could not format its log: {ended.stdout}{ended.stderr}")
            kept.mkdir()
            for name in _FORMATTED:
                shutil.copy(self.logs / name, kept)

        return run_tool

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    def format_log(self) -> list[str]:
        """Writes the settings down, and says what the storage tool is to be told before the first start."""
        self.data.mkdir(parents=True, exist_ok=True)
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in self._all_settings().items()))
        return ["format", "--config", str(self._properties), _CLUSTER_ID, "equipoise-proving-0000"]

    def _all_settings(self) -> dict[str, object]:
        listeners = {"PLAINTEXT": self.port, "CONTROLLER": self._controller_port}
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.logs,
            # One node: no replicas of the internal topics.
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            **self._small,
            **self.settings,
        }


@cache
def class_data() -> Sequence[str]:
    """The option by which a JVM whose class path begins with Kafka's jars starts in half the time: its classes come
    from a file, as another JVM has left them (class data sharing).

    The file is made once for a version of Kafka and of Java. A JVM that cannot use it goes on without it.
    """
    version = subprocess.run([java(), "-version"], capture_output=True, check=True).stderr
    directory = made_once("class-data", jars("kafka").name.encode() + version, _keep_classes)
    return (f"-XX:SharedArchiveFile={directory / _CLASSES}",)


def _keep_classes(directory: Path) -> None:
    """The JVM of a broker writes its classes down when it ends."""
    directory.mkdir()
    with KafkaBroker(jvm=(*QUICK_JVM, f"-XX:ArchiveClassesAtExit={directory / _CLASSES}")) as kafka:
        kafka.stop()


class AnnouncedBroker(BrokerProcess):
    """A broker that chooses its port itself, and says so when it is ready."""

    def is_ready(self) -> bool:
        said = self.log.read_text()
        if said.endswith("\n"):
            self.port = int(said.rpartition(":")[2])
        return said.endswith("\n")


class MockBroker(AnnouncedBroker):
    """librdkafka's mock cluster: it takes no settings, has no data, and keeps 5 MB a partition."""

    name = "librdkafka mock"

    def command(self) -> Sequence[str]:
        return python_module("proving.mock")

    def environment(self) -> Mapping[str, str]:
        return with_tree()


def kafka_version() -> str:
    for jar in jars("kafka").glob("kafka-clients-*.jar"):
        return jar.stem.removeprefix("kafka-clients-")
    raise Unavailable("there is no kafka-clients among the fetched jars: remove them from the cache, and fetch again")
