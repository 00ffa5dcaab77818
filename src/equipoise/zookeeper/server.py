"""A ZooKeeper server, or an ensemble of three, as processes: from the jars that PySpark brings, with the Java at hand.

with ZooKeeperServer() as zookeeper:
    client = KazooClient(zookeeper.connect)
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from equipoise.java import JavaUnavailable, java_home
from equipoise.server_process import HOST, ServerProcess, free_port
from equipoise.wire.errors import EquipoiseError, UsageError

log = logging.getLogger(__name__)

_ASK_S = 2.0
# Of the 260 jars of PySpark those that the server loads: it is there in half the time, with half the memory.
_JARS = ("zookeeper", "slf4j-api", "log4j-", "netty-", "commons-cli", "commons-io", "snappy-java", "metrics-core")
_JVM = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xss256k")
_OPTIONS = ("-Dzookeeper.preAllocSize=256", "-Dzookeeper.jmx.log4j.disable=true")
_QUIET = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="OFF"><Appenders><Console name="err" target="SYSTEM_ERR"/></Appenders>
<Loggers><Root level="ERROR"><AppenderRef ref="err"/></Root></Loggers></Configuration>
"""
_SETTINGS = {
    "tickTime": 200,  # also the steps in which sessions end
    "minSessionTimeout": 400,
    "maxSessionTimeout": 60_000,
    "maxClientCnxns": 0,
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "srvr,mntr,cons,dump",
}


class ZooKeeperUnavailable(EquipoiseError):
    """What a ZooKeeper server needs is not on this machine. The message says what to install."""


def find_java() -> str:
    """The path of the `java` program. ZooKeeperUnavailable says how to get one."""
    try:
        return str(java_home(log.warning, "a ZooKeeper server") / "bin" / "java")
    except JavaUnavailable as error:
        raise ZooKeeperUnavailable(str(error)) from None


def find_jars() -> str:
    """The class path of ZooKeeper, among the jars of the installed PySpark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ZooKeeperUnavailable("a ZooKeeper server comes with the jars of PySpark: pip install 'equipoise[spark]'")
    jars = sorted(jar for jar in Path(spec.origin).with_name("jars").glob("*.jar") if jar.name.startswith(_JARS))
    if not any(jar.name.startswith("zookeeper-3") for jar in jars):
        raise ZooKeeperUnavailable("the installed PySpark has no jar of ZooKeeper: pip install 'pyspark>=4.3'")
    return os.pathsep.join(map(str, jars))


class ZooKeeperServer(ServerProcess):
    """Sessions and nodes are in `data`; without it nothing waits for the disk. `settings` are those of zoo.cfg."""

    name = "zookeeper"

    def __init__(
        self, settings: Mapping[str, object] | None = None, *, data: Path | None = None, port: int | None = None
    ) -> None:
        self._java, self._class_path = find_java(), find_jars()
        super().__init__(data=data, port=port)
        self._syncs = data is not None
        self.settings = {**_SETTINGS, **(settings or {})}

    @property
    def connect(self) -> str:
        """For `zookeeper.connect`."""
        return self.address

    def prepare(self) -> None:
        try:
            self.data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot use {self.data}: {error.strerror}; choose another directory") from None
        everything = {"dataDir": self.data, "clientPortAddress": HOST, "clientPort": self.port, **self.settings}
        lines = [f"{name}={_escaped(str(value))}\n" for name, value in everything.items()]
        self._config.write_text("".join(lines), encoding="ascii")
        self._quiet.write_text(_QUIET)

    @property
    def _config(self) -> Path:
        return self.directory / "zoo.cfg"

    @property
    def _quiet(self) -> Path:
        return self.directory / "log4j2.xml"

    def command(self) -> Sequence[str]:
        options = [f"-Dlog4j2.configurationFile={self._quiet}", *_OPTIONS]
        options += [] if self._syncs else ["-Dzookeeper.forceSync=no"]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [self._java, *_JVM, *options, "-cp", self._class_path, main, str(self._config)]

    def is_ready(self) -> bool:
        return "Mode:" in self.ask("srvr")

    # -- what it says of itself

    def ask(self, command: str) -> str:
        """The answer to one of ZooKeeper's commands of four letters; nothing if it does not answer."""
        try:
            with socket.create_connection((HOST, self.port), _ASK_S) as connection:
                connection.sendall(command.encode())
                with connection.makefile() as answer:
                    return answer.read()
        except OSError:
            return ""

    def packets_received(self) -> int:
        """Requests of all clients since the start, pings among them."""
        for line in self.ask("mntr").splitlines():
            name, _, value = line.partition("\t")
            if name == "zk_packets_received":
                return int(value)
        raise EquipoiseError(f"the ZooKeeper server on {self.connect} does not tell what it has received")

    @property
    def is_leader(self) -> bool:
        """Whether the other servers of the ensemble follow it."""
        return "Mode: leader" in self.ask("srvr")


def _escaped(value: str) -> str:
    """As files of properties have it, in whatever language a path is."""
    units = value.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    numbers = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(chr(number) if 0x20 <= number < 0x7F else f"\\u{number:04x}" for number in numbers)


class Ensemble:
    """Three servers, of which one may fail."""

    def __init__(self, size: int = 3) -> None:
        ports = {number: (free_port(), free_port()) for number in range(1, size + 1)}
        shared = {"initLimit": 10, "syncLimit": 5} | {
            f"server.{number}": f"{HOST}:{quorum}:{election}" for number, (quorum, election) in ports.items()
        }
        self.servers = [ZooKeeperServer(shared) for _ in ports]

    @property
    def connect(self) -> str:
        """The connection string of all three."""
        return ",".join(server.connect for server in self.servers)

    @property
    def leader(self) -> ZooKeeperServer:
        """The server that the others follow. StopIteration while they elect one."""
        return next(server for server in self.servers if server.is_leader)

    @property
    def followers(self) -> list[ZooKeeperServer]:
        """The servers that follow a leader, at this moment."""
        return [server for server in self.servers if "Mode: follower" in server.ask("srvr")]

    def __enter__(self) -> Self:
        try:
            for number, server in enumerate(self.servers, start=1):
                server.data.mkdir(parents=True)
                (server.data / "myid").write_text(str(number))
                server.launch()
            for server in self.servers:
                server.await_ready()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Ends the servers."""
        for server in self.servers:
            server.close()

    def __exit__(self, *_: object) -> None:
        self.close()
