"""Brokers for tests: with settings, with a clock that moves only when told, with an authorizer that says no."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from equipoise.broker import Broker, running, server
from equipoise.broker.clock import Ms
from equipoise.broker.net.authorizer import Authorizer
from equipoise.broker.server import Server
from equipoise.coordinator.wall_time import WallTime
from equipoise.log.storage import disk
from tests.broker.rawclient import TIMEOUT, RawClient

Start = Callable[..., Broker]
Connect = Callable[..., RawClient]


class StandingTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class StandingClock:
    """Time that moves only by `advance`, which must run on the broker's loop: `advance(broker, clock, ms)` does."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now
        self._ahead = 0
        self._timers: list[tuple[int, int, StandingTimer]] = []
        self._order = itertools.count()

    def now(self) -> Ms:
        return Ms(self._now)

    def wall_time(self) -> WallTime:
        return WallTime(self._now + self._ahead)

    def set_wall_clock(self, by: int) -> None:
        """As somebody sets the clock of the machine: no deadline comes nearer by it."""
        self._ahead += by

    def call_later(self, delay: int, callback: Callable[[], None]) -> StandingTimer:
        timer = StandingTimer(callback)
        heapq.heappush(self._timers, (self._now + delay, next(self._order), timer))
        return timer

    def pauses(self) -> set[int]:
        """In how many milliseconds timers are due."""
        return {at - self._now for at, _, timer in self._timers if timer.callback is not None}

    def advance(self, by: int) -> None:
        end = self._now + by
        while self._timers and self._timers[0][0] <= end:
            self._now, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
        self._now = end


def advance(broker: Broker, clock: StandingClock, by: int) -> None:
    broker.call(lambda _: clock.advance(by))


def waiting_calls(broker: Broker) -> int:
    """How many connections have a request without an answer."""
    return broker.call(lambda server: sum(connection.is_waiting for connection in server.connections))


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Waits until `condition` holds, and returns what it gave."""
    deadline = time.monotonic() + TIMEOUT
    while not (result := condition()):
        assert time.monotonic() < deadline, f"did not happen in {TIMEOUT} s: {what}"
        time.sleep(0.005)
    return result


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start(settings, data=..., clock=..., authorizer=...)` gives a running broker, stopped when the test ends."""
    running_brokers: list[Broker] = []

    def start_one(
        settings: dict[str, object] | None = None,
        *,
        clock: StandingClock | None = None,
        authorizer: Authorizer | None = None,
        **options: Any,
    ) -> Broker:
        with monkeypatch.context() as patch:
            if clock is not None:
                patch.setattr(running, "LoopClock", lambda _: clock)
            if authorizer is not None:
                patch.setattr(running, "Server", partial(Server, authorizer=authorizer))
            broker = Broker(settings, **options).start()
        running_brokers.append(broker)
        return broker

    yield start_one
    for broker in running_brokers:
        broker.stop()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`connect(broker)` gives a raw client, closed when the test ends."""
    clients: list[RawClient] = []

    def connect_one(broker: Broker, **options: Any) -> RawClient:
        client = RawClient(broker.bootstrap_servers, **options)
        clients.append(client)
        return client

    yield connect_one
    for client in clients:
        client.close()


class Gate:
    """Before fdatasync: closed, nothing becomes durable."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.waiting = threading.Event()
        self._sync = disk.fdatasync

    def close(self) -> None:
        self.waiting.clear()
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def fdatasync(self, descriptor: int) -> None:
        if not self._open.is_set():
            self.waiting.set()
            assert self._open.wait(60)
        self._sync(descriptor)


@pytest.fixture
def synced_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that are started from now on sync as where the kernel cannot do it by itself."""
    monkeypatch.setattr(server, "open_kernel_sync", lambda: None)


@pytest.fixture
def gate(start: Start, monkeypatch: pytest.MonkeyPatch, synced_by_threads: None) -> Iterator[Gate]:
    """It is open again before the brokers of `start` end, which wait for it."""
    gate = Gate()
    monkeypatch.setattr(disk, "fdatasync", gate.fdatasync)
    yield gate
    gate.open()


@pytest.fixture
def client(broker: Broker, connect: Connect) -> RawClient:
    """A connection to the fixture `broker`, which keeps everything in memory."""
    return connect(broker)


@pytest.fixture(autouse=True)
def _no_request_failed(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a client sends, no handler may end in an exception that nobody expected."""
    yield
    failures = [record for record in caplog.get_records("call") if record.exc_info or record.name == "asyncio"]
    assert not failures, caplog.text
