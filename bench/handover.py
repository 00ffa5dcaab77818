"""`python -m bench handover`: what readers notice of a rebalance, eager beside cooperative, under load."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from bench.figures import Figure
from bench.machine import Advance, check_machine, progress
from bench.results import Results
from equipoise.client import Admin
from proving.brokers import EquipoiseBroker, MemoryBroker
from proving.members.events import Ledger, Place
from proving.members.fleet import Fleet, Members, places_of

MEMBERS = 8
PARTITIONS = 64
MEDIA = {"memory": MemoryBroker, "disk": EquipoiseBroker}
STRATEGIES = {"eager": "range", "cooperative": "cooperative-sticky"}
EVENTS = ("join", "leave")
_SPREAD_S = 0.02  # a record to each partition so often
_CALM_S = 1.0  # before and after a rebalance
NOTES = (
    f"{MEMBERS} members of our consumer, with its default settings, share {PARTITIONS} partitions; each gets a record "
    "every 20 ms. Then another member joins, and then it leaves. Once on a broker that keeps records in memory, once "
    f"on one that acknowledges and shows what is durable: {PARTITIONS} files are then synced for a round of records, "
    "up to 3,200 a second, on the disk and the cores that all of this shares.",
    "Stays: partitions that have the same reader before and after; the longest time between two reads of any of them "
    "while the group rebalances. Calm: the same without a rebalance, which is what this machine and load cost.",
    "Moves: partitions that go to another reader; the longest time from the last read of the old to the first of the "
    "new. Dark: from the listener's on_revoked at the old to on_assigned at the new. Each is the worst partition's. "
    "The verdict is of the best round.",
)


class Size(NamedTuple):
    rounds: int


FULL, QUICK = Size(3), Size(1)


def figures() -> list[Figure]:
    return [
        figure
        for medium in MEDIA
        for kind in STRATEGIES
        for figure in [
            Figure(f"{medium}_{kind}_calm", f"{medium}, {kind}, calm: longest pause", "ms"),
            *(figure for event in EVENTS for figure in _figures_of(medium, kind, event)),
        ]
    ]


def _figures_of(medium: str, kind: str, event: str) -> list[Figure]:
    key, title, has_aim = f"{medium}_{kind}_{event}", f"{medium}, {kind} {event}", kind == "cooperative"
    return [
        Figure(f"{key}_stays", f"{title}, stays: longest pause", "ms", 100.0 if has_aim else None),
        Figure(f"{key}_moves", f"{title}, moves: longest pause", "ms"),
        Figure(f"{key}_dark", f"{title}, moves: longest dark", "ms", 200.0 if has_aim else None),
    ]


def run_bench(as_json: bool, quick: bool) -> None:
    """Measures for about a minute and a half and prints a table, or one JSON object."""
    check_machine("handover")
    size = QUICK if quick else FULL
    results = Results("handover", figures(), NOTES, sizes=size._asdict())
    began = time.perf_counter()
    with progress(len(MEDIA) * len(STRATEGIES) * size.rounds) as advance:
        for medium in MEDIA:
            _run_on(results, medium, size.rounds, advance)
    results.print(as_json, time.perf_counter() - began)


def _run_on(results: Results, medium: str, rounds: int, advance: Advance) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="equipoise-bench-") as scratch,
        MEDIA[medium]({"group.initial.rebalance.delay.ms": 500}) as broker,
        Fleet(broker.bootstrap_servers, Path(scratch, "members.log")) as fleet,
    ):
        for kind, strategy in STRATEGIES.items():
            with Admin(broker.bootstrap_servers) as admin:
                admin.create_topic(kind, PARTITIONS)
            places = places_of(kind, PARTITIONS)
            with Members.of(fleet, kind, assignor=strategy, commit="auto", **_DEFAULTS) as members:
                _gather(members, places)
                with _load(broker, kind):
                    for number in range(rounds):
                        _measure(results, f"{medium}_{kind}", members, places, f"guest {number}")
                        advance()


_DEFAULTS = dict.fromkeys(
    ("session_ms", "heartbeat_ms", "max_poll_ms", "metadata_age_ms", "fetch_wait_ms", "commit_ms"), None
)


def _gather(members: Members, places: set[Place]) -> None:
    for number in range(MEMBERS):
        members.join(f"member {number}", "equipoise")
    members.wait_settled(places)


@contextmanager
def _load(broker: EquipoiseBroker, topic: str) -> Iterator[None]:
    """Records all the time, the same for each partition."""
    from confluent_kafka import Producer

    producer, ending = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1}), threading.Event()

    def produce() -> None:
        while not ending.wait(_SPREAD_S):
            for partition in range(PARTITIONS):
                producer.produce(topic, b"", partition=partition)
            producer.poll(0)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        producer.flush(30)


def _measure(results: Results, key: str, members: Members, places: set[Place], guest: str) -> None:
    began = time.monotonic()
    time.sleep(_CALM_S)
    calm = _Reads(members.ledger, began, time.monotonic())
    results.add(f"{key}_calm", max(calm.pauses(calm.same_reader())))
    for event in EVENTS:
        began = time.monotonic()
        members.join(guest, "equipoise") if event == "join" else members.close(guest)
        members.wait_settled(places)
        time.sleep(_CALM_S)
        reads = _Reads(members.ledger, began, time.monotonic())
        stays = reads.same_reader()
        results.add(f"{key}_{event}_stays", max(reads.pauses(stays), default=0.0))
        results.add(f"{key}_{event}_moves", max(reads.pauses(reads.places - stays), default=0.0))
        results.add(f"{key}_{event}_dark", max(reads.dark(), default=0.0))


class _Reads:
    """Who read from which partition when, in a span of time; and who was told what."""

    def __init__(self, ledger: Ledger, began: float, ended: float) -> None:
        self._events = [event for event in list(ledger.events) if began <= event.at <= ended]
        self._began, self._ended = began, ended
        self._reads: dict[Place, list[tuple[float, str]]] = {}
        for event in self._events:
            for topic, partition, _ in event.rows:
                self._reads.setdefault((topic, partition), []).append((event.at, event.member))

    @property
    def places(self) -> set[Place]:
        return set(self._reads)

    def same_reader(self) -> set[Place]:
        return {place for place, reads in self._reads.items() if len({member for _, member in reads}) == 1}

    def pauses(self, places: set[Place]) -> list[float]:
        """The longest of each, in milliseconds."""
        return [
            max((later - earlier) * 1e3 for earlier, later in pairwise(at for at, _ in self._reads[place]))
            for place in places
            if len(self._reads[place]) > 1
        ]

    def dark(self) -> list[float]:
        """Of each partition that was told to be revoked here and assigned there, in milliseconds."""
        since: dict[Place, tuple[float, str]] = {}
        found = []
        for event in sorted(self._events):
            for place in event.places:
                if event.kind == "revoked":
                    since[place] = event.at, event.member
                elif event.kind == "assigned" and place in since:
                    at, member = since.pop(place)
                    found += [(event.at - at) * 1e3] if member != event.member else []
        return found
