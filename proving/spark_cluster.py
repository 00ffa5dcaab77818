"""A standalone Spark cluster as processes on this machine: a master and two workers, from the jars that PySpark brings.

with SparkCluster() as cluster:
    session = SparkSession.builder.master(cluster.url).getOrCreate()
    cluster.kill_worker(0)
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from equipoise.server_process import HOST, ServerProcess, free_port
from equipoise.wire.errors import EquipoiseError
from proving.fetched import Unavailable, java
from proving.spark_classes import quick_options

WORKERS = 2
_JVM = ("-Xmx256m", "-XX:-UsePerfData")
# A worker that is silent for so long is dead to the master; one whose connection breaks is so at once.
_OPTIONS = ("-Dspark.worker.timeout=10", "-Dspark.ui.enabled=false")
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_PATIENCE_S = 120.0
_LOOK_AGAIN_S = 0.05
_ASK_S = 5.0


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Unavailable("PySpark is not installed: pip install 'equipoise[spark]'")
    return Path(spec.origin).parent


class SparkDaemon(ServerProcess):
    """A process of the cluster that has a web page: there it tells in JSON how it is."""

    main: str

    def __init__(self) -> None:
        self._java, self._home = java(), spark_home()
        super().__init__()
        self._page = free_port()

    def command(self) -> Sequence[str]:
        where = ["--host", HOST, "--port", str(self.port), "--webui-port", str(self._page)]
        jvm = [self._java, *_JVM, *shlex.split(quick_options()), *_OPTIONS, "-cp", self._class_path()]
        return [*jvm, self.main, *where, *self.arguments()]

    def _class_path(self) -> str:
        """That of Spark's own launcher: with another one, a JVM does not map the file of classes."""
        logging = next(self._home.glob("jars/slf4j-api-*.jar"))
        return f"{self._home}/conf:{logging}:{self._home}/jars/*"

    def arguments(self) -> Sequence[str]:
        return ()

    def environment(self) -> Mapping[str, str]:
        """As Spark's own start scripts have it; without the version of Scala no executor finds its jars."""
        core = next(self._home.glob("jars/spark-core_*.jar"))
        scala = core.name.removeprefix("spark-core_").partition("-")[0]
        return {"SPARK_HOME": str(self._home), "SPARK_SCALA_VERSION": scala, "SPARK_LOCAL_IP": HOST}

    def is_ready(self) -> bool:
        return bool(self.state())

    def state(self) -> dict[str, Any]:
        """Nothing if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._page}/json/", timeout=_ASK_S) as page:
                found: dict[str, Any] = json.load(page)
                return found
        except (OSError, ValueError):
            return {}


class SparkMaster(SparkDaemon):
    name = "spark-master"
    main = "org.apache.spark.deploy.master.Master"

    @property
    def url(self) -> str:
        return f"spark://{self.address}"


class SparkWorker(SparkDaemon):
    """Executors are its children. They end when it does, for they watch it."""

    name = "spark-worker"
    main = "org.apache.spark.deploy.worker.Worker"

    def __init__(self, master: str, *, cores: int, memory: str) -> None:
        super().__init__()
        self._master, self._cores, self._memory = master, cores, memory

    def arguments(self) -> Sequence[str]:
        resources = ["--cores", str(self._cores), "--memory", self._memory]
        return [*resources, "--work-dir", str(self.directory / "work"), self._master]

    def executors(self) -> list[int]:
        """Process ids of the executors that it runs."""
        return [pid for pid in _children(self.pid) if _EXECUTOR in _command_of(pid)] if self.is_running else []

    def executor_logs(self) -> str:
        """What the executors said on stderr, those of all applications."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.directory.glob("work/*/*/stderr")))


class SparkCluster:
    """Workers are named 0 and 1. `cores` and `memory` are what a worker gives to executors in all: room for a few
    applications, whatever the machine has."""

    name = "spark cluster"

    def __init__(self, *, cores: int = 4, memory: str = "2g") -> None:
        self.master = SparkMaster()
        self.workers = [SparkWorker(self.master.url, cores=cores, memory=memory) for _ in range(WORKERS)]

    @property
    def url(self) -> str:
        """For `--master`."""
        return self.master.url

    # -- what happens to it

    def kill_worker(self, number: int) -> None:
        """SIGKILL for the worker; its executors see it go, and end."""
        self.workers[number].kill()

    def start_worker(self, number: int) -> None:
        """After `kill_worker`: applications get executors on it again."""
        self.workers[number].start()
        self._wait("the worker is registered", lambda: self.alive() == self._running())

    def kill_executor(self, number: int) -> int:
        """SIGKILL for one executor of a worker, when there is one. The worker starts another in its place."""
        worker = self.workers[number]
        self._wait(f"worker {number} runs an executor", lambda: bool(worker.executors()))
        pid = worker.executors()[0]
        os.kill(pid, signal.SIGKILL)
        return pid

    def mend(self) -> None:
        for worker in self.workers:
            if worker.is_hung:
                worker.resume()
            elif not worker.is_running:
                worker.launch()
        for worker in self.workers:
            worker.await_ready()
        self._wait("all workers are registered", lambda: self.alive() == WORKERS)

    def _running(self) -> int:
        return sum(worker.is_running for worker in self.workers)

    def alive(self) -> int:
        """The workers that the master counts on."""
        return sum(worker["state"] == "ALIVE" for worker in self.master.state().get("workers", []))

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not is_so():
            if time.monotonic() > end:
                raise EquipoiseError(f"not so within {_PATIENCE_S:.0f} s: {what}; {self.master.last_words()}")
            time.sleep(_LOOK_AGAIN_S)

    # -- its life

    def __enter__(self) -> Self:
        try:
            for server in (self.master, *self.workers):  # workers try until they find the master
                server.launch()
            self.master.await_ready()
            self.mend()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Workers first, while they can tell their executors; what is left of those ends with them."""
        left = [pid for worker in self.workers for pid in worker.executors()]
        for server in (*self.workers, self.master):
            server.close()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def __exit__(self, *_: object) -> None:
        self.close()


def _children(parent: int) -> Iterator[int]:
    for found in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, ppid = found.read_text().rpartition(")")[2].split()[:2]
            if int(ppid) == parent and state != "Z":
                yield int(found.parent.name)


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
