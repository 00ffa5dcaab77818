"""`equipoise bench broker`: our broker and librdkafka's mock cluster in turns, so that both meet the same noise."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.console.bench_figures import SIZES, Measurements, print_figures, print_json
from equipoise.console.bench_machine import Advance, check_machine, progress
from equipoise.console.bench_servers import DISK, MEMORY, MOCK, TARGETS, Server

STARTS = 5
ROUNDS = 3
_STEPS = STARTS * len(TARGETS) * 2 + ROUNDS * len(TARGETS) * len(SIZES)


def run_bench(as_json: bool) -> None:
    """Measures for about a minute and prints a table, or one JSON object."""
    check_machine("bench broker")
    began = time.perf_counter()
    measured = Measurements()
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as scratch, progress(_STEPS) as advance:
        directories = (Path(scratch, str(number)) for number in range(1000))
        _measure_starts(measured, directories, advance)
        _measure_loads(measured, directories, advance)
    (print_json if as_json else print_figures)(measured, time.perf_counter() - began)


def _measure_starts(measured: Measurements, directories: Iterator[Path], advance: Advance) -> None:
    for _ in range(STARTS):
        for target in TARGETS:
            with Server(target, next(directories)) as server:
                measured.add("ready_process", target, server.seconds_to_ready)
                measured.add("resident_idle", target, server.resident_mb())
            advance()
        measured.add("ready_in_process", DISK, _start_broker(next(directories)))
        measured.add("ready_in_process", MEMORY, _start_broker(None))
        measured.add("ready_in_process", MOCK, _start_mock())
        for _ in TARGETS:
            advance()


def _start_broker(data: Path | None) -> float:
    began = time.perf_counter()
    with Broker(data=data):
        return time.perf_counter() - began


def _start_mock() -> float:
    from confluent_kafka import Producer

    began = time.perf_counter()
    owner = Producer({"test.mock.num.brokers": 1, "log_level": 3})
    owner.list_topics(timeout=10)
    return time.perf_counter() - began


def _measure_loads(measured: Measurements, directories: Iterator[Path], advance: Advance) -> None:
    from equipoise.console.bench_load import write_alone

    with ExitStack() as running:
        servers = [running.enter_context(Server(target, next(directories))) for target in TARGETS]
        for number in range(ROUNDS):
            measured.add("writing_alone_cpu", DISK, write_alone(next(directories)))
            for size in SIZES:
                for server in servers:
                    _measure_load(measured, server, f"bench-{size}-{number}", size)
                    advance()
        for server in servers:
            if server.target.keeps_all:
                measured.add("resident_emptied", server.target, server.resident_mb())


def _measure_load(measured: Measurements, server: Server, topic: str, size: int) -> None:
    from equipoise.console.bench_load import fetch, produce

    for what, sample in (
        ("produce", produce(server, topic, size)),
        ("fetch", fetch(server, topic)),
    ):
        key = f"{what}_{size}_bytes"
        measured.add(f"{key}_throughput", server.target, sample.megabytes_per_second)
        measured.add(f"{key}_server_cpu", server.target, sample.server_ms_per_mb)
        measured.add(f"{key}_client_cpu", server.target, sample.client_ms_per_mb)
    if server.target.keeps_all:
        with Admin(server.bootstrap_servers) as admin:
            admin.delete_topic(topic)
