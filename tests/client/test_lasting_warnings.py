"""What a user is told who has mistyped a port, a topic or a pattern: after a few seconds, then rarely."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from itertools import pairwise

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer
from equipoise.client.consumer import engine
from equipoise.client.net import lasting_warnings
from equipoise.client.net.lasting_warnings import LastingWarning
from equipoise.server_process import free_port
from tests.client.fakes import TOPIC, FakeCluster
from tests.client.reader import Reader, run
from tests.client.test_fetcher_moves import play

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for seconds here."""
    monkeypatch.setattr(lasting_warnings, "FIRST_S", 0.3)
    monkeypatch.setattr(engine, "_UNMATCHED_S", 0.5)


def poll_until(consumer: Consumer, caplog: pytest.LogCaptureFixture, words: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not re.search(words, caplog.text):
        assert time.monotonic() < end, caplog.text
        assert consumer.poll(0.05) == []


def poll_through_failures(consumer: Consumer, count: int) -> None:
    """Until the client has failed so many times more to reach a broker."""
    cluster, end = consumer._engine.cluster, time.monotonic() + PATIENCE_S
    for _ in range(count):
        known = cluster.last_failure
        while cluster.last_failure is known:
            assert time.monotonic() < end
            assert consumer.poll(0.05) == []


def test_a_wrong_port_is_told_once_with_address_cause_and_remedy(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with Consumer(bootstrap_servers=f"127.0.0.1:{port}", group_id="g") as consumer:
        consumer.subscribe("orders")
        poll_until(consumer, caplog, f":{port} has answered")
        poll_through_failures(consumer, 3)
    # A consumer that another test has left behind may warn too.
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    (warned,) = [one for one in warnings if f":{port} " in one.getMessage()]
    assert re.fullmatch(
        rf"no broker of bootstrap\.servers=127\.0\.0\.1:{port} has answered for \d+ s: cannot connect to "
        rf"127\.0\.0\.1:{port}: .*refused; is a broker listening there\? Check the address, and that a broker runs "
        "there; this client goes on trying",
        warned.getMessage(),
    )


def test_a_port_where_nobody_answers_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with Consumer(bootstrap_servers=address, group_id="g") as consumer:
            consumer.subscribe("orders")
            poll_until(consumer, caplog, f"no broker of bootstrap.servers={address} has answered for .* do not answer")


def test_a_topic_that_does_not_exist_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        address = broker.bootstrap_servers
        with Consumer(bootstrap_servers=address, group_id="g") as consumer:
            consumer.subscribe(["ordres"])
            poll_until(consumer, caplog, f"topic 'ordres' does not exist at {address}, and the broker does not create")
            with Admin(address) as admin:
                admin.create_topic("ordres", 1)
            end = time.monotonic() + PATIENCE_S
            while not consumer.assignment() and time.monotonic() < end:
                consumer.poll(0.05)
            assert consumer.assignment()
        assert caplog.text.count("does not exist") == 1


def test_a_pattern_that_matches_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker, Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
        consumer.subscribe(pattern="^ordres-.*")
        poll_until(consumer, caplog, r"no topic at .* has matched the pattern '\^ordres-\.\*' for \d+ s")


def test_a_partition_that_a_topic_does_not_have_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 3)
        with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            consumer.assign([("orders", 3)])
            poll_until(consumer, caplog, "orders-3 is assigned, but its topic has had fewer partitions")


def test_a_partition_without_a_leader_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.leaders[0] = (-1, 0)
        mine.assign(TOPIC, [0])
        await mine.until(lambda: "t-0 has had no leader" in caplog.text)
        fake.leaders[0] = (1, 1)
        await mine.take(1)

    play(main, FakeCluster())


def test_what_passes_is_not_told_and_what_lasts_rarely(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_warnings, "AGAIN_S", 0.05)

    async def main() -> None:
        ages: list[float] = []
        passing, lasting = LastingWarning(lambda _: "passing", 0.05), LastingWarning(lambda age: f"for {age}", 0.05)
        passing.begin()
        passing.end()
        lasting.begin()
        lasting.begin()
        while len(ages) < 4:
            await asyncio.sleep(0.005)
            told = [one.getMessage() for one in caplog.records]  # other clients of this process may warn too
            assert "passing" not in told
            ages = [float(one.removeprefix("for ")) for one in told if one.startswith("for ")]
        lasting.end()
        assert all(
            later - age > pause for (age, later), pause in zip(pairwise(ages), (0.049, 0.099, 0.199), strict=False)
        )

    run(main())
