"""Group members of kcat: a process each, which writes its records to stdout and its rebalances to stderr."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from equipoise.process_guard import GuardedProcess
from proving.fetched import find_tool
from proving.members.child import given
from proving.members.events import PATIENCE_S, Event, Ledger, Place
from proving.members.hosts import Host, Membership
from proving.members.security import Security, librdkafka_settings

# "% Group G rebalanced (memberid M): revoked: T [0], T [1]", or with a cooperative assignor
# "% Group G rebalanced: incremental revoke of 2 partition(s) (memberid M, COOPERATIVE ...): T [0], T [1]"
_REBALANCED = re.compile(r"% Group \S+ rebalanced.*?(assigned|revoked|assignment|revoke)(?:: | of .*?\): )(.*)")
_PLACE = re.compile(r"(\S+) \[(\d+)\]")
_LOOK_S = 0.02


class KcatHost(Host):
    def __init__(self, _: str, bootstrap_servers: str, log: Path) -> None:
        path = find_tool("kcat", "run tools/foreign-clients as root, or install the package kcat")
        self._path = path
        self._bootstrap_servers = bootstrap_servers
        self._log = log
        self._files = tempfile.TemporaryDirectory(prefix="equipoise-kcat-")
        self._members: dict[str, _Kcat] = {}

    def join(self, name: str, membership: Membership, ledger: Ledger) -> None:
        self._members[name] = _Kcat(self._command(membership) + _arguments(membership), name, ledger, self._log)

    def produce(self, name: str, membership: Membership, places: Sequence[Place], count: int, ledger: Ledger) -> None:
        lines = "".join(f"{number}\n" for number in range(count))
        for topic, partition in places:
            to = ["-P", "-t", topic, "-p", str(partition)]
            ended = subprocess.run(
                self._command(membership) + to, input=lines, capture_output=True, text=True, check=False
            )
            if ended.returncode:
                ledger.note(Event(time.monotonic(), name, "error", error=ended.stderr))
        ledger.note(Event(time.monotonic(), name, "closed"))

    def _command(self, membership: Membership) -> list[str]:
        """Secrets stand in a file: the list of processes would show them."""
        security = membership.security
        if security is None:
            return [self._path, "-b", self._bootstrap_servers]
        with tempfile.NamedTemporaryFile("w", dir=self._files.name, delete=False) as file:
            file.writelines(f"{name}={value}\n" for name, value in _secured(security).items())
        return [self._path, "-F", file.name]

    def close(self, name: str) -> None:
        self._members[name].process.terminate()

    def kill(self) -> None:
        for member in self._members.values():
            member.kill()
        self.end()

    def end(self) -> None:
        for member in self._members.values():
            member.end()
        self._members.clear()
        self._files.cleanup()


def _secured(security: Security) -> dict[str, str]:
    """It has no callback for a token: librdkafka makes an unsecured one itself."""
    settings = librdkafka_settings(security)
    if security.mechanism == "OAUTHBEARER":
        settings |= {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={security.user}",
        }
    return settings


def _arguments(membership: Membership) -> list[str]:
    """kcat leaves the commits to librdkafka, every 5 s and when it closes: an interval given to it has no effect."""
    settings = {
        "group.instance.id": membership.instance_id,
        "partition.assignment.strategy": membership.assignor,
        "session.timeout.ms": membership.session_ms,
        "heartbeat.interval.ms": membership.heartbeat_ms,
        "max.poll.interval.ms": membership.max_poll_ms,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": membership.metadata_age_ms,
        "fetch.wait.max.ms": membership.fetch_wait_ms,
        "reconnect.backoff.max.ms": 200,
    }
    topics = membership.topics if membership.pattern is None else (f"^{membership.pattern}",)
    options = [word for name, value in given(settings).items() for word in ("-X", f"{name}={value}")]
    return ["-G", membership.group, "-E", "-u", "-f", "%t %p %o\n", *options, *topics]


class _Kcat:
    """One kcat. It stamps nothing itself: what it writes was written after the last look that found nothing, so what
    it lets go of counts from then, and what it takes from the time that is read."""

    def __init__(self, command: list[str], name: str, ledger: Ledger, log: Path) -> None:
        self._name = name
        self._ledger = ledger
        self._log = log
        self._killed = False
        self._rest = {"out": b"", "err": b""}
        self._begun_at = 0.0  # the line that is not yet complete on stderr: kcat ends it late
        self._nothing_at = time.monotonic()
        self.process: GuardedProcess[bytes] = GuardedProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def kill(self) -> None:
        self._killed = True
        self._ledger.note(Event(time.monotonic(), self._name, "killed"))
        self.process.kill()

    def end(self) -> None:
        with self.process as process:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            finally:
                self._reader.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with selectors.DefaultSelector() as pipes:
            pipes.register(self.process.stdout, selectors.EVENT_READ, "out")
            pipes.register(self.process.stderr, selectors.EVENT_READ, "err")
            while pipes.get_map():
                now = time.monotonic()
                ready = pipes.select(_LOOK_S)
                if not ready:
                    self._nothing_at = now
                for key, _ in ready:
                    data = os.read(key.fd, 65536)
                    self._take(key.data, data)
                    if not data:
                        pipes.unregister(key.fileobj)
        self._ended(self.process.wait())

    def _ended(self, status: int) -> None:
        if self._killed:
            return
        if status:
            self._ledger.note(Event(time.monotonic(), self._name, "error", error=f"kcat ended with status {status}"))
        self._ledger.note(Event(time.monotonic(), self._name, "closed"))

    def _take(self, pipe: str, data: bytes) -> None:
        if pipe == "err" and not self._rest[pipe]:
            self._begun_at = self._nothing_at
        *lines, rest = (self._rest[pipe] + data).split(b"\n")
        if not data:
            lines, rest = [rest], b""  # the last word may lack its end of line
        self._rest[pipe] = rest
        for line in lines:
            if pipe == "out":
                self._take_record(line.decode())
            else:
                self._take_word(line.decode())
                self._begun_at = self._nothing_at

    def _take_record(self, line: str) -> None:
        if line:
            topic, partition, offset = line.split()
            row = topic, int(partition), int(offset)
            self._ledger.note(Event(time.monotonic(), self._name, "records", rows=(row,)))

    def _take_word(self, line: str) -> None:
        with self._log.open("a") as log:
            log.write(f"{self._name}: {line}\n")
        found = _REBALANCED.search(line)
        if found is None:
            if "ERROR" in line:
                self._ledger.note(Event(time.monotonic(), self._name, "trouble", error=line))
            return
        places: frozenset[Place] = frozenset((topic, int(number)) for topic, number in _PLACE.findall(found[2]))
        if found[1].startswith("assign"):
            self._ledger.note(Event(time.monotonic(), self._name, "assigned", places))
        else:
            self._ledger.note(Event(self._begun_at, self._name, "revoked", places))
