"""Members in processes of their own, for tests that kill, freeze or cut them off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# SIGUSR1: its connections end without a word, and the process stands still.
_MEMBER = """
import os, signal, time
from equipoise.client import Consumer
from equipoise.assignors.range import RangeAssignor

def lose_connections(*_):
    os.closerange(3, 1024)
    os.kill(os.getpid(), signal.SIGSTOP)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
signal.signal(signal.SIGUSR1, lose_connections)

class Frozen(RangeAssignor):
    def assign(self, cluster, members):
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(3600)  # another thread may take the signal, and this one would go on meanwhile
        return super().assign(cluster, members)

with Consumer(**{settings!r}, **{assignor}) as consumer:
    consumer.subscribe([{topic!r}])
    while True:
        consumer.poll(0.1)
"""


@contextmanager
def process(
    servers: str, client_id: str, *, topic: str = "orders", freezes: bool = False, **settings: object
) -> Iterator[int]:
    """A member in a process of its own; its pid. `freezes`: as the leader it stops between join and sync."""
    given = {"bootstrap_servers": servers, "client_id": client_id, "group_id": "billing", **settings}
    is_classic = settings.get("group_protocol") != "consumer"
    assignor = f"dict(partition_assignment_strategy={'Frozen()' if freezes else repr('range')})" if is_classic else "{}"
    code = _MEMBER.replace("{settings!r}", repr(given)).replace("{assignor}", assignor)
    with subprocess.Popen([sys.executable, "-c", code.replace("{topic!r}", repr(topic))]) as running:
        try:
            yield running.pid
        finally:
            running.kill()
