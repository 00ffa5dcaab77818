"""`python -m bench generations`: the same changes of a group under four protocols, from ZooKeeper to cooperative."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.figures import Figure, print_circumstances
from bench.generations.groups import GROUP_REQUESTS, Group, Kind
from bench.machine import check_machine, progress
from bench.results import Results
from bench.versus.rebalances import Rebalance, measure_rebalance
from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.testing.registering import register
from equipoise.zookeeper.registration import BrokerRegistration
from equipoise.zookeeper.server import ZooKeeperServer

PARTITIONS = 64
EVENTS = ("join", "leave", "crash")
_CALM_S = 1.0  # before each change
NOTES = (
    f"One topic of {PARTITIONS} partitions without records; members of this library, with default settings and the "
    "strategy range (cooperative: cooperative-sticky). A member joins, one leaves, and one in a process of its own is "
    "killed, whose session is 6 s under every protocol; all others have sessions so long that nobody else is missed.",
    "Unowned: how long a partition had no owner, the mean of all, from the cause until all were owned again. Crash "
    "includes the 6 s until the group can know.",
    "Requests: to the ZooKeeper server, pings among them, or of the group's protocol to the broker, heartbeats that "
    "change nothing left out; of all members, from the cause until all partitions were owned again.",
    "zk_faithful has rebalance.max.retries=20 in place of 4, so that members that all start at once do not give up.",
)


class Size(NamedTuple):
    members: tuple[int, ...]
    rounds: int


FULL, QUICK = Size((4, 8, 16), 3), Size((4,), 1)


def figures(size: Size) -> list[Figure]:
    found = []
    for kind in Kind:
        for members in size.members:
            for event in EVENTS:
                key, title = _key(kind, members, event), f"{kind.title}, {members} members, {event}"
                found.append(Figure(f"{key}_unowned", f"{title}: unowned", "ms"))
                found.append(Figure(f"{key}_requests", f"{title}: requests", "requests"))
    return found


def _key(kind: Kind, members: int, event: str) -> str:
    return f"{kind.value}_{members}_{event}"


class GenerationResults(Results):
    """Printed as the table of docs/zookeeper.md; as JSON with that table, line by line."""

    def print(self, as_json: bool, seconds: float) -> None:
        if as_json:
            self._facts["table"] = self.table()
            super().print(as_json, seconds)
            return
        print("\n".join(self.table()))
        print_circumstances(seconds, self._notes)

    def table(self) -> list[str]:
        columns = [(event, what) for what in ("unowned", "requests") for event in EVENTS]
        words = {"unowned": "ms unowned", "requests": "requests"}
        head = ["", *(f"a {event}: {words[what]}" for event, what in columns)]
        rows = [[kind.title, *(self._cell(kind, event, what) for event, what in columns)] for kind in Kind]
        return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]

    def _cell(self, kind: Kind, event: str, what: str) -> str:
        sizes = self._facts["sizes"]["members"]
        medians = [median(self.values(f"{_key(kind, members, event)}_{what}")) for members in sizes]
        return " / ".join(f"{value:,.0f}" if value >= 10 else f"{value:.2g}" for value in medians)


def run_bench(as_json: bool, quick: bool, picture: Path | None) -> None:
    """Measures for some minutes and prints a table, or one JSON object; and draws, if asked to."""
    check_machine("generations", "kazoo", *(["matplotlib"] if picture is not None else []))
    size = QUICK if quick else FULL
    results = GenerationResults("generations", figures(size), NOTES, sizes=size._asdict(), partitions=PARTITIONS)
    began = time.perf_counter()
    with ZooKeeperServer() as server, progress(len(Kind) * len(size.members)) as advance:
        for members in size.members:
            for kind in Kind:
                with _group(kind, members, server) as group:
                    _measure(results, kind, members, group, size.rounds)
                advance()
    results.print(as_json, time.perf_counter() - began)
    if picture is not None:
        from bench.generations.picture import draw

        draw(results, size.members, picture)


@contextmanager
def _group(kind: Kind, members: int, server: ZooKeeperServer) -> Iterator[Group]:
    """On a broker of its own, in this process, and under a path of its own in ZooKeeper."""
    hosts = f"{server.connect}/{kind.value}-{members}"
    with (
        tempfile.TemporaryDirectory(prefix="equipoise-bench-") as scratch,
        Broker() as broker,
        BrokerRegistration(hosts) as registration,
    ):
        broker.call(lambda running: register(running, registration))
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("topic", PARTITIONS)
        count = server.packets_received if kind.is_zookeeper else _count_requests(broker)
        with Group(kind, broker.bootstrap_servers, hosts, PARTITIONS, count, Path(scratch, "log")) as group:
            group.add(members)
            yield group


def _count_requests(broker: Broker) -> Callable[[], int]:
    """Of the group protocol, as the broker finds their handlers."""
    seen = [0]

    def attach(server: object) -> None:
        find = server.route  # type: ignore[attr-defined]

        def route(api_key: int, version: int) -> object:
            seen[0] += api_key in GROUP_REQUESTS
            return find(api_key, version)

        server.route = route  # type: ignore[attr-defined]

    broker.call(attach)
    return lambda: seen[0]


def _measure(results: Results, kind: Kind, members: int, group: Group, rounds: int) -> None:
    for _ in range(rounds):
        for event, cause in (("join", group.join), ("leave", group.leave)):
            _note(results, _key(kind, members, event), *_watch(group, cause))
    group.add_victim()
    _note(results, _key(kind, members, "crash"), *_watch(group, group.crash))


def _watch(group: Group, cause: Callable[[], None]) -> tuple[Rebalance, int]:
    time.sleep(_CALM_S)
    told, requests, began = len(group.ledger.events), group.requests(), time.monotonic()
    cause()
    group.wait_settled()
    return measure_rebalance(group.ledger, told, began), group.requests() - requests


def _note(results: Results, key: str, rebalance: Rebalance, requests: int) -> None:
    results.add(f"{key}_unowned", rebalance.unowned * 1e3)
    results.add(f"{key}_requests", requests)
