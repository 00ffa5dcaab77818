"""`equipoise bench coordinator`: groups under load, large groups, many groups, restarts, and stock members."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean, quantiles
from typing import NamedTuple

from equipoise.broker.server import parse_address
from equipoise.client import Admin
from equipoise.client.connection import Connection
from equipoise.console.bench_coordinator_figures import FULL, HOLDS, PIPELINED, QUICK, STRATEGIES, Results
from equipoise.console.bench_machine import check_machine, progress
from equipoise.console.bench_members import ALL_IS_WELL, TOPIC, Crowd, Member, pump, request_frame, response_frame
from equipoise.console.bench_servers import Server, Target
from equipoise.coordinator.placement import partition_for
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from equipoise.wire.errors import EquipoiseError, ErrorCode, UsageError

_PARTITIONS = 16
_COMMITTED = 4  # offsets of an idle group
_SHARDS = 50  # offsets.topic.num.partitions
_GROUPS = 1000  # that the stored offsets belong to
_AT_A_TIME = 50
_SPARE_FILES = 200
_ECHO = Target("echo", "the echo", ("equipoise.console.bench_echo",), False)


def run_bench(as_json: bool, quick: bool) -> None:
    """Measures for about three minutes (quick: one) and prints a table, or one JSON object."""
    check_machine("bench coordinator")
    results = Results(QUICK if quick else FULL)
    _allow_connections(max(results.sizes.connections, sum(results.sizes.groups)) + _SPARE_FILES)
    began = time.perf_counter()
    parts = (_measure_load, _measure_groups, _measure_memory, _measure_restart, _measure_stock)
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as scratch, progress(len(parts)) as advance:
        for number, measure in enumerate(parts):
            measure(results, Path(scratch, str(number)))
            advance()
    (results.print_json if as_json else results.print_table)(time.perf_counter() - began)


def _allow_connections(files: int) -> None:
    """For this process, and by inheritance for the brokers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        raise UsageError(
            f"equipoise bench coordinator opens {files} connections, the limit is {hard}: ulimit -n {files}"
        )
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


@contextmanager
def _broker(data: Path, partitions: int = _PARTITIONS, **settings: int) -> Iterator[Server]:
    """A broker on disk with the topic that members subscribe to."""
    pairs = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
    options = [word for pair in pairs for word in ("--set", pair)]
    with Server(Target.ours("equipoise", "--data", "{data}", *options), data) as server:
        with Admin(server.bootstrap_servers) as admin:
            if all(topic.name != TOPIC for topic in admin.topics()):
                admin.create_topic(TOPIC, partitions)
        yield server


def _ids(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


# -- heartbeats and commits


class _Load(NamedTuple):
    key: str
    requests: list[bytes]
    answer: bytes
    depth: int = 1


def _measure_load(results: Results, data: Path) -> None:
    group_ids = _ids("load", results.sizes.connections)
    with (
        Server(_ECHO, data) as echo,
        Crowd(parse_address(echo.bootstrap_servers), group_ids) as strangers,
        _broker(data, group_initial_rebalance_delay_ms=0) as server,
        Crowd(parse_address(server.bootstrap_servers), group_ids) as crowd,
    ):
        crowd.form()
        heartbeats, *others = _loads(crowd.members)
        for _ in range(results.sizes.rounds):
            _measure_one_load(results, echo, strangers.members, heartbeats._replace(key="echo"))
            for load in (heartbeats, *others):
                _measure_one_load(results, server, crowd.members[: len(load.requests)], load)


def _loads(members: Sequence[Member]) -> list[_Load]:
    heartbeats = [request_frame(member.heartbeat_request()) for member in members]
    commits = [_commit(member.group_id, 1, member) for member in members]
    return [
        _Load("heartbeats", heartbeats, ALL_IS_WELL),
        _pipelined("heartbeats_pipelined", heartbeats, ALL_IS_WELL),
        _Load("commits", commits, _committed(1)),
        _pipelined("commits_pipelined", commits, _committed(1)),
        _Load("commits_of_10", [_commit(member.group_id, 10, member) for member in members], _committed(10)),
    ]


def _pipelined(key: str, requests: Sequence[bytes], answer: bytes) -> _Load:
    few = requests[: len(requests) // 10]
    return _Load(key, [request * PIPELINED for request in few], answer * PIPELINED, PIPELINED)


def _measure_one_load(results: Results, server: Server, members: Sequence[Member], load: _Load) -> None:
    pump(members, load.requests, load.answer, 0)  # what is done for the first time takes longer
    server_cpu, own_cpu = server.cpu_seconds(), time.process_time()
    answers, seconds = pump(members, load.requests, load.answer, results.sizes.seconds)
    server_cpu, own_cpu = server.cpu_seconds() - server_cpu, time.process_time() - own_cpu
    results.add(load.key, answers * load.depth / server_cpu)
    results.add(f"{load.key}_wall", answers * load.depth / seconds)
    results.add(f"{load.key}_generator", own_cpu / server_cpu)


def _commit(group_id: str, count: int, member: Member | None = None) -> bytes:
    """Offsets of partitions 0 to `count` - 1; without a member, as consumers do that assign themselves."""
    rows = [OffsetCommitRequestPartition(partition_index=number, committed_offset=number) for number in range(count)]
    request = OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=rows)])
    if member is not None:
        request.member_id, request.generation_id_or_member_epoch = member.member_id, member.generation_id
    return request_frame(request)


def _committed(count: int) -> bytes:
    rows = [OffsetCommitResponsePartition(partition_index=n, error_code=ErrorCode.NONE) for n in range(count)]
    return response_frame(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=rows)]))


# -- large groups


def _measure_groups(results: Results, data: Path) -> None:
    sizes = results.sizes
    with ExitStack() as running:
        server = running.enter_context(_broker(data))
        address = parse_address(server.bootstrap_servers)
        crowds = {count: running.enter_context(Crowd(address, [f"of-{count}"] * count)) for count in sizes.groups}
        largest = sizes.groups[-1]
        results.add(f"stable_{largest}_cold", crowds[largest].form())
        with ThreadPoolExecutor() as threads:  # the initial delay of all at the same time
            list(threads.map(Crowd.form, (crowd for count, crowd in crowds.items() if count != largest)))
        for count, crowd in crowds.items():
            for _ in range(sizes.rounds):
                crowd.disband()
                results.add(f"stable_{count}", crowd.form())
        _measure_rebalances(results, server, crowds[sizes.restless])


def _measure_rebalances(results: Results, server: Server, crowd: Crowd) -> None:
    """What other groups notice of a large rebalance."""
    crowd.be_patient()
    with _probe(server.bootstrap_servers) as probed:
        spans = [crowd.rebalance() for _ in range(results.sizes.rounds)]
    for began, ended in spans:
        results.add(f"rebalance_{len(crowd.members)}", ended - began)
        during = [seconds for sent, seconds in probed if began <= sent <= ended]
        results.add("heartbeat_p99", quantiles(during, n=100)[-1] * 1e3)


@contextmanager
def _probe(address: str) -> Iterator[list[tuple[float, float]]]:
    """Heartbeats beside what happens inside the `with`; afterwards the list holds when, and how long they took."""
    rows: list[tuple[float, float]] = []
    command = [sys.executable, "-m", "equipoise.console.bench_probe", address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise EquipoiseError("the process that sends heartbeats has ended; its own words are above")
        yield rows
        rows += json.loads(process.communicate()[0])


# -- many groups


def _measure_memory(results: Results, data: Path) -> None:
    group_ids = _ids("idle", results.sizes.idle_groups)
    with (
        _broker(data, group_initial_rebalance_delay_ms=0) as server,
        Crowd(parse_address(server.bootstrap_servers), group_ids[:_AT_A_TIME]) as crowd,
    ):
        before = server.resident_mb()
        for some in _portions(group_ids):
            for member, group_id in zip(crowd.members, some, strict=True):
                member.enter(group_id)
            crowd.form()
            pump(
                crowd.members,
                [_commit(one.group_id, _COMMITTED, one) for one in crowd.members],
                _committed(_COMMITTED),
                0,
            )
        results.add("resident_idle_groups", server.resident_mb())
        results.add("idle_group", (server.resident_mb() - before) * 1e3 / len(group_ids))


def _portions(group_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(group_ids), _AT_A_TIME):
        yield group_ids[start : start + _AT_A_TIME]


# -- restarts


def _measure_restart(results: Results, data: Path) -> None:
    group_ids, each = _ids("stored", _GROUPS), results.sizes.offsets // _GROUPS
    with (
        _broker(data, partitions=each) as server,
        Crowd(parse_address(server.bootstrap_servers), group_ids[:_AT_A_TIME]) as crowd,
    ):
        for some in _portions(group_ids):
            pump(crowd.members, [_commit(group_id, each) for group_id in some], _committed(each), 0)
    one_of_each_shard = {partition_for(group_id, _SHARDS): group_id for group_id in group_ids}.values()
    for _ in range(results.sizes.restarts):
        began = time.perf_counter()
        with _broker(data) as server, Connection(*parse_address(server.bootstrap_servers)) as connection:
            for group_id in one_of_each_shard:
                while _fetch_offsets(connection, group_id) is None:
                    time.sleep(0.005)
            results.add("restart", time.perf_counter() - began)
            _check_offsets(connection, group_ids, each)


def _check_offsets(connection: Connection, group_ids: Sequence[str], each: int) -> None:
    for group_id in group_ids:
        if _fetch_offsets(connection, group_id) != list(range(each)):
            raise EquipoiseError(f"group {group_id} does not have the {each} offsets any more that it had before")


def _fetch_offsets(connection: Connection, group_id: str) -> list[int] | None:
    """None: the group is being loaded."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    (group,) = connection.send(request, OffsetFetchResponse).groups
    if group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return None
    return sorted(row.committed_offset for topic in group.topics for row in topic.partitions)


# -- stock members


def _measure_stock(results: Results, data: Path) -> None:
    """All at the same time: they wait much more than they work."""
    from equipoise.console.bench_stock import measure_rebalances

    sizes = results.sizes
    cases = [(strategy, hold) for strategy in sizes.strategies for hold in HOLDS]
    with ExitStack() as running, ThreadPoolExecutor(len(cases)) as threads:
        servers = {
            hold: running.enter_context(_broker(data / hold, group_heartbeat_hold_max_ms=limit))
            for hold, limit in HOLDS.items()
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
