"""The examples do what they say."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from equipoise.broker import Broker
from equipoise.client import Admin
from tests.client.writing import produce_keys

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "offsets_in_sqlite.py"
PATIENCE_S = 120.0


def total(path: Path) -> int:
    with closing(sqlite3.connect(path, timeout=30)) as database:
        try:
            return int(database.execute("select coalesce(sum(count), 0) from totals").fetchone()[0])
        except sqlite3.OperationalError:  # no tables yet
            return 0


def wait_for(path: Path, count: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while total(path) < count:
        assert time.monotonic() < end, total(path)
        time.sleep(0.05)


def test_each_record_counts_once_though_workers_are_killed(tmp_path: Path) -> None:
    path = tmp_path / "totals.db"
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Broker(settings) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 4)
        command = [sys.executable, str(EXAMPLE), broker.bootstrap_servers, "orders", "counting", str(path)]
        with subprocess.Popen(command) as first, subprocess.Popen(command) as second:
            try:
                produce_keys(broker, "orders", 400)
                wait_for(path, 400)
                first.kill()
                produce_keys(broker, "orders", 400)
                second.terminate()
                first.wait()
                second.wait()
                command[4] = "counting-on"  # whose group need not wait for the sessions of the dead to end
                with subprocess.Popen(command) as third:
                    try:
                        wait_for(path, 800)
                    finally:
                        third.kill()
            finally:
                first.kill()
                second.kill()
    assert total(path) == 800
