"""numpy is loaded beside the loop, once a target needs it, and not before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.broker.rawclient import TIMEOUT

ROOT = Path(__file__).parent.parent.parent
# A process of its own: here numpy is loaded already.
LINES = """
import json
import sys
import threading
import time
from importlib.abc import MetaPathFinder

importers = []


class Noting(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            importers.append(threading.current_thread().name)
        return None


sys.meta_path.insert(0, Noting())
from equipoise.broker import Broker
from tests.broker.rawclient import RawClient
from tests.broker.test_consumer_groups import beat, join, partitions

settings = {"group.consumer.assignment.interval.ms": 0}
with Broker(settings, topics={"t": 2, "u": 2}) as broker, RawClient(broker.bootstrap_servers) as client:
    def all_of(member_id, *topics):
        answer, ends = join(client, member_id, *topics), time.monotonic() + 30
        while not partitions(answer) and time.monotonic() < ends:
            answer = beat(client, member_id, answer.member_epoch)
        return partitions(answer)

    alone = all_of("a", "t")
    is_early = importers or any(thread.name == "equipoise-preparation" for thread in threading.enumerate())
    print(json.dumps([alone, bool(is_early), all_of("b", "t", "u"), importers]))
"""


def test_numpy_is_not_loaded_on_the_loop() -> None:
    """A target of different subscriptions needs it; while others join with equal ones, it would slow the loop down."""
    ended = subprocess.run(
        [sys.executable, "-c", LINES], capture_output=True, text=True, cwd=ROOT, timeout=TIMEOUT, check=True
    )
    assert json.loads(ended.stdout) == [[0, 1], False, [0, 1], ["equipoise-preparation"]]
