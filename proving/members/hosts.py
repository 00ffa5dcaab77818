"""The processes that members of groups run in, seen from outside."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from equipoise.process_guard import GuardedProcess
from proving.members.events import PATIENCE_S, Event, Ledger, Place
from proving.members.security import Security
from proving.tree import python_module, with_tree

CONSUMER = "consumer"  # in the place of an assignor: the broker assigns (KIP-848)


@dataclass(frozen=True)
class Membership:
    """What a member is to be. `commit` is `sync`, after each batch, or `auto`, by the client itself.

    The session is longer than anyone waits: no member goes by its end, unless that is wanted. None leaves a setting to
    the client's own default.
    """

    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignor: str = "range"  # or several with commas, as in Kafka's own setting; CONSUMER for group.protocol=consumer
    instance_id: str | None = None
    session_ms: int | None = 120_000
    heartbeat_ms: int | None = 300
    max_poll_ms: int | None = 120_000  # not below the session, or librdkafka refuses it
    metadata_age_ms: int | None = 300_000
    fetch_wait_ms: int | None = 250
    commit: str = "sync"
    commit_ms: int | None = 100
    poll_ms: int = 300  # of kafka-python; see its member
    security: Security | None = None  # None: the host's own listener, in plain text

    @classmethod
    def stock(cls, group: str, topics: tuple[str, ...], assignor: str = "range") -> Self:
        """As a client is that nobody has configured."""
        return cls(
            group,
            topics,
            assignor=assignor,
            session_ms=None,
            heartbeat_ms=None,
            max_poll_ms=None,
            metadata_age_ms=None,
            fetch_wait_ms=None,
            commit="auto",
            commit_ms=None,
        )


class Host(ABC):
    """Members of one client. A member's name is its own for as long as the host lives."""

    @abstractmethod
    def join(self, name: str, membership: Membership, ledger: Ledger) -> None: ...

    @abstractmethod
    def produce(self, name: str, membership: Membership, places: Sequence[Place], count: int, ledger: Ledger) -> None:
        """The client's producer writes `count` records to each partition; `closed` is told when all are written."""

    @abstractmethod
    def close(self, name: str) -> None:
        """The member closes as its client does it; `closed` is told when that is done."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL for all that is in it."""

    @abstractmethod
    def end(self) -> None: ...


class JsonHost(Host):
    """A process that speaks lines of JSON, see `child`."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._ledgers: dict[str, Ledger] = {}
        self._telling = threading.Lock()
        with log.open("ab") as stderr:
            self._process: GuardedProcess[bytes] = GuardedProcess(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **(environment or {})},
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def join(self, name: str, membership: Membership, ledger: Ledger) -> None:
        self._ledgers[name] = ledger
        self.tell("join", name, **asdict(membership))

    def commit_alone(self, name: str, membership: Membership, place: Place, offset: int, ledger: Ledger) -> None:
        self._ledgers[name] = ledger
        self.tell("commit alone", name, place=place, offset=offset, **asdict(membership))

    def produce(self, name: str, membership: Membership, places: Sequence[Place], count: int, ledger: Ledger) -> None:
        self._ledgers[name] = ledger
        self.tell("produce", name, places=places, count=count, **asdict(membership))

    def close(self, name: str) -> None:
        self.tell("close", name)

    def tell(self, what: str, name: str, **more: Any) -> None:
        assert self._process.stdin is not None
        with self._telling:
            self._process.stdin.write(json.dumps({"do": what, "member": name, **more}).encode() + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = _event(json.loads(line))
            self._ledgers[event.member].note(event)

    def kill(self) -> None:
        for name, ledger in self._ledgers.items():
            ledger.note(Event(time.monotonic(), name, "killed"))
        self._process.kill()
        self.end()

    def wait(self) -> int:
        """Its status, when it has ended."""
        self.end()
        return self._process.returncode

    def end(self) -> None:
        """The process ends when its input does."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            self._reader.join()


def _event(told: dict[str, Any]) -> Event:
    places = frozenset((topic, partition) for topic, partition in told.pop("places", ()))
    rows = tuple((topic, partition, offset) for topic, partition, offset in told.pop("rows", ()))
    return Event(places=places, rows=rows, **told)


def python_host(client: str, bootstrap_servers: str, log: Path) -> Host:
    module = f"proving.members.{client.replace('-', '_')}_member"
    return JsonHost(python_module(module, bootstrap_servers), log, with_tree())
