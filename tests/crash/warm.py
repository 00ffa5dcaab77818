"""Brokers that a process forks which has loaded their code before: a start costs a tenth of the CPU.

with WarmBroker(data, log) as broker:
    broker.kill()
    broker.start()
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from typing import IO

from equipoise.process_guard import GUARD, GuardedProcess
from proving.tree import python_module, with_tree
from tests.crash.served import Running, ServedBroker


class Nursery:
    """The process that forks: one broker at a time. It ends with this process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] = GuardedProcess(
            python_module("tests.crash.warm"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **with_tree()},
        )
        atexit.register(self.close)

    @property
    def stdout(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def fork(self, arguments: list[str], log: str) -> int:
        """Of the child that runs the command; its stdout follows."""
        assert self._process.stdin is not None
        print(json.dumps([arguments, log]), file=self._process.stdin, flush=True)
        return int(self.stdout.readline())

    def close(self) -> None:
        with self._process:
            self._process.kill()


class Child(Running):
    """A broker that was forked."""

    def __init__(self, nursery: Nursery, arguments: list[str], log: str) -> None:
        self._nursery = nursery
        self.pid = nursery.fork(arguments, log)
        GUARD.watch(self.pid)

    def ready_line(self) -> str:
        return self._nursery.stdout.readline()

    def end(self, signal_number: int) -> int:
        os.kill(self.pid, signal_number)
        *_, status = self._nursery.stdout.readline().split()
        GUARD.forget(self.pid)
        return int(status)


_IDLE: list[Nursery] = []  # those of brokers that are closed: the next one need not load anything again


class WarmBroker(ServedBroker):
    """A ServedBroker whose every start is a fork. Once closed, it may be started again."""

    _nursery: Nursery | None = None

    def launch(self, arguments: list[str]) -> Running:
        if self._nursery is None:
            self._nursery = _IDLE.pop() if _IDLE else Nursery()
        return Child(self._nursery, arguments, str(self.log))

    def close(self) -> None:
        super().close()
        if self._nursery is not None:
            _IDLE.append(self._nursery)
            self._nursery = None


def main() -> None:
    """Forks a child for each line of stdin: says its pid, and, when it has ended, its status."""
    from equipoise.broker import late_imports
    from equipoise.console.main import run

    late_imports.import_all()
    for line in sys.stdin:
        arguments, log = json.loads(line)
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
            sys.argv = ["equipoise", *arguments]
            run()
            raise AssertionError("the command exits by itself")
        print(child, flush=True)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(f"ended {status}", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the tests' affair
    main()
