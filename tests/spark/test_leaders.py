"""Executors and brokers that hang (SIGSTOP): these take connections and requests, and answer nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from equipoise.client.net.errors import KafkaConnectionError
from equipoise.member.partitions import TopicPartition
from equipoise.spark.executor.leaders import Leaders
from equipoise.spark.options import SourceOptions
from equipoise.spark.source.offset_ranges import OffsetRange
from tests.client.fakes import RECORDS, TOPIC, FakeCluster
from tests.spark.brokers import aside
from tests.spark.engine import until
from tests.spark.reads import all_of, places, table

LIMIT_S = 20.0  # for others who have the processors; a request is given up after 30
ALL = OffsetRange(TOPIC, 0, 0, RECORDS)
PARTITION = TopicPartition(TOPIC, 0)


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with aside(FakeCluster(nodes=3)) as fake:
        yield fake


def leaders_of(fake: FakeCluster, **settings: str) -> Leaders:
    given = {"kafka.bootstrap.servers": fake.bootstrap_servers, "subscribe": TOPIC}
    given |= {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    return Leaders(SourceOptions.parse(given, streaming=False).consumer)


@pytest.mark.parametrize("hung", [{1}, {2}, {1, 2}])
def test_who_leads_is_asked_of_a_broker_that_answers(fake: FakeCluster, hung: set[int]) -> None:
    """And once one has been silent, the others are asked first."""
    leaders = leaders_of(fake)
    began = time.monotonic()
    leaders.refresh([TOPIC])
    fake.hung = hung
    leaders.refresh([TOPIC])
    fake.leaders[0] = (3, 1)
    again = time.monotonic()
    for _ in range(20):
        leaders.refresh([TOPIC])
    assert leaders.leader(PARTITION).epoch == 1
    assert time.monotonic() - again < LIMIT_S / 2  # 20 of them; with one who hangs first, each would take a second
    assert time.monotonic() - began < LIMIT_S
    leaders.close()


def test_all_of_them_slow_get_more_time(fake: FakeCluster) -> None:
    leaders = leaders_of(fake, request_timeout_ms="20000")
    fake.hung = {1, 2, 3}
    timer = threading.Timer(3.5, fake.hung.clear)  # each has been asked once in vain by then
    timer.start()
    leaders.refresh([TOPIC])
    timer.join()
    leaders.close()


def test_nobody_answers(fake: FakeCluster) -> None:
    leaders = leaders_of(fake, request_timeout_ms="200")
    fake.hung = {1, 2, 3}
    with pytest.raises(KafkaConnectionError) as caught:
        leaders.refresh([TOPIC])
    assert str(caught.value).count("did not answer") == 3
    leaders.close()


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_task_leaves_a_leader_that_hangs_for_the_one_that_leads_now(fake: FakeCluster, is_connected: bool) -> None:
    """It does not wait until request.timeout.ms is over."""
    if is_connected:
        table(fake.bootstrap_servers, [ALL])
    fake.hung = {1}

    def elect() -> None:
        until("the task knows the old leader", lambda: fake.metadata_requests)
        fake.leaders[0] = (2, 1)

    thread = threading.Thread(target=elect)
    began = time.monotonic()
    thread.start()
    assert places(table(fake.bootstrap_servers, [ALL])) == all_of(ALL)
    assert time.monotonic() - began < LIMIT_S
    thread.join()
