"""A process beside the load: it sends a heartbeat each millisecond, come what may, and notes when the answers come.

Started with HOST:PORT. It says `ready`, beats until its input ends, then prints rows: when it sent, the seconds to the
answer, and by how many seconds it sent too late, because it was not given the processor. The clock is the one that all
processes of a machine share.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections import deque
from itertools import cycle

from bench.coordinator.members import ALL_IS_WELL, Crowd, request_frame
from equipoise.broker.server import parse_address

GROUP_IDS = [f"probe-{number}" for number in range(50)]  # of one member each
_PAUSE = 0.001


def main(address: str) -> None:
    with Crowd(parse_address(address), GROUP_IDS) as crowd:
        crowd.form()
        print("ready", flush=True)
        print(json.dumps(_beat({member.fileno: request_frame(member.heartbeat_request()) for member in crowd.members})))


def _beat(frames: dict[int, bytes]) -> list[tuple[float, float, float]]:
    rows: list[tuple[float, float, float]] = []
    sent: dict[int, deque[tuple[float, float]]] = {fileno: deque() for fileno in frames}
    turns = cycle(frames)
    with select.epoll() as epoll:
        for fileno in (sys.stdin.fileno(), *frames):
            epoll.register(fileno, select.EPOLLIN)
        due = time.perf_counter()
        while True:
            for fileno, _ in epoll.poll(max(due - time.perf_counter(), 0)):
                if fileno not in frames:
                    return rows
                answers = len(os.read(fileno, 1 << 16)) // len(ALL_IS_WELL)
                now = time.perf_counter()
                rows += [(began, now - began, late) for began, late in (sent[fileno].popleft() for _ in range(answers))]
            while (now := time.perf_counter()) >= due:
                fileno = next(turns)
                sent[fileno].append((now, now - due))
                due += _PAUSE
                os.write(fileno, frames[fileno])


if __name__ == "__main__":
    main(sys.argv[1])
