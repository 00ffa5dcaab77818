"""All scenarios with all clients on several brokers: played some at a time, for they wait much and work little."""

from __future__ import annotations

import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.wire.errors import EquipoiseError
from proving.brokers import BrokerProcess
from proving.fetched import Unavailable
from proving.members.fleet import Fleet, Members
from proving.scenarios.clients import ALL_CLIENTS
from proving.scenarios.consumer_plays import ALL_SCENARIOS, scenarios_of
from proving.scenarios.stage import Client, Stage, new_topic

AT_A_TIME = 10
# Of kafka-python: a join that ends between two polls is thrown away, and a static member that joins once more may cause
# a rebalance. So its polls are longer than a join takes on a busy machine.
_POLL_MS = 3_000
_LAST = "broker killed"  # of all clients at the same time, for there is one broker of each kind


@dataclass
class Outcome:
    """Of one scenario with one client on one broker. `lacks`: why it was not played. `failure`: why it went wrong."""

    client: str
    scenario: str
    broker: str
    notes: dict[str, Any] = field(default_factory=dict)
    lacks: str = ""
    failure: str = ""
    seconds: float = 0.0


class Restart:
    """A broker is killed and started again once all who wait for that are there."""

    def __init__(self, broker: BrokerProcess, parties: int) -> None:
        self._broker = broker
        self._changed = threading.Condition()
        self._waiting = 0
        self._parties = parties
        self._is_done = False

    def wait(self) -> None:
        with self._changed:
            self._waiting += 1
            self._go_on()
            self._changed.wait_for(lambda: self._is_done)

    def give_up(self) -> None:
        """One who was to wait never will."""
        with self._changed:
            self._parties -= 1
            self._go_on()

    def _go_on(self) -> None:
        if not self._is_done and self._waiting == self._parties:
            try:
                self._broker.kill()
                self._broker.start()
            finally:
                self._is_done = True
                self._changed.notify_all()


class Theatre:
    """A broker that runs, and the members' processes on it."""

    def __init__(self, broker: BrokerProcess, fleet: Fleet) -> None:
        self.broker = broker
        self.fleet = fleet

    def play(self, client: Client, scenario: str, restart: Restart | None = None) -> Outcome:
        outcome = Outcome(client.name, scenario, self.broker.name, lacks=client.lacks.get(scenario, ""))
        began = time.monotonic()
        if not outcome.lacks:
            self._play(client, outcome, restart)
        outcome.seconds = time.monotonic() - began
        return outcome

    def _play(self, client: Client, outcome: Outcome, restart: Restart | None) -> None:
        waits = threading.Event()

        def restart_broker() -> None:
            assert restart is not None
            waits.set()
            restart.wait()

        try:
            stage = self._stage(client, restart_broker)
            with stage.members:
                ALL_SCENARIOS[outcome.scenario](stage)
            outcome.notes = stage.notes
        except Unavailable as missing:
            outcome.lacks = str(missing)
        except (EquipoiseError, OSError, AssertionError) as error:
            outcome.failure = f"{error}\n{_where(error)}"
        finally:
            if restart is not None and not waits.is_set():
                restart.give_up()

    def _stage(self, client: Client, restart_broker: Callable[[], None]) -> Stage:
        topic = new_topic()
        settings = {"group": f"group-of-{topic}", "assignor": client.assignor, "poll_ms": _POLL_MS}
        members = Members.of(self.fleet, topic, **settings)
        stage = Stage(client, self.fleet, members, topic, restart_broker)
        stage.create_topic(topic)
        return stage


def _where(error: BaseException) -> str:
    """The line of the play."""
    lines = traceback.extract_tb(error.__traceback__)
    return next((f"in {line.name}: {line.line}" for line in lines if line.filename.endswith("plays.py")), "")


def play_all(
    brokers: Iterable[BrokerProcess],
    clients: Sequence[str] = tuple(ALL_CLIENTS),
    scenarios: Sequence[str] = tuple(ALL_SCENARIOS),
    told: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """`brokers` are started here. `told` hears of each outcome as it comes. Each client plays the scenarios that are
    its own."""
    with ExitStack() as running:
        log = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="equipoise-scenarios-")), "log")
        with ThreadPoolExecutor() as starting:
            started = list(starting.map(running.enter_context, brokers))
        theatres = [Theatre(broker, running.enter_context(Fleet(broker.bootstrap_servers, log))) for broker in started]
        outcomes = _play_most(theatres, clients, [name for name in scenarios if name != _LAST], told)
        if _LAST in scenarios:
            outcomes += _play_last(theatres, clients, told)
    return outcomes


def _play_most(
    theatres: Sequence[Theatre], clients: Sequence[str], scenarios: Sequence[str], told: Callable[[Outcome], None]
) -> list[Outcome]:
    def play(theatre: Theatre, client: str, scenario: str) -> Outcome:
        outcome = theatre.play(ALL_CLIENTS[client], scenario)
        told(outcome)
        return outcome

    with ThreadPoolExecutor(AT_A_TIME) as threads:
        begun = [
            threads.submit(play, theatre, client, scenario)
            for scenario in scenarios
            for client in clients
            for theatre in theatres
            if scenario in scenarios_of(client)
        ]
        return [future.result() for future in begun]


def _play_last(theatres: Sequence[Theatre], clients: Sequence[str], told: Callable[[Outcome], None]) -> list[Outcome]:
    """Each broker in its turn, so that only one is busy starting."""
    outcomes: list[Outcome] = []
    for theatre in theatres:
        restart = Restart(theatre.broker, sum(_LAST not in ALL_CLIENTS[client].lacks for client in clients))
        with ThreadPoolExecutor(len(clients)) as threads:
            begun = [threads.submit(theatre.play, ALL_CLIENTS[client], _LAST, restart) for client in clients]
            for future in begun:
                outcomes.append(future.result())
                told(outcomes[-1])
    return outcomes


def differences(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], str]:
    """By client and scenario, what is noted otherwise on one broker than on the first."""
    found: dict[tuple[str, str], str] = {}
    first: dict[tuple[str, str], Outcome] = {}
    for outcome in outcomes:
        key = outcome.client, outcome.scenario
        other = first.setdefault(key, outcome)
        if not other.failure and not outcome.failure and (told := _difference(other, outcome)):
            found[key] = told
    return found


def _difference(one: Outcome, other: Outcome) -> str:
    return "; ".join(
        f"{what}: {one.notes.get(what)} on {one.broker}, {other.notes.get(what)} on {other.broker}"
        for what in one.notes | other.notes
        if one.notes.get(what) != other.notes.get(what)
    )
