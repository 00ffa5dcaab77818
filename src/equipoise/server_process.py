"""A server as a child process, on a port of 127.0.0.1: brokers of all kinds, and ZooKeeper. All start, die and start
again in the same way."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from equipoise.process_guard import GuardedProcess
from equipoise.wire.errors import EquipoiseError

HOST = "127.0.0.1"
_PORTS = range(15_000, 32_000)
SHARE_VARIABLE = "EQUIPOISE_PORTS_SHARE"  # "2/4": the third of four processes that start servers side by side
_START_S = 120.0
_STOP_S = 30.0
_LAST_WORDS = 2000
_FRAMES = "at ", "... "  # of Java


def ports_of_share(share: str) -> range:
    """The ports of one process and its children. Two processes that draw from the whole range could draw the same
    port between the check and the server's start."""
    index, _, count = share.partition("/")
    return _PORTS[int(index) :: int(count)]


_own = ports_of_share(os.environ.get(SHARE_VARIABLE, "0/1"))
_untried = iter(random.Random().sample(_own, len(_own)))


def free_port() -> int:
    """Returns a port, never the same twice. It is outside the system's range for outgoing connections: such a
    connection could take the port before the server does, or while it is down."""
    for port in _untried:
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            return port
    raise EquipoiseError(f"no port between {_PORTS[0]} and {_PORTS[-1]} is left: end some servers, or this process")


class ServerProcess(ABC):
    """Port and data outlive `kill`, `stop` and `start`. The server does not outlive this process.

    Without `data` the directory is temporary, and gone when the `with` ends.
    """

    name: ClassVar[str]

    def __init__(self, *, data: Path | None = None, port: int | None = None) -> None:
        self.port = port or free_port()
        self.seconds_to_ready = 0.0
        self._scratch = contextlib.ExitStack()
        made = tempfile.TemporaryDirectory(prefix=f"equipoise-{self.name}-", ignore_cleanup_errors=True)
        self.directory = Path(self._scratch.enter_context(made))
        self.data = data or self.directory / "data"
        self.log = self.directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._is_hung = False
        self._began = 0.0

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command to run, on `self.port`."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether a client would find the server ready."""

    def prepare(self) -> None:  # noqa: B027  most need nothing
        """Runs before each start."""

    def environment(self) -> Mapping[str, str]:
        """Variables beside those of this process."""
        return {}

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """Of the process that runs now."""
        return self._running.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither killed nor stopped here. It may hang."""
        return self._process is not None

    @property
    def is_hung(self) -> bool:
        """Whether `hang` has stopped it."""
        return self._is_hung

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise EquipoiseError(f"{self.name} is not running: call start()")
        return self._process

    # -- its life

    def start(self) -> Self:
        """Returns when the server is ready."""
        self.launch()
        return self.await_ready()

    def launch(self) -> None:
        """Starts it, and does not wait for it."""
        self._check_port()
        self.prepare()
        command, environment = list(self.command()), {**os.environ, **self.environment()}
        self._began = time.perf_counter()
        with self.log.open("ab") as log:
            self._process = GuardedProcess(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)

    def _check_port(self) -> None:
        """Refuses a port in use: the other server would be taken for this one, and found ready."""
        try:
            socket.create_server((HOST, self.port)).close()
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise EquipoiseError(
                f"{self.name} cannot listen on {self.address}: {why}; choose another port, or end what has it"
            ) from None

    def await_ready(self) -> Self:
        """After `launch`. It is killed if it does not get ready."""
        try:
            while not self.is_ready():
                self._check_start()
                time.sleep(0.01)
        except BaseException:
            self.kill()
            raise
        self.seconds_to_ready = time.perf_counter() - self._began
        return self

    def _check_start(self) -> None:
        if self._running.poll() is not None:
            raise self._has_ended()
        if time.perf_counter() > self._began + _START_S:
            raise EquipoiseError(f"{self.name} was not ready within {_START_S:.0f} s: {self.last_words()}")

    def wait_ended(self) -> None:
        """Waits until the server ends by itself, which is an error."""
        self._running.wait()
        raise self._has_ended()

    def _has_ended(self) -> EquipoiseError:
        return EquipoiseError(f"{self.name} has ended with status {self._running.returncode}: {self.last_words()}")

    def last_words(self) -> str:
        """The end of the log in one line, without the frames of stack traces."""
        lines = [line.strip() for line in self.log.read_text(errors="replace")[-_LAST_WORDS:].splitlines()]
        return "; ".join(line for line in lines if line and not line.startswith(_FRAMES))

    def kill(self) -> None:
        """SIGKILL."""
        self._end(kill=True)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that does not help."""
        self._end(kill=False)

    def hang(self) -> None:
        """SIGSTOP: the server answers no more, but its connections stay open and the system accepts new ones."""
        os.kill(self.pid, signal.SIGSTOP)
        self._is_hung = True

    def resume(self) -> None:
        """SIGCONT after `hang`: the server goes on, and does not know how long it was away."""
        os.kill(self.pid, signal.SIGCONT)
        self._is_hung = False

    def restart(self) -> Self:
        """Stops it, and starts it again on the same port with the same data."""
        self.stop()
        return self.start()

    def _end(self, *, kill: bool) -> None:
        if self._is_hung and not kill:
            self.resume()  # or it would not hear of it
        process, self._process = self._process, None
        self._is_hung = False
        if process is None:
            return
        with process:
            (process.kill if kill else process.terminate)()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def close(self) -> None:
        """Ends the server at once, and removes its temporary files."""
        self.kill()
        self._scratch.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()
