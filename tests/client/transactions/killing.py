"""examples/transactions.py as processes that are killed, and the account of what they have written."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

from equipoise import Consumer, Producer, TopicPartition
from proving.cluster import Cluster
from tests.client.transactions.stage import consumer, new_topic, producer
from tests.client.writing import Reachable

EXAMPLE = Path(__file__).parents[3] / "examples" / "transactions.py"
_PATIENCE_S = 180.0
_PARTITIONS = 4
_ORDERS = 40  # before a kill, and while it happens
QUICK = ["session.timeout.ms=1500", "heartbeat.interval.ms=300"]


class Mortal(Reachable, Protocol):
    """A broker as a process."""

    def kill(self) -> object: ...

    def start(self) -> object: ...


class Copies:
    """Two copies of the program, each under its own name."""

    def __init__(self, broker: Reachable, orders: str, bills: str) -> None:
        self._arguments = [broker.bootstrap_servers, orders, bills, f"{orders}-billing"]
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for name in (f"{orders}-1", f"{orders}-2"):
            self._start(name)

    def _start(self, name: str) -> None:
        self._running[name] = subprocess.Popen([sys.executable, str(EXAMPLE), *self._arguments, name, *QUICK])

    def kill_one(self, chance: random.Random) -> None:
        """With SIGKILL, and starts it again."""
        name = chance.choice(sorted(self._running))
        self._running[name].kill()
        self._running[name].wait()
        self._start(name)

    def restart_ended(self) -> None:
        """As a supervisor does."""
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                self._start(name)

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def abort_what_is_open(self) -> None:
        """The next start of each would do so."""
        for name in self._running:
            with producer(self._arguments[0], name) as successor:
                successor.init_transactions()


def copies_are_killed(broker: Reachable, kills: int, seed: int = 19) -> None:
    """Orders are written all the while. In the end each has one bill, and the group's offsets are behind all orders."""
    _account(broker, kills, lambda copies, chance: copies.kill_one(chance), random.Random(seed))


def the_broker_is_killed(broker: Mortal, kills: int, seed: int = 19) -> None:
    """The same while the broker is killed and comes back: what it has promised stands, and what is open is decided."""

    def kill(copies: Copies, chance: random.Random) -> None:
        broker.kill()
        broker.start()

    _account(broker, kills, kill, random.Random(seed))


def a_cluster_is_killed(cluster: Cluster, kills: int, seed: int = 19) -> None:
    """One broker after another of a cluster whose topics have replicas: the copies go on without it."""

    def kill(copies: Copies, chance: random.Random) -> None:
        cluster.mend()
        cluster.kill(chance.choice(cluster.live_ids))

    def replicated(partitions: int) -> str:
        name = f"orders-{uuid.uuid4()}"
        cluster.create_topic(name, partitions)
        return name

    _account(cluster, kills, kill, random.Random(seed), new=replicated)


def _account(
    broker: Reachable,
    kills: int,
    kill: Callable[[Copies, random.Random], None],
    chance: random.Random,
    *,
    new: Callable[[int], str] | None = None,
) -> None:
    make = new or partial(new_topic, broker)
    orders, bills, written = make(_PARTITIONS), make(2), 0
    with ExitStack() as stack:
        writer = stack.enter_context(Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}))
        reader = Bills(stack.enter_context(consumer(broker, bills)))
        copies = Copies(broker, orders, bills)
        stack.callback(copies.end)
        for _ in range(kills):
            for _ in range(_ORDERS):
                writer.send(orders, f"{written}", partition=written % _PARTITIONS)
                written += 1
            writer.flush()
            reader.until_more(copies)
            for _ in range(_ORDERS):
                writer.send(orders, f"{written}", partition=written % _PARTITIONS)
                written += 1
            time.sleep(chance.uniform(0, 0.1))  # at another moment of its work each time
            kill(copies, chance)
        writer.flush()
        _until_all_is_read(broker, orders, written, copies)
        copies.end()
        copies.abort_what_is_open()
        end = _end_of(broker, bills)
        reader.until(end)
        later = Bills(stack.enter_context(consumer(broker, bills)))  # who comes later reads the same
        later.until(end)
    wanted = Counter(f"bill for {number}".encode() for number in range(written))
    for name, found in (("who comes later", later.found), ("who was there", reader.found)):
        missing, twice = sorted(wanted - found), sorted(found - wanted)
        assert (missing, twice) == ([], []), f"{name} misses {len(missing)} bills, and has {len(twice)} too many"


def _end_of(broker: Reachable, topic: str) -> dict[TopicPartition, int]:
    with consumer(broker, topic, "read_uncommitted") as reader:
        return reader.end_offsets()


class Bills:
    """A reader of committed bills, over all kills."""

    def __init__(self, reader: Consumer) -> None:
        self._reader = reader
        self.found: Counter[bytes] = Counter()

    def _poll(self) -> None:
        self.found.update(one.value or b"" for one in self._reader.poll(0.1))

    def until_more(self, copies: Copies) -> None:
        """Than there were: those that come already are passed over."""
        deadline, before = time.monotonic() + _PATIENCE_S, self.found.total()
        while self.found.total() <= before:
            assert time.monotonic() < deadline, "the copies write no bills"
            self._poll()
            copies.restart_ended()

    def until(self, end: Mapping[TopicPartition, int]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while any(self._reader.position(one) < offset for one, offset in end.items()):
            assert time.monotonic() < deadline, "a transaction is open"
            self._poll()


def _until_all_is_read(broker: Reachable, orders: str, written: int, copies: Copies) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    places = [TopicPartition(orders, number) for number in range(_PARTITIONS)]
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"{orders}-billing"}
    with Consumer(settings) as reader:
        ends = reader.end_offsets(*places)  # asks again while a broker comes back
        assert sum(ends.values()) == written
        while {one: at.offset for one, at in reader.committed(*places).items()} != ends:
            assert time.monotonic() < deadline, "the copies do not read to the end"
            copies.restart_ended()
            time.sleep(0.05)
