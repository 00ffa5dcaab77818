"""A group of played engines and plain consumers, under a flow of records and under attack; every step from one seed.

What is read is counted. A record may be read twice only if it was in the one batch that a query had under way, or had
just finished, when it was killed, put out of the group, or stopped in the middle: `windows`.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from confluent_kafka import Producer

from equipoise.client import Admin, Consumer
from equipoise.member import Callback, CallbackKind
from equipoise.spark.source.source_offset import INITIAL, SourceOffset
from equipoise.wire.errors import EquipoiseError
from tests.client.writing import Reachable
from tests.spark.engine import Engine, Range, until

Record = tuple[int, int]  # partition and offset
SESSION_MS = 800
TIMES = {
    "kafka__session__timeout__ms": str(SESSION_MS),
    "kafka__heartbeat__interval__ms": "100",
    "kafka__max__poll__interval__ms": "3000",
    "kafka__metadata__max__age__ms": "300",
}


class Query:
    """One checkpoint, and the engine that runs on it, if any. Its sink keeps each batch once, by its number."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.engine: Engine | None = None
        self.sink: dict[int, list[Range]] = {}
        self._world = world
        self._before: Engine | None = None
        self._planning: Future[bool] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._is_told = True  # the source knows that the last batch is finished
        self._last_planned = -1

    def start(self) -> None:
        options = {"group__id": "g", "startingOffsets": "earliest", **TIMES}
        if self._world.random.random() < 0.3:
            options["maxOffsetsPerTrigger"] = "7"
        self.engine = Engine(self._world.broker.bootstrap_servers, self._before, **options)
        self._pool = ThreadPoolExecutor(1)
        self._is_told = True
        self._watch(self.engine)
        if self.is_under_way:
            self.run()

    def _watch(self, engine: Engine) -> None:
        parts, group = engine.planner.partitions, engine.group
        follow, poll_ends = group._follow, parts.poll_ends

        def goes(busy: Any) -> None:
            if busy:
                self._last_planned = engine.planner._start.batch + 1
            poll_ends(busy)

        def followed(callback: Callback) -> None:
            if callback.kind is CallbackKind.LOST:
                gone = {one.partition for one in callback.partitions}
                self._world.note(f"{self.name} loses {sorted(gone)}, with batch {self._last_planned}")
                self._world.late_windows.append((self, self._last_planned, gone))
            follow(callback)

        parts.poll_ends, group._follow = goes, followed  # type: ignore[method-assign]

    # -- what the engine does

    @property
    def is_under_way(self) -> bool:
        return self.engine is not None and self.engine.commits < len(self.engine.log)

    def go_on(self) -> str:
        if self._planning is not None:
            if not self._planning.done():
                time.sleep(0.005)
                return "waits"
            found, self._planning = self._planning.result(), None
            self._is_told = True
            return f"plans batch {len(self._engine.log) - 1}" if found else "has nothing to read"
        if self.is_under_way:
            return f"reads {self.run()}"
        assert self._pool is not None
        self._planning = self._pool.submit(self._engine.plan)
        return "begins to plan"

    @property
    def _parts(self) -> Any:
        return self._engine.planner.partitions

    @property
    def _engine(self) -> Engine:
        assert self.engine is not None
        return self.engine

    def run(self) -> list[Range]:
        number = self._engine.commits
        ranges = self._engine.run()
        assert self.sink.setdefault(number, ranges) == ranges, "a batch read again is not the same"
        self._is_told = False
        return ranges

    def settle(self) -> None:
        """Until no plan is being made."""
        if self._planning is not None:
            try:
                self._planning.result()
                self._is_told = True
            except CancelledError:
                pass
            self._planning = None

    # -- its ends

    def stop(self) -> None:
        self.settle()
        self._open_window(is_known=self._is_told)
        self._engine.stop()
        self._gone()

    def kill(self) -> None:
        is_committed = not self._parts._commits.under_way
        self._engine.kill(self._planning)
        self.settle()
        self._open_window(is_known=self._is_told and is_committed)
        self._gone()

    def _open_window(self, *, is_known: bool) -> None:
        """For the last batch, unless it is finished, and known to the group."""
        if self.is_under_way or not is_known:
            self._world.windows.update(records(self.batch(len(self._engine.log) - 1)))

    def batch(self, number: int) -> list[Range]:
        log = self._engine.log if self.engine is not None else self._before.log if self._before is not None else []
        if not 0 <= number < len(log):
            return []
        before = SourceOffset.parse(json.loads(log[number - 1])) if number else INITIAL
        found = SourceOffset.parse(json.loads(log[number])).ranges(before)
        return [(*one, *bounds) for one, bounds in found.items()]

    def _gone(self) -> None:
        assert self._pool is not None
        self._pool.shutdown()
        self._before, self.engine = self.engine, None


class Plain:
    """A consumer of its own thread, which commits what it has read before it polls again."""

    def __init__(self, world: World) -> None:
        self.read: list[Record] = []
        self._world = world
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        settings = {name.replace("kafka__", "").replace("__", "_"): int(value) for name, value in TIMES.items()}
        with Consumer(
            bootstrap_servers=self._world.broker.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy="cooperative-sticky",
            **settings,
        ) as consumer:
            consumer.subscribe("t")
            while not self._is_ending.is_set():
                found = [(one.partition, one.offset) for one in consumer.poll(0.05)]
                self.read += found
                try:
                    consumer.commit()
                except EquipoiseError as error:
                    self._world.note(f"a plain consumer: {error}")
                    self._world.windows.update(found)

    def close(self) -> None:
        self._is_ending.set()
        self._thread.join()


class World:
    def __init__(self, broker: Reachable, seed: int, partitions: int = 5) -> None:
        self.broker = broker
        self.random = random.Random(seed)
        self.windows: Counter[Record] = Counter()
        self.late_windows: list[tuple[Query, int, set[int]]] = []
        self.journal: list[str] = []
        self._began = time.monotonic()
        self._partitions = partitions
        self._written: Counter[int] = Counter()
        self._queries: list[Query] = []
        self._plains: list[Plain] = []
        self._gone: list[Plain] = []
        self._producer = self._new_producer()
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", partitions)
        self._await_leaders()

    def _await_leaders(self) -> None:
        def leaders() -> list[int]:
            found = self._producer.list_topics("t", 10).topics["t"].partitions
            return [one.leader for one in found.values() if one.leader >= 0]

        until("every partition has a leader", lambda: len(leaders()) == self._partitions)

    def _new_producer(self) -> Producer:
        return Producer({"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": 0, "log_level": 0})

    def note(self, what: str) -> None:
        self.journal.append(f"{time.monotonic() - self._began:7.3f} {what}")

    # -- steps

    def step(self) -> None:
        choices: dict[Callable[[], str | None], int] = {
            self._go_on: 60,
            self._write: 15,
            self._rest: 10,
            self._join: 4,
            self._restart: 4,
            self._stop: 3,
            self._kill: 3,
            self._pause: 1,
            self._plain_joins: 1,
            self._plain_leaves: 1,
            self._grow: 1,
        }
        (step,) = self.random.choices(list(choices), list(choices.values()))
        told = step()
        if told:
            self.note(told)

    @property
    def _alive(self) -> list[Query]:
        return [query for query in self._queries if query.engine is not None]

    def _go_on(self) -> str | None:
        if not self._alive:
            return self._join()
        query = self.random.choice(self._alive)
        return f"{query.name} {query.go_on()}"

    def _write(self) -> str:
        for _ in range(self.random.randrange(1, 30)):
            partition = self.random.randrange(self._partitions)
            self._producer.produce("t", b"", partition=partition)
            self._written[partition] += 1
        assert self._producer.flush(30) == 0
        return f"written: {sorted(self._written.items())}"

    def _rest(self) -> None:
        time.sleep(self.random.random() / 10)

    def _join(self) -> str | None:
        if len(self._alive) >= 3:
            return None
        query = Query(self, f"query {len(self._queries)}")
        self._queries.append(query)
        query.start()
        return f"{query.name} begins"

    def _restart(self) -> str | None:
        dead = [query for query in self._queries if query.engine is None]
        if not dead or len(self._alive) >= 3:
            return None
        query = self.random.choice(dead)
        query.start()
        return f"{query.name} begins again"

    def _stop(self) -> str | None:
        return self._end(Query.stop, "has stopped")

    def _kill(self) -> str | None:
        return self._end(Query.kill, "is killed")

    def _end(self, how: Callable[[Query], None], told: str) -> str | None:
        if not self._alive:
            return None
        query = self.random.choice(self._alive)
        how(query)
        return f"{query.name} {told}"

    def _pause(self) -> str | None:
        if not self._alive:
            return None
        query = self.random.choice(self._alive)
        assert query.engine is not None
        query.engine.pause(SESSION_MS / 1000 * 1.5)
        return f"{query.name} stands still"

    def _plain_joins(self) -> str | None:
        if len(self._plains) >= 2:
            return None
        self._plains.append(Plain(self))
        return "a plain consumer begins"

    def _plain_leaves(self) -> str | None:
        if not self._plains:
            return None
        plain = self._plains.pop(self.random.randrange(len(self._plains)))
        plain.close()
        self._gone.append(plain)
        return "a plain consumer has left"

    def _grow(self) -> str | None:
        if self._partitions >= 8:
            return None
        self._partitions += 1
        with Admin(self.broker.bootstrap_servers) as admin:
            admin.add_partitions("t", self._partitions)
        self._producer = self._new_producer()  # the old one has not heard of it
        self._await_leaders()
        return f"{self._partitions} partitions"

    # -- the end

    def finish(self) -> None:
        """Whoever is left reads the rest; then all is counted."""
        if not self._alive:
            self._join()
        wanted = {(partition, at) for partition, end in self._written.items() for at in range(end)}
        until("all is read", lambda: wanted <= self.seen().keys(), lambda: [one.go_on() for one in self._alive])
        for query in self._alive:
            query.stop()
        for query, number, gone in self.late_windows:
            self.windows.update(one for one in records(query.batch(number)) if one[0] in gone)
        too_often = {one: n for one, n in self.seen().items() if n > 1 + self.windows[one]}
        assert not too_often, f"read more often than allowed, though in no window: {too_often}"
        assert self.seen().keys() == wanted

    def seen(self) -> Counter[Record]:
        seen: Counter[Record] = Counter()
        for query in self._queries:
            for ranges in query.sink.values():
                seen.update(records(ranges))
        for plain in self._plains + self._gone:
            seen.update(plain.read)
        return seen

    def close(self) -> None:
        for query in self._alive:
            query.kill()
        for plain in self._plains:
            plain.close()


def records(ranges: Iterable[Range]) -> list[Record]:
    return [(partition, at) for _, partition, begin, end in ranges for at in range(begin, end)]


SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}


def hunt(seed: int, steps: int, broker: Reachable) -> World:
    """On a broker with `SETTINGS` that has nothing yet."""
    world = World(broker, seed)
    try:
        for _ in range(steps):
            world.step()
        world.finish()
    except BaseException:
        print(f"seed {seed}, {steps} steps:", *world.journal, sep="\n")
        raise
    finally:
        world.close()
    return world
