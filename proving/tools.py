"""Kafka's own command line tools, run with the fetched jars: all of them in one JVM, one after the other.

with Tools() as tools:
    print(tools.run("kafka-topics", "--list", broker=kafka).stdout)
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

from equipoise.process_guard import GuardedProcess
from equipoise.wire.errors import EquipoiseError, UsageError
from proving.brokers import QUICK_JVM, class_data
from proving.fetched import compiled, jars, java

# The scripts' names, and what they start.
MAINS: Mapping[str, str] = MappingProxyType(
    {
        "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "kafka-acls": "org.apache.kafka.tools.AclCommand",
        "kafka-configs": "kafka.admin.ConfigCommand",
        "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
        "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
        "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
        "kafka-features": "org.apache.kafka.tools.FeatureCommand",
        "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
        "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
        "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
        "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
        "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
        "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka-topics": "org.apache.kafka.tools.TopicCommand",
        "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
        "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    }
)
_RUNNER = Path(__file__).parent / "java" / "Tools.java"
_INT = Struct(">i")


class Listening(Protocol):
    """Any broker, of this process or another."""

    @property
    def bootstrap_servers(self) -> str: ...


class Output(NamedTuple):
    """What a tool said, and the status it ended with."""

    status: int
    stdout: str
    stderr: str


class Tools:
    """The JVM with the tools in it. It starts with the first tool that is run."""

    def __init__(self) -> None:
        self._jars = jars("kafka")
        self._java = java()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, tool: str, *arguments: str, broker: Listening | None = None, stdin: str = "") -> Output:
        """Runs a tool by its script's name, or a class with a main. `broker` becomes --bootstrap-server."""
        main = MAINS.get(tool, tool)
        if main == tool and "." not in tool:
            raise UsageError(f"{tool!r} is no tool that is known here: {', '.join(MAINS)}, or a class with a main")
        at = () if broker is None else ("--bootstrap-server", broker.bootstrap_servers)
        self._send([main, stdin, *at, *arguments])
        return Output(self._read_int(), self._read_text(), self._read_text())

    def _send(self, texts: list[str]) -> None:
        encoded = [text.encode() for text in texts]
        pipe = self._started().stdin
        assert pipe is not None
        pipe.write(_INT.pack(len(texts)) + b"".join(_INT.pack(len(text)) + text for text in encoded))
        pipe.flush()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [self._java, *QUICK_JVM, *class_data(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
            command += ["-cp", f"{self._jars}/*:{compiled(_RUNNER)}", _RUNNER.stem]
            self._process = GuardedProcess(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._process

    def _read_int(self) -> int:
        return int(_INT.unpack(self._read(_INT.size))[0])

    def _read_text(self) -> str:
        return self._read(self._read_int()).decode()

    def _read(self, size: int) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise EquipoiseError(f"the JVM of the tools has ended with status {self._process.wait()}; see its stderr")
        return data

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with process, contextlib.suppress(ProcessLookupError):
                process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
