"""`python -m bench coordinator`: groups under load, large groups, many groups, restarts, and stock members."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from statistics import fmean, quantiles
from typing import NamedTuple

from bench.coordinator.figures import FULL, HOLDS, PIPELINED, QUICK, STRATEGIES, CoordinatorResults
from bench.coordinator.group_load import (
    Load,
    apply_load,
    commit_frame,
    commits_of,
    committed_frame,
    heartbeats,
)
from bench.coordinator.members import TOPIC, Crowd, Member, pump
from bench.coordinator.offsets import await_coordinator, fetch_offsets
from bench.machine import allow_connections, check_machine, progress
from equipoise.broker.server import parse_address
from equipoise.client import Admin
from equipoise.client.net.blocking import Connection
from equipoise.wire.errors import EquipoiseError
from proving.brokers import AnnouncedBroker, BrokerProcess, EquipoiseBroker
from proving.tree import python_module, with_tree

_PARTITIONS = 16
_COMMITTED = 4  # offsets of an idle group
_GROUPS = 1000  # that the stored offsets belong to
_AT_A_TIME = 50


class _Echo(AnnouncedBroker):
    name = "echo"

    def command(self) -> Sequence[str]:
        return python_module("bench.coordinator.echo")

    def environment(self) -> Mapping[str, str]:
        return with_tree()


def run_bench(as_json: bool, quick: bool) -> None:
    """Measures for about three minutes (quick: one) and prints a table, or one JSON object."""
    check_machine("coordinator")
    results = CoordinatorResults(QUICK if quick else FULL)
    allow_connections("coordinator", max(results.sizes.connections, sum(results.sizes.groups)))
    began = time.perf_counter()
    parts = (_measure_load, _measure_groups, _measure_memory, _measure_restart, _measure_stock)
    with progress(len(parts)) as advance:
        for measure in parts:
            measure(results)
            advance()
    results.print(as_json, time.perf_counter() - began)


@contextmanager
def _broker(partitions: int = _PARTITIONS, **settings: int) -> Iterator[EquipoiseBroker]:
    """A broker on disk with the topic that members subscribe to."""
    with EquipoiseBroker({name.replace("_", "."): value for name, value in settings.items()}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, partitions)
        yield broker


def _ids(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


# -- heartbeats and commits


def _measure_load(results: CoordinatorResults) -> None:
    group_ids = _ids("load", results.sizes.connections)
    with (
        _Echo() as echo,
        Crowd(parse_address(echo.bootstrap_servers), group_ids) as strangers,
        _broker(group_initial_rebalance_delay_ms=0) as broker,
        Crowd(parse_address(broker.bootstrap_servers), group_ids) as crowd,
    ):
        crowd.form()
        beats, *others = _loads(crowd.members)
        for _ in range(results.sizes.rounds):
            _measure_one_load(results, echo, strangers.members, beats._replace(key="echo"))
            for load in (beats, *others):
                _measure_one_load(results, broker, crowd.members, load)


def _loads(members: Sequence[Member]) -> list[Load]:
    beats, commits = heartbeats(members), commits_of(1, members)
    return [
        beats,
        beats.pipelined(PIPELINED),
        commits,
        commits.pipelined(PIPELINED),
        commits_of(10, members)._replace(key="commits_of_10"),
    ]


def _measure_one_load(
    results: CoordinatorResults, broker: BrokerProcess, members: Sequence[Member], load: Load
) -> None:
    sample = apply_load(broker, members, load, results.sizes.seconds)
    results.add(load.key, sample.per_cpu_second)
    results.add(f"{load.key}_wall", sample.per_second)
    results.add(f"{load.key}_generator", sample.generator_share)


# -- large groups


def _measure_groups(results: CoordinatorResults) -> None:
    sizes = results.sizes
    with ExitStack() as running:
        broker = running.enter_context(_broker())
        address = parse_address(broker.bootstrap_servers)
        crowds = {count: running.enter_context(Crowd(address, [f"of-{count}"] * count)) for count in sizes.groups}
        largest = sizes.groups[-1]
        results.add(f"stable_{largest}_cold", crowds[largest].form())
        with ThreadPoolExecutor() as threads:  # the initial delay of all at the same time
            list(threads.map(Crowd.form, (crowd for count, crowd in crowds.items() if count != largest)))
        for count, crowd in crowds.items():
            for _ in range(sizes.rounds):
                crowd.disband()
                results.add(f"stable_{count}", crowd.form())
        _measure_rebalances(results, broker, crowds[sizes.restless])


def _measure_rebalances(results: CoordinatorResults, broker: BrokerProcess, crowd: Crowd) -> None:
    """What other groups notice of a large rebalance."""
    crowd.be_patient()
    with probe(broker.bootstrap_servers) as probed:
        spans = [crowd.rebalance() for _ in range(results.sizes.rounds)]
    for began, ended in spans:
        results.add(f"rebalance_{len(crowd.members)}", ended - began)
        during = [one.seconds for one in probed if began <= one.sent <= ended]
        results.add("heartbeat_p99", quantiles(during, n=100)[-1] * 1e3)


class Probed(NamedTuple):
    """A heartbeat beside the load."""

    sent: float
    seconds: float  # to its answer
    late: float  # seconds by which the process that sends was late itself


@contextmanager
def probe(address: str) -> Iterator[list[Probed]]:
    """Heartbeats beside what happens inside the `with`; afterwards the list holds them."""
    rows: list[Probed] = []
    command, environment = python_module("bench.coordinator.probe", address), {**os.environ, **with_tree()}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise EquipoiseError("the process that sends heartbeats has ended; its own words are above")
        yield rows
        rows += [Probed(*row) for row in json.loads(process.communicate()[0])]


# -- many groups


def _measure_memory(results: CoordinatorResults) -> None:
    group_ids = _ids("idle", results.sizes.idle_groups)
    with (
        _broker(group_initial_rebalance_delay_ms=0) as broker,
        Crowd(parse_address(broker.bootstrap_servers), group_ids[:_AT_A_TIME]) as crowd,
    ):
        before = broker.resident_mb()
        for some in _portions(group_ids):
            for member, group_id in zip(crowd.members, some, strict=True):
                member.enter(group_id)
            crowd.form()
            commits = commits_of(_COMMITTED, crowd.members)
            pump(crowd.members, commits.requests, commits.answer, 0)
        results.add("resident_idle_groups", broker.resident_mb())
        results.add("idle_group", (broker.resident_mb() - before) * 1e3 / len(group_ids))


def _portions(group_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(group_ids), _AT_A_TIME):
        yield group_ids[start : start + _AT_A_TIME]


# -- restarts


def _measure_restart(results: CoordinatorResults) -> None:
    group_ids, each = _ids("stored", _GROUPS), results.sizes.offsets // _GROUPS
    with _broker(partitions=each) as broker:
        with Crowd(parse_address(broker.bootstrap_servers), group_ids[:_AT_A_TIME]) as crowd:
            for some in _portions(group_ids):
                pump(crowd.members, [commit_frame(group_id, each) for group_id in some], committed_frame(each), 0)
        for _ in range(results.sizes.restarts):
            broker.stop()
            began = time.perf_counter()
            with Connection(*parse_address(broker.start().bootstrap_servers)) as connection:
                await_coordinator(connection, group_ids)
                results.add("restart", time.perf_counter() - began)
                _check_offsets(connection, group_ids, each)


def _check_offsets(connection: Connection, group_ids: Sequence[str], each: int) -> None:
    for group_id in group_ids:
        if fetch_offsets(connection, group_id) != list(range(each)):
            raise EquipoiseError(f"group {group_id} does not have the {each} offsets any more that it had before")


# -- stock members


def _measure_stock(results: CoordinatorResults) -> None:
    """All at the same time: they wait much more than they work."""
    from bench.coordinator.stock import measure_rebalances

    sizes = results.sizes
    cases = [(strategy, hold) for strategy in sizes.strategies for hold in HOLDS]
    with ExitStack() as running, ThreadPoolExecutor(len(cases)) as threads:
        servers = {
            hold: running.enter_context(_broker(group_heartbeat_hold_max_ms=limit)) for hold, limit in HOLDS.items()
        }
        found = threads.map(
            lambda case: measure_rebalances(servers[case[1]].bootstrap_servers, TOPIC, case[0], sizes.stock_rounds),
            cases,
        )
        for (strategy, hold), seconds in zip(cases, found, strict=True):
            kind = STRATEGIES[strategy]
            results.add(f"{kind}_join_{hold}", *seconds.joins)
            results.add(f"{kind}_leave_{hold}", *seconds.leaves)
    for strategy in sizes.strategies:
        kind = STRATEGIES[strategy]
        means = [
            fmean(results.values(f"{kind}_join_{hold}") + results.values(f"{kind}_leave_{hold}")) for hold in HOLDS
        ]
        results.add(f"{kind}_ratio", means[0] / means[1])
