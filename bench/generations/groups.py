"""A group under one of four protocols, for `bench generations`: its members come, go and are killed alike.

python -m bench.generations.groups KIND BROKERS ZOOKEEPER runs one member, to be killed.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Protocol, Self

from equipoise.client import Consumer, RebalanceListener, TopicPartition
from equipoise.zookeeper import ConsumerRebalanceListener, ZooKeeperConsumer
from equipoise.zookeeper.protocol.assignment import consumer_of
from proving.members.events import Event, Ledger
from proving.tree import python_module, with_tree

GROUP_REQUESTS = frozenset({8, 9, 10, 11, 12, 13, 14})  # commits, coordinator, join, heartbeat, leave, sync
_LONG_MS, _VICTIM_MS = 60_000, 6_000
_TOPIC, _GROUP = "topic", "group"

Note = Callable[[Event], None]


_TITLES = {
    "zk_faithful": "ZooKeeper, as it was",
    "zk_safe": "ZooKeeper, safe",
    "eager": "coordinator, eager",
    "cooperative": "coordinator, cooperative",
}


class Kind(Enum):
    ZK_FAITHFUL = "zk_faithful"
    ZK_SAFE = "zk_safe"
    EAGER = "eager"
    COOPERATIVE = "cooperative"

    @property
    def is_zookeeper(self) -> bool:
        return self in (Kind.ZK_FAITHFUL, Kind.ZK_SAFE)

    @property
    def title(self) -> str:
        return _TITLES[self.value]


class Member(Protocol):
    def close(self) -> None: ...


class _ZkMember(ConsumerRebalanceListener):
    def __init__(self, name: str, kind: Kind, hosts: str, session_ms: int, note: Note) -> None:
        self._name, self._note = name, note
        settings = {
            "zookeeper.connect": hosts,
            "group.id": _GROUP,
            "mode": "safe" if kind is Kind.ZK_SAFE else "faithful",
            "zookeeper.session.timeout.ms": session_ms,
            "rebalance.max.retries": 4 if kind is Kind.ZK_SAFE else 20,
        }
        self._consumer = ZooKeeperConsumer(settings, listener=self)
        self._consumer.create_message_streams({_TOPIC: 1})

    def before_releasing_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        self._note(Event(time.monotonic(), self._name, "revoked", frozenset(partitions)))

    def before_starting_fetchers(self, consumer_id: str, decision: Mapping[TopicPartition, str]) -> None:
        mine = frozenset(one for one, thread in decision.items() if consumer_of(thread) == consumer_id)
        self._note(Event(time.monotonic(), self._name, "assigned", mine, whole=True))

    def close(self) -> None:
        self._note(Event(time.monotonic(), self._name, "stopped"))
        self._consumer.close()


class _CoordinatorMember(RebalanceListener):
    def __init__(self, name: str, kind: Kind, servers: str, session_ms: int, note: Note) -> None:
        self._name, self._note = name, note
        strategy = "cooperative-sticky" if kind is Kind.COOPERATIVE else "range"
        settings: dict[str, object] = {"bootstrap.servers": servers, "group.id": _GROUP}
        settings |= {"partition.assignment.strategy": strategy, "session.timeout.ms": session_ms}
        self._consumer = Consumer({**settings, "heartbeat.interval.ms": min(3_000, session_ms // 3)})
        self._consumer.subscribe([_TOPIC], self)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_closing:
            self._consumer.poll(0.1)

    def on_assigned(self, _consumer: object, added: Iterable[TopicPartition]) -> None:
        self._note(Event(time.monotonic(), self._name, "assigned", frozenset(added)))

    def on_revoked(self, _consumer: object, removed: Iterable[TopicPartition]) -> None:
        self._note(Event(time.monotonic(), self._name, "revoked", frozenset(removed)))

    def on_lost(self, _consumer: object, lost: Iterable[TopicPartition]) -> None:
        self._note(Event(time.monotonic(), self._name, "lost", frozenset(lost)))

    def close(self) -> None:
        self._is_closing = True
        self._thread.join()
        self._consumer.close()
        self._note(Event(time.monotonic(), self._name, "stopped"))


def _new_member(name: str, kind: Kind, servers: str, hosts: str, session_ms: int, note: Note) -> Member:
    if kind.is_zookeeper:
        return _ZkMember(name, kind, hosts, session_ms, note)
    return _CoordinatorMember(name, kind, servers, session_ms, note)


class Group:
    """`count`: the requests so far."""

    def __init__(
        self, kind: Kind, servers: str, hosts: str, partitions: int, count: Callable[[], int], log: Path
    ) -> None:
        self._kind, self._servers, self._hosts = kind, servers, hosts
        self._places = [(_TOPIC, number) for number in range(partitions)]
        self._log = log
        self.requests = count
        self.ledger = Ledger()
        self._members: dict[str, Member] = {}
        self._numbers = itertools.count()
        self._victim: subprocess.Popen[str] | None = None

    # -- coming and going

    def add(self, count: int) -> None:
        """All at the same time."""
        names = [f"member {next(self._numbers)}" for _ in range(count)]
        with ThreadPoolExecutor(count) as threads:
            self._members |= dict(zip(names, threads.map(self._new, names), strict=True))
        self.wait_settled()

    def _new(self, name: str) -> Member:
        return _new_member(name, self._kind, self._servers, self._hosts, _LONG_MS, self.ledger.note)

    def join(self) -> None:
        name = f"member {next(self._numbers)}"
        self._members[name] = self._new(name)

    def leave(self) -> None:
        """The oldest."""
        self._members.pop(next(iter(self._members))).close()

    def add_victim(self) -> None:
        command = python_module(__name__, self._kind.value, self._servers, self._hosts)
        with self._log.open("ab") as log:
            environment = {**os.environ, **with_tree()}
            self._victim = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        threading.Thread(target=self._hear, args=(self._victim,), daemon=True).start()
        self.ledger.wait_until("the victim owns something", lambda: bool(self.ledger.owned("victim")))
        self.wait_settled()

    def _hear(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            at, kind, places, whole = json.loads(line)
            owned = frozenset((topic, number) for topic, number in places)
            self.ledger.note(Event(at, "victim", kind, owned, whole=whole))

    def crash(self) -> None:
        process, self._victim = self._victim, None
        assert process is not None
        with process:
            process.kill()
        self.ledger.note(Event(time.monotonic(), "victim", "killed"))

    # -- waiting

    def wait_settled(self) -> None:
        """Each partition has one owner, and nobody has two more than another."""

        def is_settled() -> bool:
            names = [*self._members] + (["victim"] if self._victim is not None else [])
            owned = [self.ledger.owned(name) for name in names]
            sizes = [len(mine) for mine in owned]
            every = sorted(place for mine in owned for place in mine)
            return max(sizes) - min(sizes) <= 1 and every == self._places

        self.ledger.wait_until(f"{len(self._members)} members share {len(self._places)} partitions", is_settled)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._victim is not None:
            self.crash()
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda member: member.close(), self._members.values()))


def main() -> None:
    """The victim: tells what it owns, and waits for its end."""
    kind, servers, hosts = sys.argv[1:]

    def tell(event: Event) -> None:
        print(json.dumps([event.at, event.kind, sorted(event.places), event.whole]), flush=True)

    _member = _new_member("victim", Kind(kind), servers, hosts, _VICTIM_MS, tell)
    threading.Event().wait()


if __name__ == "__main__":
    main()
