"""Groups of stock members on both brokers in turns: what a join, a leave and a crash cost them."""

from __future__ import annotations

import dataclasses
import itertools
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from bench.versus.figures import MEMBERS, PARTITIONS, Case, Results
from equipoise.wire.errors import EquipoiseError
from proving.members.events import Ledger, Span
from proving.members.fleet import Fleet, Members, places_of
from proving.members.hosts import CONSUMER, Membership

_HEARTBEAT_SECONDS = 3.0  # every client's default interval
_CONSUMER_HEARTBEAT_SECONDS = 5.0  # the broker's, with group.protocol=consumer
_VICTIM: dict[str, Any] = {}  # settings of the member that is killed
_CALLBACKS = ("assigned", "revoked", "lost", "stopped")


class Rebalance(NamedTuple):
    """Seconds."""

    rebalance: float  # from the first callback of anyone to the last assignment
    whole: float  # from what caused it to the last assignment
    unowned: float  # that a partition had no owner, the mean of all


class Group:
    """Members of one group on one broker. They do nothing but be members: there are no records."""

    def __init__(self, bootstrap_servers: str, topic: str, case: Case, log: Path, running: ExitStack) -> None:
        self._client = case.client
        self._interval = _CONSUMER_HEARTBEAT_SECONDS if case.assignor == CONSUMER else _HEARTBEAT_SECONDS
        self._places = places_of(topic, PARTITIONS)
        self._stock = Membership.stock(f"stock-{case.client}-{case.kind}", (topic,), case.assignor)
        self._fleet = running.enter_context(Fleet(bootstrap_servers, log))
        self._members = running.enter_context(Members(self._fleet, self._stock))
        self._numbers = itertools.count()
        self._settled_at = 0.0

    def warm_up(self) -> None:
        """A group of one comes and goes: what a process does for the first time takes longer."""
        stock = dataclasses.replace(self._stock, group=f"{self._stock.group}-warm-up")
        with Members(self._fleet, stock) as members:
            members.join("first", self._client)
            members.wait_settled(self._places)

    def first_join(self) -> Rebalance:
        """All members of a new group at the same time, but one."""
        return self._measure(lambda: self._new_members(MEMBERS - 1))

    def join(self) -> Rebalance:
        return self._measure(lambda: self._new_members(1))

    def leave(self) -> Rebalance:
        """The oldest member. It counts from when it stops, for some take their time to hear that they should."""
        return self._measure(lambda: self._members.close(self._members.names[0]), from_first_callback=True)

    def add_victim(self) -> None:
        """A member in a process of its own, which can be killed."""
        self._victim = f"victim-{next(self._numbers)}"
        self._members.join(self._victim, self._client, alone=True, **_VICTIM)
        self._settle()

    def crash(self) -> Rebalance:
        """SIGKILL for the victim."""
        return self._measure(lambda: self._members.kill(self._victim))

    def rest(self, chance: random.Random) -> None:
        """Until every member has sent a heartbeat since the last rebalance, and a moment that heartbeats know nothing
        of; also when the other broker's turn has taken that long: it ends with heartbeats, and so would the rest."""
        left = max(self._settled_at + self._interval - time.monotonic(), 0)
        time.sleep(left + self._interval * chance.random())

    def _new_members(self, count: int) -> None:
        for _ in range(count):
            self._members.join(f"member-{next(self._numbers)}", self._client)

    def _settle(self) -> None:
        self._members.wait_settled(self._places)
        self._settled_at = time.monotonic()

    def _measure(self, cause: Callable[[], object], *, from_first_callback: bool = False) -> Rebalance:
        told, began = self._members.now, time.monotonic()
        cause()
        self._settle()
        return measure_rebalance(self._members.ledger, told, None if from_first_callback else began)


def measure_rebalance(ledger: Ledger, told: int, began: float | None) -> Rebalance:
    """From what was told after the first `told` events. `began`: when it was caused; None: with the first callback."""
    callbacks = [event for event in ledger.events[told:] if event.kind in _CALLBACKS]
    ended = max(event.at for event in callbacks if event.kind == "assigned")
    first = min(event.at for event in callbacks)
    began = first if began is None else began
    owned = [sum(_shared(span, began, ended) for span in spans) for spans in ledger.spans().values()]
    return Rebalance(ended - first, ended - began, ended - began - fmean(owned))


def _shared(span: Span, began: float, ended: float) -> float:
    return max(min(span.end, ended) - max(span.start, began), 0.0)


def measure_cases(
    results: Results, cases: Sequence[Case], addresses: Mapping[str, str], topic: str, *, log: Path
) -> None:
    """One case after the other, the brokers in turns, each transition on one and then on the other. At last a member of
    each group crashes, in all groups together: for most of that time the brokers wait, and a session is 45 s.
    `addresses` by side. What fails is noted in `results`."""
    together = _Together(len(cases))

    def measure(case: Case) -> None:
        try:
            _CaseRun(results, case, together).measure(addresses, topic, log)
        except EquipoiseError as error:
            results.skipped.append(f"{case.title}: {str(error).splitlines()[0]}")

    with ThreadPoolExecutor(len(cases)) as threads:
        list(threads.map(measure, cases))


class _Together:
    """Cases of which one at a time is measured, until all are ready for their crash."""

    def __init__(self, cases: int) -> None:
        self.turn = threading.Lock()
        self.ready = threading.Barrier(cases)


class _CaseRun:
    """One case on all brokers."""

    def __init__(self, results: Results, case: Case, together: _Together) -> None:
        self._results = results
        self._case = case
        self._together = together
        self._chance = random.Random(case.title)
        self._groups: dict[str, Group] = {}

    def measure(self, addresses: Mapping[str, str], topic: str, log: Path) -> None:
        with ExitStack() as running, ThreadPoolExecutor(len(addresses)) as threads:
            try:
                with self._together.turn:
                    for side, address in addresses.items():
                        self._groups[side] = Group(address, topic, self._case, log, running)
                    self._measure_joins_and_leaves(threads)
            finally:
                self._together.ready.wait()
            for number in range(self._results.sizes.crashes):
                if number:
                    list(threads.map(Group.add_victim, self._groups.values()))
                self._measure_crash(threads)

    def _measure_joins_and_leaves(self, threads: ThreadPoolExecutor) -> None:
        list(threads.map(Group.warm_up, self._groups.values()))
        self._measure("first_join", Group.first_join)
        for _ in range(self._results.sizes.joins_and_leaves):
            self._measure("join", Group.join)
            self._measure("leave", Group.leave)
        list(threads.map(Group.add_victim, self._groups.values()))

    def _measure(self, name: str, transition: Callable[[Group], Rebalance]) -> None:
        for side, group in self._groups.items():
            group.rest(self._chance)
            self._add(name, side, transition(group))

    def _measure_crash(self, threads: ThreadPoolExecutor) -> None:
        for group in self._groups.values():
            group.rest(self._chance)
        for side, found in zip(self._groups, threads.map(Group.crash, self._groups.values()), strict=True):
            self._add("crash", side, found)

    def _add(self, name: str, side: str, found: Rebalance) -> None:
        for kind, seconds in found._asdict().items():
            self._results.add(self._case.key(name, kind), side, seconds)
