"""`python -m bench large-group`: 2,000 members with the consumer protocol x 20,000 partitions, beside Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import quantiles
from typing import NamedTuple

from bench.coordinator.members import TOPIC as PROBED
from bench.coordinator.offsets import await_coordinator
from bench.coordinator.probe import GROUP_IDS
from bench.coordinator.run import probe
from bench.figures import Figure
from bench.large.members import Crowd
from bench.machine import allow_connections, check_machine, progress
from bench.results import Results
from bench.versus.run import create_topic
from equipoise.broker.server import parse_address
from equipoise.client.net.blocking import Connection
from proving.brokers import STOCK_JVM, BrokerProcess, EquipoiseBroker, KafkaBroker

_TOPIC = _GROUP = "large"
_PATIENCE = 600.0
_REST = 7.0  # seconds: longer than a heartbeat interval
NOTES = (
    "All members join at the same time, on a connection each, with the broker's default settings. They confirm at once "
    "and otherwise send a heartbeat in each interval that the broker names. Converge: from the first heartbeat until "
    "every partition is held by one member, and every member has its share. Join and leave: one member "
    "more, one member less.",
    "The heartbeats of the p99 are those of other groups, one each millisecond from a process of its own, while the "
    "members join. That process may have to wait for a processor; a figure says by how much it sends too late. "
    "Memory is what the group adds to the broker's resident memory.",
    "Kafka is measured in the same run, up to the size that the machine bears: it keeps files for every partition.",
)


class Size(NamedTuple):
    members: int
    partitions: int

    @property
    def key(self) -> str:
        return f"{self.members}_{self.partitions}"

    @property
    def title(self) -> str:
        return f"{self.members:,} members x {self.partitions:,} partitions"


SHARED = Size(200, 2_000)
CROWDED = Size(1_000, 2_000)  # with a member more there is still a partition for each
LARGEST = Size(2_000, 20_000)
# By broker. The first is measured on both.
FULL = {"equipoise": (SHARED, CROWDED, LARGEST), "kafka": (SHARED, CROWDED)}
QUICK = {"equipoise": (Size(50, 200),), "kafka": (Size(50, 200),)}


def figures(sizes: dict[str, tuple[Size, ...]]) -> list[Figure]:
    found = []
    for size in dict.fromkeys(size for some in sizes.values() for size in some):
        for side in (side for side, some in sizes.items() if size in some):
            key, title = f"{side}_{size.key}", f"{side}, {size.title}"
            aim = 20.0 if side == "equipoise" else None
            found += [
                Figure(f"{key}_converge", f"{title}: converge", "s"),
                Figure(f"{key}_p99", f"{title}: p99 of others' heartbeats meanwhile", "ms", aim),
                Figure(f"{key}_longest", f"{title}: longest of others' heartbeats", "ms"),
                Figure(f"{key}_late", f"{title}: p99 of the delay of who sends them", "ms"),
                Figure(f"{key}_cpu", f"{title}: broker's CPU meanwhile", "s"),
                Figure(f"{key}_join", f"{title}: one more joins", "s"),
                Figure(f"{key}_leave", f"{title}: one leaves", "s"),
                Figure(f"{key}_memory", f"{title}: memory of the group", "MB"),
            ]
    return found


def run_bench(as_json: bool, quick: bool, alone: bool) -> None:
    """Measures for some minutes (quick: half a minute) and prints a table, or one JSON object."""
    check_machine("large-group")
    sizes = dict(QUICK if quick else FULL)
    if alone:
        del sizes["kafka"]
    results = Results("large-group", figures(sizes), NOTES)
    allow_connections("large-group", max(size.members for some in sizes.values() for size in some) + 200)
    began = time.perf_counter()
    with progress(sum(map(len, sizes.values()))) as advance:
        for side, some in sizes.items():
            for size in some:
                measure(results, side, size)
                advance()
    results.print(as_json, time.perf_counter() - began)


@contextmanager
def _broker(side: str) -> Iterator[BrokerProcess]:
    with EquipoiseBroker() if side == "equipoise" else KafkaBroker(jvm=STOCK_JVM) as broker:
        yield broker


def measure(results: Results, side: str, size: Size) -> None:
    """A broker of its own for each size: what one leaves behind is not the next one's."""
    with ExitStack() as running:
        broker = running.enter_context(_broker(side))
        create_topic(broker, PROBED, 16)
        create_topic(broker, _TOPIC, size.partitions)
        address = parse_address(broker.bootstrap_servers)
        with Connection(*address) as connection:
            await_coordinator(connection, [_GROUP, *GROUP_IDS])
        crowd = running.enter_context(Crowd(address, _GROUP, _TOPIC, size.partitions))
        members = crowd.connect(size.members)
        (newcomer,) = crowd.connect(1)
        key = f"{side}_{size.key}"
        with probe(broker.bootstrap_servers) as probed:
            memory, cpu, began = broker.resident_mb(), broker.cpu_seconds(), time.perf_counter()
            for member in members:
                member.join()
            crowd.wait(lambda: crowd.is_settled, _PATIENCE)
            ended = time.perf_counter()
            crowd.check()
        results.add(f"{key}_converge", ended - began)
        results.add(f"{key}_cpu", broker.cpu_seconds() - cpu)
        during = [one for one in probed if began <= one.sent <= ended]
        results.add(f"{key}_p99", quantiles([one.seconds for one in during], n=100)[-1] * 1e3)
        results.add(f"{key}_longest", max(one.seconds for one in during) * 1e3)
        results.add(f"{key}_late", quantiles([one.late for one in during], n=100)[-1] * 1e3)
        _rest(crowd)
        results.add(f"{key}_memory", broker.resident_mb() - memory)
        newcomer.join()
        results.add(f"{key}_join", crowd.wait(lambda: bool(newcomer.held) and crowd.is_settled, _PATIENCE))
        _rest(crowd)
        newcomer.leave()
        results.add(f"{key}_leave", crowd.wait(lambda: not newcomer.held and crowd.is_settled, _PATIENCE))
        crowd.check()


def _rest(crowd: Crowd) -> None:
    until = time.perf_counter() + _REST
    crowd.wait(lambda: time.perf_counter() > until, _PATIENCE)
