"""Transactional producers of Java and of franz-go: a process for each client has all of them."""

from __future__ import annotations

import subprocess
from abc import abstractmethod
from functools import cache
from pathlib import Path

from equipoise.process_guard import GuardedProcess
from proving.brokers import QUICK_JVM, class_data
from proving.fetched import compiled, jars, java
from proving.members.foreign import go_programs
from tests.interop.transacting import Transactor

_JAVA = Path(__file__).parents[2] / "proving" / "java" / "Transact.java"


class RefusedError(Exception):
    """What the client has raised."""


class Child:
    """The process: a line for a request, and a line for its answer."""

    def __init__(self, command: list[str]) -> None:
        self._process: subprocess.Popen[str] = GuardedProcess(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, *words: object) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        said, *answer = self._process.stdout.readline().split()
        if said == "error":
            raise RefusedError(" ".join(answer))
        assert said == "ok"
        return answer


class ChildTransactor(Transactor):
    """One producer of the child."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        (self._number,) = self.child().ask("open", address, transactional_id, timeout_ms)

    @classmethod
    @abstractmethod
    def command(cls) -> list[str]:
        """That runs the child. Unavailable: the client cannot be had."""

    @classmethod
    @cache
    def child(cls) -> Child:
        return Child(cls.command())

    def begin(self) -> None:
        self.child().ask("begin", self._number)

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self.child().ask("send", self._number, topic, partition, value.decode())

    def commit(self) -> None:
        self.child().ask("commit", self._number)

    def abort(self) -> None:
        self.child().ask("abort", self._number)

    def close(self) -> None:
        self.child().ask("close", self._number)

    @classmethod
    def read(cls, address: str, topic: str, partition: int, isolation: str) -> list[bytes]:
        return [value.encode() for value in cls.child().ask("read", address, topic, partition, isolation)]


class JavaTransactor(ChildTransactor):
    name = "java"

    @classmethod
    def command(cls) -> list[str]:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
        path = f"{jars('kafka')}/*:{compiled(_JAVA)}"
        return [java(), *QUICK_JVM, *class_data(), quiet, "-cp", path, _JAVA.stem]


class FranzGoTransactor(ChildTransactor):
    name = "franz-go"

    @classmethod
    def command(cls) -> list[str]:
        return [str(go_programs() / "transact")]


CHILDREN: list[type[ChildTransactor]] = [JavaTransactor, FranzGoTransactor]
