"""The exactly-once sink in a group that others share: what another member has taken over is not written again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from equipoise import Broker, Consumer
from proving.brokers import KafkaBroker
from tests.client.writing import Reachable
from tests.spark.once import OnceJob
from tests.spark.streams import members, until


def taken_over(job: OnceJob, count: int, when_joined: Callable[[], None] = lambda: None) -> list[bytes]:
    """What a plain member reads in place of the query: so many records or more, which it commits."""
    settings = {"bootstrap.servers": job.broker.bootstrap_servers, "group.id": job.group}
    settings |= {"auto.offset.reset": "earliest", "partition.assignment.strategy": "cooperative-sticky"}
    found: list[bytes] = []
    with Consumer({**settings, "enable.auto.commit": False}) as other:
        other.subscribe(job.input)
        until("the other has joined", lambda: (read_on(other, found), other.generation_id > 0)[1])
        when_joined()
        until("the other has read them", lambda: len(read_on(other, found)) >= count)
        other.commit()
    return found


def read_on(other: Consumer, found: list[bytes]) -> list[bytes]:
    found += [record.value or b"" for record in other.poll(0.2)]
    return found


def others_take_over_what_was_not_decided(spark: Any, broker: Reachable, home: Path) -> None:
    job = OnceJob(spark, broker, home, "taken")
    job.write(40)
    job.fail_at("prepared")
    taken = taken_over(job, 40)
    job.write(40)
    job.run()
    assert len(taken) == 40
    job.check_rows(taken)


def test_others_take_over_what_was_not_decided(spark: Any, broker: Broker, tmp_path: Path) -> None:
    others_take_over_what_was_not_decided(spark, broker, tmp_path)


@pytest.mark.kafka
def test_others_take_over_what_was_not_decided_on_apache_kafka(spark: Any, kafka: KafkaBroker, tmp_path: Path) -> None:
    others_take_over_what_was_not_decided(spark, kafka, tmp_path)


def test_what_was_decided_is_not_for_others(spark: Any, broker: Broker, tmp_path: Path) -> None:
    job = OnceJob(spark, broker, tmp_path, "decided")
    job.write(40)
    job.fail_at("decided")
    job.write(10)
    taken = taken_over(job, 10)
    job.run()
    assert sorted(taken) == sorted(f"{number}".encode() for number in range(40, 50))
    job.check_rows(taken)


def test_a_query_that_is_put_out_in_the_middle_of_a_batch_writes_nothing_of_it(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    """And goes on, with what the group assigns to it then."""
    job = OnceJob(spark, broker, tmp_path, "out")
    job.write(40)
    (job.faults / "wait-checked").touch()
    query = job.start()
    until("the batch is ready for its decision", (job.faults / "at-checked").exists, query)
    (member,) = members(broker.bootstrap_servers, job.group)
    # Of one partition at least: the query joins again, and may get the other.
    taken = taken_over(job, 20, lambda: broker.groups[job.group].kick(member["member_id"]))
    (job.faults / "at-checked").unlink()
    query.awaitTermination()
    job.write(40)
    job.run()
    job.check_rows(taken)


def test_a_rebalance_in_the_middle_of_a_batch_does_no_harm(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """The query keeps what its batch holds, and commits as a member of the new generation."""
    job = OnceJob(spark, broker, tmp_path, "moves")
    job.write(40)
    (job.faults / "wait-checked").touch()
    query = job.start()
    until("the batch is ready for its decision", (job.faults / "at-checked").exists, query)
    before = broker.groups[job.group].generation_id
    broker.groups[job.group].rebalance()
    until("there is another generation", lambda: broker.groups[job.group].generation_id > before, query)
    (job.faults / "at-checked").unlink()
    query.awaitTermination()
    job.check()


def test_the_source_must_leave_its_commits_to_the_sink(spark: Any, broker: Broker, tmp_path: Path) -> None:
    job = OnceJob(spark, broker, tmp_path, "half")
    job.source["delivery"] = "at-least-once"
    job.write(10)
    with pytest.raises(StreamingQueryException, match="set its option delivery to exactly-once too"):
        job.run()
