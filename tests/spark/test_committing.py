"""The steps of the exactly-once sink without Spark: tasks, commit and abort as Spark calls them, and what it may repeat
or leave behind in between."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from equipoise import Admin, Broker
from equipoise.client.transactions.errors import LostTransactionError
from equipoise.errors import EquipoiseError
from equipoise.spark.sink import committing, writing
from equipoise.spark.sink.decision import TaskAttempt
from equipoise.spark.sink.options import SinkOptions
from equipoise.spark.sink.prepared import Prepared, read_decision, write_prepared
from proving.brokers import KafkaBroker
from tests.client.transactions.stage import read
from tests.client.writing import Reachable
from tests.spark.conftest import create

STEPS = ("read_decision", "check_prepared", "decide", "end", "finish", "fence_leftovers")


@pytest.fixture(autouse=True)
def _producers_end() -> Iterator[None]:
    yield
    writing.forget_all()


class Micro:
    """A query of micro-batches: Spark's part in it."""

    def __init__(self, broker: Reachable, name: str) -> None:
        self.broker, self.topic, self.name = broker, f"{name}-out", f"equipoise-{name}"
        create(broker.bootstrap_servers, self.topic, 2)
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        self.options = SinkOptions.parse(servers | {"topic": self.topic, "delivery": "exactly-once"})

    def task(self, batch: int, *values: str, task: int = 0, attempt: int = 0) -> Prepared:
        """As on an executor. A value comes with its batch."""
        report = Prepared(self.name, 0, TaskAttempt(task, attempt))
        decision = read_decision(writing.producer_of(self.options.producer), self.options, self.name)
        if decision is not None and decision.batch == batch:
            return report
        rows = pa.RecordBatch.from_pydict({"value": [f"{batch}-{value}".encode() for value in values]})
        return write_prepared(iter([rows]), self.options, report)

    def commit(self, batch: int, *messages: Prepared) -> None:
        committing.commit(self.options, messages, batch)

    def abort(self, batch: int, *messages: Prepared) -> None:
        committing.abort(self.options, messages, batch)

    def run(self, batch: int) -> None:
        """Two tasks. After a failure Spark aborts, and the next start repeats the batch."""
        messages = [self.task(batch, "a", "b"), self.task(batch, "c", task=1)]
        try:
            self.commit(batch, *messages)
        except EquipoiseError:
            self.abort(batch, *messages)
            raise

    def check(self, *values: str) -> None:
        """These once each, and nothing is left open."""
        found = Counter((record.value or b"").decode() for record in read(self.broker, self.topic))
        assert found == Counter(values)
        with Admin(self.broker.bootstrap_servers) as admin:
            open_ones = {one.transactional_id for one in admin.list_transactions(["Ongoing"])}
        assert not {one for one in open_ones if one.startswith(self.name)}


class Cut(EquipoiseError):
    """The fault."""


def fail_once(monkeypatch: pytest.MonkeyPatch, step: str, *, before: bool) -> None:
    """At its begin, or when it is done and nobody hears of it."""
    work, turns = getattr(committing, step), iter([True])

    def cut(at_begin: bool) -> None:
        if at_begin is before and next(turns, False):
            raise Cut(step)

    def faulty(*given: Any, **more: Any) -> Any:
        cut(True)
        result = work(*given, **more)
        cut(False)
        return result

    async def faulty_request(*given: Any, **more: Any) -> Any:
        cut(True)
        result = await work(*given, **more)
        cut(False)
        return result

    monkeypatch.setattr(committing, step, faulty_request if inspect.iscoroutinefunction(work) else faulty)


def every_step_may_fail(broker: Reachable, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    job, batch = Micro(broker, name), 0
    for step in STEPS:
        for before in (True, False):
            with monkeypatch.context() as patched:
                fail_once(patched, step, before=before)
                with pytest.raises(Cut):
                    job.run(batch)
            job.run(batch)
            batch += 1
    job.check(*(f"{number}-{value}" for number in range(batch) for value in "abc"))


def test_every_step_may_fail(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    every_step_may_fail(broker, monkeypatch, "fails")


@pytest.mark.kafka
def test_every_step_may_fail_on_apache_kafka(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    every_step_may_fail(kafka, monkeypatch, "fails")


def test_an_abort_may_fail(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Micro(broker, "aborts")
    for step in ("read_decision", "abort_prepared", "fence_leftovers"):
        for before in (True, False):
            prepared = job.task(0, "a")
            with monkeypatch.context() as patched:
                fail_once(patched, step, before=before)
                with pytest.raises(Cut):
                    job.abort(0, prepared)
    job.run(0)
    job.check("0-a", "0-b", "0-c")


def test_of_two_attempts_one_counts(broker: Broker) -> None:
    """As with speculation: the other is still open, and is aborted."""
    job = Micro(broker, "attempts")
    job.task(0, "a")
    job.commit(0, job.task(0, "a", attempt=1))
    job.check("0-a")


def test_a_repeated_batch_may_have_fewer_tasks(broker: Broker) -> None:
    job = Micro(broker, "fewer")
    for task in range(3):
        job.task(0, f"{task}", task=task)
    job.commit(0, job.task(0, "0", "1", "2"))
    job.check("0-0", "0-1", "0-2")


def test_a_task_of_an_earlier_run_is_fenced(broker: Broker) -> None:
    """Whatever it reports: the driver decides on nothing that it has written."""
    job = Micro(broker, "zombie")
    zombie = job.task(0, "a")
    fresh = job.task(0, "a")
    with pytest.raises(LostTransactionError, match="ended before the batch was complete"):
        job.commit(0, zombie)
    job.commit(0, fresh)
    job.check("0-a")


def test_a_driver_of_an_earlier_run_decides_nothing(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stood still between its check and its decision, while another run went through."""
    job = Micro(broker, "drivers")
    work = committing.decide

    def late(*given: Any) -> bool:
        monkeypatch.setattr(committing, "decide", work)
        job.run(0)
        job.run(1)
        return work(*given)

    monkeypatch.setattr(committing, "decide", late)
    with pytest.raises(EquipoiseError, match="fenced"):
        job.commit(0, job.task(0, "lost"))
    job.check(*(f"{batch}-{value}" for batch in (0, 1) for value in "abc"))
