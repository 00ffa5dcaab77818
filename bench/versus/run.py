"""`python -m bench versus-kafka`: Apache Kafka and our broker in turns, so that both meet the same noise."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from bench.machine import Advance, allow_connections, check_machine, compile_package, progress
from bench.versus.figures import (
    CASES,
    FULL,
    KAFKA,
    LOAD_FIGURES,
    MACHINE_FIGURES,
    NOT_FLUSHED,
    OURS,
    PARTITIONS,
    QUICK,
    REQUEST_FIGURES,
    SIZES,
    Case,
    Results,
    Sizes,
)
from bench.versus.page import print_document, print_tables, write_page
from equipoise.broker.server import parse_address
from equipoise.client import Admin
from equipoise.client.net.blocking import Connection
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, UsageError
from proving.brokers import STOCK_JVM, BrokerProcess, EquipoiseBroker, KafkaBroker

_LOAD_PARTITIONS = 4
_UNTIL_IDLE = 1.0  # seconds after it is ready, when what a start leaves to be done is done
_PATIENCE = 30.0
_CASES_TOGETHER = 4  # whose members crash at the same time, once each was measured
_PARTITIONS_A_REQUEST = 10_000  # both brokers take no more at a time

_NOT_YET = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})

Brokers = Mapping[str, BrokerProcess]


def run_bench(
    as_json: bool,
    quick: bool,
    page: Path | None,
    *,
    only: tuple[str, ...] = (),
    kept: Path | None = None,
    alone: bool = False,
) -> None:
    """Measures for half an hour (quick: two minutes) and prints tables, or one JSON object. `only`: rebalances of the
    cases with this in their title, and nothing else. `kept`: a file with what was measured, case by case; the next run
    goes on from it, and shows all. `alone`: without Kafka."""
    if alone and page is not None:
        raise UsageError("--alone measures nothing to write beside: leave --write out")
    check_machine("versus-kafka")
    compile_package()
    results = Results(of_cases(only) if only else QUICK if quick else FULL, (OURS,) if alone else (KAFKA, OURS))
    if kept is not None:
        results.load(kept)
    allow_connections("versus-kafka", 3 * results.sizes.connections)
    began = time.perf_counter()
    with ExitStack() as running:
        advance = running.enter_context(progress(_steps(results)))
        brokers: dict[str, BrokerProcess] = {}
        if not alone:
            brokers[KAFKA] = running.enter_context(KafkaBroker(jvm=STOCK_JVM))
        brokers[OURS] = running.enter_context(EquipoiseBroker())
        brokers[NOT_FLUSHED] = running.enter_context(EquipoiseBroker({"flush": "never"}))
        if not only and not all(map(results.has, (*MACHINE_FIGURES, *LOAD_FIGURES, *REQUEST_FIGURES))):
            _measure_starts(results, brokers, advance)
            _measure_loads(results, brokers, advance)
            _measure_requests(results, brokers, advance)
            _keep(results, kept)
        _measure_rebalances(results, brokers, advance, kept)
    seconds = time.perf_counter() - began
    (print_document if as_json else print_tables)(results, seconds)
    if page is not None:
        write_page(page, results, seconds)


def of_cases(only: tuple[str, ...]) -> Sizes:
    """The cases with one of these words in their title, and nothing else."""
    cases = tuple(case for case in CASES if any(word in case.title for word in only))
    if not cases:
        raise UsageError(f"--only {only[0]}: there are {'; '.join(case.title for case in CASES)}")
    return FULL._replace(cases=cases, starts=0, load_warm_ups=0, load_rounds=0, request_rounds=0)


def _steps(results: Results) -> int:
    sizes = results.sizes
    return sizes.starts + sizes.load_warm_ups + sizes.load_rounds + 1 + sizes.request_rounds + len(sizes.cases)


def create_topic(broker: BrokerProcess, name: str, partitions: int) -> None:
    """Until every partition has a leader, which Kafka's answer does not wait for."""
    end = time.monotonic() + _PATIENCE
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(name, min(partitions, _PARTITIONS_A_REQUEST))
        for total in range(2 * _PARTITIONS_A_REQUEST, partitions + _PARTITIONS_A_REQUEST, _PARTITIONS_A_REQUEST):
            admin.add_partitions(name, min(total, partitions))
        while not _is_led(admin, name, partitions):
            if time.monotonic() > end:
                raise EquipoiseError(f"{broker.name} has no leaders for topic {name} after {_PATIENCE:.0f} s")
            time.sleep(0.02)


def _is_led(admin: Admin, name: str, partitions: int) -> bool:
    try:
        found = admin.topic(name).partitions
    except KafkaError as error:
        if error.code not in _NOT_YET:
            raise
        return False
    return len(found) == partitions and all(row.leader_id >= 0 for row in found)


# -- start and memory


def _measure_starts(results: Results, brokers: Brokers, advance: Advance) -> None:
    """With a data directory that an earlier start has made; ours is at rest while Kafka starts."""
    for _ in range(results.sizes.starts):
        for broker in brokers.values():
            broker.stop()
        for side in reversed(results.sides):
            broker = brokers[side].start()
            results.add("start", side, broker.seconds_to_ready)
            time.sleep(_UNTIL_IDLE)
            results.add("resident_idle", side, broker.resident_mb())
        advance()
    brokers[NOT_FLUSHED].start()


# -- produce and fetch


def _measure_loads(results: Results, brokers: Brokers, advance: Advance) -> None:
    sizes = results.sizes
    for number in range(sizes.load_warm_ups):
        _apply_loads(Results(sizes), brokers, f"warm-up-{number}")
        advance()
    for number in range(sizes.load_rounds):
        _apply_loads(results, brokers, f"load-{number}")
        advance()


def _apply_loads(results: Results, brokers: Brokers, name: str) -> None:
    for size in SIZES:
        for side, broker in brokers.items():
            _apply_load(results, side, broker, f"{name}-{size}", size)


def _apply_load(results: Results, side: str, broker: BrokerProcess, topic: str, size: int) -> None:
    from bench.broker.load import fetch, produce

    create_topic(broker, topic, _LOAD_PARTITIONS)
    seconds = results.sizes.load_seconds
    for what, sample in (("produce", produce(broker, topic, size, seconds)), ("fetch", fetch(broker, topic, seconds))):
        key = f"{what}_{size}_bytes"
        results.add(f"{key}_throughput", side, sample.megabytes_per_second)
        results.add(f"{key}_broker_cpu", side, sample.server_ms_per_mb)
        results.add(f"{key}_client_cpu", side, sample.client_ms_per_mb)
    results.add("resident_loaded", side, broker.resident_mb())
    results.add("anonymous_loaded", side, broker.anonymous_mb())
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic(topic)


# -- heartbeats and commits


def _measure_requests(results: Results, brokers: Brokers, advance: Advance) -> None:
    from bench.coordinator.group_load import apply_load, commits_of, heartbeats
    from bench.coordinator.members import TOPIC, Crowd
    from bench.coordinator.offsets import await_coordinator

    sizes = results.sizes
    group_ids = [f"load-{number}" for number in range(sizes.connections)]
    with ExitStack() as running:
        crowds = {}
        for side, broker in brokers.items():
            create_topic(broker, TOPIC, PARTITIONS)
            address = parse_address(broker.bootstrap_servers)
            with Connection(*address) as connection:
                await_coordinator(connection, group_ids)
            crowds[side] = running.enter_context(Crowd(address, group_ids))
        with ThreadPoolExecutor() as threads:  # the initial delay of all at the same time
            list(threads.map(Crowd.form, crowds.values()))
        loads = {side: (heartbeats(crowd.members), commits_of(1, crowd.members)) for side, crowd in crowds.items()}
        for side, broker in brokers.items():
            for load in loads[side]:
                apply_load(broker, crowds[side].members, load, sizes.request_warm_up_seconds)
        advance()
        for _ in range(sizes.request_rounds):
            for kind in range(2):
                for side, broker in brokers.items():
                    load = loads[side][kind]
                    sample = apply_load(broker, crowds[side].members, load, sizes.request_seconds)
                    results.add(load.key, side, sample.per_cpu_second)
                    results.add(f"{load.key}_wall", side, sample.per_second)
                    results.add(f"{load.key}_generator", side, sample.generator_share)
            advance()


# -- stock members


def _keep(results: Results, kept: Path | None) -> None:
    if kept is not None:
        results.save(kept)


def _measure_rebalances(results: Results, brokers: Brokers, advance: Advance, kept: Path | None = None) -> None:
    from bench.versus.rebalances import measure_cases

    topic = "rebalances"
    addresses = {side: brokers[side].bootstrap_servers for side in results.sides}
    for side in addresses:
        create_topic(brokers[side], topic, PARTITIONS)
    wanted = [case for case in results.sizes.cases if not results.has_case(case)]
    for _ in range(len(results.sizes.cases) - len(wanted)):
        advance()
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as scratch:
        for cases in batched(wanted, _CASES_TOGETHER):
            for case in cases:
                results.forget(case)
            measure_cases(results, cases, addresses, topic, log=Path(scratch, "members.log"))
            _keep(results, kept)
            for _ in cases:
                advance()


def batched(cases: Sequence[Case], size: int) -> Iterator[Sequence[Case]]:
    """So many at a time."""
    for start in range(0, len(cases), size):
        yield cases[start : start + size]
