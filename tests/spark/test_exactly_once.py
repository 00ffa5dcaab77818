"""The sink with delivery=exactly-once: whatever is killed at whichever step, each row counts once."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.types import StringType, StructField, StructType

from equipoise import Broker
from equipoise.errors import UsageError
from equipoise.member import OffsetAndMetadata
from equipoise.spark.sink import sink
from equipoise.spark.sink.decision import Decision, TaskAttempt
from equipoise.spark.sink.prepared import Prepared, sink_name
from proving.brokers import EquipoiseBroker, KafkaBroker
from tests.client.transactions.stage import consumer, producer, read
from tests.client.writing import Reachable
from tests.spark.conftest import create
from tests.spark.faulty_sink import ABORT_STEPS, DRIVER_STEPS, TASK_STEPS
from tests.spark.once import OnceJob
from tests.spark.starting import Query
from tests.spark.streams import until
from tests.spark.test_sink import save

STEPS = (*TASK_STEPS, *DRIVER_STEPS)


def every_step_may_be_the_last(spark: Any, broker: Reachable, home: Path) -> None:
    """The next run finishes or repeats the batch, and has a fault of its own."""
    job = OnceJob(spark, broker, home, "steps")
    for step in STEPS:
        job.write(40)
        job.fail_at(step)
    job.fail_at("half", "aborting")
    job.run()
    job.check()


def test_every_step_may_be_the_last(spark: Any, broker: Broker, tmp_path: Path) -> None:
    every_step_may_be_the_last(spark, broker, tmp_path)


@pytest.mark.kafka
def test_every_step_may_be_the_last_on_apache_kafka(spark: Any, kafka: KafkaBroker, tmp_path: Path) -> None:
    every_step_may_be_the_last(spark, kafka, tmp_path)


def the_broker_is_killed_at(step: str, job: OnceJob, broker: EquipoiseBroker | KafkaBroker) -> None:
    (job.faults / f"wait-{step}").touch()
    query = job.start()
    until(f"the query is at {step}", (job.faults / f"at-{step}").exists, query)
    broker.kill()
    broker.start()
    (job.faults / f"at-{step}").unlink()
    try:
        query.awaitTermination()
    except StreamingQueryException:
        job.wait_for_leave()
        job.run()
    job.wait_for_leave()


def test_the_broker_may_be_killed_at_every_step(spark: Any, tmp_path: Path) -> None:
    with EquipoiseBroker({"group.initial.rebalance.delay.ms": 0}, data=tmp_path / "data") as broker:
        job = OnceJob(spark, broker, tmp_path, "kills")
        for step in ("half", "prepared", "checked", "decided", "first"):
            job.write(40)
            the_broker_is_killed_at(step, job, broker)
        job.check()


def drivers_are_killed(spark: Any, broker: Reachable, home: Path, kills: int) -> None:
    """Whole applications: Python, the JVM and all workers at once, at a moment that nobody chooses."""
    job, chance = OnceJob(spark, broker, home, "drivers"), random.Random(19)
    application = job.application(home / "application")
    for _ in range(kills):
        application.start(sink=job.sink)
        seen = len(read(broker, job.output))
        job.write(200)
        until("rows come", lambda seen=seen: len(read(broker, job.output)) > seen)  # type: ignore[misc]
        job.write(200)
        time.sleep(chance.uniform(0, 2))
        application.kill()
    application.start(sink=job.sink)
    until("all rows have come", lambda: len(read(broker, job.output)) >= job.written)
    application.stop()
    job.check_rows()


def test_a_killed_driver_writes_each_row_once(spark: Any, broker: Broker, tmp_path: Path) -> None:
    drivers_are_killed(spark, broker, tmp_path, kills=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_killed_drivers_write_each_row_once(spark: Any, broker: Broker, tmp_path: Path) -> None:
    drivers_are_killed(spark, broker, tmp_path, kills=30)


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.timeout(3600)
def test_killed_drivers_write_each_row_once_on_apache_kafka(spark: Any, kafka: KafkaBroker, tmp_path: Path) -> None:
    drivers_are_killed(spark, kafka, tmp_path, kills=20)


def a_hundred_kills(spark: Any, broker: Reachable, home: Path) -> None:
    """Of workers and of the driver's process that commits: at any step, and while the query aborts."""
    job, chance = OnceJob(spark, broker, home, "hundred"), random.Random(19)
    for _ in range(90):
        job.write(40)
        job.fail_at(chance.choice(STEPS))
    for _ in range(5):
        job.fail_at(chance.choice(TASK_STEPS), chance.choice(ABORT_STEPS))
    job.run()
    job.check()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_kills(spark: Any, broker: Broker, tmp_path: Path) -> None:
    a_hundred_kills(spark, broker, tmp_path)


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.timeout(3600)
def test_a_hundred_kills_on_apache_kafka(spark: Any, kafka: KafkaBroker, tmp_path: Path) -> None:
    a_hundred_kills(spark, kafka, tmp_path)


def test_a_transaction_that_times_out_before_the_decision_is_repeated(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    job = OnceJob(spark, broker, tmp_path, "late", kafka__transaction__timeout__ms="1000")
    query = _time_out_at("prepared", job)
    with pytest.raises(StreamingQueryException, match=r"(?s)longer than\s+kafka\.transaction\.timeout\.ms"):
        query.awaitTermination()
    job.run()
    job.check()


def _time_out_at(step: str, job: OnceJob) -> Query:
    """A query that goes on from there when the coordinator has aborted its transactions."""
    job.write(40)
    (job.faults / f"wait-{step}").touch()
    query = job.start()
    until(f"the query is at {step}", (job.faults / f"at-{step}").exists, query)
    until("the coordinator has aborted it", lambda: _is_aborted(job))
    (job.faults / f"at-{step}").unlink()
    return query


def _is_aborted(job: OnceJob) -> bool:
    """Nothing is open, and something was written."""
    broker = job.broker
    with consumer(broker, job.output) as committed, consumer(broker, job.output, "read_uncommitted") as every:
        ends = every.end_offsets()
        return sum(ends.values()) > 0 and committed.end_offsets() == ends


def test_what_is_lost_after_the_decision_is_said(spark: Any, broker: Broker, tmp_path: Path) -> None:
    job = OnceJob(spark, broker, tmp_path, "lost", kafka__transaction__timeout__ms="1000")
    query = _time_out_at("decided", job)
    for again in (query.awaitTermination, job.run):  # the second run does not go on either
        with pytest.raises(StreamingQueryException, match=r"batch 0 was decided"):
            again()


def test_what_is_lost_after_the_decision_is_written_again_on_demand(spark: Any, broker: Broker, tmp_path: Path) -> None:
    options = {"kafka__transaction__timeout__ms": "1000", "on__lost__transaction": "rewrite"}
    job = OnceJob(spark, broker, tmp_path, "again", **options)
    job.leave_group()
    query = _time_out_at("decided", job)
    with pytest.raises(StreamingQueryException, match="the next start writes the whole batch again"):
        query.awaitTermination()
    job.run()
    job.check_rows()


def test_an_older_checkpoint_is_refused(spark: Any, broker: Broker, tmp_path: Path) -> None:
    job = OnceJob(spark, broker, tmp_path, "older")
    for _ in range(2):
        job.write(10)
        job.run()
    checkpoint = tmp_path / "checkpoint"
    for name in ("offsets/1", "commits/1", "offsets/.1.crc", "commits/.1.crc"):
        (checkpoint / name).unlink(missing_ok=True)
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    with pytest.raises(StreamingQueryException, match="is an older copy"):
        job.run()


def test_a_data_frame_counts_as_a_whole(spark: Any, broker: Broker) -> None:
    create(broker.bootstrap_servers, "orders", 3)
    rows = spark.range(1000).selectExpr("cast(id as string) value")
    save(rows, broker, "orders", delivery="exactly-once")
    bad = spark.range(100).repartition(2).selectExpr("cast(id as string) value", "if(id = 99, 7, 0) partition")
    with pytest.raises(PySparkException, match="is for partition 7"):
        save(bad, broker, "orders", delivery="exactly-once")
    found = Counter(record.value for record in read(broker, "orders"))
    assert found == Counter(f"{number}".encode() for number in range(1000))


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_write_leaves_no_transaction_of_a_killed_task(broker: Broker, is_committed: bool) -> None:
    """Nobody comes later to end it, and readers with read_committed would wait for its time-out."""
    create(broker.bootstrap_servers, "orders")
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "orders", "delivery": "exactly-once"}
    writer = sink.batch_writer(StructType([StructField("value", StringType())]), options)
    name = sink_name(writer._options, writer._life)
    killed = producer(broker, f"{name}-0", transaction_timeout_ms="600000")
    killed.init_transactions()
    killed.begin_transaction()
    killed.send("orders", "half")
    killed.flush()
    if is_committed:
        writer.commit([Prepared(name, 0, TaskAttempt(0, 1))])
    else:
        writer.abort([None])
    with consumer(broker, "orders") as committed, consumer(broker, "orders", "read_uncommitted") as every:
        assert committed.end_offsets() == every.end_offsets()
    killed.abandon()


def test_brokers_may_allow_short_transactions_only(spark: Any, tmp_path: Path) -> None:
    with Broker({"transaction.max.timeout.ms": "20000"}) as broker:
        job = OnceJob(spark, broker, tmp_path, "short", kafka__transaction__timeout__ms="15000")
        job.write(10)
        job.run()
        job.check()


@pytest.mark.parametrize("address", ["file:{}", "file://{}", "{}"])
def test_a_checkpoint_may_have_any_name(spark: Any, broker: Broker, tmp_path: Path, address: str) -> None:
    """The sink reads offsets there. For Spark, addresses of files are no URLs."""
    job = OnceJob(spark, broker, tmp_path, "named")
    job.checkpoint = address.format(tmp_path / "a%20b#c?d ü")
    job.write(10)
    job.run()
    job.check()
    assert (tmp_path / "a%20b#c?d ü" / "commits" / "0").exists()


def test_a_source_may_have_a_name(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Spark writes it into the checkpoint, before the offsets."""
    if not hasattr(spark.readStream, "name"):
        pytest.skip("this version of Spark gives sources no names")
    evolution = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    spark.conf.set(evolution, "true")
    try:
        job = OnceJob(spark, broker, tmp_path, "names")
        job.source_name = "orders"
        job.write(10)
        job.run()
        job.check()
    finally:
        spark.conf.unset(evolution)


def test_rows_of_several_topics_need_a_topic_for_the_decision(spark: Any, broker: Broker) -> None:
    for topic in ("even", "odd"):
        create(broker.bootstrap_servers, topic, 2)
    rows = spark.range(100).selectExpr("cast(id as string) value", "if(id % 2 = 0, 'even', 'odd') topic")
    save(rows, broker, None, delivery="exactly-once", **{"decision.topic": "even"})
    assert sorted(int(record.value or b"") for record in read(broker, "odd")) == list(range(1, 100, 2))


def test_the_topic_for_the_decision_must_be_there(spark: Any) -> None:
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        create(broker.bootstrap_servers, "even")
        options = {"decision.topic": "nowhere", "kafka.max.block.ms": "3000"}
        with pytest.raises(PySparkException, match="topic 'nowhere' does not exist"):
            save(spark.range(1).selectExpr("'a' value"), broker, "even", delivery="exactly-once", **options)


# -- the decision as text


attempts = st.builds(TaskAttempt, st.integers(0, 200), st.sampled_from([0, 0, 0, 1, 2]))


@given(st.integers(0, 2**62), st.lists(attempts, unique=True))
def test_a_decision_is_read_as_it_was_written(batch: int, tasks: list[TaskAttempt]) -> None:
    decision = Decision(batch, tuple(tasks))
    found = Decision.parse(decision.commit())
    assert (found.batch, sorted(found.tasks)) == (batch, sorted(tasks))


def test_tasks_are_told_as_ranges() -> None:
    tasks = *map(TaskAttempt, (0, 1, 2, 4, 7, 8)), TaskAttempt(3, 1)
    assert Decision(5, tasks).commit() == OffsetAndMetadata(5, "equipoise sink batch=5 tasks=0-2,4,7-8,3.1")
    assert TaskAttempt(3, 1).transactional_id("a") == "a-3-1"


def test_a_decision_that_is_undone_reads_as_the_one_before() -> None:
    assert Decision.parse(Decision(5, (TaskAttempt(1),)).undo()) == Decision(4, ())
    assert Decision.parse(Decision(0, ()).undo()) == Decision(-1, ())


def test_what_is_no_decision_is_refused() -> None:
    for at in (OffsetAndMetadata(3, ""), OffsetAndMetadata(3, "equipoise sink batch=4 tasks=0")):
        with pytest.raises(UsageError, match="is no decision of this sink"):
            Decision.parse(at)
    with pytest.raises(UsageError, match="write with fewer tasks"):
        Decision(1, tuple(TaskAttempt(n) for n in range(0, 4000, 2))).commit()
