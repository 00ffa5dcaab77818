"""`python -m bench console --many`: a console on 1,000 groups x 100 partitions each, of 10,000 partitions in all.

The console is a process of its own, as always. Its CPU and memory are those that Linux counts for it, at rest, with the
list of groups open, and with one group open. The viewer does what a browser does: it follows the stream, and asks for
the list again when the stream says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from rich.console import Console
from rich.progress import track

from bench.console.running import await_journal
from equipoise.broker.server import parse_address
from equipoise.client import Admin, TopicPartition
from equipoise.client.net.blocking import Connection
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from equipoise.wire.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from proving.brokers import EquipoiseBroker

_SESSION_MS = 1_800_000
_MB = 1 << 20
_PATIENCE_S = 120.0


class Size(NamedTuple):
    """So many groups; topics of so many partitions. Each group reads one topic."""

    groups: int
    topics: int
    partitions: int
    seconds: float  # of each measurement


FULL, QUICK = Size(1_000, 100, 100, 40.0), Size(20, 4, 25, 5.0)


class Figures(NamedTuple):
    """Seconds until the list and a group were there; shares of a core in percent; seconds until every group that nobody
    looks at had its turn; megabytes."""

    first_list_s: float
    list_ms: float
    group_ms: float
    rest_percent: float
    list_percent: float
    group_percent: float
    turn_s: float
    memory_mb: float


def run_many(*, as_json: bool, quick: bool) -> None:
    """Measures, and prints."""
    size = QUICK if quick else FULL
    found = measure(size)
    if as_json:
        print(json.dumps(found._asdict()))
        return
    print(f"{size.groups:,} groups with a member each, {size.topics * size.partitions:,} partitions:")
    print(f"  all groups on the page {found.first_list_s:.1f} s after the console's start")
    print(f"  the list in {found.list_ms:.0f} ms, a group in {found.group_ms:.0f} ms")
    print(
        f"  of a core: {found.rest_percent:.1f} % at rest, {found.list_percent:.1f} % with the list open, "
        f"{found.group_percent:.1f} % with a group open"
    )
    print(f"  every group that nobody looks at was looked after within {found.turn_s:.0f} s")
    print(f"  memory {found.memory_mb:.0f} MB (PSS)")


def measure(size: Size) -> Figures:
    """On a broker of our own, whose groups are ready at once. Members live as long as their connection."""
    with EquipoiseBroker({"group.initial.rebalance.delay.ms": 0}) as broker:
        servers = broker.bootstrap_servers
        with _filled(servers, size), _console(servers) as (process, address):
            began = time.perf_counter()
            last = f"group-{size.groups - 1:04}"
            while _get(f"{address}/api/groups/{last}/timeline") is None:
                time.sleep(0.05)
            first = time.perf_counter() - began
            listed, one = _took(f"{address}/groups"), _took(f"{address}/groups/{last}")
            await_journal(address, last)
            _settle(size)
            rest = _share(process.pid, size.seconds)
            with _viewing(address, "/api/groups/stream", "/groups?part=list"):
                with_list = _share(process.pid, size.seconds)
            with _viewing(address, f"/api/groups/{last}/stream", None):
                with_group = _share(process.pid, size.seconds)
            turn = _turn(address, [f"group-{number:04}" for number in range(0, size.groups, size.groups // 10)])
            return Figures(first, listed, one, rest, with_list, with_group, turn, _memory(process.pid))


# -- the cluster


@contextmanager
def _filled(servers: str, size: Size) -> Iterator[None]:
    bar = Console(stderr=True)
    with Admin(servers, timeout=_PATIENCE_S) as admin:
        for number in range(size.topics):
            admin.create_topic(f"topic-{number:03}", size.partitions)
        for number in track(range(size.groups), console=bar, description="groups"):
            topic = f"topic-{number % size.topics:03}"
            places = {TopicPartition(topic, one): 0 for one in range(size.partitions)}
            admin.commit_offsets(f"group-{number:04}", places)
    with closing(Connection(*parse_address(servers), timeout=_PATIENCE_S)) as connection:
        for number in track(range(size.groups), console=bar, description="members"):
            _join(connection, f"group-{number:04}", f"topic-{number % size.topics:03}", size.partitions)
        yield


def _join(connection: Connection, group_id: str, topic: str, partitions: int) -> None:
    """One member of the classic protocol. Its session is longer than the measurement: it needs no heartbeat."""
    member_id = ""
    while True:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(topics=[topic])))
            ],
        )
        joined = connection.send(request, JoinGroupResponse)
        member_id = joined.member_id
        if not joined.error_code:
            break
    share = encode_assignment(Assignment(assigned_partitions={topic: list(range(partitions))}))
    connection.send(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=share)],
        ),
        SyncGroupResponse,
    )


# -- the console


@contextmanager
def _console(servers: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "equipoise", "console", "--bootstrap-servers", servers, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def _get(address: str) -> bytes | None:
    with suppress(OSError), urlopen(address, timeout=_PATIENCE_S) as answer:
        return bytes(answer.read())
    return None


def _took(address: str) -> float:
    """The median of nine, in milliseconds."""
    spans = []
    for _ in range(9):
        began = time.perf_counter()
        assert _get(address) is not None, address
        spans.append((time.perf_counter() - began) * 1000)
    return sorted(spans)[4]


@contextmanager
def _viewing(address: str, stream: str, part: str | None) -> Iterator[None]:
    """Follows a stream while the block runs, in a thread, as a page does: after an event it asks for its part anew."""
    over = threading.Event()
    answer = urlopen(address + stream, timeout=_PATIENCE_S)

    def follow() -> None:
        with suppress(OSError, ValueError, AttributeError):  # the last: it was closed in the middle of a read
            for line in answer:
                if over.is_set():
                    return
                if part is not None and line.startswith(b'data: {"wait":'):
                    over.wait(max(json.loads(line[6:])["wait"], 300) / 1000)
                    _get(address + part)

    if part is None:
        _get(address + stream.removesuffix("/stream") + "/timeline")
    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        answer.close()


def _turn(address: str, groups: list[str]) -> float:
    """Until views of all of these groups are younger than now. Each question takes time of the console: some groups
    stand for all."""
    began, waiting = time.time(), set(groups)
    while waiting:
        time.sleep(1.0)
        waiting = {name for name in waiting if _as_of(f"{address}/api/groups/{name}") < began}
    return time.time() - began


def _as_of(address: str) -> float:
    (group,) = json.loads(_get(address) or b"")["groups"]
    return datetime.fromisoformat(group["as_of"]).timestamp()


def _settle(size: Size) -> None:
    """What the start costs is not what the console costs: it is counted in the time until the list is there."""
    time.sleep(min(size.seconds, 15.0))


def _share(pid: int, seconds: float) -> float:
    before, began = _cpu(pid), time.perf_counter()
    time.sleep(seconds)
    return (_cpu(pid) - before) / (time.perf_counter() - began) * 100


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    """Proportional: what is shared with other processes counts in part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / _MB
    raise AssertionError("Linux tells no Pss")
