"""What a broker process spends: CPU time of its loop, and memory, read from /proc. It is CPU time because that says
the same on a busy machine as on an idle one.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.broker.calls import SOMEBODY
from tests.broker.rawclient import RawClient

MB = 1_000_000


class Meter:
    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")
        self._most = 0
        self._loop = self._proc / "task" / str(pid) / "schedstat"  # the loop runs in the main thread

    def loop_seconds(self) -> float:
        """CPU time of the loop since the process began."""
        return int(self._loop.read_text().split()[0]) / 1e9

    def cpu_seconds(self) -> float:
        """CPU time of all threads."""
        tasks = 0
        for task in (self._proc / "task").iterdir():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                tasks += int((task / "schedstat").read_text().split()[0])
        return tasks / 1e9

    def resident(self) -> int:
        return self._status("VmRSS")

    def peak(self) -> int:
        """The most that was resident since `forget_peak`."""
        now = self._status("VmHWM")
        self._most = max(self._most, now)
        return now

    def forget_peak(self) -> None:
        self.peak()
        (self._proc / "clear_refs").write_text("5")

    def most_ever(self) -> int:
        self.peak()
        return self._most

    def _status(self, name: str) -> int:
        for line in (self._proc / "status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"no {name} in status: the broker has ended")


class Probe:
    """Asks again and again for next to nothing: between two answers the loop was held by somebody else."""

    def __init__(self, address: str, meter: Meter) -> None:
        self._client = RawClient(address)
        self._meter = meter
        self._last = meter.loop_seconds()
        self.longest = 0.0

    def ask(self) -> float:
        """The CPU time that the loop spent since the last answer."""
        self._client.call(SOMEBODY, 3)
        now = self._meter.loop_seconds()
        spent, self._last = now - self._last, now
        self.longest = max(self.longest, spent)
        return spent

    def begin(self) -> None:
        self.ask()
        self.longest = 0.0

    def close(self) -> None:
        self._client.close()
