"""`python -m bench broker`: our broker and librdkafka's mock cluster in turns, so that both meet the same noise."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.broker.figures import (
    DISK,
    MEMORY,
    MOCK,
    SIZES,
    TARGETS,
    Measurements,
    Target,
    print_document,
    print_figures,
)
from bench.machine import Advance, check_machine, compile_package, progress
from equipoise.broker import Broker
from equipoise.client import Admin
from proving.brokers import BrokerProcess

STARTS = 5
ROUNDS = 3
LOAD_SECONDS = 1.2
_STEPS = STARTS * len(TARGETS) * 2 + ROUNDS * len(TARGETS) * len(SIZES)


def run_bench(as_json: bool, listener: str | None) -> None:
    """Measures for about a minute and prints a table, or one JSON object."""
    if listener is not None:
        from bench.broker.secured import run_secured

        run_secured(listener, as_json)
        return
    check_machine("broker")
    compile_package()
    began = time.perf_counter()
    measured = Measurements()
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as scratch, progress(_STEPS) as advance:
        _measure_starts(measured, Path(scratch), advance)
        _measure_loads(measured, Path(scratch), advance)
    (print_document if as_json else print_figures)(measured, time.perf_counter() - began)


def _measure_starts(measured: Measurements, scratch: Path, advance: Advance) -> None:
    for number in range(STARTS):
        for target in TARGETS:
            with target.new() as broker:
                measured.add("ready_process", target, broker.seconds_to_ready)
                measured.add("resident_idle", target, broker.resident_mb())
            advance()
        measured.add("ready_in_process", DISK, _start_broker(scratch / f"data-{number}"))
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


def _measure_loads(measured: Measurements, scratch: Path, advance: Advance) -> None:
    from bench.broker.load import write_alone

    with ExitStack() as running:
        brokers = [(target, running.enter_context(target.new())) for target in TARGETS]
        for number in range(ROUNDS):
            measured.add("writing_alone_cpu", DISK, write_alone(scratch / "alone"))
            for size in SIZES:
                for target, broker in brokers:
                    _measure_load(measured, target, broker, f"bench-{size}-{number}", size)
                    advance()
        for target, broker in brokers:
            if target.keeps_all:
                measured.add("resident_emptied", target, broker.resident_mb())


def _measure_load(measured: Measurements, target: Target, broker: BrokerProcess, topic: str, size: int) -> None:
    from bench.broker.load import fetch, produce

    for what, sample in (
        ("produce", produce(broker, topic, size, LOAD_SECONDS)),
        ("fetch", fetch(broker, topic, LOAD_SECONDS)),
    ):
        key = f"{what}_{size}_bytes"
        measured.add(f"{key}_throughput", target, sample.megabytes_per_second)
        measured.add(f"{key}_server_cpu", target, sample.server_ms_per_mb)
        measured.add(f"{key}_client_cpu", target, sample.client_ms_per_mb)
    if target.keeps_all:
        with Admin(broker.bootstrap_servers) as admin:
            admin.delete_topic(topic)
