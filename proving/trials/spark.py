"""Spark on clusters that lose their parts: queries that are members of a group, our sink, a pipeline, and Spark's own
connector beside them, on a standalone Spark cluster and three brokers of Apache Kafka."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from equipoise.process_guard import GuardedProcess
from equipoise.server_process import HOST
from equipoise.wire.errors import EquipoiseError
from proving.cluster import Cluster
from proving.fetched import jars
from proving.kafka_cluster import KafkaCluster
from proving.members.events import Place
from proving.spark_classes import quick_options
from proving.spark_cluster import SparkCluster
from proving.tree import python_module, with_tree
from proving.trials.accounts import Account
from proving.trials.spark_readers import Files, Topic
from proving.trials.stage import PARTITIONS, Reader, Stage, Tell, silently
from proving.trials.writing import Writer

MEMBERS, SINK, PIPELINE, OFFICIAL = "members", "sink", "pipeline", "official connector"
OFFICIAL_SINK = "official sink"
EXACT = (MEMBERS, PIPELINE)  # a sink may repeat what a task had written that was killed
QUERIES, QUERIES_OF_BOTH = "queries", "queries of both"
TRIGGER = "1 second"  # the queries share the cores with all processes of both clusters
_RATE = 300  # records a second
_END_S = 120.0
_LATE, _CHANCES = "failed to connect back", 5
_LAST_WORDS = 4000
_SETTINGS = {
    "driver.host": HOST,
    "driver.bindAddress": HOST,
    "driver.memory": "512m",
    "driver.extraJavaOptions": quick_options(),
    "executor.memory": "512m",
    "executor.extraJavaOptions": quick_options(),
    "executor.cores": "2",
    "cores.max": "4",  # so one executor on each worker
    "sql.shuffle.partitions": "1",
}


Made = tuple["Application", list[Reader]]


class Application:
    """A driver as a process, which may not end by itself; but for one reason, with which it is started again: Spark
    gives a Python process 10 s to connect back, which a busy machine may not have for it."""

    def __init__(self, name: str, command: list[str], home: Path) -> None:
        self.name = name
        self._command = command
        self._log = home / f"{name}.log"
        self._chances = _CHANCES
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **with_tree(), "SPARK_LOCAL_IP": HOST}
        with self._log.open("wb") as log:
            return GuardedProcess(self._command, stdout=log, stderr=log, env=environment)

    def check(self) -> None:
        if self._process.poll() is None:
            return
        last_words = self._log.read_text()[-_LAST_WORDS:]
        if _LATE not in last_words or not self._chances:
            raise EquipoiseError(f"{self.name} has ended with {self._process.returncode}: {last_words}")
        self._chances -= 1
        self._process = self._start()

    def stop(self) -> None:
        self._process.terminate()
        if self._process.wait(_END_S) != 0:
            self._chances = 0
            self.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """After a failure. The JVM sees it go, and ends too."""
        self._process.kill()
        self._process.wait()


class SparkStage(Stage):
    """With a Spark cluster that has its faults too."""

    def __init__(self, spark: SparkCluster, *given: Any) -> None:
        super().__init__(*given)
        self.spark = spark
        self.apps: list[Application] = []

    def check(self) -> None:
        for app in self.apps:
            app.check()

    def end_readers(self) -> None:
        for app in self.apps:
            app.stop()
        super().end_readers()

    def kill_executors(self, worker: int) -> None:
        """Of all applications, on one worker. Each gets another."""
        for pid in self.spark.workers[worker].executors():
            self.note(f"executor {pid} is killed")
            os.kill(pid, signal.SIGKILL)
        self.until_all_go_on()

    def kill_worker(self, worker: int) -> None:
        """With its executors; when all have gone on without it, it comes back."""
        self.note(f"worker {worker} is killed")
        self.spark.kill_worker(worker)
        self.until_all_go_on()
        self.spark.start_worker(worker)


def spark_through_faults(
    kafka: KafkaCluster,
    spark: SparkCluster,
    home: Path,
    *,
    app: str,
    rounds: int = 1,
    tell: Tell = silently,
) -> list[Account]:
    """Kills of executors, of a worker and of a broker, reassignments, elections. `app`: of _MAKERS."""
    topic = f"trial-{uuid.uuid4()}"
    kafka.create_topic(topic, PARTITIONS)
    stage = SparkStage(spark, kafka, Writer(kafka.bootstrap_servers, topic, PARTITIONS, rate=_RATE), [], tell)
    with ExitStack() as stack, stage.writer:
        running, stage.readers = _MAKERS[app](kafka, spark, home, topic)
        stage.apps.append(stack.enter_context(running))
        stage.until_all_go_on()
        for _ in range(rounds):
            _round(stage)
        return stage.finish()


def _round(stage: SparkStage) -> None:
    stage.kill_executors(0)
    stage.kill_worker(1)
    stage.kill_leader()
    stage.move()
    ours = [reader for reader in stage.readers if reader.name in EXACT]
    stage.hang(stage.cluster.leader_of(stage.topic), lambda: stage.until_all_go_on(ours))


def _queries(kafka: KafkaCluster, spark: SparkCluster, home: Path, topic: str) -> Made:
    """One application with two members of a group, and our sink."""
    queries, readers = _our_queries(kafka, home, topic)
    return _application(spark.url, home, queries, with_connector=False), readers


def _queries_of_both(kafka: KafkaCluster, spark: SparkCluster, home: Path, topic: str) -> Made:
    """The same, and beside them a query and a sink of Spark's own connector, which nobody judges."""
    queries, readers = _our_queries(kafka, home, topic)
    kafka.create_topic(f"{topic}-official", PARTITIONS)
    source = _source(kafka, topic)
    queries["official"] = _query("kafka", source, "json", {"path": f"{home}/official"})
    queries["official-sink"] = _query("kafka", source, "kafka", _to_topic(kafka, f"{topic}-official"))
    readers.append(Files(OFFICIAL, home, "official"))
    readers.append(Topic(OFFICIAL_SINK, kafka.bootstrap_servers, f"{topic}-official", PARTITIONS))
    return _application(spark.url, home, queries), readers


def _our_queries(kafka: KafkaCluster, home: Path, topic: str) -> tuple[dict[str, Any], list[Reader]]:
    kafka.create_topic(f"{topic}-sink", PARTITIONS)
    source = _source(kafka, topic)
    group, other = ({"group.id": f"{name}-{topic}"} for name in ("members", "sink"))
    queries = {
        "members-0": _query("equipoise", source | group, "json", {"path": f"{home}/members-0"}),
        "members-1": _query("equipoise", source | group, "json", {"path": f"{home}/members-1"}),
        "sink": _query("equipoise", source | other, "equipoise", _to_topic(kafka, f"{topic}-sink")),
    }
    sink = Topic(SINK, kafka.bootstrap_servers, f"{topic}-sink", PARTITIONS)
    return queries, [Files(MEMBERS, home, "members-*"), sink]


class Queries(Files):
    """Two queries as members of a group, on Spark in one process."""

    def __init__(self, cluster: Cluster, home: Path, topic: str, group_id: str) -> None:
        super().__init__("spark", home, "spark-*")
        self.group_id = group_id
        self._cluster = cluster
        self._committed: dict[Place, int] = {}
        source = _source(cluster, topic) | {"group.id": group_id}
        names = ("spark-0", "spark-1")
        queries = {name: _query("equipoise", source, "json", {"path": f"{home}/{name}"}) for name in names}
        self.app = _application("local[2]", home, queries, with_connector=False)

    def committed(self) -> dict[Place, int]:
        """What the cluster says, for a query tells nobody; while it does not answer, what it said last."""
        with suppress(EquipoiseError, OSError):
            self._committed = self._cluster.committed(self.group_id) or self._committed
        return self._committed

    def check(self) -> None:
        self.app.check()

    def end(self) -> None:
        self.app.stop()


def queries_of_a_log_that_is_cut(kafka: KafkaCluster, home: Path, topic: str) -> Made:
    """A member of a group, and a query of Spark's own connector, on Spark in one process. Both are told to go on."""
    source = _source(kafka, topic) | {"failOnDataLoss": "false"}
    group = {"group.id": f"members-{topic}"}
    queries = {
        "members-0": _query("equipoise", source | group, "json", {"path": f"{home}/members-0"}),
        "official": _query("kafka", source, "json", {"path": f"{home}/official"}),
    }
    app = _application("local[2]", home, queries)
    return app, [Files(MEMBERS, home, "members-*"), Files(OFFICIAL, home, "official")]


def _application(master: str, home: Path, queries: Mapping[str, Any], *, with_connector: bool = True) -> Application:
    settings = {f"spark.{name}": value for name, value in _SETTINGS.items()}
    if with_connector:
        settings["spark.jars"] = ",".join(map(str, jars("spark").glob("*.jar")))
    given = {"master": master, "home": str(home), "settings": settings, "queries": queries, "trigger": TRIGGER}
    return Application("queries", python_module("proving.trials.spark_app", json.dumps(given)), home)


def _source(cluster: Cluster, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }


def _query(source: str, options: Mapping[str, str], sink: str, to: Mapping[str, str]) -> dict[str, Any]:
    return {"source": {"format": source, "options": options}, "sink": {"format": sink, "options": to}}


def _to_topic(kafka: KafkaCluster, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic}


def _pipeline(kafka: KafkaCluster, spark: SparkCluster, home: Path, topic: str) -> Made:
    """As a user starts one: `equipoise run`, with two members."""
    settings = "\n".join(f'{name} = "{value}"' for name, value in _SETTINGS.items())
    file = home / "pipeline.toml"
    file.write_text(f"""
group = "pipeline-{topic}"
checkpoint = "{home}/pipeline.progress"
trigger = "{TRIGGER}"
sql = "select partition, offset from source"

[source]
kafka.bootstrap.servers = "{kafka.bootstrap_servers}"
subscribe = "{topic}"
startingOffsets = "earliest"

[sink]
format = "json"
path = "{home}/pipeline"

[spark]
{settings}
""")
    options = ["--members", "2", "--master", spark.url, "--log", str(home / "pipeline-spark.log")]
    app = Application("pipeline", [sys.executable, "-m", "equipoise", "run", str(file), *options], home)
    return app, [Files(PIPELINE, home, "pipeline/member=*")]


_MAKERS = {QUERIES: _queries, QUERIES_OF_BOTH: _queries_of_both, PIPELINE: _pipeline}
