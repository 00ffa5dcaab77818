"""`equipoise metrics`: what Prometheus reads, of groups that real consumers make."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer as ForeignConsumer
from prometheus_client.parser import text_string_to_metric_families

from equipoise.broker import Broker
from equipoise.broker.metrics import BrokerMetrics
from equipoise.client import Admin, Producer, TopicPartition
from equipoise.console.metrics import LONGEST_LABEL, Choice, GroupCollector, registry_of
from equipoise.coordinator.reasons import Departure, Refusal, Trigger
from equipoise.metrics_server import check_address
from equipoise.server_process import free_port
from equipoise.views.model import Ms, Source
from equipoise.watching.access import Access
from equipoise.watching.store import Store
from equipoise.watching.watcher import Watched, watching
from equipoise.wire.errors import KafkaError, UsageError
from tests.commands import Command
from tests.test_documents import table
from tests.views.test_timeline import rebalance as journal_row
from tests.watching.conftest import Join, Produce
from tests.watching.conftest import join as join
from tests.watching.conftest import produce as produce
from tests.watching.conftest import topic as topic

PATIENCE_S = 60
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@contextmanager
def exporter(broker: Broker, *arguments: str) -> Iterator[str]:
    """`equipoise metrics` as a process; its address."""
    command = [sys.executable, "-m", "equipoise", "metrics", "--listen", "127.0.0.1:0", "--every", "200ms"]
    command += ["-b", broker.bootstrap_servers, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(f"equipoise metrics of {broker.bootstrap_servers} on http://127.0.0.1:")
            yield line.split()[-1].removesuffix("/metrics")
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def get(url: str, token: str | None = None) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urlopen(Request(url, headers=headers), timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def samples(text: str) -> Samples:
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def of(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((f"equipoise_{name}", tuple(sorted(labels.items()))))


def until(url: str, holds: Callable[[Samples], bool]) -> Samples:
    """Asks until it holds, for a while."""
    return until_told(lambda: samples(get(f"{url}/metrics")[1]), holds)


def until_told(ask: Callable[[], Samples], holds: Callable[[Samples], bool]) -> Samples:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = ask()
        if holds(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def test_groups_are_served_and_followed(broker: Broker, join: Join, produce: Produce) -> None:
    produce(10)
    with exporter(broker, "--per-partition") as url:
        consumer = join("billing", "worker")
        consumer.commit({TopicPartition("orders", 0): 4})
        found = until(
            url,
            lambda now: (
                of(now, "group_lag_records", group="billing", topic="orders") == 6
                and of(now, "group_rebalances_total", group="billing", trigger="member_joined") == 1
                # by the journal, which has phases: before it is there, the records of groups tell less
                and of(now, "group_rebalance_phase_seconds_count", group="billing", phase="join") == 1
                and of(now, "group_commits_total", group="billing") == 1
                and (of(now, "topic_size_bytes", topic="orders") or 0) > 10  # sizes are asked for seldom
            ),
        )
        assert of(found, "group_state", group="billing", state="Stable") == 1
        assert of(found, "group_state", group="billing", state="Empty") == 0
        assert of(found, "group_health", group="billing", health="fine") == 1
        assert of(found, "group_members", group="billing") == 1
        assert of(found, "group_partitions_assigned", group="billing") == 4
        assert of(found, "group_lag_records", group="billing", topic="orders") == 6
        assert of(found, "group_partition_lag_records", group="billing", topic="orders", partition="0") == 6
        assert of(found, "group_rebalances_total", group="billing", trigger="member_joined") == 1
        assert of(found, "group_partitions_moved_total", group="billing") == 4
        assert of(found, "group_rebalance_phase_seconds_count", group="billing", phase="join") == 1
        assert of(found, "topic_end_offset", topic="orders") == 10
        assert (of(found, "exporter_up"), of(found, "groups_left_out")) == (1, 0)
        assert (of(found, "exporter_poll_seconds", api="OffsetFetch") or 0) > 0
        assert of(found, "group_commits_total", group="billing") == 1  # beside the journal commits are followed too
        assert of(found, "group_partition_dark_seconds_count", group="billing") is None  # none was dark
        assert get(f"{url}/healthz") == (200, "ok\n")
        assert get(f"{url}/other")[0] == 404
        with Admin(broker.bootstrap_servers) as admin:
            admin.remove_members("billing", [(consumer.member_id, None)])
        found = until(url, lambda now: of(now, "group_departures_total", group="billing", departure="left") == 1)
        assert of(found, "group_departures_total", group="billing", departure="left") == 1


def test_a_group_that_is_gone_disappears_and_no_label_names_a_client(broker: Broker, topic: str) -> None:
    with Admin(broker.bootstrap_servers) as admin, exporter(broker) as url:
        admin.commit_offsets('evil"\n\\x', {TopicPartition(topic, 0): 0})
        found = until(url, lambda now: of(now, "group_members", group='evil"\n\\x') == 0)
        assert of(found, "group_members", group='evil"\n\\x') == 0
        names = {name for _, labels in found for name, _ in labels}
        own = {"api", "metric"}  # of the exporter
        assert names <= {"group", "state", "health", "topic", "trigger", "departure", "refusal", "phase", "le"} | own
        admin.delete_groups(['evil"\n\\x'])
        found = until(url, lambda now: of(now, "group_members", group='evil"\n\\x') is None)
        assert of(found, "group_members", group='evil"\n\\x') is None


def test_sigterm_ends_it_without_a_word(broker: Broker, join: Join) -> None:
    join("billing", "worker")
    command = [sys.executable, "-m", "equipoise", "metrics", "--listen", "127.0.0.1:0", "--every", "50ms"]
    command += ["-b", broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1].removesuffix("/metrics")
        until(url, lambda now: of(now, "group_members", group="billing") == 1)
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (143, "")


def test_a_token_is_asked_for(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3kr1t\n")
    with exporter(broker, "--token-file", str(file)) as url:
        assert get(f"{url}/metrics")[0] == 401
        assert get(f"{url}/metrics", "wrong")[0] == 401
        assert get(f"{url}/metrics", "s3kr1t")[0] == 200


@pytest.mark.parametrize("listen", ["0.0.0.0:9081", "[::]:9081", "example.org:9081"])
def test_beyond_this_machine_a_token_is_needed(listen: str) -> None:
    with pytest.raises(UsageError, match="can be reached from other machines: give --token-file"):
        check_address(listen, None)
    assert check_address(listen, "token")[1] == 9081


def test_wrong_requests_are_answered_and_bounded(broker: Broker) -> None:
    with exporter(broker) as url:
        port = int(url.rpartition(":")[2])
        for request, status in (
            (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405"),
            (b"hello\r\n\r\n", b"HTTP/1.1 400"),
            (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 200"),
            (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200"),
            (b"GET /metrics HTTP/1.1\r\nHost: [::1]:9081\r\n\r\n", b"HTTP/1.1 200"),
            (b"GET /metrics HTTP/1.1\r\nHost: a.example:9081\r\n\r\n", b"HTTP/1.1 403"),  # a browser, rebound
            (b"GET / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"HTTP/1.1 413"),
            (b"GET /" + b"x" * 20_000, b""),
        ):
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
                connection.sendall(request)
                answer = b""
                with suppress(ConnectionResetError):  # what was not read is thrown away with the connection
                    while piece := connection.recv(1 << 16):
                        answer += piece
            assert answer.startswith(status)
            assert bool(answer) == bool(status)


def test_the_page_lists_every_metric_with_its_labels(broker: Broker, topic: str) -> None:
    import asyncio

    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("g", {TopicPartition(topic, 0): 0})
    families = asyncio.run(_families(broker))
    listed = {row[0]: set(re.findall(r"\w+", row[1])) for row in table("docs/metrics.md", "Groups")}
    assert listed == families


async def _families(broker: Broker) -> dict[str, set[str]]:
    async with watching(Access(bootstrap_servers=broker.bootstrap_servers), Watched()) as watcher:
        await watcher.look()
        collector = GroupCollector(watcher, Choice(per_partition=True), lambda: 0.0)
        return {
            one.name + ("_total" if one.type == "counter" else ""): set(getattr(one, "_labelnames", ()) or ())
            for one in collector.collect()
        }


async def _limited(broker: Broker, choice: Choice) -> Samples:
    async with watching(Access(bootstrap_servers=broker.bootstrap_servers), Watched()) as watcher:
        await watcher.look()
        return samples(registry_of(GroupCollector(watcher, choice, lambda: 0.0))().decode())


def test_groups_beyond_the_limit_are_counted(broker: Broker, topic: str) -> None:
    import asyncio

    with Admin(broker.bootstrap_servers) as admin:
        for number in range(5):
            admin.commit_offsets(f"g-{number}", {TopicPartition(topic, 0): 0})
    found = asyncio.run(_limited(broker, Choice(most=3)))
    assert sum(name == "equipoise_group_members" for name, _ in found) == 3
    assert of(found, "groups_left_out") == 2
    chosen = asyncio.run(_limited(broker, Choice(patterns=("g-1", "g-4"))))
    assert {dict(labels)["group"] for name, labels in chosen if name == "equipoise_group_members"} == {"g-1", "g-4"}


def test_series_beyond_the_limit_are_counted(broker: Broker, topic: str) -> None:
    import asyncio

    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("payments", 3)
        places = {TopicPartition(name, number): 0 for name in ("orders", "payments") for number in range(3)}
        for group in ("a", "b", "x" * 1_000):
            admin.commit_offsets(group, places)
    found = asyncio.run(_limited(broker, Choice(per_partition=True, most_series=3)))
    for name, wanted, left_out in (
        ("group_lag_records", 3, 1),
        ("group_partition_lag_records", 3, 9),
        ("topic_end_offset", 2, None),
    ):
        assert sum(one == f"equipoise_{name}" for one, _ in found) == wanted
        assert of(found, "series_left_out", metric=f"equipoise_{name}") == left_out
    assert of(found, "groups_left_out") == 1
    assert all(len(value) <= LONGEST_LABEL for _, labels in found for _, value in labels)


def test_a_group_has_a_bounded_number_of_series_whatever_happens_to_it() -> None:
    """Every reason there is, and some that only a newer broker knows."""
    store = Store(Source.JOURNAL, Ms(0))
    cases = [("member_left", "departure", [one.name.lower() for one in Departure])]
    cases.append(("commit_refused", "refusal", [one.name.lower() for one in Refusal]))
    for kind, label, names in cases:
        for name in (*names, *(f"new-{number}" for number in range(50))):
            store.take_journal({"type": kind, "at": 1, "group_id": "g", label: name})
    for trigger in [*(one.name.lower() for one in Trigger), *(f"new-{number}" for number in range(50))]:
        store.take_journal(journal_row(2, 1, 2, trigger, "a", 1) | {"group_id": "g"})
    totals = store.totals("g")
    assert len(totals.departures) == len(Departure) + 1
    assert len(totals.refused) == len(Refusal) + 1
    assert len(totals.rebalances) == len(Trigger) + 1
    assert totals.rebalances["unknown"] == 50


def test_the_exporter_says_when_the_cluster_is_away() -> None:
    with Broker() as broker:
        stack, address = ExitStack(), broker.bootstrap_servers
        url = stack.enter_context(exporter(broker))
        assert of(until(url, lambda now: of(now, "exporter_up") == 1), "exporter_up") == 1
    with stack:
        found = until(url, lambda now: of(now, "exporter_up") == 0)
        assert of(found, "exporter_up") == 0
        late = until(url, lambda now: (of(now, "exporter_source_lateness_seconds") or 0) > 1)
        assert (of(late, "exporter_source_lateness_seconds") or 0) > 1
        status, told = get(f"{url}/healthz")
        assert (status, told.startswith(f"not heard from {address} for ")) == (503, True)


def test_a_broker_serves_its_own_figures() -> None:
    port = free_port()
    command = [sys.executable, "-m", "equipoise", "serve", "--listen", "127.0.0.1:0", "--memory"]
    command += ["--metrics", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            with Admin(address) as admin:
                admin.create_topic("orders", 2)
                with Producer(bootstrap_servers=address) as producer:
                    producer.send("orders", b"x" * 100).result(PATIENCE_S)
                admin.commit_offsets("billing", {TopicPartition("orders", 0): 0})
                with Producer(bootstrap_servers=address, transactional_id="bills") as producer:
                    producer.begin_transaction()
                    producer.send("orders", b"y", partition=1).result(PATIENCE_S)
                    found = samples(get(f"http://127.0.0.1:{port}/metrics")[1])
            assert of(found, "broker_requests_total", api="CreateTopics") == 1
            assert of(found, "broker_requests_total", api="Produce") == 2
            assert of(found, "broker_groups") == 1
            assert (of(found, "broker_topics") or 0) >= 2
            assert (of(found, "broker_connections") or 0) >= 1
            assert (of(found, "broker_received_bytes_total") or 0) > 100
            assert (of(found, "broker_log_bytes") or 0) > 100
            assert (of(found, "broker_sent_bytes_total") or 0) > 100
            assert of(found, "broker_request_seconds_count", api="Produce") == 2
            assert of(found, "broker_request_seconds_bucket", api="Produce", le="+Inf") == 2
            assert (of(found, "broker_request_seconds_sum", api="Produce") or 0) > 0
            names = {re.sub("_(bucket|count|sum)$", "", name) for name, _ in found}
            assert names == {row[0] for row in table("docs/metrics.md", "Broker")}
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def test_a_broker_counts_transactions() -> None:
    """Rule T.99. A reader of committed records waits for the open one, from its first record on."""
    settings = {"transactional.id": "bills", "linger.ms": 0}
    with Broker(topics={"orders": 2}) as broker:
        metrics = broker.call(BrokerMetrics)

        def figures() -> Samples:
            return samples(broker.call(lambda server: metrics.text()).decode())

        with Producer({"bootstrap.servers": broker.bootstrap_servers, **settings}) as producer:
            for end in (producer.commit_transaction, producer.abort_transaction):
                producer.begin_transaction()
                producer.send("orders", b"1", partition=1).result(PATIENCE_S)
                end()
            producer.begin_transaction()
            first = producer.send("orders", b"2", partition=1).result(PATIENCE_S)
            producer.send("orders", b"3", partition=1).result(PATIENCE_S)
            found = until_told(figures, lambda now: (of(now, "broker_transaction_oldest_seconds") or 0) > 0)
            assert of(found, "broker_transactions_open") == of(found, "broker_unstable_partitions") == 1
            assert of(found, "broker_unstable_records", topic="orders", partition="1") == 2
            assert of(found, "broker_transactions_begun_total") == 3
            assert (of(found, "broker_transaction_oldest_seconds") or 0) > 0
            ended = {one: of(found, "broker_transactions_ended_total", reason=one) for one in ("committed", "aborted")}
            assert (first.offset, ended) == (4, {"committed": 1, "aborted": 1})
            with Producer({"bootstrap.servers": broker.bootstrap_servers, **settings}) as second:
                second.init_transactions()
            with pytest.raises(KafkaError):
                producer.commit_transaction()
        found = figures()
        assert of(found, "broker_transactions_open") == of(found, "broker_unstable_partitions") == 0
        assert of(found, "broker_unstable_records", topic="orders", partition="1") is None
        assert of(found, "broker_transactions_ended_total", reason="fenced") == 1
        assert (of(found, "broker_producers_fenced_total") or 0) >= 1


def test_repeated_heartbeats_count_too() -> None:
    with Broker() as broker:
        metrics = broker.call(BrokerMetrics)
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 1)
        consumer = ForeignConsumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 50,
            }
        )
        try:
            consumer.subscribe(["orders"])
            deadline = time.monotonic() + PATIENCE_S
            beats: float = 0
            while beats < 5 and time.monotonic() < deadline:
                consumer.poll(0.05)
                found = samples(broker.call(lambda server: metrics.text()).decode())
                beats = of(found, "broker_requests_total", api="Heartbeat") or 0
            assert beats >= 5
        finally:
            consumer.close()


def test_a_metrics_port_in_use_is_one_line(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = command("serve", "--memory", "--listen", "127.0.0.1:0", "--metrics", address)
    assert (ended.status, ended.out) == (2, "")
    assert f"cannot listen on {address}: Address already in use" in ended.err


def test_a_slip_is_one_line(command: Command) -> None:
    assert "is no address: write HOST:PORT" in command("metrics", "--listen", "9081").err
    assert command("metrics", "--listen", "9081").status == 2
