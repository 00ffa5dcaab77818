"""A plan beside real clients on our broker, in real time: the stated error of docs/planning.md.

Rebalances must be those of the plan, requests within a tenth. Heartbeats of real clients begin together after a
rebalance, as planned. The plan does not know three things of the time without an owner. Where between two heartbeats a
member closes: up to an interval for each of its partitions. Whether it closes while heartbeats arrive, so that some
members hear an interval later than others: members come and go between heartbeats here, and one that needs long for it
may still do so once. And how late a busy machine wakes threads, which is measured meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import quantiles
from typing import Any, Self

import confluent_kafka
import pytest

from equipoise.broker import Broker
from equipoise.client import Consumer, RebalanceListener
from equipoise.coordinator.shard import Shard
from equipoise.simulate.plan import SCENARIOS, PlanSettings, plan
from equipoise.simulate.plan.scenarios import What
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest

GROUP, TOPIC = "planned", "t"
TICK_S = 0.005
HOPS = 6  # times that a member waits to be woken in a rebalance: by timer, broker or listener
PATIENCE_S = 60.0
ASSIGNORS = {"eager": "range", "cooperative": "cooperative-sticky"}


class Ledger:
    """Who reads which partition, by the callbacks of real clients."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[int, str] = {}
        self._since: dict[int, float] = {}
        self.dark_s = 0.0

    def assigned(self, name: str, partitions: Iterable[int]) -> None:
        with self._lock:
            for one in partitions:
                self.dark_s += time.monotonic() - self._since.pop(one, time.monotonic())
                self._owners[one] = name

    def revoked(self, name: str, partitions: Iterable[int]) -> None:
        with self._lock:
            for one in partitions:
                if self._owners.get(one) == name:
                    del self._owners[one]
                    self._since[one] = time.monotonic()

    def shares(self) -> dict[str, int]:
        with self._lock:
            owners = list(self._owners.values())
        return {name: owners.count(name) for name in owners}


class Metronome:
    """How late this machine wakes a thread: for clients and broker live in threads of this process."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._is_over.is_set():
            due = max(due + TICK_S, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            self._late.append(time.monotonic() - due)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def lateness_s(self) -> float:
        """Of the latest of ten."""
        return quantiles(self._late, n=10)[-1]


class Pulse:
    """When the coordinator has heard each member last."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._heard: dict[str, float] = {}
        for name in ("heartbeat", "is_well"):  # is_well answers a heartbeat of a group at rest
            patch.setattr(Shard, name, self._noting(getattr(Shard, name)))

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(shard: Shard, request: HeartbeatRequest, *given: Any, **more: Any) -> Any:
            self._heard[request.member_id] = time.monotonic()
            return original(shard, request, *given, **more)

        return call

    def is_between(self, member_ids: Iterable[str], interval_s: float) -> bool:
        """Whether all have just been heard: what happens now they hear together, an interval later."""
        return min(self._heard.get(one, 0.0) for one in member_ids) > time.monotonic() - interval_s / 2


class Listener(RebalanceListener):
    def __init__(self, name: str, ledger: Ledger) -> None:
        self.name, self.ledger = name, ledger

    def on_assigned(self, consumer: Any, added: Any) -> None:
        self.ledger.assigned(self.name, [one.partition for one in added])

    def on_revoked(self, consumer: Any, removed: Any) -> None:
        self.ledger.revoked(self.name, [one.partition for one in removed])

    def on_lost(self, consumer: Any, lost: Any) -> None:
        self.ledger.revoked(self.name, [one.partition for one in lost])


class RealMember:
    """A client that polls on a thread until it is closed."""

    def __init__(self, client: str, name: str, settings: dict[str, Any], ledger: Ledger) -> None:
        self._is_closing = threading.Event()
        run = self._run_ours if client == "equipoise" else self._run_confluent
        self._thread = threading.Thread(target=run, args=(name, settings, ledger), daemon=True)
        self._thread.start()

    def _run_ours(self, name: str, settings: dict[str, Any], ledger: Ledger) -> None:
        with Consumer(settings) as consumer:
            consumer.subscribe([TOPIC], Listener(name, ledger))
            while not self._is_closing.is_set():
                consumer.poll(0.05)

    def _run_confluent(self, name: str, settings: dict[str, Any], ledger: Ledger) -> None:
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe(
            [TOPIC],
            on_assign=lambda _one, rows: ledger.assigned(name, [row.partition for row in rows]),
            on_revoke=lambda _one, rows: ledger.revoked(name, [row.partition for row in rows]),
        )
        while not self._is_closing.is_set():
            consumer.poll(0.05)
        consumer.close()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@contextmanager
def counted(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The requests that the coordinator gets."""
    seen: list[str] = []

    def counting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Shard, *given: Any, **more: Any) -> Any:
            seen.append(name)
            return original(self, *given, **more)

        return call

    for name in ("join_group", "sync_group", "leave_group"):
        patch.setattr(Shard, name, counting(name, getattr(Shard, name)))
    yield seen


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def restart_one_by_one(client: str, strategy: str, settings: PlanSettings, patch: pytest.MonkeyPatch) -> None:
    """The scenario in real time; the time between its events is never less than planned."""
    with Broker(
        {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500},
        topics={TOPIC: settings.partitions},
        strict=True,
    ) as broker:
        ledger, pulse = Ledger(), Pulse(patch)
        common = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": GROUP,
            "session.timeout.ms": settings.session_timeout_ms,
            "heartbeat.interval.ms": settings.heartbeat_interval_ms,
            "partition.assignment.strategy": ASSIGNORS[strategy],
            "auto.offset.reset": "earliest",
        }
        members = {one: RealMember(client, f"m{one}", common, ledger) for one in range(settings.members)}

        def at_rest() -> bool:
            shares = ledger.shares()
            is_whole = sum(shares.values()) == settings.partitions and len(shares) == len(members)
            return is_whole and broker.groups[GROUP].state == "Stable"

        def is_between_heartbeats() -> bool:
            ids = [one.member_id for one in broker.groups[GROUP].members]
            return pulse.is_between(ids, settings.heartbeat_interval_ms / 1_000)

        until(at_rest)
        time.sleep(3 * settings.heartbeat_interval_ms / 1_000)
        until(at_rest)
        ledger.dark_s = 0.0
        before, begun = broker.groups[GROUP].generation_id, time.monotonic()
        with counted(patch) as seen, Metronome() as metronome:
            for at, what, one in SCENARIOS["rolling-restart"](settings).happenings:
                time.sleep(max(0.0, begun + at / 1_000 - time.monotonic()))
                until(is_between_heartbeats)
                if what is What.CLOSE:
                    members.pop(one).close()
                else:
                    members[one] = RealMember(client, f"m{one}", common, ledger)
                    until(at_rest)
            time.sleep(2 * settings.heartbeat_interval_ms / 1_000)
            until(at_rest)
        # Before the members are closed, which costs rebalances too.
        real = broker.groups[GROUP].generation_id - before, len(seen), ledger.dark_s
        for member in members.values():
            member.close()
    compare(strategy, settings, real, metronome.lateness_s)


def compare(strategy: str, settings: PlanSettings, real: tuple[int, int, float], lateness_s: float) -> None:
    """What the plan cannot know is the width of the band."""
    (planned,) = plan("rolling-restart", [strategy], settings)
    rebalances, requests, dark_s = real
    print(f"real {real}, {planned}, {lateness_s=}")
    assert rebalances == pytest.approx(planned.rebalances, rel=0.1)
    assert requests == pytest.approx(planned.messages - planned.heartbeats, rel=0.1)
    interval_s = settings.heartbeat_interval_ms / 1_000
    phases = interval_s * settings.affected * settings.partitions / settings.members
    straddled = interval_s * settings.partitions
    machine = HOPS * lateness_s * planned.rebalances * settings.partitions
    most = planned.dark_partition_seconds + phases + straddled + machine
    assert planned.dark_partition_seconds / 4 <= dark_s <= most


QUICK = PlanSettings(
    members=8,
    partitions=16,
    affected=2,
    session_timeout_ms=20_000,
    heartbeat_interval_ms=1_000,
    consumer_heartbeat_interval_ms=1_000,
    restart_ms=1_500,
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("client", "strategy"), [("equipoise", "eager"), ("confluent", "eager")])
def test_eight_members(client: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    restart_one_by_one(client, strategy, QUICK, monkeypatch)


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("strategy", ["eager", "cooperative"])
@pytest.mark.parametrize("client", ["equipoise", "confluent"])
def test_thirty_two_members(client: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    restart_one_by_one(client, strategy, replace(QUICK, members=32, partitions=64, affected=4), monkeypatch)
