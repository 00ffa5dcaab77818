"""A query from topic to topic, exactly once, that is repeated until it is done; and the account of its output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

from equipoise import Admin, Consumer, Producer, TopicPartition
from tests.client.transactions.stage import read
from tests.client.writing import Reachable
from tests.spark import faulty_sink
from tests.spark.applications import Application
from tests.spark.conftest import create
from tests.spark.starting import Query
from tests.spark.streams import until

cloudpickle.register_pickle_by_value(faulty_sink)  # type: ignore[no-untyped-call]
PARTITIONS = 2


class OnceJob:
    """Its topics, its checkpoint, and the directory in which faults are armed."""

    def __init__(self, spark: Any, broker: Reachable, home: Path, name: str, **options: str) -> None:
        self.spark, self.broker, self.name = spark, broker, name
        self.faults, self.checkpoint = home / "faults", str(home / "checkpoint")
        self.faults.mkdir()
        self.written = 0
        self.source_name: str | None = None
        self._options = {"group.id": self.group} | {name.replace("__", "."): value for name, value in options.items()}
        spark.dataSource.register(faulty_sink.FaultySource)
        self.source = {"subscribe": self.input, "startingOffsets": "earliest"}
        self.source |= {"group.id": self.group, "delivery": "exactly-once", "kafka.session.timeout.ms": "9000"}
        for topic in (self.input, self.output):
            create(broker.bootstrap_servers, topic, PARTITIONS)

    @property
    def input(self) -> str:
        return f"{self.name}-in"

    @property
    def output(self) -> str:
        return f"{self.name}-out"

    @property
    def group(self) -> str:
        return f"{self.name}-group"

    def write(self, count: int) -> None:
        with Producer({"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": 0}) as producer:
            for number in range(self.written, self.written + count):
                producer.send(self.input, f"{number}", partition=number % PARTITIONS)
        self.written += count

    def start(self, faults: str | None = None) -> Query:
        """`faults`: the sink with faults."""
        servers = self.broker.bootstrap_servers
        source = {"kafka.bootstrap.servers": servers, **self.source}
        reader = self.spark.readStream if self.source_name is None else self.spark.readStream.name(self.source_name)
        frame = reader.format("equipoise").options(**source).load()
        sink = {
            "kafka.bootstrap.servers": servers,
            "topic": self.output,
            "delivery": "exactly-once",
            "checkpointLocation": self.checkpoint,
            "kafka.transactional.id": self.name,
            "queryName": str(self.faults),
        }
        writer = frame.select("value").writeStream.format("equipoise-faulty").options(**sink | self._options)
        return Query(writer.trigger(availableNow=True).start)

    def application(self, home: Path) -> Application:
        """The same query, without faults, in a process of its own; not started yet."""
        return Application(home, self.broker.bootstrap_servers, **self.source)

    @property
    def sink(self) -> dict[str, str]:
        """The options of its sink."""
        return {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "topic": self.output,
            "delivery": "exactly-once",
            "group.id": self.group,
            "kafka.transactional.id": self.name,
        }

    def leave_group(self) -> None:
        """Its offsets are in the checkpoint alone."""
        del self.source["delivery"], self.source["group.id"], self.source["kafka.session.timeout.ms"]
        del self._options["group.id"]

    def run(self) -> None:
        """To the end of what is there."""
        self.start().awaitTermination()

    def wait_for_leave(self) -> None:
        """A query that ends while its broker starts may be unable to say so: its session expires. Until then the group
        counts it, and gives the next one nothing to read."""
        with Admin(self.broker.bootstrap_servers) as admin:
            until("the group is empty", lambda: not admin.describe_group(self.group).members)

    def fail_at(self, *steps: str) -> None:
        """A process of the query is killed at each of these steps, and the query fails with it."""
        armed = [self.faults / f"kill-{step}" for step in steps]
        for fault in armed:
            fault.touch()
        with suppress(StreamingQueryException):
            self.run()
        assert not [fault for fault in armed if fault.exists()], f"nothing has reached one of {steps}"

    def check_rows(self, others: Iterable[bytes | None] = ()) -> None:
        """Each row once, in the output or with others."""
        found = Counter(record.value for record in read(self.broker, self.output)) + Counter(others)
        assert found == Counter(f"{number}".encode() for number in range(self.written))

    def check(self) -> None:
        """Each row once, the group's offsets behind all input, and nothing that is left open."""
        self.check_rows()
        with Admin(self.broker.bootstrap_servers) as admin:
            ends = {TopicPartition(self.input, number): at.latest for number, at in admin.offsets(self.input).items()}
            latest = {TopicPartition(self.output, one): at.latest for one, at in admin.offsets(self.output).items()}
        settings = {"bootstrap.servers": self.broker.bootstrap_servers, "isolation.level": "read_committed"}
        with Consumer({**settings, "group.id": self.group}) as reader:
            assert {one: at.offset for one, at in reader.committed(*ends).items()} == ends
            assert reader.end_offsets(*latest) == latest  # no transaction is open
