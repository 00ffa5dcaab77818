"""Servers as child processes: they end with the process that has started them, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import psutil
import pytest

from equipoise.process_guard import GuardedProcess, ProcessGuard

TIMEOUT = 20.0
PARENT = """
import sys, threading
from equipoise.server_process import HOST, ServerProcess
import socket

class Listening(ServerProcess):
    name = "listening"

    def command(self):
        program = "import socket, time; s = socket.create_server((%r, %d)); time.sleep(600)" % (HOST, self.port)
        return [sys.executable, "-c", program]

    def is_ready(self):
        with socket.socket() as one:
            return one.connect_ex((HOST, self.port)) == 0

servers = [Listening() for _ in range(3)]
for server in servers:  # each from a thread that ends at once
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
servers[1].hang()
servers[2].restart()
print(*[server.pid for server in servers], flush=True)
{end}
"""
FOR_EVER = "threading.Event().wait()"


def start_parent(end: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A process with three servers, of which one hangs; and their ids."""
    program = PARENT.replace("{end}", end)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    return parent, [int(word) for word in parent.stdout.readline().split()]


def is_alive(pid: int) -> bool:
    """A process that has ended and that nobody has waited for yet is not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_gone(pids: Sequence[int]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < deadline, f"processes {left} have outlived their parent"
        time.sleep(0.01)


@pytest.mark.skipif(os.name != "posix", reason="no guard on this system")
@pytest.mark.parametrize("end", [FOR_EVER, "sys.exit(3)", "raise RuntimeError"])
def test_servers_end_with_the_process_that_has_started_them(end: str) -> None:
    parent, pids = start_parent(end)
    with parent:
        assert len(pids) == 3
        if end == FOR_EVER:
            assert all(map(is_alive, pids)), "the end of the threads that started them is not their end"
            parent.kill()
        parent.wait(TIMEOUT)
    wait_gone(pids)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        yield child
        child.kill()


@pytest.mark.skipif(os.name != "posix", reason="no guard on this system")
def test_a_child_that_is_forgotten_is_left_alone(child: subprocess.Popen[bytes]) -> None:
    """Its id may be another's by then."""
    guard = ProcessGuard()
    guard.watch(child.pid)
    guard.forget(child.pid)
    assert guard._guard is not None
    assert guard._guard.stdin is not None
    guard._guard.stdin.close()
    assert guard._guard.wait(TIMEOUT) == 0
    assert is_alive(child.pid)


@pytest.mark.skipif(os.name != "posix", reason="no guard on this system")
def test_a_guard_that_is_killed_does_no_harm(child: subprocess.Popen[bytes]) -> None:
    guard = ProcessGuard()
    guard.watch(child.pid)
    assert guard._guard is not None
    guard._guard.send_signal(signal.SIGKILL)
    guard._guard.wait(TIMEOUT)
    guard.forget(child.pid)
    guard.watch(child.pid)
    assert is_alive(child.pid)


@pytest.mark.skipif(os.name != "posix", reason="no guard on this system")
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_guarded_process_ends_with_its_parent(sign: signal.Signals) -> None:
    """Also one that reads nothing and writes nothing, as kcat may."""
    starter = (
        "import sys, time\n"
        "from equipoise.process_guard import GuardedProcess\n"
        "child = GuardedProcess([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.send_signal(sign)
    wait_gone([pid])


def test_a_guarded_process_that_has_ended_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(ProcessGuard, "watch", lambda _, pid: noted.append(f"+{pid}"))
    monkeypatch.setattr(ProcessGuard, "forget", lambda _, pid: noted.append(f"-{pid}"))
    with GuardedProcess[bytes]([sys.executable, "-c", ""]) as child:
        assert child.wait(TIMEOUT) == 0
    assert noted[:2] == [f"+{child.pid}", f"-{child.pid}"]
