"""The processes that members of groups run in, seen from the test."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.interop.drivers.base import PATIENCE_S, MissingClient
from tests.interop.drivers.group_events import Event, Ledger
from tests.interop.drivers.kafkajs import HERE as KAFKAJS

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Membership:
    """What a member is to be. `commit` is `sync`, after each batch, or `auto`, by the client itself.

    The session is longer than any test waits: no member goes by its end, unless a test wants that.
    """

    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignor: str = "range"
    instance_id: str | None = None
    session_ms: int = 120_000
    heartbeat_ms: int = 300
    metadata_age_ms: int = 300_000
    commit: str = "sync"
    commit_ms: int = 100
    poll_ms: int = 300  # of kafka-python; see its member


class Host(ABC):
    """Members of one client. A member's name is its own for as long as the host lives."""

    @abstractmethod
    def join(self, name: str, membership: Membership, ledger: Ledger) -> None: ...

    @abstractmethod
    def close(self, name: str) -> None:
        """The member closes as its client does it; `closed` is told when that is done."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL for all that is in it."""

    @abstractmethod
    def end(self) -> None: ...


class JsonHost(Host):
    """A process that speaks lines of JSON, see `group_child`."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._ledgers: dict[str, Ledger] = {}
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def join(self, name: str, membership: Membership, ledger: Ledger) -> None:
        self._ledgers[name] = ledger
        self.tell("join", name, **asdict(membership))

    def close(self, name: str) -> None:
        self.tell("close", name)

    def tell(self, what: str, name: str, **more: Any) -> None:
        assert self._process.stdin is not None
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
    module = f"tests.interop.drivers.group_{client.replace('-', '_')}"
    return JsonHost([sys.executable, "-m", module, bootstrap_servers], log)


def kafkajs_host(_: str, bootstrap_servers: str, log: Path) -> Host:
    node = shutil.which("node")
    if node is None or not (KAFKAJS / "node_modules" / "kafkajs").is_dir():
        raise MissingClient("kafkajs is not installed: run tools/foreign-clients, which needs Node.js and npm")
    return JsonHost([node, str(KAFKAJS / "group.js"), bootstrap_servers], log)
